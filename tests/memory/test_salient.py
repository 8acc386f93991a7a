"""A salient memory keeps the most salient tokens as they are, in the document's order, never more than its slots."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from awesum.memory import MemoryState, SalientMemory, Source
from awesum.memory.attention import split
from tests.reference.memory import Kept, salient_update, vectors

SIZE, SLOTS = 6, 7


class OwnAttention(nn.Module):
    """The self-attention of the layer, as far as a memory needs it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.k, self.v = nn.Linear(SIZE, SIZE).double(), nn.Linear(SIZE, SIZE).double()

    def source(self, states: torch.Tensor, mask: torch.Tensor | None) -> Source:
        return Source(split(self.k(states), 2), split(self.v(states), 2), mask)


tokens = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.5, 1.0]), min_size=0, max_size=6)


@settings(max_examples=60)
@given(salience=st.lists(st.lists(tokens, min_size=4, max_size=4), min_size=1, max_size=3), room=st.integers(0, 2))
def test_it_is_the_reference_over_four_segments(salience: list[list[list[float]]], room: int) -> None:
    """Each document of a padded batch as that document alone."""
    memory, attention = SalientMemory(SIZE, SLOTS).double(), OwnAttention()
    chance = torch.Generator().manual_seed(1)
    alone: list[Kept] = [[] for _ in salience]
    state = memory.start(len(salience))
    for segment in range(4):
        rows = [each[segment] for each in salience]
        longest = max(map(len, rows)) + room
        hidden = torch.randn(len(rows), longest, SIZE, generator=chance, dtype=torch.float64)
        mask, how = torch.zeros(len(rows), longest, dtype=torch.bool), torch.full((len(rows), longest), 9.0)
        for number, row in enumerate(rows):
            mask[number, : len(row)], how[number, : len(row)] = True, torch.tensor(row)
            alone[number] = salient_update(alone[number], hidden[number, : len(row)].numpy(), np.array(row), SLOTS)
        state = memory.recall(state, attention).then(hidden, mask, how)
    found = memory.recall(state, attention)
    extra = memory.extra(found)
    for number, expected in enumerate(alone):
        there = found.mask[number]
        np.testing.assert_array_equal(found.memory[number][there], vectors(expected, SIZE))
        keys = attention.source(torch.from_numpy(vectors(expected, SIZE))[None], None).keys
        torch.testing.assert_close(extra.keys[number][:, there], keys[0])
    assert found.memory.shape[1] <= SLOTS


def test_the_least_salient_go_first_and_of_equals_the_oldest() -> None:
    memory = SalientMemory(1, 3)
    state = memory.start(1)
    for numbers, how in (([1, 2], [0.5, 0.9]), ([3, 4], [0.5, 0.0]), ([5], [0.7]), ([6], [0.5])):
        new, mask = torch.tensor(numbers).float()[None, :, None], torch.ones(1, len(how)) > 0
        state = memory.settle(state.then(new, mask, torch.tensor([how])))
    assert state.memory.flatten().tolist() == [2, 5, 6]


def test_without_salience_the_newest_are_kept() -> None:
    memory = SalientMemory(1, 3)
    state = memory.start(1)
    for numbers in ([1, 2], [3, 4]):
        state = memory.settle(state.then(torch.tensor(numbers).float()[None, :, None], torch.ones(1, 2) > 0))
    assert state.memory.flatten().tolist() == [2, 3, 4]


@torch.no_grad()
def test_it_keeps_a_fact_for_64_segments() -> None:
    """However many less salient sentences follow; a memory of the newest has lost it."""
    torch.manual_seed(2)
    fact, mask = torch.randn(1, 3, SIZE), torch.ones(1, 3, dtype=torch.bool)
    for how, is_kept in ((1.0, True), (0.5, False)):
        memory = SalientMemory(SIZE, SLOTS)
        state = memory.start(1).then(fact, mask, torch.full((1, 3), how))
        for _ in range(64):
            state = memory.settle(state).then(torch.randn(1, 5, SIZE), torch.ones(1, 5) > 0, torch.full((1, 5), 0.5))
        held = memory.settle(state)
        assert held.memory.shape[1] == SLOTS
        assert torch.isin(fact, held.memory).all() == is_kept


def test_it_has_no_weights_and_starts_empty() -> None:
    memory = SalientMemory(SIZE, SLOTS)
    assert not list(memory.parameters())
    assert not memory.state_dict()
    assert memory.start(2).memory.shape == (2, 0, SIZE)
    assert memory.to(torch.bfloat16).start(1).memory.dtype == torch.bfloat16
    assert not memory.learns_to_write


def test_it_wants_the_layer_s_attention() -> None:
    with pytest.raises(ValueError, match="give `attention`"):
        SalientMemory(SIZE, SLOTS).recall(MemoryState(torch.zeros(1, 0, SIZE), torch.zeros(1, 0, dtype=torch.bool)))
