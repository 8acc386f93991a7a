"""Read datasets prepared by `awesum data prepare`, shard by shard, so that RAM does not grow with the dataset."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from awesum.errors import AwesumError
from awesum.prepared import shards
from awesum.prepared.shards import SIZE, PreparedDocument

__all__ = ["PreparedDocument", "PreparedSplit", "has_split", "is_prepared", "prepared"]

GIVEN = "given by the caller"
"""The recorded name of a sentence encoder passed as a Python object."""
SETTINGS = "settings.json"
"""The file in each folder of prepared documents that records how they were prepared."""


def shard_path(folder: Path, split: str, number: int) -> Path:
    """The file of a shard."""
    return folder / f"{split}-{number:05d}.parquet"


def finished_path(folder: Path, split: str) -> Path:
    """The file that marks a split as complete and gives its number of documents."""
    return folder / f"{split}.json"


def prepared(folder: str | Path, split: str) -> PreparedSplit:
    """The documents of a prepared split. No shard is opened until it is needed.

    `folder` is the `--out` folder, or one of the folders in it if there are several.
    """
    shards.require()
    found = _find(Path(folder).expanduser())
    path = finished_path(found, split)
    if not path.is_file():
        if any(found.glob(f"{split}-*.parquet")):
            raise AwesumError(
                f"the split {split!r} in {found} is not finished: run the same `awesum data prepare` again to resume it"
            )
        existing = ", ".join(sorted(path.stem for path in found.glob("*.json") if path.name != SETTINGS)) or "none"
        raise AwesumError(f"{found} has no split {split!r} (it has {existing}): prepare it with --split {split}")
    result = PreparedSplit(found, split, _documents(path))
    for number in range(result.shards):
        if not (shard := shard_path(found, split, number)).is_file():
            raise AwesumError(f"{shard} is missing: run the same `awesum data prepare` again to restore it")
    return result


def is_prepared(folder: str | Path) -> bool:
    """Whether a folder is the `--out` folder of `awesum data prepare`, or one of the folders in it."""
    path = Path(folder).expanduser()
    return (path / SETTINGS).is_file() or any(path.glob(f"*/{SETTINGS}"))


def has_split(folder: str | Path, split: str) -> bool:
    """Whether a split is completely prepared."""
    return finished_path(_find(Path(folder).expanduser()), split).is_file()


class PreparedSplit(Sequence[PreparedDocument]):
    """The documents of a split, in the order of the dataset, read from disk on every access."""

    def __init__(self, folder: Path, split: str, documents: int) -> None:
        self.folder = folder
        self.split = split
        self._documents = documents

    @property
    def encoder(self) -> dict[str, Any]:
        """Name and hash of the sentence encoder that computed the vectors."""
        try:
            found: dict[str, Any] = json.loads((self.folder / SETTINGS).read_text(encoding="utf-8"))["sentence encoder"]
            return found
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise AwesumError(f"{self.folder / SETTINGS} is damaged: prepare the documents again") from error

    @property
    def shards(self) -> int:
        """The number of files."""
        return -(-self._documents // SIZE)

    def __len__(self) -> int:
        return self._documents

    def __getitem__(self, index: int) -> PreparedDocument:  # type: ignore[override]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        number, row = divmod(index % len(self), SIZE)
        return shards.one(self._path(number), row)

    def head(self, documents: int | None) -> PreparedSplit:
        """The first `documents` documents, or all."""
        return PreparedSplit(self.folder, self.split, min(len(self), len(self) if documents is None else documents))

    def __iter__(self) -> Iterator[PreparedDocument]:
        for number in range(self.shards):
            count = 0
            for document in islice(shards.stream(self._path(number)), self._shard_size(number)):
                yield document
                count += 1
            self._check(number, count)

    def shard(self, number: int) -> list[PreparedDocument]:
        """The documents of one file."""
        documents = shards.read(self._path(number)).documents
        self._check(number, len(documents))
        return documents[: self._shard_size(number)]

    def _path(self, number: int) -> Path:
        return shard_path(self.folder, self.split, number)

    def _shard_size(self, number: int) -> int:
        return min(SIZE, self._documents - number * SIZE)

    def _check(self, number: int, count: int) -> None:
        if count < (expected := self._shard_size(number)):
            raise AwesumError(
                f"{self._path(number)} has {count} documents instead of {expected}: "
                "run the same `awesum data prepare` again to restore it"
            )


def _find(folder: Path) -> Path:
    """The folder with the settings: `folder` itself, or the only such folder in it."""
    if (folder / SETTINGS).is_file():
        return folder
    found = sorted(path.parent for path in folder.glob(f"*/{SETTINGS}"))
    if not found:
        raise AwesumError(
            f"{folder} contains no prepared documents: run `awesum data prepare NAME --out FOLDER` to prepare them"
        )
    if len(found) > 1:
        choices = ", ".join(f"{path.name} ({_describe(path)})" for path in found)
        raise AwesumError(f"{folder} contains several prepared datasets: give the folder of one of them, {choices}")
    return found[0]


def _describe(folder: Path) -> str:
    """The settings that usually differ between prepared datasets."""
    try:
        settings: dict[str, Any] = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        return f"{settings['dataset']}, tokenizer {settings['tokenizer']['name']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "damaged"


def _documents(path: Path) -> int:
    try:
        documents = json.loads(path.read_text(encoding="utf-8"))["documents"]
        if isinstance(documents, int):
            return documents
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise AwesumError(f"{path} is damaged: run the same `awesum data prepare` again to restore it")
