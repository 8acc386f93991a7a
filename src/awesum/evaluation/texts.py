"""Texts to be compared: predictions, references, documents, from a file or a folder, read when they are asked for.

    FILE.jsonl (.zst, .gz)   one object a line, with `id` if they are to be matched by it
    FILE.txt (.zst, .gz)     one text a line
    FOLDER                   one file a text, as `awesum summarize reports/ -o FOLDER` writes them; the name is the id

Only where the rows begin, and their ids, are kept in memory.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from awesum.datasets.files import unreadable
from awesum.datasets.loading import Rows
from awesum.datasets.rows import NAMES, checked_text, row_id
from awesum.errors import AwesumError

PREDICTION = ("prediction", "summary", "hypothesis", "generated", "output", "text")
REFERENCE = ("reference", *NAMES["summary"])
"""What the text of a row may be called; the first that it has is taken."""
_SUFFIXES = {".txt", ".md", ".json", ".html", ".htm", ".pdf", ".docx", ".epub", ".jsonl", ".ndjson", ".zst", ".gz"}
"""What is no part of a name: `report.pdf.txt` is the summary of `report.pdf`."""


class Texts(Sequence[dict[str, Any]]):
    """The rows of a file or a folder as objects with their fields; plain text has only `text`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_json = path.name.removesuffix(".zst").removesuffix(".gz").endswith((".jsonl", ".ndjson"))
        self._files: list[Path] = []
        self._rows: Rows | None = None
        if path.is_dir():
            self._files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
            if not self._files:
                raise AwesumError(f"the folder {path} is empty: give one with a file for each text")
        elif path.suffix == ".json":
            self._files = [path]
        else:
            self._rows = Rows.of(path, blank=not self._is_json)  # an empty line is an empty text, and in its place

    def __len__(self) -> int:
        return len(self._files) if self._rows is None else len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Any]:  # type: ignore[override]
        if self._rows is None:
            return self._of_file(self._files[index])
        line = self._rows[index]
        return self._object(line, self.where(index)) if self._is_json else {"text": _decoded(line, self.where(index))}

    def where(self, index: int) -> str:
        """Where a row stands, for saying that something is wrong with it."""
        return str(self._files[index]) if self._rows is None else f"{self.path}, line {self._rows.lines[index]}"

    def ids(self) -> list[str] | None:
        """The id of every row; none if any row has none."""
        if self._rows is None:
            return [stem(file) for file in self._files]
        if not self._is_json:
            return None
        found = []
        for index in range(len(self)):
            if not (name := row_id(self[index], self.where(index))):
                return None
            found.append(name)
        return found

    def text(self, index: int, names: Sequence[str]) -> str:
        """The text of a row, under the first of the names that it has."""
        row, where = self[index], self.where(index)
        if set(row) == {"text"}:
            return checked_text(row["text"], "text", where)
        for name in names:
            if row.get(name) is not None:
                return checked_text(row[name], name, where)
        there = ", ".join(map(repr, row)) or "nothing"
        raise AwesumError(f"{where} has no {names[0]!r} (it has {there}): call the field that, or {names[1]!r}")

    def _of_file(self, path: Path) -> dict[str, Any]:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise unreadable(path, error) from error
        if path.suffix == ".json":
            return self._object(content, str(path))
        if not content.strip():
            return {"text": ""}
        from awesum.reading import read

        return {"text": read(path).text}

    def _object(self, content: bytes, where: str) -> dict[str, Any]:
        try:
            row = json.loads(content)
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", None) or str(error)
            raise AwesumError(f"{where} is not JSON ({reason}): mend the line, or give plain text as .txt") from error
        if not isinstance(row, dict):
            raise AwesumError(f'{where} is not a JSON object: write it as {{"id": ..., "summary": ...}}')
        return row


def stem(path: Path) -> str:
    """The name of a file without what says of which kind it is."""
    while path.suffix.lower() in _SUFFIXES:
        path = path.with_suffix("")
    return path.name


def _decoded(content: bytes, where: str) -> str:
    try:
        return content.decode().strip()
    except UnicodeDecodeError as error:
        raise AwesumError(f"{where} is not UTF-8 text ({error.reason}): save it as UTF-8") from error
