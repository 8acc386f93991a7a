"""What came of it: the rows with their scores, and which of the differences are significant."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from awesum.evaluation.result import Evaluation
from awesum.evaluation.significance import difference
from awesum.metrics.metric import Score
from awesum.reproduce.paper import BASELINE, BEST, OURS, SE3, Row, significant
from awesum.reproduce.plan import Plan
from awesum.reproduce.weights import Base

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Made:
    """A row that was made, or the reason why it was not."""

    key: str
    name: str
    paper: Row | None
    """None for a row beyond the paper."""
    base: Base
    record: Mapping[str, Any] = field(default_factory=dict)
    """`run.json` of its training."""
    evaluation: Evaluation | None = None
    error: str | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it is one of AWESOME's rows, rather than one that these are compared with."""
        return self.paper is not None and self.paper.group is not None

    @property
    def peak_memory(self) -> float | None:
        """Of training, in GB: allocated on a GPU, or else resident."""
        size = self.record.get("peak_memory_bytes")
        return size / 1e9 if size else None

    @property
    def batches_per_second(self) -> float | None:
        """The speed of training."""
        return self.record.get("batches_per_second")

    def values(self, score: str) -> NDArray[np.float64] | None:
        """The score of each summary."""
        return self.evaluation.systems[0].scores.get(score) if self.evaluation else None

    def mean(self, score: str) -> float | None:
        """The mean of a score; None if there is none."""
        values = self.values(score)
        if values is None or np.isnan(values).all():
            return None
        return float(np.nanmean(values))


@dataclass(frozen=True)
class Comparison:
    """A row against Se3 and against the best of the rows that AWESOME is compared with, in one score."""

    se3: float | None
    """The p-value of the difference to Se3; None for Se3 itself, or without it."""
    best: float | None
    """The p-value of the difference to the best other system."""
    best_row: str | None
    mark: str
    """The paper's: better than all comparisons, better than Se3, or nothing."""


@dataclass(frozen=True)
class Result:
    """Everything that the tables show."""

    plan: Plan
    rows: tuple[Made, ...]
    documents: int
    """Documents of the test split."""
    extractor: Any
    statistics: Any
    sample: Mapping[str, str] | None
    """See `choose_sample`."""
    notes: Sequence[str]
    trials: int

    @cached_property
    def scores(self) -> dict[str, Score]:
        """All scores that were computed, by name."""
        found: dict[str, Score] = {}
        for row in self.rows:
            found |= {score.name: score for score in row.evaluation.columns} if row.evaluation else {}
        return found

    @property
    def failed(self) -> list[Made]:
        """The rows that were not made."""
        return [row for row in self.rows if row.error is not None]

    def row(self, key: str) -> Made | None:
        """A row that was made, by its name."""
        return next((row for row in self.rows if row.key == key and row.error is None), None)

    def compare(self, row: Made, score: Score) -> Comparison:
        """The p-values of a row in one score, and its mark."""
        return self._comparisons[row.key, score.name]

    @cached_property
    def _comparisons(self) -> dict[tuple[str, str], Comparison]:
        return {(row.key, score.name): self._compare(row, score) for row in self.rows for score in self.scores.values()}

    def _compare(self, row: Made, score: Score) -> Comparison:
        own = row.mean(score.name)
        if own is None or score.better == "neither":
            return Comparison(None, None, None, "")
        baseline = self.row(BASELINE)
        baseline = baseline if baseline and baseline is not row and baseline.mean(score.name) is not None else None
        others = [
            other
            for other in self.rows
            if other is not row and not other.is_ours and other.mean(score.name) is not None
        ]
        sign = 1 if score.better == "higher" else -1
        best = max(others, key=lambda other: sign * (other.mean(score.name) or 0.0), default=None)
        to_se3, to_best = (self._p(row, other, score) for other in (baseline, best))
        return Comparison(to_se3, to_best, best.key if best else None, self._mark(row, score, baseline, best))

    def _p(self, row: Made, other: Made | None, score: Score) -> float | None:
        one, two = row.values(score.name), other.values(score.name) if other else None
        if one is None or two is None or np.isnan(one + two).all():
            return None
        return difference(one, two, self.trials)

    def _mark(self, row: Made, score: Score, baseline: Made | None, best: Made | None) -> str:
        """Only AWESOME's rows have marks."""
        if not row.is_ours:
            return ""
        for other, mark in ((best, BEST), (baseline, SE3)):
            if other is None:
                continue
            p, ahead = self._p(row, other, score), (row.mean(score.name) or 0.0) - (other.mean(score.name) or 0.0)
            if p is not None and p < significant() and (ahead > 0 if score.better == "higher" else ahead < 0):
                return mark
        return ""


def choose_sample(plan: Plan, rows: Sequence[Made]) -> dict[str, str] | None:
    """One document as Se3 and AWESOME summarize it, beside the reference: the first for which both wrote something."""
    made = {row.key: row for row in rows if row.error is None}
    pair = [made[key] for key in (BASELINE, OURS if OURS in made else "attentive") if key in made]
    if len(pair) < 2:
        return None
    written = [_texts(plan.predictions(each.key)) for each in pair]
    for name, reference in _texts(plan.references).items():
        texts = [texts.get(name, "") for texts in written]
        if all(text.strip() for text in texts):
            found = zip((each.name for each in pair), texts, strict=True)
            return {"document": name, "reference": reference, **dict(found)}
    return None


def _texts(path: Path) -> dict[str, str]:
    with path.open(encoding="utf-8") as file:
        return {row["id"]: row["summary"] for row in map(json.loads, file)}


def shown_or_dash(value: float | None, decimals: int) -> str:
    """A number, or a dash if there is none."""
    return "–" if value is None or isnan(value) else f"{value:,.{decimals}f}"
