from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from awesum.analysis.salience.choice import FEWEST_WORDS, MOST_WORDS, REDUNDANT, choose, outermost, word_costs
from awesum.document import Segment, Sentence
from tests.analysis.salience.test_centrality import unit_vectors
from tests.reference import salience as reference

SEEDS = st.integers(0, 2**32 - 1)
COSTS = st.lists(st.integers(0, 20).map(float), min_size=1, max_size=40)


def apart(count: int) -> np.ndarray:
    """Orthogonal vectors: sentences with nothing in common."""
    return np.eye(count, dtype=np.float32)


def segments_of(sizes: list[int]) -> list[Segment]:
    ends = np.cumsum(sizes).tolist()
    return [Segment(end - size, end, end - size, end, size) for end, size in zip(ends, sizes, strict=True)]


@given(costs=COSTS, amount=st.integers(1, 200), redundant=st.sampled_from([0.5, REDUNDANT, 1.1]), seed=SEEDS)
def test_selection_matches_the_reference(costs: list[float], amount: int, redundant: float, seed: int) -> None:
    vectors = unit_vectors(len(costs), seed)
    scores = np.random.default_rng(seed).normal(size=len(costs)).astype(np.float32)
    chosen = choose(scores, vectors, costs, amount, redundant=redundant)
    assert chosen == reference.choose(scores.tolist(), vectors, costs, amount, redundant)
    assert bool(chosen) == any(costs), "the best eligible sentence is always taken"


@given(costs=st.lists(st.integers(1, 20).map(float), min_size=1, max_size=40), amount=st.integers(1, 300), seed=SEEDS)
def test_amount_is_met_as_closely_as_the_next_sentence_allows(costs: list[float], amount: int, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=len(costs)).astype(np.float32)
    chosen = choose(scores, apart(len(costs)), costs, amount)
    used = sum(costs[index] for index in chosen)
    if len(chosen) > 1:
        assert used - amount <= max(costs[index] for index in chosen) / 2
    for left_out in set(range(len(costs))) - set(chosen):
        assert used + costs[left_out] >= amount


def test_counting_sentences_takes_the_best_n() -> None:
    scores = np.array([0.1, 0.9, 0.3, 0.8, 0.5], dtype=np.float32)
    assert choose(scores, apart(5), [1.0] * 5, 3) == [1, 3, 4]


def test_sentence_that_repeats_a_selected_one_is_skipped() -> None:
    vectors = np.array([[1, 0], [0.99, 0.1], [0, 1]], dtype=np.float32)
    assert choose(np.array([3, 2, 1], dtype=np.float32), vectors, [1.0] * 3, 2) == [0, 2]


def test_sentence_of_zero_cost_is_never_selected() -> None:
    assert choose(np.array([9, 1, 2], dtype=np.float32), apart(3), [0.0, 5.0, 5.0], 10) == [1, 2]


def test_best_sentence_is_taken_even_if_it_alone_is_too_long() -> None:
    assert choose(np.array([2, 1], dtype=np.float32), apart(2), [500.0, 400.0], 10) == [0]


@given(sizes=st.lists(st.integers(1, 8), min_size=1, max_size=6), most=st.integers(1, 40), seed=SEEDS)
def test_no_segment_takes_more_than_the_maximum_unless_it_takes_one_sentence(
    sizes: list[int], most: int, seed: int
) -> None:
    segments = segments_of(sizes)
    chance = np.random.default_rng(seed)
    costs = chance.integers(0, 20, size=sum(sizes)).astype(float).tolist()
    scores = chance.normal(size=sum(sizes)).astype(np.float32)
    chosen = choose(scores, apart(sum(sizes)), costs, 200, segments=segments, most=most)
    assert bool(chosen) == any(costs)
    for segment in segments:
        share = [costs[index] for index in chosen if segment.first <= index < segment.last]
        assert sum(share) <= most or len(share) == 1


def test_surplus_of_a_full_segment_goes_to_the_others() -> None:
    scores = np.array([5, 4, 3, 2, 1, 0], dtype=np.float32)
    chosen = choose(scores, apart(6), [10.0] * 6, 30, segments=segments_of([3, 3]), most=20)
    assert chosen == [0, 1, 3]


def test_cost_is_the_words_of_an_eligible_sentence() -> None:
    fewest, most = "word " * (FEWEST_WORDS - 1), "word " * (MOST_WORDS - 1)
    texts = [
        f"{fewest}end.\n\n",
        f"{most}end.",
        fewest + ".",
        f"{most}two words.",
        f"{fewest}no full stop\n",
        f"{fewest}said (in brackets.)",
        "国会は予算案を可決した。",
        " \n",
    ]
    assert word_costs(texts) == [FEWEST_WORDS, MOST_WORDS, FEWEST_WORDS, 0, 0, FEWEST_WORDS + 2, 12, 0]


def test_without_an_eligible_sentence_all_with_words_are_eligible() -> None:
    assert word_costs(["A heading\n", "Cells of a table", " ", "Short."]) == [2, 4, 0, 1]
    assert word_costs([]) == []


def sentences_of(lengths: list[int]) -> list[Sentence]:
    return [Sentence(index, index + 1, length) for index, length in enumerate(lengths)]


def test_outermost_alternates_between_the_beginning_and_the_end() -> None:
    sentences, segment = sentences_of([10] * 12), Segment(5, 7, 5, 7, 20)
    chosen = [0, 2, 4, 5, 6, 8, 9, 11]
    taken = [outermost(chosen, segment, sentences, room) for room in (9, 10, 20, 30, 40, 50, 60, 1000)]
    assert taken == [
        ([], []),
        ([0], []),
        ([0], [11]),
        ([0, 2], [11]),
        ([0, 2], [9, 11]),
        ([0, 2, 4], [9, 11]),
        ([0, 2, 4], [8, 9, 11]),
        ([0, 2, 4], [8, 9, 11]),
    ]


def test_outermost_continues_with_one_side_when_the_other_is_exhausted() -> None:
    sentences, segment = sentences_of([10] * 6), Segment(5, 6, 5, 6, 10)
    assert outermost([1, 2, 3, 5], segment, sentences, 25) == ([1, 2], [])
    assert outermost([0, 1, 4, 5], Segment(0, 1, 0, 1, 10), sentences, 20) == ([], [4, 5])


@given(
    lengths=st.lists(st.integers(1, 9), min_size=3, max_size=30),
    first=st.integers(0, 29),
    size=st.integers(1, 5),
    room=st.integers(-3, 120),
    seed=SEEDS,
)
def test_outermost_matches_the_reference(lengths: list[int], first: int, size: int, room: int, seed: int) -> None:
    first %= len(lengths)
    segment = Segment(first, min(first + size, len(lengths)), 0, 1, 1)
    sentences = sentences_of(lengths)
    chosen = np.flatnonzero(np.random.default_rng(seed).random(len(lengths)) < 0.6).tolist()
    before, after = outermost(chosen, segment, sentences, room)
    assert (before, after) == reference.outermost(chosen, segment, sentences, room)
    taken = before + after
    assert taken == sorted(taken)
    assert not set(taken) & set(range(segment.first, segment.last)), "never the segment's own"
    assert sum(sentences[index].tokens for index in taken) <= max(room, 0)
