"""One row of a dataset: what it may look like, and what it says."""

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
"""What each field may be called; the first that a row has is taken. Beside our own names stand those that the hub has
for GovReport (`report`), arXiv and PubMed (`article`, `abstract`), CNN/DailyMail (`highlights`) and SCROLLS (`input`,
`output`)."""

BROKEN = "broken JSON"
NO_DOCUMENT = "no document"
NO_SUMMARY = "no summary"
EMPTY_SUMMARY = "empty summary"
LONG_SUMMARY = "summary longer than the document"
WRONG = "field of a wrong form"
DUPLICATE = "duplicate id"
"""The kinds of bad rows, as they are counted."""


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


class BadRow(AwesumError):
    """A row that is no example; `kind` is what it is counted under."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind

    def __reduce__(self) -> tuple[type[BadRow], tuple[str, str]]:
        return BadRow, (self.kind, str(self))  # worker processes send errors to each other


def parse(row: bytes, path: str, line: int) -> Example:
    """The example in one line of a file; `path` and `line` are for saying where something is wrong."""
    where = f"{path}, line {line}"
    return from_fields(fields_of(row, where), where, line)


def fields_of(row: bytes, where: str) -> dict[str, Any]:
    """The JSON object of a row, whatever is in it."""
    try:
        fields = json.loads(row)
    except json.JSONDecodeError as error:
        message = f"{where} is not JSON ({error.msg}, column {error.colno}): mend or remove the line"
        raise BadRow(BROKEN, message) from error
    except (ValueError, RecursionError) as error:  # not UTF-8, a number of thousands of digits, brackets without end
        raise BadRow(BROKEN, f"{where} cannot be read ({error}): mend or remove the line") from error
    if not isinstance(fields, dict):
        raise BadRow(BROKEN, f'{where} is not a JSON object: write it as {{"document": ..., "summary": ...}}')
    return fields


def from_fields(fields: Mapping[str, Any], where: str, number: int) -> Example:
    """The example in the fields of a row; `number` is its id if it has none."""
    document = _text(fields, "document", where)
    summary = _text(fields, "summary", where)
    if not document.strip():
        message = f"{where} has an empty {_name(fields, 'document')!r}: remove the line, or give it its text"
        raise BadRow(NO_DOCUMENT, message)
    return Example(
        id=row_id(fields, where) or str(number),
        document=document,
        summary=summary,
        query=(_text(fields, "query", where) or None) if _name(fields, "query") else None,
        references=references_of(fields, where) or (summary,),
    )


def _name(fields: Mapping[str, Any], field: str) -> str | None:
    """What the row calls `field`; nothing if it has no such field, or null for it."""
    return next((name for name in NAMES[field] if fields.get(name) is not None), None)


def _text(fields: Mapping[str, Any], field: str, where: str) -> str:
    name = _name(fields, field)
    if name is None:
        others = ", ".join(map(repr, NAMES[field][1:]))
        there = ", ".join(map(repr, fields)) or "nothing"
        message = f"{where} has no {field!r} (it has {there}): call the field that, or one of {others}"
        raise BadRow({"document": NO_DOCUMENT, "summary": NO_SUMMARY}.get(field, WRONG), message)
    return checked_text(fields[name], name, where)


def checked_text(value: object, name: str, where: str) -> str:
    """The text of a field, if it is one."""
    if not isinstance(value, str):
        raise BadRow(WRONG, f"{where} has a {type(value).__name__} as {name!r}: give one text")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # no tokenizer takes it, and none says so in words
        raise BadRow(WRONG, f"{where} has half a character (a lone surrogate) in {name!r}: mend the text") from error
    return value


def row_id(fields: Mapping[str, Any], where: str) -> str:
    """The id of a row as a text; an empty one if it has none."""
    name = _name(fields, "id")
    value = fields[name] if name else ""
    return str(value) if isinstance(value, int) else checked_text(value, "id", where)


def references_of(fields: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """All summaries to compare with that a row lists; none if it has only the one."""
    name = _name(fields, "references")
    values = fields[name] if name else []
    if not isinstance(values, list):
        raise BadRow(WRONG, f"{where} has a {type(values).__name__} as {name!r}: give a list of texts")
    return tuple(checked_text(value, "references", where) for value in values)
