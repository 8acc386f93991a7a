"""The entity graph: values computed by hand, and the fast matrix against all pairs of sentences."""

from __future__ import annotations

from itertools import pairwise
from math import isnan
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awesum.metrics.entity_graph import EntityGraph, coherence, link_rows, links
from awesum.metrics.metric import Sample
from tests.reference import entities as reference

CHAIN = (
    "The farmer bought a tractor. The tractor broke in the field. The field was wet. The rain had lasted a week. "
    "That week, the rain drowned the garden."
)
SENTENCES = st.lists(st.lists(st.sampled_from("abcdef"), max_size=4), max_size=9)


def measured(prediction: str, *references: str) -> tuple[float, float]:
    scores = EntityGraph().measure(Sample(prediction, references))
    return scores["entity-graph"], scores["entity-graph-matched"]


def test_links_by_hand() -> None:
    sentences = [["dog", "cat"], ["dog"], [], ["cat", "dog", "dog"]]
    assert links(sentences).tolist() == [[0, 1, 0, 1 / 3], [0, 0, 0, 1 / 2], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert coherence(sentences) == pytest.approx((1 + 1 / 3 + 1 / 2) / 4)


@pytest.mark.parametrize("sentences", [[], [[]], [["dog"]]])
def test_links_of_at_most_one_sentence(sentences: list[list[str]]) -> None:
    assert links(sentences).shape == (len(sentences), len(sentences))
    assert not links(sentences).any()


@given(sentences=SENTENCES, cells=st.integers(1, 40))
def test_links_match_all_pairs_for_any_block_size(sentences: list[list[str]], cells: int) -> None:
    expected = np.array(reference.links(sentences)).reshape(len(sentences), len(sentences))
    assert np.array_equal(links(sentences), expected)
    rows = list(link_rows(sentences, cells))
    assert np.array_equal(np.concatenate([expected[:0], *rows]), expected)
    assert all(len(some) * len(sentences) <= max(cells, len(sentences)) for some in rows)
    if sentences:
        assert coherence(sentences) == pytest.approx(reference.coherence(sentences))


def test_score_of_a_text_by_hand() -> None:
    """tractor: 1-2; field: 2-3; rain and week: 4-5, which is one link."""
    assert measured(CHAIN, CHAIN) == (pytest.approx(3 / 5), 1.0)
    far = "The farmer bought a tractor. It rained. They laughed. The farmers sold the Tractor."
    assert measured(far, far)[0] == pytest.approx((1 / 3) / 4)  # two nouns, one link; plural and capital do not matter


def test_shuffling_sentences_lowers_the_score() -> None:
    sentences = [f"The {one} met the {other}." for one, other in pairwise(["dog", "cat", "bird", "cow", "pig"])]
    ordered, shuffled = " ".join(sentences), " ".join(sentences[n] for n in (0, 2, 1, 3))
    assert measured(ordered, ordered)[0] == pytest.approx(3 / 4)
    assert measured(shuffled, ordered)[0] == pytest.approx((1 / 2 + 1 + 1 / 2) / 4)  # one pair is still adjacent
    assert measured(shuffled, ordered)[1] == pytest.approx(2 / 3)


def test_score_grows_with_length_and_the_matched_one_does_not() -> None:
    short, long = "The dog barked. " * 3, "The dog barked. " * 12
    assert measured(long, long)[0] > measured(short, short)[0] + 1
    assert measured(long, short)[1] == measured(short, long)[1] == pytest.approx(1.0)


def test_matched_score_uses_the_first_sentences_of_both() -> None:
    prediction = "The dog barked. It rained. The dog slept. The dog ate. The dog ran."
    first = "The cow slept. The cow ate. The cow ran."
    assert measured(prediction, first)[1] == pytest.approx((1 / 2) / (1 + 1 + 1 / 2))
    second = "The cow slept. The cow ran. It rained. They laughed. The cow ate. The cow slept."
    by_hand = (1 / 2 + 1 / 3 + 1 / 4 + 1 + 1 / 2 + 1) / (1 + 1 / 4 + 1 / 3)
    assert measured(prediction, second)[1] == pytest.approx(by_hand)
    assert measured(prediction, first, second)[1] == pytest.approx((0.2 + by_hand) / 2)


def test_reference_without_links_is_left_out() -> None:
    prediction = "The dog barked. The dog slept."
    assert isnan(measured(prediction, "It rained. They laughed.")[1])
    assert isnan(measured(prediction, "The dog barked.")[1])
    assert isnan(measured(prediction, "")[1])
    assert isnan(measured(prediction)[1])
    assert measured(prediction, "It rained. They laughed.", prediction)[1] == 1.0


def test_summary_without_links_scores_zero() -> None:
    assert measured("It rained. They laughed.", "The dog barked. The dog slept.") == (0.0, 0.0)
    assert measured("It rained", "It rained")[0] == 0.0


def test_thousands_of_sentences_take_less_than_a_second() -> None:
    chance = np.random.default_rng(0)
    sentences = [["tax", *(f"noun {n}" for n in chance.integers(0, 300, 10))] for _ in range(2000)]
    start = process_time()
    assert coherence(sentences) > 1
    assert process_time() - start < 1


def test_declared_scores_are_those_computed() -> None:
    metric = EntityGraph()
    assert [score.name for score in metric.scores] == list(metric.measure(Sample("It rained.", ("It rained.",))))
    assert "grows with the number of sentences" in metric.scores[0].settings
