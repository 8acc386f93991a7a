"""ROUGE equals the package's to the last digit; only the splitting into sentences is ours."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from awesum.metrics import Sample
from awesum.metrics.rouge import Rouge, lines
from tests.conftest import topical_text

KEYS = {"rouge-1": "rouge1", "rouge-2": "rouge2", "rouge-l": "rougeLsum"}
ODD = ["a", "b", "c", "d.", "e", "f!", "running", "runs", "ran", "The", "the", "é", "12", "..."]
OFFICIAL = RougeScorer(list(KEYS.values()), use_stemmer=True)


def shuffled(text: str, seed: int) -> str:
    words = text.split()
    random.Random(seed).shuffle(words)
    return " ".join(words)


@pytest.mark.parametrize("seed", range(5))
def test_equal_to_the_package_to_the_last_digit(seed: int) -> None:
    reference = topical_text(30, seed)
    prediction = topical_text(12, seed) + topical_text(15, seed + 1) + shuffled(topical_text(4, seed), seed)
    expected = OFFICIAL.score(lines(reference), lines(prediction))
    found = Rouge().measure(Sample(prediction, (reference,)))
    assert found == {name: expected[key].fmeasure for name, key in KEYS.items()}
    assert 0 < found["rouge-2"] < found["rouge-1"] < 1


@given(st.lists(st.sampled_from(ODD), min_size=1, max_size=60))
def test_equal_to_the_package_on_odd_texts(words: list[str]) -> None:
    reference, prediction = " ".join(words), " ".join(reversed(words))
    expected = OFFICIAL.score(lines(reference), lines(prediction))
    assert Rouge().measure(Sample(prediction, (reference,))) == {
        name: expected[key].fmeasure for name, key in KEYS.items()
    }


def test_rouge_l_is_summary_level() -> None:
    """With the two sentences swapped, only one is shared as a single sequence, but both sentence by sentence."""
    reference = "The crew docked at noon. The budget was cut by half."
    prediction = "The budget was cut by half. The crew docked at noon."
    assert Rouge().measure(Sample(prediction, (reference,)))["rouge-l"] == 1
    assert OFFICIAL.score(reference, prediction)["rougeLsum"].fmeasure < 0.7  # the score of each text as a single line


def test_line_breaks_do_not_matter() -> None:
    text = topical_text(6)
    wrapped = text.replace(" ", "\n")
    assert Rouge().measure(Sample(wrapped, (text,))) == pytest.approx(dict.fromkeys(KEYS, 1.0))


def test_best_of_several_references() -> None:
    one, other = topical_text(5, 1), topical_text(5, 2)
    found = Rouge().measure(Sample(one, (other, one)))
    assert found == pytest.approx(dict.fromkeys(KEYS, 1.0))
    assert found != Rouge().measure(Sample(one, (other,)))


def test_score_is_zero_without_overlap() -> None:
    assert Rouge().measure(Sample("alpha beta gamma.", ("delta epsilon.",))) == dict.fromkeys(KEYS, 0.0)
    assert Rouge().measure(Sample("国会は予算案を可決した。", ("国会は予算案を可決した。",))) == dict.fromkeys(
        KEYS, 0.0
    )
