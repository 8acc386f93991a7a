"""Randomization and bootstrap, one trial at a time."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence


def exact(one: Sequence[float], other: Sequence[float]) -> float:
    """All possible swaps, each counted once: the value that random trials estimate."""
    apart = [a - b for a, b in zip(one, other, strict=True)]
    observed = abs(sum(apart))
    trials = list(itertools.product((1, -1), repeat=len(apart)))
    extreme = sum(
        abs(sum(sign * value for sign, value in zip(signs, apart, strict=True))) >= observed - 1e-9 for signs in trials
    )
    return extreme / len(trials)


def bootstrap(values: Sequence[float], trials: int, confidence: float, seed: int) -> tuple[float, float]:
    chance = random.Random(seed)
    means = sorted(sum(chance.choices(values, k=len(values))) / len(values) for _ in range(trials))
    rest = (1 - confidence) / 2
    return means[int(rest * trials)], means[int((1 - rest) * trials) - 1]
