"""What a model is given to read about a segment, and what it answers: tokens, or text where it makes its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

SHORTEST = 8
"""Tokens. A part is at least this long: a chat model that stops before it has begun has only lost its thread."""


@dataclass(frozen=True)
class Prompt:
    """What a model reads about one segment, and when it may stop writing."""

    tokens: list[int]
    enough: Callable[[str], bool]
    """Whether a draft is long enough; asked whenever a new sentence has begun."""
    limit: int
    """Tokens after which the draft ends in any case."""
    segment: slice = field(default_factory=lambda: slice(0))
    """Which of the tokens are the segment's own: these are what a memory is written from."""
    salience: Sequence[float] | None = None
    """How salient each of those is, for a memory that keeps the most salient."""
    least: int = SHORTEST
    """Tokens before which the draft does not end."""
    known: Sequence[int] | None = None
    """The answer, where it is known: from an interrupted run, or because there is nothing to say. It is only written to
    memory."""
    number: int = 0
    """The segment's number."""
    candidates: int = 1
    """Answers to write: the likeliest, and others that are drawn at random, always the same for the same prompt."""
    text: str = ""
    """The same as a message, for an engine whose model makes its own tokens; it has no `tokens` then."""


@dataclass(frozen=True)
class Answer:
    """What a model wrote about one segment."""

    text: str
    tokens: Sequence[int] = ()
    is_whole: bool = True
    """Whether the model ended it itself, rather than its limit or its budget."""
    others: tuple[str, ...] = ()
    """The other candidates."""

    @property
    def candidates(self) -> list[str]:
        """Everything that was written, the likeliest first."""
        return [self.text, *self.others]
