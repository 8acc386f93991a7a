"""Attentive memory is equations 9 to 12, for each document of a padded batch as for that document alone; and its slots
stay distinct for as many segments as anybody has, which the equations alone do not see to."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from awesum.memory import AttentiveMemory, LiteralMemory, MemoryState
from tests.reference.memory import attentive_read, attentive_update

SIZE, HEADS, SLOTS = 16, 4, 8


VARIANTS = [AttentiveMemory, LiteralMemory]


def random_memory(kind: type[AttentiveMemory] = AttentiveMemory, spread: float = 0.5) -> AttentiveMemory:
    """With weights as if it were trained: none of them zero, none of them one."""
    torch.manual_seed(0)
    memory = kind(SIZE, HEADS, SLOTS).double()
    with torch.no_grad():
        for weight in memory.parameters():
            weight.normal_(0, spread)
    return memory.requires_grad_(False)


def arrays(memory: AttentiveMemory) -> dict[str, np.ndarray]:
    return {f"memory.{name}": tensor.numpy() for name, tensor in memory.state_dict().items()}


def padded(rows: list[torch.Tensor], room: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Under each other, with numbers in the padding that nobody could overlook."""
    longest = max(map(len, rows)) + room
    states = torch.full((len(rows), longest, rows[0].shape[1]), 77.0, dtype=torch.float64)
    mask = torch.zeros(len(rows), longest, dtype=torch.bool)
    for number, row in enumerate(rows):
        states[number, : len(row)], mask[number, : len(row)] = row, True
    return states, mask


@pytest.mark.parametrize("kind", VARIANTS)
@settings(max_examples=30)
@given(
    lengths=st.lists(st.lists(st.integers(1, 11), min_size=3, max_size=3), min_size=1, max_size=4),
    room=st.integers(0, 2),
)
def test_update_and_read_over_three_segments(kind: type[AttentiveMemory], lengths: list[list[int]], room: int) -> None:
    memory = random_memory(kind)
    w = arrays(memory)
    torch.manual_seed(1)
    alone = [w["memory.initial"]] * len(lengths)
    state = memory.start(len(lengths))
    for segment in range(3):
        rows = [torch.randn(row[segment], SIZE, dtype=torch.float64) for row in lengths]
        hidden, mask = padded(rows, room)
        recollection = memory.recall(state)
        read = memory.read(hidden, recollection)
        for number, row in enumerate(rows):
            expected = attentive_read(w, "memory", row.numpy(), alone[number], HEADS)
            np.testing.assert_allclose(recollection.memory[number], alone[number], rtol=1e-7, atol=1e-10)
            np.testing.assert_allclose(read[number, : len(row)], expected, rtol=1e-7, atol=1e-9)
            alone[number] = attentive_update(w, "memory", alone[number], row.numpy(), HEADS)
        state = recollection.then(hidden, mask)
    for number, expected in enumerate(alone):
        np.testing.assert_allclose(memory.recall(state).memory[number], expected, rtol=1e-7, atol=1e-10)


def test_update_is_lazy() -> None:
    memory = random_memory()
    hidden, mask = padded([torch.randn(5, SIZE, dtype=torch.float64)])
    first = memory.recall(memory.start(1))
    state = first.then(hidden, mask)
    torch.testing.assert_close(first.memory, memory.initial[None].clone())
    torch.testing.assert_close(state.memory, memory.initial[None].clone())
    torch.testing.assert_close(memory.recall(state).memory, memory.update(state.memory, hidden, mask))


def test_document_without_a_token_keeps_its_memory() -> None:
    memory = random_memory()
    before = torch.randn(3, SLOTS, SIZE, dtype=torch.float64)
    hidden, mask = padded([torch.randn(5, SIZE, dtype=torch.float64)] * 3)
    mask[1] = False
    after = memory.update(before, hidden, mask)
    assert after.isfinite().all()
    assert torch.equal(after[1], before[1])
    assert not torch.isclose(after[[0, 2]], before[[0, 2]]).all(-1).any()
    learnt = before.requires_grad_()
    memory.requires_grad_().update(learnt, hidden, mask).sum().backward()
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in memory.parameters())


