"""Datasets: documents with their reference summaries, one JSON object a line, in a folder of the user's.

    FOLDER/train.jsonl, FOLDER/validation.jsonl, FOLDER/test.jsonl     plain, or compressed as .jsonl.zst or .jsonl.gz

A dataset may be larger than memory: only where its rows begin is kept, and each is read when it is asked for. Nothing
is cut: a row is given whole or refused with its line number.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, overload

from awesum.errors import AwesumError
from awesum.weights import cache_folder, sha256

SPLITS = ("train", "validation", "test")
SUFFIXES = (".jsonl", ".jsonl.zst", ".jsonl.gz")
"""The first that is there is read."""

NAMES = {
    "id": ("id",),
    "document": ("document", "report", "article", "input"),
    "summary": ("summary", "abstract", "highlights", "output"),
    "query": ("query", "question"),
    "references": ("references",),
}
"""What each field may be called; the first that a row has is taken. Beside our own names stand those that the hub has
for GovReport (`report`), arXiv and PubMed (`article`, `abstract`), CNN/DailyMail (`highlights`) and SCROLLS (`input`,
`output`)."""

WINDOW = 2**27
"""The largest zstd window that is accepted: what `zstd --long` writes."""
COMPRESSED, DECOMPRESSED = 2**10, 2**16
"""Bytes that zstd is given, and that gzip gives, at once. The former are few because they may become 2**15 times as
many; that is still a limit."""


@dataclass(frozen=True, slots=True)
class Example:
    """A document, what people wrote about it, and what they were asked, if anything."""

    id: str
    """The row's own, or else its line number."""
    document: str
    summary: str
    query: str | None = None
    references: tuple[str, ...] = ()
    """All summaries to compare with, at least one: `summary` alone where the row has no others."""


class Examples(Sequence[Example]):
    """The rows of a file, read when they are asked for. A slice is again `Examples`."""

    def __init__(self, path: Path, rows: Path, offsets: array[int], lines: array[int]) -> None:
        self.path = path
        """The file as the user knows it; `rows` is where its lines can be read, elsewhere if it is compressed."""
        self._rows = rows
        self._offsets = offsets
        self._lines = lines

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> Examples: ...
    def __getitem__(self, index: int | slice) -> Example | Examples:
        if isinstance(index, slice):
            return Examples(self.path, self._rows, self._offsets[index], self._lines[index])
        offset, line = self._offsets[index], self._lines[index]
        try:
            # Opened each time: nothing is left open, and worker processes do not share a position.
            with self._rows.open("rb") as file:
                file.seek(offset)
                row = file.readline()
        except OSError as error:
            raise _unreadable(self.path, error) from error
        return parse(row, str(self.path), line)


def load(source: str | Path, split: str) -> Examples:
    """A split of the dataset in the folder `source`; or, if `source` is a file, that file, whichever split it is."""
    path = _find(Path(source).expanduser(), split)
    try:
        rows = path if path.suffix not in (".zst", ".gz") else _decompressed(path)
        offsets, lines = _index(rows)
    except OSError as error:
        raise _unreadable(path, error) from error
    if not offsets:
        raise AwesumError(f"{path} is empty: give a file with one JSON object a line")
    return Examples(path, rows, offsets, lines)


def parse(row: bytes, path: str, line: int) -> Example:
    """The example in one line of a file; `path` and `line` are for saying where something is wrong."""
    where = f"{path}, line {line}"
    try:
        fields = json.loads(row)
    except json.JSONDecodeError as error:
        raise AwesumError(
            f"{where} is not JSON ({error.msg}, column {error.colno}): mend or remove the line"
        ) from error
    except (ValueError, RecursionError) as error:  # not UTF-8, a number of thousands of digits, brackets without end
        raise AwesumError(f"{where} cannot be read ({error}): mend or remove the line") from error
    if not isinstance(fields, dict):
        raise AwesumError(f'{where} is not a JSON object: write it as {{"document": ..., "summary": ...}}')
    document = _text(fields, "document", where)
    summary = _text(fields, "summary", where)
    if not document.strip():
        raise AwesumError(f"{where} has an empty {_name(fields, 'document')!r}: remove the line, or give it its text")
    return Example(
        id=_id(fields, where) or str(line),
        document=document,
        summary=summary,
        query=(_text(fields, "query", where) or None) if _name(fields, "query") else None,
        references=_references(fields, where) or (summary,),
    )


def _name(fields: dict[str, Any], field: str) -> str | None:
    """What the row calls `field`; nothing if it has no such field, or null for it."""
    return next((name for name in NAMES[field] if fields.get(name) is not None), None)


