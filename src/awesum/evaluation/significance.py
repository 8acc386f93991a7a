"""Significance of a difference, by approximate randomization paired by document; and bootstrap intervals.

Randomization: if two systems do not differ, their two scores of a document could be swapped. So they are swapped at
random, many times; p is how often the means then differ at least as much as observed (Noreen 1989). The observation
counts as one of the trials, so p is never 0: p < 0.0005 needs at least 2,000 trials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from awesum.errors import AwesumError

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRIALS = 10_000
AT_ONCE = 2**22
"""Random numbers in RAM at a time, for any number of documents and trials."""
ROUNDING = 1e-9
"""Relative error from the order of a sum: a swap that changes nothing must count as equal."""


def difference(one: NDArray[np.float64], other: NDArray[np.float64], trials: int = TRIALS, seed: int = 0) -> float:
    """The two-sided p-value of the difference of the means. Documents without both scores are left out."""
    _same_documents(one, other)
    apart = (one - other)[~np.isnan(one + other)]
    if not len(apart):
        return 1.0
    observed = abs(apart.sum())
    at_least = observed - ROUNDING * np.abs(apart).sum()
    generator = np.random.default_rng(seed)
    extreme = 0
    for count in _chunks(trials, len(apart)):
        swapped = _coins(generator, count, len(apart))
        # A swap flips the sign, so twice the swapped differences are subtracted from the sum.
        extreme += int((np.abs(apart.sum() - 2 * (swapped @ apart)) >= at_least).sum())
    return (extreme + 1) / (trials + 1)


def interval(
    values: NDArray[np.float64], trials: int = TRIALS, confidence: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """The bootstrap interval of the mean: the range of the means of resampled documents, with this confidence."""
    if not len(values):
        return float("nan"), float("nan")
    if np.isnan(values).any():
        raise AwesumError("a bootstrap interval needs numbers: leave out the documents whose score is NaN")
    generator = np.random.default_rng(seed)
    means = [
        values[generator.integers(0, len(values), (count, len(values)), dtype=np.int32)].mean(axis=1)
        for count in _chunks(trials, len(values))
    ]
    rest = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(means), (rest, 1 - rest))
    return float(low), float(high)


def _coins(generator: np.random.Generator, rows: int, columns: int) -> NDArray[np.float64]:
    """Zeros and ones, one bit of the generator each."""
    bits = np.frombuffer(generator.bytes((rows * columns + 7) // 8), dtype=np.uint8)
    return np.unpackbits(bits, count=rows * columns).reshape(rows, columns).astype(np.float64)


def _chunks(trials: int, documents: int) -> list[int]:
    """Split the trials into chunks of bounded size, for any number of documents."""
    if trials < 1:
        raise AwesumError(f"the number of trials must be at least 1, not {trials}")
    most = max(AT_ONCE // documents, 1)
    return [min(most, trials - done) for done in range(0, trials, most)]


def _same_documents(one: NDArray[np.float64], other: NDArray[np.float64]) -> None:
    if one.shape != other.shape:
        raise AwesumError(
            f"the two systems have {len(one):,} and {len(other):,} scores: they must be for the same documents"
        )
