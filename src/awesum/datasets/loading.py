"""A split with random access to its rows, for training.

Only the offsets of the rows are kept in RAM. Sources without random access, compressed files and hub datasets, are
first written to the cache as plain lines, once.
"""

from __future__ import annotations

import hashlib
import json
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import overload

from awesum.datasets.dataset import Dataset
from awesum.datasets.files import decompressed, empty, is_compressed, unreadable
from awesum.datasets.rows import Example, parse
from awesum.datasets.sources import find
from awesum.datasets.stream import examples
from awesum.errors import AwesumError
from awesum.files import cache_folder, sha256, write


class Rows(Sequence[bytes]):
    """The lines of a file, read on access. Lines end at a newline only."""

    def __init__(self, path: Path, plain: Path, offsets: array[int], lines: array[int]) -> None:
        self.path = path
        """The user's file; `plain` is the file its lines are read from: another one, if it is compressed."""
        self.lines = lines
        """The line number of each row."""
        self._plain = plain
        self._offsets = offsets

    @classmethod
    def of(cls, path: Path, plain: Path | None = None, *, blank: bool = False) -> Rows:
        """Index a file, first decompressing it to the cache if necessary. Blank lines are rows only with `blank`."""
        try:
            plain = plain or _plain(path)
            offsets, lines = _index(plain, blank)
        except OSError as error:
            raise unreadable(path, error) from error
        if not offsets:
            raise empty(path)
        return cls(path, plain, offsets, lines)

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> bytes | Rows:
        if isinstance(index, slice):
            return Rows(self.path, self._plain, self._offsets[index], self.lines[index])
        offset = self._offsets[index]
        try:
            # Opened each time: no file stays open, and worker processes do not share a position.
            with self._plain.open("rb") as file:
                file.seek(offset)
                return file.readline()
        except OSError as error:
            raise unreadable(self.path, error) from error


class Examples(Sequence[Example]):
    """The examples of a file, read on access. A slice is an `Examples` too."""

    def __init__(self, rows: Rows) -> None:
        self.path = rows.path
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> Examples: ...
    def __getitem__(self, index: int | slice) -> Example | Examples:
        if isinstance(index, slice):
            return Examples(self._rows[index])
        return parse(self._rows[index], str(self.path), self._rows.lines[index])


def load(source: str | Path, split: str) -> Examples:
    """Load a split of the dataset in the folder `source`; if `source` is a file, that file, whatever the split.

    Otherwise `source` is the name of a public dataset, which is fetched once; its invalid rows are reported and
    skipped. An invalid row of a file raises an error when it is accessed.
    """
    found = find(source, split)
    if isinstance(found, Dataset):
        return Examples(Rows.of(Path(f"{found.name}-{split}.jsonl"), _fetched(found, split)))
    return Examples(Rows.of(found))


def _index(rows: Path, blank: bool) -> tuple[array[int], array[int]]:
    """The offset and the line number of each row."""
    offsets, lines = array("q"), array("q")
    offset = 0
    with rows.open("rb") as file:
        for number, line in enumerate(file, 1):
            if blank or not line.isspace():
                offsets.append(offset)
                lines.append(number)
            offset += len(line)
    return offsets, lines


def _plain(path: Path) -> Path:
    """The file itself or, if it is compressed, a plain copy in the cache.

    The copy is named by the hash of the compressed file, so it is written once and never mistaken for another.
    """
    if not is_compressed(path):
        return path
    try:
        rows = cache_folder() / "datasets" / f"{sha256(path)[:32]}.jsonl"
        if not rows.is_file():
            print(f"awesum: decompressing {path}, once ...", file=sys.stderr, flush=True)
            with path.open("rb") as compressed:
                _write(rows, decompressed(compressed, path), f"decompress {path}")
    except OSError as error:
        raise unreadable(path, error) from error
    return rows


def _fetched(dataset: Dataset, split: str) -> Path:
    """The rows of a public dataset as a plain file in the cache, named by their place on the hub."""
    origin = [dataset.repository, dataset.configuration, dataset.folder, dataset.revision, split]
    digest = hashlib.sha256(json.dumps(origin).encode()).hexdigest()[:12]
    rows = cache_folder() / "datasets" / f"{dataset.name}-{split}-{digest}.jsonl"
    if not rows.is_file():
        print(
            f"awesum: fetching {dataset.name} ({split}) from the hub to {rows}, once ...", file=sys.stderr, flush=True
        )
        _write(rows, _lines_of(dataset, split), f"fetch {dataset.name} ({split})")
    return rows


def _lines_of(dataset: Dataset, split: str) -> Iterator[bytes]:
    stream = examples(dataset.name, split)
    for example in stream:
        yield json.dumps(asdict(example), ensure_ascii=False).encode() + b"\n"
    if stream.skipped:
        print(f"awesum: {dataset.name} ({split}): skipped {stream.skipped_in_words()}", file=sys.stderr, flush=True)


def _write(rows: Path, chunks: Iterable[bytes], what: str) -> None:
    """Write atomically, so that a partial file is never taken for the whole."""
    try:
        rows.parent.mkdir(parents=True, exist_ok=True)
        write(rows, chunks)
    except OSError as error:
        raise AwesumError(
            f"cannot {what} to {rows.parent} ({error.strerror or error}): "
            "free some space there, or set AWESUM_CACHE to another folder"
        ) from error
