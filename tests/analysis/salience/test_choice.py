"""The selection against a slow version, and each of its rules alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awesum.analysis.salience.choice import (
    FEWEST_WORDS,
    LONGEST_SHARE,
    MOST_WORDS,
    choose,
    longest_share,
    outermost,
    predecessors,
    word_costs,
)
from awesum.analysis.salience.ratings import REDUNDANT, Coverage, Ratings
from awesum.document import Segment, Sentence
from tests.analysis.salience.test_centrality import unit_vectors
from tests.reference import salience as reference

SEEDS = st.integers(0, 2**32 - 1)
NO_OTHER = 1.1
"""A cosine above which there is none: nothing repeats anything."""


def apart(count: int) -> np.ndarray:
    """Orthogonal vectors: sentences with nothing in common."""
    return np.eye(count, dtype=np.float32)


def rated(*scores: float, redundant: float = REDUNDANT) -> Ratings:
    return Ratings(np.array(scores, dtype=np.float32), 100.0, redundant)


def covering(weights: list[float], *concepts: set[int], scores: list[float] | None = None) -> Ratings:
    """Ratings of sentences that have these concepts."""
    pairs = sorted((concept, sentence) for sentence, own in enumerate(concepts) for concept in own)
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    coverage = Coverage(np.array(weights, dtype=np.float32), table[:, 0], table[:, 1])
    return replace(rated(*(scores or [0.0] * len(concepts)), redundant=NO_OTHER), coverage=coverage)


def segments_of(sizes: list[int]) -> list[Segment]:
    ends = np.cumsum(sizes).tolist()
    return [Segment(end - size, end, end - size, end, size) for end, size in zip(ends, sizes, strict=True)]


def needing(count: int, **of: int) -> np.ndarray:
    """Predecessors: `s3=2` means that sentence 3 needs sentence 2."""
    found = np.full(count, -1, dtype=np.int64)
    for name, before in of.items():
        found[int(name[1:])] = before
    return found


# ------------------------------------------------------------------------------------------- against the slow version


@st.composite
def problems(draw: st.DrawFn, *, needs: bool) -> dict[str, Any]:
    """Arguments of `choose`. Eighths are added and subtracted exactly, so that ties are ties in both versions."""
    count = draw(st.integers(1, 14))
    chance = np.random.default_rng(draw(SEEDS))
    costs = (chance.integers(1, 20, count) * (chance.random(count) > 0.15)).astype(float)
    kinds = draw(st.integers(0, 12))
    have = chance.random((kinds, count)) < 0.3
    concepts, sentences = np.nonzero(have)
    coverage = Coverage((chance.integers(0, 40, kinds) / 8).astype(np.float32), concepts, sentences)
    scores = (chance.integers(-8, 16, count) / 8).astype(np.float32)
    ratings = Ratings(
        scores, 100.0, draw(st.sampled_from([0.5, REDUNDANT, NO_OTHER])), draw(st.sampled_from([coverage, None]))
    )
    problem: dict[str, Any] = {
        "ratings": ratings,
        "vectors": unit_vectors(count, draw(SEEDS)),
        "costs": costs.tolist(),
        "amount": float(draw(st.integers(1, 90))),
        "lengths": draw(st.sampled_from([None, chance.integers(0, 30, count).astype(float)])),
    }
    if draw(st.booleans()):
        problem |= {"in_sentences": True, "costs": (costs > 0).astype(float).tolist()}
        problem["amount"] = float(draw(st.integers(1, count)))
    if needs:
        before = np.full(count, -1, dtype=np.int64)
        for index in range(count):
            if costs[index] and chance.random() < 0.4:
                stands = index > 0 and costs[index - 1] > 0 and before[index - 1] < 0
                before[index] = index - 1 if stands else index
        problem["before"] = before
    if draw(st.booleans()):
        sizes = []
        while sum(sizes) < count:
            sizes.append(draw(st.integers(1, count - sum(sizes))))
        problem |= {"segments": segments_of(sizes), "most": float(draw(st.integers(1, 50)))}
    return problem


@given(problems(needs=False))
def test_selection_matches_the_reference(problem: dict[str, Any]) -> None:
    chosen = choose(**problem)
    assert chosen == reference.choose(**problem)
    assert bool(chosen) == any(problem["costs"]), "the best sentence is always taken"


@given(problems(needs=True))
def test_selection_with_predecessors_matches_the_reference(problem: dict[str, Any]) -> None:
    chosen, before = choose(**problem), problem["before"]
    assert chosen == reference.choose(**problem)
    assert chosen == sorted(set(chosen))
    assert all(before[index] < 0 or before[index] in chosen for index in chosen)
    assert all(before[index] != index for index in chosen)
    assert all(problem["costs"][index] for index in chosen)
    open_ = [index for index, cost in enumerate(problem["costs"]) if cost and before[index] < 0]
    assert bool(chosen) == bool(open_), "the best sentence that needs no other is always taken"


# --------------------------------------------------------------------------------------------------------- the amount


@given(costs=st.lists(st.integers(1, 20).map(float), min_size=1, max_size=40), amount=st.integers(1, 300), seed=SEEDS)
def test_amount_is_met_as_closely_as_the_next_sentence_allows(costs: list[float], amount: int, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=len(costs))
    chosen = choose(rated(*scores), apart(len(costs)), costs, amount)
    used = sum(costs[index] for index in chosen)
    if len(chosen) > 1:
        assert used - amount <= max(costs[index] for index in chosen) / 2
    for left_out in set(range(len(costs))) - set(chosen):
        assert used + costs[left_out] >= amount


@given(count=st.integers(1, 25), wanted=st.integers(1, 25), seed=SEEDS)
def test_as_many_sentences_as_were_asked_for_whatever_they_need(count: int, wanted: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    before = np.full(count, -1, dtype=np.int64)
    for index in range(1, count):
        if before[index - 1] < 0 and chance.random() < 0.5:
            before[index] = index - 1
    lengths = chance.integers(6, 40, count).astype(float)
    ratings = rated(*chance.normal(size=count), redundant=NO_OTHER)
    chosen = choose(ratings, apart(count), [1.0] * count, wanted, lengths=lengths, before=before)
    assert len(chosen) == min(count, wanted)


def test_counting_sentences_takes_the_best_n() -> None:
    assert choose(rated(0.1, 0.9, 0.3, 0.8, 0.5), apart(5), [1.0] * 5, 3) == [1, 3, 4]


def test_sentence_that_repeats_a_selected_one_is_skipped() -> None:
    vectors = np.array([[1, 0], [0.99, 0.1], [0, 1]], dtype=np.float32)
    assert choose(rated(3, 2, 1), vectors, [1.0] * 3, 2) == [0, 2]
    assert choose(rated(3, 2, 1, redundant=NO_OTHER), vectors, [1.0] * 3, 2) == [0, 1]


def test_sentence_of_zero_cost_is_never_selected() -> None:
    assert choose(rated(9, 1, 2), apart(3), [0.0, 5.0, 5.0], 10) == [1, 2]
    assert choose(rated(9, 1), apart(2), [0.0, 0.0], 10) == []


def test_best_sentence_is_taken_even_if_it_alone_is_too_long() -> None:
    assert choose(rated(2, 1), apart(2), [500.0, 400.0], 10) == [0]


@pytest.mark.parametrize("count", [1, 3])
def test_first_sentence_can_be_selected_with_predecessors_too(count: int) -> None:
    """It was mistaken for one that needs itself."""
    scores = [9.0] + [1.0] * (count - 1)
    assert choose(rated(*scores), apart(count), [5.0] * count, 5, before=needing(count)) == [0]


# ----------------------------------------------------------------------------------------------------------- coverage


def test_concept_counts_once() -> None:
    ratings = covering([8, 1], {0}, {0}, {1})
    assert choose(ratings, apart(3), [5.0] * 3, 5) == [0]
    assert choose(ratings, apart(3), [5.0] * 3, 10) == [0, 2], "the second has nothing new"


def test_sentences_are_worth_their_concepts_per_word() -> None:
    ratings = covering([6, 3, 3], {0}, {1, 2}, {1})
    assert choose(ratings, apart(3), [10.0, 20.0, 4.0], 4) == [2]  # 0.6, 0.3 and 0.75 a word
    assert choose(ratings, apart(3), [1.0] * 3, 1, lengths=[10, 20, 4]) == [2]
    assert choose(ratings, apart(3), [1.0] * 3, 1) == [0], "without lengths, what it costs"


def test_longer_sentence_is_worth_more_where_words_cost_nothing() -> None:
    ratings = covering([6, 4], {0}, {1})
    for in_sentences, best in ((False, 1), (True, 0)):  # 0.3 and 0.4 a word, 1.34 and 1.26 a square root
        chosen = choose(ratings, apart(2), [1.0] * 2, 1, lengths=[20, 10], in_sentences=in_sentences)
        assert chosen == [best]


def test_score_counts_for_every_word_and_a_concept_for_the_sentence() -> None:
    ratings = covering([6], {0}, set(), scores=[0.0, 0.5])
    assert choose(ratings, apart(2), [1.0] * 2, 1, lengths=[10, 10]) == [0]
    assert choose(ratings, apart(2), [1.0] * 2, 1, lengths=[20, 20]) == [1]


def test_concept_of_a_sentence_that_was_brought_is_covered() -> None:
    # The second brings the first; then nothing of the third is new.
    ratings = covering([4, 9, 1], {0}, {1}, {0}, {2})
    chosen = choose(ratings, apart(4), [1.0] * 4, 3, before=needing(4, s1=0))
    assert chosen == [0, 1, 3]


def test_concept_that_a_sentence_shares_with_its_predecessor_counts_once() -> None:
    # The first two are worth -9 + 6 + 8 together, 2.5 a word; the last 6. If the 8 counted twice, they would be 6.5.
    ratings = covering([8, 6], {0}, {0}, {1}, scores=[-9, 6, 0])
    assert choose(ratings, apart(3), [1.0] * 3, 2, before=needing(3, s1=0)) == [0, 2]


# ------------------------------------------------------------------------------------------------------- predecessors


def test_sentence_brings_the_one_that_it_needs() -> None:
    before = needing(4, s2=1)
    assert choose(rated(1, 0, 9, 2), apart(4), [5.0] * 4, 10, before=before) == [1, 2]
    assert choose(rated(1, 0, 9, 2), apart(4), [5.0] * 4, 10) == [2, 3]


def test_sentence_is_worth_the_mean_of_itself_and_what_it_brings() -> None:
    before = needing(3, s2=1)
    assert choose(rated(4, 0, 9), apart(3), [1.0] * 3, 2, before=before) == [1, 2]  # 4.5 a word
    assert choose(rated(5, 0, 9), apart(3), [1.0] * 3, 2, before=before)[0] == 0


def test_sentence_whose_predecessor_does_not_fit_is_passed_over() -> None:
    before = needing(3, s2=1)
    assert choose(rated(1, 0, 9), apart(3), [5.0] * 3, 5, before=before) == [0]
    assert choose(rated(1, 0, 9), apart(3), [1.0] * 3, 1, before=before) == [0]
    assert choose(rated(1, 0, 9), apart(3), [5.0, 90.0, 5.0], 10, before=before) == [0]


def test_sentence_alone_costs_what_it_adds_once_its_predecessor_is_selected() -> None:
    before = needing(3, s1=0)
    assert choose(rated(9, 5, 1), apart(3), [5.0] * 3, 10, before=before) == [0, 1]


def test_sentence_that_needs_itself_cannot_be_selected() -> None:
    assert choose(rated(1, 9, 2), apart(3), [1.0] * 3, 3, before=needing(3, s1=1)) == [0, 2]


LONE = "The crane at the quay was sold. "
NEEDY = "They sold it to a port abroad. "


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([LONE, LONE], [-1, -1]),
        ([LONE, NEEDY], [-1, 0]),
        ([LONE, NEEDY, NEEDY], [-1, 0, 2]),  # what it needs needs another
        ([LONE, NEEDY, LONE, NEEDY], [-1, 0, -1, 2]),
        (["\n" + LONE, NEEDY], [-1, 0]),
        ([LONE + "\n", NEEDY, LONE], [-1, 1, -1]),  # another paragraph
        ([LONE.strip() + " \n  ", NEEDY, LONE], [-1, 1, -1]),
        (["A heading\n", NEEDY, LONE], [-1, 1, -1]),
        (["A cell ", NEEDY, LONE], [-1, 1, -1]),  # must not be selected
        ([NEEDY, LONE], [0, -1]),
        ([NEEDY], [-1]),  # there is nothing else
        ([NEEDY, "They had no money for a new one.\n", NEEDY], [-1, -1, -1]),
        (["They", LONE], [-1, -1]),
        ([], []),
    ],
)
def test_predecessors(texts: list[str], expected: list[int]) -> None:
    assert predecessors(texts, word_costs(texts)).tolist() == expected


@given(
    st.lists(
        st.sampled_from([LONE, NEEDY, LONE + "\n", NEEDY + "\n", "A heading\n", " ", "See table 3 of it, please. "]),
        max_size=12,
    )
)
def test_any_sentence_that_brings_another_can_have_it(texts: list[str]) -> None:
    costs = word_costs(texts)
    before = predecessors(texts, costs)
    for index, needed in enumerate(before.tolist()):
        assert needed in (-1, index, index - 1)
        if 0 <= needed < index:
            assert costs[needed] > 0
            assert before[needed] == -1
            assert "\n" not in texts[needed]
    chosen = choose(rated(*[1.0] * len(texts), redundant=NO_OTHER), apart(len(texts)), costs, 7, before=before)
    assert bool(chosen) == any(costs), "there is always something to select"


# ----------------------------------------------------------------------------------------------------------- segments


@given(sizes=st.lists(st.integers(1, 8), min_size=1, max_size=6), most=st.integers(1, 40), seed=SEEDS)
def test_no_segment_takes_more_than_the_maximum_unless_it_takes_one_sentence(
    sizes: list[int], most: int, seed: int
) -> None:
    segments = segments_of(sizes)
    chance = np.random.default_rng(seed)
    costs = chance.integers(0, 20, size=sum(sizes)).astype(float).tolist()
    ratings = rated(*chance.normal(size=sum(sizes)))
    chosen = choose(ratings, apart(sum(sizes)), costs, 200, segments=segments, most=most)
    assert bool(chosen) == any(costs)
    for segment in segments:
        share = [costs[index] for index in chosen if segment.first <= index < segment.last]
        assert sum(share) <= most or len(share) == 1


def test_surplus_of_a_full_segment_goes_to_the_others() -> None:
    chosen = choose(rated(5, 4, 3, 2, 1, 0), apart(6), [10.0] * 6, 30, segments=segments_of([3, 3]), most=20)
    assert chosen == [0, 1, 3]


def test_predecessor_in_the_segment_before_counts_there() -> None:
    # The first segment is full with its first sentence; the third sentence would bring its second.
    segments, before = segments_of([2, 2]), needing(4, s2=1)
    chosen = choose(rated(9, 1, 8, 0), apart(4), [10.0] * 4, 40, before=before, segments=segments, most=15)
    assert chosen == [0, 3]


def test_longest_share_grows_with_the_summary() -> None:
    assert longest_share(200, 10) == LONGEST_SHARE
    assert longest_share(2000, 10) == 300


# -------------------------------------------------------------------------------------------------------------- costs


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
        f"{fewest}in table 3.",
        f"{fewest}shown below.",
    ]
    assert word_costs(texts) == [FEWEST_WORDS, MOST_WORDS, FEWEST_WORDS, 0, 0, FEWEST_WORDS + 2, 12, 0, 0, 0]


def test_without_an_eligible_sentence_the_next_best_are_eligible() -> None:
    pointing = "The fees of all ports are in table 3. "
    assert word_costs([pointing, "A heading\n", "Short. "]) == [9, 0, 0]
    assert word_costs(["A heading\n", "Cells of a table", " ", "Short."]) == [2, 4, 0, 1]
    assert word_costs([]) == []


# ---------------------------------------------------------------------------------------------------------- outermost


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
