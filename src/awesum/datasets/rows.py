"""One row of a dataset: its field names, its checks, and the `Example` it becomes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from awesum.errors import AwesumError

NAMES = {
    "id": ("id",),
    "document": ("document", "report", "article", "input"),
    "summary": ("summary", "abstract", "highlights", "output"),
    "query": ("query", "question"),
    "references": ("references",),
}
"""The accepted names of each field; the first one present is used. After our own names come those on the hub for
GovReport (`report`), arXiv and PubMed (`article`, `abstract`), CNN/DailyMail (`highlights`) and SCROLLS (`input`,
`output`)."""

BROKEN = "broken JSON"
NO_DOCUMENT = "no document"
NO_SUMMARY = "no summary"
EMPTY_SUMMARY = "empty summary"
LONG_SUMMARY = "summary longer than the document"
WRONG = "field of the wrong type"
DUPLICATE = "duplicate id"
"""The kinds of invalid rows, as they are counted."""


@dataclass(frozen=True, slots=True)
class Example:
    """A document, its reference summary, and the query it answers, if any."""

    id: str
    """The id of the row, or else its line number."""
    document: str
    summary: str
    query: str | None = None
    references: tuple[str, ...] = ()
    """All reference summaries, at least one: just `summary` if the row lists no others."""


class BadRow(AwesumError):
    """An invalid row; `kind` is the category it is counted under."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind

    def __reduce__(self) -> tuple[type[BadRow], tuple[str, str]]:
        return BadRow, (self.kind, str(self))  # worker processes send errors as pickles


def parse(row: bytes, path: str, line: int, needs_summary: bool = True) -> Example:
    """Parse one line of a file; `path` and `line` are for error messages."""
    where = f"{path}, line {line}"
    return from_fields(fields_of(row, where), where, line, needs_summary)


def fields_of(row: bytes, where: str) -> dict[str, Any]:
    """Parse a row as a JSON object, without checking its fields."""
    try:
        fields = json.loads(row)
    except json.JSONDecodeError as error:
        message = f"{where} is not JSON ({error.msg}, column {error.colno}): fix or remove the line"
        raise BadRow(BROKEN, message) from error
    except (ValueError, RecursionError) as error:  # not UTF-8, a number of thousands of digits, endless brackets
        raise BadRow(BROKEN, f"{where} cannot be read ({error}): fix or remove the line") from error
    if not isinstance(fields, dict):
        raise BadRow(BROKEN, f'{where} is not a JSON object: write it as {{"document": ..., "summary": ...}}')
    return fields


def from_fields(fields: Mapping[str, Any], where: str, number: int, needs_summary: bool = True) -> Example:
    """Check the fields of a row and make an `Example` of them; `number` is its id if it has none."""
    document = _text(fields, "document", where)
    summary = _text(fields, "summary", where) if needs_summary or _name(fields, "summary") else ""
    if not document.strip():
        message = f"{where} has an empty {_name(fields, 'document')!r}: remove the line, or add the text"
        raise BadRow(NO_DOCUMENT, message)
    return Example(
        id=row_id(fields, where) or str(number),
        document=document,
        summary=summary,
        query=(_text(fields, "query", where) or None) if _name(fields, "query") else None,
        references=references_of(fields, where) or (summary,),
    )


def _name(fields: Mapping[str, Any], field: str) -> str | None:
    """The row's name for `field`; None if the field is missing or null."""
    return next((name for name in NAMES[field] if fields.get(name) is not None), None)


def _text(fields: Mapping[str, Any], field: str, where: str) -> str:
    name = _name(fields, field)
    if name is None:
        others = ", ".join(map(repr, NAMES[field][1:]))
        present = ", ".join(map(repr, fields)) or "no fields"
        message = f"{where} has no {field!r} (it has {present}): name the field that, or one of {others}"
        raise BadRow({"document": NO_DOCUMENT, "summary": NO_SUMMARY}.get(field, WRONG), message)
    return checked_text(fields[name], name, where)


def checked_text(value: object, name: str, where: str) -> str:
    """The value of a field, checked to be valid text."""
    if not isinstance(value, str):
        raise BadRow(WRONG, f"{where} has a {type(value).__name__} as {name!r}: it must be a text")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # tokenizers fail on it, with obscure errors
        raise BadRow(WRONG, f"{where} has half a character (a lone surrogate) in {name!r}: fix the text") from error
    return value


def row_id(fields: Mapping[str, Any], where: str) -> str:
    """The id of a row as text; empty if it has none."""
    name = _name(fields, "id")
    value = fields[name] if name else ""
    return str(value) if isinstance(value, int) else checked_text(value, "id", where)


def references_of(fields: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """The `references` of a row; empty if it has none."""
    name = _name(fields, "references")
    values = fields[name] if name else []
    if not isinstance(values, list):
        raise BadRow(WRONG, f"{where} has a {type(values).__name__} as {name!r}: it must be a list of texts")
    return tuple(checked_text(value, "references", where) for value in values)
