"""The documents of the recall task: every question can be answered, and by what training never saw where it counts."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from benchmarks.recall.task import (
    ASK,
    END,
    FACT,
    KEY,
    KEYS,
    UNSEEN_PAIRS,
    VALUE,
    VALUES,
    alone,
    to_test_on,
    to_train_on,
)

from awesum.recurrence import DocumentInputs


def stated(document: DocumentInputs) -> dict[int, tuple[int, int]]:
    """Key -> its value and the segment that states it."""
    found = {}
    for number, tokens in enumerate(document.segments):
        if FACT in tokens:
            key, value = tokens[tokens.index(FACT) + 1 :][:2]
            assert KEY <= key < KEY + KEYS <= VALUE <= value < VALUE + VALUES
            assert key not in found
            found[key] = (value, number)
    return found


def asked(document: DocumentInputs) -> Iterator[tuple[int, int]]:
    """The number of each segment that asks, and the key."""
    for number, tokens in enumerate(document.segments):
        if ASK in tokens:
            yield number, tokens[tokens.index(ASK) + 1]


def check(document: DocumentInputs, future: bool, unseen: bool) -> list[int]:
    """Every question has its answer as target, and all other targets are empty. Returns the distances."""
    facts = stated(document)
    assert all(((key - KEY, value - VALUE) in UNSEEN_PAIRS) == unseen for key, (value, _) in facts.items())
    questions = dict(asked(document))
    distances = []
    for number, target in enumerate(document.targets):
        if number in questions:
            value, place = facts[questions[number]]
            assert target == [value, END]
            distances.append(place - number if future else number - place)
        else:
            assert target == [END]
    return distances


@pytest.mark.parametrize("facts", [1, 4])
@pytest.mark.parametrize("future", [False, True])
def test_documents_to_train_on(future: bool, facts: int) -> None:
    chance = random.Random(0)
    distances = []
    for longest in (1, 2, 5, 18, 18, 18):
        documents = to_train_on(chance, longest, future, facts)
        assert len({len(document.segments) for document in documents}) == 1
        for document in documents:
            distances += check(document, future, unseen=False)
    assert min(distances) == 0
    assert max(distances) > 5


def test_documents_to_train_on_state_one_fact_or_several_before_they_ask() -> None:
    """And sometimes one more beside a question."""
    documents = [one for seed in range(20) for one in to_train_on(random.Random(seed), 18, False, 4)]
    assert {len(stated(document)) for document in documents} == {1, 2, 3, 4, 5}
    documents = [one for seed in range(20) for one in to_train_on(random.Random(seed), 18, False)]
    assert {len(stated(document)) for document in documents} == {1, 2}


@pytest.mark.parametrize("future", [False, True])
@pytest.mark.parametrize(("distance", "facts"), [(0, 1), (1, 1), (16, 1), (63, 1), (0, 4), (2, 4), (16, 4)])
def test_documents_to_test_on(distance: int, facts: int, future: bool) -> None:
    chance = random.Random(0)
    for _ in range(8):
        document = to_test_on(chance, distance, future, facts)
        assert len(stated(document)) == max(1, min(facts, distance))
        assert len(document.segments) == distance + 1
        assert check(document, future, unseen=True) == [distance]


def test_single_segments_are_of_training() -> None:
    chance = random.Random(0)
    found = [check(alone(chance), future=False, unseen=False) for _ in range(64)]
    assert [] in found
    assert [0] in found


def test_guessing_is_hardly_ever_right() -> None:
    assert 1 / VALUES <= 0.016
    assert {value for _, value in UNSEEN_PAIRS} <= set(range(VALUES))
