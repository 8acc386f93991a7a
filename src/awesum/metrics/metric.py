"""What every measure of summaries has in common: what it needs, what its scores are called, and how to read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal, Protocol

Better = Literal["higher", "lower", "neither"]
Need = Literal["document", "reference", "model", "english"]
"""`english` is spaCy with its pipeline, an extra that not everybody has."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A summary, and what it is measured against."""

    prediction: str
    references: tuple[str, ...] = ()
    document: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """One number that a measure gives for each summary, and how to read it."""

    name: str
    """As in `--json` and in Python, such as `rouge-1`."""
    title: str
    """As at the head of a column, such as `R-1`."""
    better: Better
    low: float = 0.0
    high: float = inf
    scale: float = 1.0
    """What tables multiply it by: 100 for what is customarily given as a percentage."""
    decimals: int = 2
    """Of tables."""
    settings: str = ""
    """In words, for whoever wants to make the number again."""


class Metric(Protocol):
    """A measure. One that cannot say anything of a summary gives NaN, which is left out of the mean and counted."""

    name: str
    """As in `--metrics`."""
    scores: tuple[Score, ...]
    needs: frozenset[Need]

    def measure(self, sample: Sample) -> Mapping[str, float]:
        """The scores of one summary, which is never empty, by name."""
        ...
