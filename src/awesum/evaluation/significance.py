"""Whether a difference could be chance: approximate randomization, paired by document; and bootstrap intervals.

Randomization: if two systems do not differ, it is chance which of them has which of the two scores of a document. So
they are exchanged at random, many times; p is how often the means then differ as much as in truth (Noreen 1989). The
truth counts as one of the trials, so that p is never 0: p < 0.0005 needs 2,000 trials at least.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from awesum.errors import AwesumError

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRIALS = 10_000
AT_ONCE = 2**22
"""Random numbers in memory at a time, whatever the number of documents and trials."""
ROUNDING = 1e-9
"""What the order of a sum may change: an exchange that changes nothing must count as equal."""


def difference(one: NDArray[np.float64], other: NDArray[np.float64], trials: int = TRIALS, seed: int = 0) -> float:
    """The two-sided p-value of the difference of the means. A document without one of the scores is left out."""
    _same_documents(one, other)
    apart = (one - other)[~np.isnan(one + other)]
    if not len(apart):
        return 1.0
    observed = abs(apart.sum())
    at_least = observed - ROUNDING * np.abs(apart).sum()
    generator = np.random.default_rng(seed)
    as_much = 0
    for count in _chunks(trials, len(apart)):
        exchanged = _coins(generator, count, len(apart))
        # An exchange turns the sign: the sum less twice what was exchanged.
        as_much += int((np.abs(apart.sum() - 2 * (exchanged @ apart)) >= at_least).sum())
    return (as_much + 1) / (trials + 1)


def interval(
    values: NDArray[np.float64], trials: int = TRIALS, confidence: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """The bootstrap interval of the mean: between which means of resampled documents lie so often."""
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
    """So many trials at a time that memory depends on neither number."""
    if trials < 1:
        raise AwesumError(f"the number of trials must be at least 1, not {trials}")
    most = max(AT_ONCE // documents, 1)
    return [min(most, trials - done) for done in range(0, trials, most)]


def _same_documents(one: NDArray[np.float64], other: NDArray[np.float64]) -> None:
    if one.shape != other.shape:
        raise AwesumError(
            f"the two systems have {len(one):,} and {len(other):,} scores: they must be of the same documents"
        )
