"""The result of an evaluation: the scores of every summary, with means, intervals and p-values computed from them."""

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
    """The scores of one system. Every array has one number per document, in the same order."""

    name: str
    scores: dict[str, NDArray[np.float64]]
    """By name of the score; NaN where a metric does not apply."""
    words: NDArray[np.int64]
    """The length of each summary."""
    empty: int
    """The number of summaries without text."""


@dataclass(frozen=True)
class Cell:
    """One score of one system over all documents."""

    mean: float
    low: float
    high: float
    """The bootstrap interval of the mean."""
    counted: int
    """The number of documents in the mean; the others have no such score."""
    p: float | None = None
    """The p-value of the difference to the first system; None for that system itself, and if no document has both
    scores."""


@dataclass(frozen=True)
class Evaluation:
    """One or several systems on the same documents. The others are compared with the first one."""

    columns: tuple[Score, ...]
    systems: tuple[System, ...]
    ids: tuple[str, ...]
    document_words: NDArray[np.int64]
    """The length of each document; zeros if none were given."""
    trials: int
    notes: tuple[str, ...] = field(default=())
    """Everything left out, truncated or counted as zero, in words."""

    @cached_property
    def table(self) -> dict[str, dict[str, Cell]]:
        """Cells by name of the system, then of the score."""
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
        numbers = values[~np.isnan(values)]
        low, high = interval(numbers, self.trials)
        p = None
        if baseline and not np.isnan(values + baseline.scores[name]).all():
            p = difference(values, baseline.scores[name], self.trials)
        return Cell(float(numbers.mean()) if len(numbers) else float("nan"), low, high, len(numbers), p)
