"""A state is a value: what is made of it is another one, without a graph, of some documents, or elsewhere."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
import torch

from awesum.memory import AttentiveMemory, MemoryState, Recollection, Written
from awesum.models.bart import Memories


def some_state(graph: bool = False) -> MemoryState:
    torch.manual_seed(0)
    return MemoryState(
        torch.randn(3, 4, 8, requires_grad=graph) * 1,
        torch.rand(3, 4) > 0.5,
        torch.rand(3, 4),
        tuple(
            Written(torch.randn(3, length, 8, requires_grad=graph) * 1, torch.rand(3, length) > 0.5, salience)
            for length, salience in ((5, None), (2, torch.rand(3, 2)))
        ),
        depth=2,
    )


def tensors(state: MemoryState) -> dict[str, torch.Tensor]:
    found = state.tensors()
    assert len(found) >= 2 + 2 * len(state.pending)
    return found


def test_detach_cuts_the_graph_and_leaves_the_original() -> None:
    state = some_state(graph=True)
    cut = state.detach()
    for name, tensor in tensors(cut).items():
        assert not tensor.requires_grad
        assert tensor.grad_fn is None
        assert torch.equal(tensor, state.tensors()[name])
    assert cut.depth == 2
    assert state.memory.grad_fn is not None
    assert state.pending[1].states.grad_fn is not None


def test_what_follows_a_segment_has_no_graph() -> None:
    weight = torch.randn(8, 8, requires_grad=True)
    memory = torch.randn(3, 4, 8) @ weight
    recollection = Recollection(memory, torch.ones(3, 4, dtype=torch.bool), memory, memory)
    after = recollection.then(torch.randn(3, 5, 8) @ weight, torch.ones(3, 5, dtype=torch.bool))
    assert all(tensor.grad_fn is None and not tensor.requires_grad for tensor in tensors(after).values())


@pytest.mark.parametrize("rows", [[2, 0], [1, 1, 1, 0], [], [0, 1, 2]])
def test_select_takes_documents_in_order(rows: list[int]) -> None:
    state = some_state()
    chosen = state.select(torch.tensor(rows, dtype=torch.long))
    for name, tensor in tensors(chosen).items():
        assert torch.equal(tensor, state.tensors()[name][rows])


def test_state_before_the_first_segment_has_nothing_to_write() -> None:
    state = MemoryState(torch.randn(3, 4, 8), torch.ones(3, 4, dtype=torch.bool))
    for made in (state.detach(), state.select(torch.tensor([1])), state.to("cpu")):
        assert made.pending == ()
        assert made.salience is None
    assert state.memory.shape[0] == 3


def test_to_moves_everything() -> None:
    moved = some_state().to("meta")
    assert {tensor.device.type for tensor in tensors(moved).values()} == {"meta"}


@pytest.mark.parametrize("fresh", [(True, True), (True, False), (False, True), (False, False)])
def test_joined_documents_are_those_of_both(fresh: tuple[bool, bool]) -> None:
    torch.manual_seed(1)
    memory = AttentiveMemory(8, 2, 4)
    states = []
    for length, is_fresh in zip((5, 3), fresh, strict=True):
        state = memory.start(2)
        if not is_fresh:
            mask = torch.arange(length) < torch.tensor([[length], [length - 1]])
            state = memory.recall(state).then(torch.randn(2, length, 8), mask)
        states.append(state)
    both = memory.recall(states[0].joined(states[1])).memory
    torch.testing.assert_close(both, torch.cat([memory.recall(state).memory for state in states]))


def test_states_cannot_be_changed() -> None:
    state = some_state()
    with pytest.raises(FrozenInstanceError):
        state.memory = torch.zeros(1)


def test_memories_select_and_move_those_of_all_layers() -> None:
    memories = Memories({1: some_state(), 2: some_state()}, {0: some_state()}, {2: some_state()})
    chosen = memories.select(torch.tensor([2, 0]))
    for name in ("encoder", "decoder", "ahead"):
        before, after = getattr(memories, name), getattr(chosen, name)
        assert before.keys() == after.keys()
        for layer in before:
            assert torch.equal(after[layer].pending[1].states, before[layer].pending[1].states[[2, 0]])
            assert torch.equal(after[layer].mask, before[layer].mask[[2, 0]])
    moved = memories.to("meta")
    assert {state.memory.device.type for part in vars(moved).values() for state in part.values()} == {"meta"}