def test_beams_read_the_memory_of_their_document() -> None:
    memory, beams = random_memory(), 3
    state = MemoryState(torch.randn(2, SLOTS, SIZE, dtype=torch.float64), torch.ones(2, SLOTS, dtype=torch.bool))
    hidden = torch.randn(2 * beams, 4, SIZE, dtype=torch.float64)
    read = memory.read(hidden, memory.recall(state))
    of = torch.arange(2).repeat_interleave(beams)
    torch.testing.assert_close(read, memory.read(hidden, memory.recall(state.select(of))))
    other = memory.read(hidden, memory.recall(state.select(of.flip(0))))
    assert not torch.isclose(read, other).any(-1).any()


def test_starts_as_nothing_read_and_slots_that_differ() -> None:
    memory = AttentiveMemory(SIZE, HEADS, SLOTS)
    read = memory.read(torch.randn(2, 5, SIZE), memory.recall(memory.start(2)))
    assert not read.any()
    assert torch.linalg.matrix_rank(memory.initial) == min(SLOTS, SIZE)
    torch.manual_seed(8)
    assert torch.equal(memory.initial, AttentiveMemory(SIZE, HEADS, SLOTS).initial)


def test_the_slots_of_the_literal_variant_are_those_of_older_checkpoints() -> None:
    """Drawn as they always were: adapters do not save them."""
    drawn = torch.randn(SLOTS, SIZE, generator=torch.Generator().manual_seed(9))
    assert torch.equal(LiteralMemory(SIZE, HEADS, SLOTS).initial, drawn)
    assert "queries" not in LiteralMemory(SIZE, HEADS, SLOTS).state_dict()
    assert {"initial", "queries"} <= AttentiveMemory(SIZE, HEADS, SLOTS).state_dict().keys()


@pytest.mark.parametrize("kind", VARIANTS)
def test_paper_s_count_of_parameters(kind: type[AttentiveMemory]) -> None:
    memory = kind(SIZE, HEADS, SLOTS)
    matrices = [weight for weight in memory.parameters() if weight.dim() == 2]
    assert sum(weight.numel() for weight in matrices) == 12 * SIZE**2
    assert {name for name, weight in memory.named_parameters() if weight.dim() != 2} == {
        "layer_norm.weight",
        "layer_norm.bias",
        *(["gate"] if kind is AttentiveMemory else []),
    }


def test_heads_must_divide_the_size() -> None:
    with pytest.raises(ValueError, match="16 cannot be divided among 3 heads"):
        AttentiveMemory(16, 3)


def test_slots_fewer_than_heads_are_refused() -> None:
    AttentiveMemory.check(slots=4, ratio=5, heads=4)
    AttentiveMemory.check(slots=2, ratio=5)  # the model is not known yet
    with pytest.raises(ValueError, match=r"memory_size=3 is less than the 4 attention heads.*give at least 4"):
        AttentiveMemory.check(slots=3, ratio=5, heads=4)


def test_states_are_values_and_nothing_stays_on_the_module() -> None:
    memory = random_memory()
    weights = {name: tensor.clone() for name, tensor in memory.state_dict().items()}
    names = {name: set(vars(module)) for name, module in memory.named_modules()}
    states = [memory.start(2)]
    for _ in range(3):
        hidden, mask = padded([torch.randn(n, SIZE, dtype=torch.float64) for n in (3, 6)])
        recollection = memory.recall(states[-1])
        memory.read(hidden, recollection)
        states.append(recollection.then(hidden, mask))
    assert all(torch.equal(tensor, weights[name]) for name, tensor in memory.state_dict().items())
    assert {name: set(vars(module)) for name, module in memory.named_modules()} == names
    assert all(before is not after for before, after in pairwise(states))
    assert torch.equal(states[0].memory[1], memory.initial)
