"""Repetition: how much of a summary repeats itself. Writing segment by segment, a model easily says things twice."""

from __future__ import annotations

from math import nan

from awesum.metrics.metric import Need, Sample, Score
from awesum.stems import stems

LENGTH = 3
"""Consecutive words. Pairs recur in any text; four miss slightly changed repetitions."""


class Repetition:
    """The share of a summary's trigrams that occur earlier in it."""

    name = "repetition"
    needs: frozenset[Need] = frozenset()
    scores = (
        Score(
            "repetition",
            "Repeated",
            "lower",
            0,
            1,
            100,
            settings=f"share of the summary's runs of {LENGTH} stemmed words that occur earlier in it",
        ),
    )

    def measure(self, sample: Sample) -> dict[str, float]:
        """The share; NaN for a summary too short to repeat anything."""
        words = stems(sample.prediction)
        runs = [tuple(words[start : start + LENGTH]) for start in range(len(words) - LENGTH + 1)]
        return {"repetition": 1 - len(set(runs)) / len(runs) if runs else nan}
