"""What an evaluation has found: the score of every summary, and from these the means, intervals and differences."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from awesum.evaluation.significance import difference, interval
from awesum.metrics.metric import Score

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class System:
    """The summaries of one system, scored. Every array has a number for each document, in the same order."""

    name: str
    scores: dict[str, NDArray[np.float64]]
    """By the name of the score; NaN where there is nothing to say."""
    words: NDArray[np.int64]
    """Of each summary."""
    empty: int
    """How many summaries have no text."""


@dataclass(frozen=True)
class Cell:
    """One score of one system over all documents."""

    mean: float
    low: float
    high: float
    """The bootstrap interval of the mean."""
    counted: int
    """The documents that the mean is over; the others have no such score."""
    p: float | None = None
    """How often chance alone makes such a difference to the first system; none for that one itself, and where no
    document has a score of both."""


@dataclass(frozen=True)
class Evaluation:
    """One or several systems on the same documents. The first one is what the others are compared with."""

    columns: tuple[Score, ...]
    systems: tuple[System, ...]
    ids: tuple[str, ...]
    document_words: NDArray[np.int64]
    """Of each document; zeros if there were none."""
    trials: int
    notes: tuple[str, ...] = field(default=())
    """Whatever was left out, cut or counted as zero, in words."""

    @cached_property
    def table(self) -> dict[str, dict[str, Cell]]:
        """By the name of the system, then of the score."""
        first = self.systems[0]
        return {
            system.name: {
                column.name: self._cell(system, None if system is first else first, column.name)
                for column in self.columns
            }
            for system in self.systems
        }

    def _cell(self, system: System, baseline: System | None, name: str) -> Cell:
        values = system.scores[name]
        there = values[~np.isnan(values)]
        low, high = interval(there, self.trials)
        p = None
        if baseline and not np.isnan(values + baseline.scores[name]).all():
            p = difference(values, baseline.scores[name], self.trials)
        return Cell(float(there.mean()) if len(there) else float("nan"), low, high, len(there), p)
