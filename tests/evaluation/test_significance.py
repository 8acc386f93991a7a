"""The randomization test against all possible swaps, on systems that do not differ, and on one that does."""

from __future__ import annotations

import numpy as np
import pytest

from awesum.errors import AwesumError
from awesum.evaluation import significance
from awesum.evaluation.significance import difference, interval
from tests.reference.significance import bootstrap, exact


@pytest.mark.parametrize("seed", range(4))
def test_estimates_the_exact_p_value(seed: int) -> None:
    generator = np.random.default_rng(seed)
    one, other = generator.normal(0.4 * seed, 1, 12), generator.normal(0, 1, 12)
    expected = exact(one.tolist(), other.tolist())
    # With 40,000 trials the standard error is at most 0.0025.
    assert difference(one, other, 40_000) == pytest.approx(expected, abs=0.01)


def test_ties_count_as_extreme() -> None:
    """With few distinct scores, many swaps give exactly the observed difference, up to rounding."""
    one = np.array([0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.1, 0.7])
    other = np.array([0.2, 0.1, 0.3, 0.2, 0.1, 0.3, 0.2, 0.1])
    assert difference(one, other, 40_000) == pytest.approx(exact(one.tolist(), other.tolist()), abs=0.01)


def test_equal_scores_do_not_differ() -> None:
    values = np.random.default_rng(0).normal(0, 1, 100)
    assert difference(values, values) == 1


def test_false_positive_rate_is_the_nominal_one() -> None:
    """Systems that do not differ: p below 0.05 in 5 of 100 comparisons, below 0.2 in 20, below 0.5 in 50."""
    generator = np.random.default_rng(7)
    hard = generator.normal(0, 1, 60)  # the difficulty of the documents, the same for both systems
    found = np.array(
        [
            difference(hard + generator.normal(0, 0.5, 60), hard + generator.normal(0, 0.5, 60), 500, seed)
            for seed in range(1000)
        ]
    )
    for level in (0.05, 0.2, 0.5):
        error = (level * (1 - level) / len(found)) ** 0.5
        assert (found <= level).mean() == pytest.approx(level, abs=3.5 * error)


def test_pairing_finds_a_real_difference() -> None:
    generator = np.random.default_rng(3)
    hard = generator.normal(0, 1, 200)
    one, other = hard + 0.05, hard + generator.normal(0, 0.05, 200)
    assert difference(one, other) < 0.0005  # the lowest level in the paper's tables
    unpaired = generator.permutation(other)
    assert difference(one, unpaired) > 0.05


def test_difference_is_symmetric() -> None:
    generator = np.random.default_rng(4)
    one, other = generator.normal(0.2, 1, 50), generator.normal(0, 1, 50)
    assert difference(one, other) == difference(other, one)


def test_documents_without_a_score_are_left_out() -> None:
    generator = np.random.default_rng(5)
    one, other = generator.normal(0.5, 1, 40), generator.normal(0, 1, 40)
    with_gaps = np.concatenate([one, [np.nan, 9.0]]), np.concatenate([other, [-9.0, np.nan]])
    assert difference(*with_gaps) == difference(one, other)
    nothing = np.full(5, np.nan)
    assert difference(nothing, nothing) == 1


def test_p_is_never_zero_and_chunks_do_not_change_results(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = np.arange(30.0) + 5, np.arange(30.0)
    whole = difference(one, other, 2000), interval(one, 2000)
    assert whole[0] == 1 / 2001
    monkeypatch.setattr(significance, "AT_ONCE", 240)  # 8 trials at a time, a whole number of random bytes
    assert significance._chunks(2000, 30) == [8] * 250
    assert difference(one, other, 2000) == whole[0]
    assert interval(one, 2000) == pytest.approx(whole[1])


def test_interval_matches_the_slow_version() -> None:
    values = np.random.default_rng(6).gamma(2, 1, 80)
    low, high = interval(values, 20_000)
    slow_low, slow_high = bootstrap(values.tolist(), 5_000, 0.95, 1)
    spread = values.std() / len(values) ** 0.5
    assert low == pytest.approx(slow_low, abs=0.1 * spread)
    assert high == pytest.approx(slow_high, abs=0.1 * spread)
    assert low < values.mean() < high


def test_interval_has_the_nominal_coverage() -> None:
    generator = np.random.default_rng(8)
    covered = [low <= 3 <= high for low, high in (interval(generator.normal(3, 1, 50), 400) for _ in range(400))]
    assert 0.90 <= np.mean(covered) <= 0.98


def test_interval_of_one_score_and_of_none() -> None:
    assert interval(np.array([2.5])) == (2.5, 2.5)
    assert all(np.isnan(interval(np.zeros(0))))


def test_invalid_input_is_refused() -> None:
    with pytest.raises(AwesumError, match="3 and 2 scores: they must be for the same documents"):
        difference(np.zeros(3), np.zeros(2))
    with pytest.raises(AwesumError, match="trials must be at least 1, not 0"):
        difference(np.zeros(3), np.ones(3), 0)
    with pytest.raises(AwesumError, match="needs numbers"):
        interval(np.array([1.0, np.nan]))
