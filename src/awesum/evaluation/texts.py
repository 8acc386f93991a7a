"""Predictions, references or documents from a file or a folder, read on access.

    FILE.jsonl (.zst, .gz)   one object per line, with `id` to match by id
    FILE.txt (.zst, .gz)     one text per line
    FOLDER                   one file per text, as written by `awesum summarize reports/ -o FOLDER`; the name is the id

Only the offsets of the rows and their ids are kept in RAM.
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
"""The accepted names for the text of a row; the first one present is used."""
_SUFFIXES = {".txt", ".md", ".json", ".html", ".htm", ".pdf", ".docx", ".epub", ".jsonl", ".ndjson", ".zst", ".gz"}
"""Suffixes that are not part of an id: `report.pdf.txt` is the summary of `report.pdf`."""


class Texts(Sequence[dict[str, Any]]):
    """The rows of a file or a folder as dictionaries; plain text has only the field `text`."""

    def __init__(self, path: Path, *, are_documents: bool = False) -> None:
        self.path = path
        kind = path.name.lower().removesuffix(".zst").removesuffix(".gz")
        self._is_json = kind.endswith((".jsonl", ".ndjson"))
        self._files: list[Path] = []
        self._rows: Rows | None = None
        if path.is_dir():
            self._files = files(path)
            if not self._files:
                raise AwesumError(f"the folder {path} is empty: give one with a file per text")
            odd = next((file for file in self._files if file.suffix.lower() not in (".txt", ".json")), None)
            if odd and not are_documents:
                raise AwesumError(f"{odd} is neither text nor JSON: give summaries as .txt, or as --json writes them")
        elif kind.endswith(".json"):
            self._files = [path]
        elif self._is_json or kind.endswith(".txt") or not path.exists():
            self._rows = Rows.of(path, blank=not self._is_json)  # an empty line is an empty text
        else:
            raise AwesumError(f"{path} has an unsupported format: give .jsonl or .txt (also .zst, .gz), or a folder")

    def __len__(self) -> int:
        return len(self._files) if self._rows is None else len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Any]:  # type: ignore[override]
        if self._rows is None:
            return self._of_file(self._files[index])
        line = self._rows[index]
        return fields_of(line, self.where(index)) if self._is_json else {"text": _decoded(line, self.where(index))}

    def where(self, index: int) -> str:
        """The place of a row, for error messages."""
        return str(self._files[index]) if self._rows is None else f"{self.path}, line {self._rows.lines[index]}"

    @property
    def is_folder(self) -> bool:
        """Whether the texts are files, whose order means nothing."""
        return self._rows is None

    @cached_property
    def ids(self) -> list[str] | None:
        """The id of every row; None if no row has one."""
        if self._rows is None:
            return [stem(file.relative_to(self.path) if self.path.is_dir() else file) for file in self._files]
        if not self._is_json:
            return None
        found = [row_id(self[index], self.where(index)) for index in range(len(self))]
        if all(found):
            return found
        if any(found):
            raise AwesumError(
                f"{self.where(found.index(''))} has no id, but other rows do: add ids to all rows or none"
            )
        return None

    def first_without(self, names: Sequence[str]) -> int | None:
        """The first row without a text under any of these names; None if all have one."""
        return next((index for index, row in enumerate(self) if not any(name in row for name in names)), None)

    def text(self, index: int, names: Sequence[str]) -> str:
        """The text of a row, under the first of these names that is present."""
        row, where = self[index], self.where(index)
        if set(row) == {"text"}:
            return checked_text(row["text"], "text", where)
        for name in names:
            if name in row:  # null means that the text is missing, so the other names are not tried
                return checked_text(row[name], name, where)
        present = ", ".join(map(repr, row)) or "no fields"
        raise AwesumError(f"{where} has no {names[0]!r} (it has {present}): name the field that, or {names[1]!r}")

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
    """The files in a folder and its subfolders, except hidden ones."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def stem(path: Path) -> str:
    """The path of a file without its known suffixes."""
    while path.suffix.lower() in _SUFFIXES:
        path = path.with_suffix("")
    return path.as_posix()


def _decoded(content: bytes, where: str) -> str:
    try:
        return content.decode().strip()
    except UnicodeDecodeError as error:
        raise AwesumError(f"{where} is not UTF-8 text ({error.reason}): save it as UTF-8") from error
