"""Texts to be compared: predictions, references, documents, from a file or a folder, read when they are asked for.

    FILE.jsonl (.zst, .gz)   one object a line, with `id` if they are to be matched by it
    FILE.txt (.zst, .gz)     one text a line
    FOLDER                   one file a text, as `awesum summarize reports/ -o FOLDER` writes them; the name is the id

Only where the rows begin, and their ids, are kept in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from awesum.datasets.files import unreadable
from awesum.datasets.loading import Rows
from awesum.datasets.rows import NAMES, checked_text, fields_of, row_id
from awesum.errors import AwesumError

PREDICTION = ("prediction", "summary", "hypothesis", "generated", "output", "text")
REFERENCE = ("reference", *NAMES["summary"])
"""What the text of a row may be called; the first that it has is taken."""
_SUFFIXES = {".txt", ".md", ".json", ".html", ".htm", ".pdf", ".docx", ".epub", ".jsonl", ".ndjson", ".zst", ".gz"}
"""What is no part of a name: `report.pdf.txt` is the summary of `report.pdf`."""


class Texts(Sequence[dict[str, Any]]):
    """The rows of a file or a folder as objects with their fields; plain text has only `text`."""

    def __init__(self, path: Path, *, are_documents: bool = False) -> None:
        self.path = path
        kind = path.name.lower().removesuffix(".zst").removesuffix(".gz")
        self._is_json = kind.endswith((".jsonl", ".ndjson"))
        self._files: list[Path] = []
        self._rows: Rows | None = None
        if path.is_dir():
            self._files = files(path)
            if not self._files:
                raise AwesumError(f"the folder {path} is empty: give one with a file for each text")
            odd = next((file for file in self._files if file.suffix.lower() not in (".txt", ".json")), None)
            if odd and not are_documents:
                raise AwesumError(f"{odd} is neither text nor JSON: give summaries as .txt, or as --json writes them")
        elif kind.endswith(".json"):
            self._files = [path]
        elif self._is_json or kind.endswith(".txt") or not path.exists():
            self._rows = Rows.of(path, blank=not self._is_json)  # an empty line is an empty text, and in its place
        else:
            raise AwesumError(
                f"{path} is of no kind that can be read here: give .jsonl or .txt (also .zst, .gz), or a folder"
            )

    def __len__(self) -> int:
        return len(self._files) if self._rows is None else len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Any]:  # type: ignore[override]
        if self._rows is None:
            return self._of_file(self._files[index])
        line = self._rows[index]
        return fields_of(line, self.where(index)) if self._is_json else {"text": _decoded(line, self.where(index))}

    def where(self, index: int) -> str:
        """Where a row stands, for saying that something is wrong with it."""
        return str(self._files[index]) if self._rows is None else f"{self.path}, line {self._rows.lines[index]}"

    @property
    def is_folder(self) -> bool:
        """Whether the order of the texts is only that of file names."""
        return self._rows is None

    @cached_property
    def ids(self) -> list[str] | None:
        """The id of every row; none if no row has one."""
        if self._rows is None:
            return [stem(file.relative_to(self.path) if self.path.is_dir() else file) for file in self._files]
        if not self._is_json:
            return None
        found = [row_id(self[index], self.where(index)) for index in range(len(self))]
        if all(found):
            return found
        if any(found):
            raise AwesumError(f"{self.where(found.index(''))} has no id, and others have: give every row one, or none")
        return None

    def first_without(self, names: Sequence[str]) -> int | None:
        """The first row that has no text under any of the names; none if all have."""
        return next((index for index, row in enumerate(self) if not any(name in row for name in names)), None)

    def text(self, index: int, names: Sequence[str]) -> str:
        """The text of a row, under the first of the names that it has."""
        row, where = self[index], self.where(index)
        if set(row) == {"text"}:
            return checked_text(row["text"], "text", where)
        for name in names:
            if name in row:  # what is there but null is a text that is missing, not one to be looked for elsewhere
                return checked_text(row[name], name, where)
        there = ", ".join(map(repr, row)) or "nothing"
        raise AwesumError(f"{where} has no {names[0]!r} (it has {there}): call the field that, or {names[1]!r}")

    def _of_file(self, path: Path) -> dict[str, Any]:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise unreadable(path, error) from error
        if path.suffix == ".json":
            return fields_of(content, str(path))
        if not content.strip():
            return {"text": ""}
        from awesum.reading import read

        return {"text": read(path).text}


def files(folder: Path) -> list[Path]:
    """The files of a folder and of the folders in it, but for hidden ones."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def stem(path: Path) -> str:
    """The name of a file without what says of which kind it is."""
    while path.suffix.lower() in _SUFFIXES:
        path = path.with_suffix("")
    return path.as_posix()


def _decoded(content: bytes, where: str) -> str:
    try:
        return content.decode().strip()
    except UnicodeDecodeError as error:
        raise AwesumError(f"{where} is not UTF-8 text ({error.reason}): save it as UTF-8") from error
