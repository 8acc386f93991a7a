"""A document: its text, and character spans into it.

Every later stage (sentences, segments, salience, summary) refers to the text by `start` and `end`, so that every
generated sentence can be checked against the source. Nothing in this file reads files or runs models.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal

Kind = Literal["heading", "list", "table", "turn", "contents", "references", "boilerplate"]
"""What a block of a document is: a heading, an item of a list, a row of a table, a speaker's turn; or one of `JUNK`."""
JUNK: frozenset[Kind] = frozenset({"contents", "references", "boilerplate"})
"""Blocks that nobody wants in a summary: tables of contents, lists of references, phrases that come with the form."""


@dataclass(frozen=True, slots=True)
class Block:
    """A span of the document that is not running text, without the white space around it."""

    start: int
    end: int
    kind: Kind
    level: int = 0
    """Of a heading, from 1; of an item in a list, how deep it is, from 1."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A span of the document, including the white space after it, so that sentences tile the text."""

    start: int
    end: int
    tokens: int
    """Length in tokens of the summarizer's tokenizer."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of consecutive sentences, `first` to `last` (exclusive), summarized together."""

    first: int
    last: int
    start: int
    end: int
    tokens: int


@dataclass(frozen=True)
class Document:
    """The text of a document, where it came from, its structure, and the notes of its reader."""

    text: str
    path: str = "text"
    """File name, URL or `-`, as the user gave it."""
    page_starts: tuple[int, ...] = ()
    """Offset of the first character of each page; empty if the format has no pages."""
    notes: tuple[str, ...] = ()
    """Everything replaced, skipped or left out while reading; always shown to the user."""
    blocks: tuple[Block, ...] = ()
    """The structure that the format has or that shows in the text, in order; blocks do not overlap."""

    def pages(self, start: int, end: int) -> list[int]:
        """The pages, counted from one, that contain the characters from `start` to `end`."""
        if not self.page_starts:
            return []
        first = bisect_right(self.page_starts, start)
        last = bisect_right(self.page_starts, max(start, end - 1))
        return list(range(max(first, 1), last + 1))
