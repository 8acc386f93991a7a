"""A document as text with character spans into it.

Every later stage (sentences, segments, salience, summary) points back here by `start` and `end`, so that whatever is
written can be checked against the source. Nothing in this file reads files or runs models.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sentence:
    """A stretch of the document, white space after it included, so that sentences tile the text."""

    start: int
    end: int
    tokens: int
    """Length in tokens of the summarizer's own tokenizer."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of neighbouring sentences, `first` to `last` (exclusive), that is summarized in one go."""

    first: int
    last: int
    start: int
    end: int
    tokens: int


@dataclass(frozen=True)
class Document:
    """The text that was read, and what the reader of its format wants the user to know about it."""

    text: str
    path: str = "text"
    """File name, address or `-`: how the user named it."""
    page_starts: tuple[int, ...] = ()
    """Character at which each page begins; empty where the format has no pages."""
    notes: tuple[str, ...] = ()
    """What was replaced, skipped or left out while reading: shown to the user, never silent."""

    def pages(self, start: int, end: int) -> list[int]:
        """The pages, counted from one, that the characters from `start` to `end` stand on."""
        if not self.page_starts:
            return []
        first = bisect_right(self.page_starts, start)
        last = bisect_right(self.page_starts, max(start, end - 1))
        return list(range(max(first, 1), last + 1))