def _text(fields: dict[str, Any], field: str, where: str) -> str:
    name = _name(fields, field)
    if name is None:
        others = ", ".join(map(repr, NAMES[field][1:]))
        there = ", ".join(map(repr, fields)) or "nothing"
        raise AwesumError(f"{where} has no {field!r} (it has {there}): call the field that, or one of {others}")
    return _checked(fields[name], name, where)


def _checked(value: object, name: str, where: str) -> str:
    if not isinstance(value, str):
        raise AwesumError(f"{where} has a {type(value).__name__} as {name!r}: give one text")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # no tokenizer takes it, and none says so in words
        raise AwesumError(f"{where} has half a character (a lone surrogate) in {name!r}: mend the text") from error
    return value


def _id(fields: dict[str, Any], where: str) -> str:
    name = _name(fields, "id")
    value = fields[name] if name else ""
    return str(value) if isinstance(value, int) else _checked(value, "id", where)


def _references(fields: dict[str, Any], where: str) -> tuple[str, ...]:
    name = _name(fields, "references")
    values = fields[name] if name else []
    if not isinstance(values, list):
        raise AwesumError(f"{where} has a {type(values).__name__} as {name!r}: give a list of texts")
    return tuple(_checked(value, "references", where) for value in values)


def _find(source: Path, split: str) -> Path:
    """The file of a split, or what the user can do if there is none."""
    if source.is_file():
        return source
    names = ", ".join(f"{name}.jsonl" for name in SPLITS)
    if not source.is_dir():
        raise AwesumError(f"there is no dataset {source}: give a folder with {names} (or .jsonl.zst, .jsonl.gz)")
    for suffix in SUFFIXES:
        if (path := source / f"{split}{suffix}").is_file():
            return path
    there = [name for name in SPLITS if any((source / f"{name}{suffix}").is_file() for suffix in SUFFIXES)]
    if not there:
        raise AwesumError(f"the folder {source} holds no dataset: it needs {names} (or .jsonl.zst, .jsonl.gz)")
    raise AwesumError(f"{source} has no split {split!r}: it has {', '.join(there)}")


def _index(rows: Path) -> tuple[array[int], array[int]]:
    """Where each row begins, and its line number. Lines end at a newline and nothing else; blank ones are no rows."""
    offsets, lines = array("q"), array("q")
    offset = 0
    with rows.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.isspace():
                offsets.append(offset)
                lines.append(number)
            offset += len(line)
    return offsets, lines


def _decompressed(path: Path) -> Path:
    """The rows of a compressed file as a plain one in the cache, where they can be read in any order.

    It is named by the hash of what it was made from, so that it is made once and never stands for another file; and it
    is written aside and then moved, so that half of it is never taken for the whole.
    """
    rows = cache_folder() / "datasets" / f"{sha256(path)[:32]}.jsonl"
    if rows.is_file():
        return rows
    print(f"awesum: decompressing {path}, once ...", file=sys.stderr, flush=True)
    decompress = _unzstd if path.suffix == ".zst" else _gunzip
    with path.open("rb") as compressed:
        try:
            rows.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=rows.parent, prefix="decompressing-") as aside:
                written = Path(aside) / rows.name
                with written.open("wb") as file:
                    for piece in decompress(compressed, path):
                        file.write(piece)
                written.replace(rows)
        except OSError as error:
            raise AwesumError(
                f"cannot decompress {path} to {rows.parent} ({error.strerror or error}): "
                "make room there, or set AWESUM_CACHE to another folder"
            ) from error
    return rows


def _unzstd(compressed: BinaryIO, path: Path) -> Iterator[bytes]:
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW)
    frame = None
    try:
        while chunk := compressed.read(COMPRESSED):
            while chunk:  # several frames may follow each other, as when files were joined
                frame = frame or decompressor.decompressobj()
                yield frame.decompress(chunk)
                chunk = frame.unused_data
                frame = None if frame.eof else frame
    except zstandard.ZstdError as error:
        raise _damaged(path, error) from error
    if frame:  # no error to the library, which is why its own stream of decompressed bytes is not used here
        raise _damaged(path, "it ends too early")


def _gunzip(compressed: BinaryIO, path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(compressed) as file:
            while piece := file.read(DECOMPRESSED):
                yield piece
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, why: object) -> AwesumError:
    return AwesumError(f"cannot decompress {path} ({' '.join(str(why).split())}): fetch or compress it again")


def _unreadable(path: Path, error: OSError) -> AwesumError:
    return AwesumError(f"cannot read {path} ({error.strerror or error}): check that it is there and may be read")
