"""The result of a run: a summary in which every sentence points to its source, and the figures of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from awesum.document import Document, Segment
from awesum.footprint import format_size

SCHEMA = 1
"""The version of the JSON of a summary: raised whenever a field changes its meaning or goes away."""


@dataclass(frozen=True)
class Quote:
    """A span of the source and its text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class SummarySentence:
    """One sentence of the summary, and the sentence of the source that it rests on."""

    text: str
    source: Quote
    similarity: float
    """Cosine similarity of the two, from -1 to 1."""
    support: float = 1.0
    """How well the source supports the sentence, from 0 to 1: see `awesum.verify`. 1 for a copy."""

    @property
    def is_copy(self) -> bool:
        """Whether it stands in the source as it is."""
        return " ".join(self.text.split()) == " ".join(self.source.text.split())


@dataclass(frozen=True)
class Part:
    """The summary of one segment."""

    text: str
    segment: int
    start: int
    end: int
    pages: list[int]
    salient: list[Quote]
    """The selected sentences of the segment."""
    sentences: list[SummarySentence]


@dataclass(frozen=True)
class Figures:
    """The cost of a run."""

    tokens_read: int
    seconds: float
    peak_memory_bytes: int


@dataclass(frozen=True)
class Summary:
    """A summary: its parts in document order, the document, and the figures. `str()` gives the text."""

    parts: list[Part]
    document: Document
    tokens: int
    segments: Sequence[Segment]
    figures: Figures
    settings: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    """Everything cut, skipped, replaced or not read, in words."""
    complete: bool = True
    """False if the run was interrupted."""

    @property
    def text(self) -> str:
        """The summary as plain text, one paragraph per part."""
        return "\n\n".join(" ".join(part.text.split()) for part in self.parts)

    def __str__(self) -> str:
        return self.text

    def closing_line(self) -> str:
        """`read 12,931 of 12,931 tokens in 19 segments, 74 s, peak 1.1 GB`."""
        figures = self.figures
        return (
            f"read {figures.tokens_read:,} of {self.tokens:,} tokens in {count(len(self.segments), 'segment')}, "
            f"{figures.seconds:.0f} s, peak {format_size(figures.peak_memory_bytes)}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The stable format of `--json`."""
        return {
            "schema": SCHEMA,
            "summary": self.text,
            "complete": self.complete,
            "parts": [asdict(part) for part in self.parts],
            "document": {
                "path": self.document.path,
                "characters": len(self.document.text),
                "tokens": self.tokens,
                "segments": [[segment.start, segment.end] for segment in self.segments],
            },
            "figures": asdict(self.figures),
            "settings": self.settings,
            "notes": self.notes,
        }


def count(number: int, noun: str) -> str:
    """`1 part`, `1,234 parts`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
