"""A loss goes back through as many updates of the memory as the depth says: the same numbers, another gradient."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from awesum.memory import AttentiveMemory, CompressiveMemory, LiteralMemory, Memory, MemoryState, Source, Written
from awesum.memory.attention import split

SIZE, HEADS, SLOTS, SEGMENTS = 8, 2, 4, 7


class OwnAttention(nn.Module):
    """The layer's self-attention, frozen."""

    def source(self, states: torch.Tensor, mask: torch.Tensor | None) -> Source:
        return Source(split(states, HEADS), split(states, HEADS), mask)


def made(kind: type[Memory]) -> Memory:
    torch.manual_seed(0)
    memory = CompressiveMemory(SIZE, SLOTS, 2) if kind is CompressiveMemory else kind(SIZE, HEADS, SLOTS)  # type: ignore[call-arg]
    with torch.no_grad():
        for weight in memory.parameters():
            weight.normal_(0, 0.4)
    return memory.double()


def segments(lengths: tuple[int, ...] = (5, 3, 4, 6, 2, 5, 3)) -> list[tuple[torch.Tensor, torch.Tensor]]:
    chance = torch.Generator().manual_seed(1)
    found = []
    for length in lengths:
        mask = torch.arange(length) < torch.tensor([[length], [max(length - 2, 1)]])
        found.append((torch.randn(2, length, SIZE, generator=chance, dtype=torch.float64), mask))
    return found


def loss_of(memory: Memory, state: MemoryState) -> torch.Tensor:
    recollection = memory.recall(state, OwnAttention())
    return (recollection.keys.sin() * recollection.values).sum() + recollection.memory.square().sum()


def gradients(memory: Memory) -> dict[str, torch.Tensor]:
    found = {name: weight.grad.clone() for name, weight in memory.named_parameters() if weight.grad is not None}
    memory.zero_grad()
    return found


KINDS = [AttentiveMemory, LiteralMemory, CompressiveMemory]


@pytest.mark.parametrize("depth", [1, 2, 4, 9])
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_is_that_of_the_last_updates_written_out(kind: type[Memory], depth: int) -> None:
    """Against the same chain of updates by hand, detached where the depth ends."""
    memory = made(kind)
    state = replace(memory.start(2), depth=depth)
    history = [memory.start(2)]
    for number, (hidden, mask) in enumerate(segments(), 1):
        state = memory.recall(state, OwnAttention()).then(hidden, mask)
        assert len(state.pending) == min(number, depth)
        loss_of(memory, state).backward()
        lazily = gradients(memory)
        history.append(memory.settle(history[-1].then(hidden, mask)).detach())
        by_hand = history[max(number - depth, 0)]
        for written, its_mask in segments()[max(number - depth, 0) : number]:
            by_hand = memory.write(by_hand, Written(written, its_mask))
        torch.testing.assert_close(memory.settle(state).memory, by_hand.memory)
        loss_of(memory, by_hand).backward()
        expected = gradients(memory)
        assert lazily.keys() == expected.keys()
        for name, gradient in expected.items():
            torch.testing.assert_close(lazily[name], gradient, msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_depths_differ_in_the_gradient_alone(kind: type[Memory]) -> None:
    memory = made(kind)
    found = {}
    for depth in (1, 2, 4, 7, None):
        state = replace(memory.start(2), depth=depth)
        for hidden, mask in segments():
            state = memory.recall(state, OwnAttention()).then(hidden, mask)
        loss = loss_of(memory, state)
        loss.backward()
        found[depth] = (loss.detach(), gradients(memory))
    name = "u2.weight" if kind is not CompressiveMemory else "compress.weight"
    for depth in (2, 4, 7, None):
        torch.testing.assert_close(found[depth][0], found[1][0])
        assert not torch.allclose(found[depth][1][name], found[1][1][name])
    for weight, gradient in found[None][1].items():  # no depth is deeper than all segments
        torch.testing.assert_close(found[7][1][weight], gradient, msg=weight)


@pytest.mark.parametrize("depth", [1, 2, 4, None])
def test_the_gradient_stops_at_what_was_written_unless_it_goes_back_all_the_way(depth: int | None) -> None:
    memory = made(AttentiveMemory)
    weight = torch.eye(SIZE, dtype=torch.float64).requires_grad_()
    state = replace(memory.start(2), depth=depth)
    for hidden, mask in segments():
        state = memory.recall(state, OwnAttention()).then(hidden @ weight, mask)
    loss_of(memory, state).backward()
    assert (weight.grad is None) == (depth is not None)


def nodes(loss: torch.Tensor) -> int:
    """How many operations the graph of a loss holds."""
    seen, waiting = set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [before for before, _ in node.next_functions]
    return len(seen)


@pytest.mark.parametrize("kind", KINDS)
def test_the_graph_grows_with_the_depth_and_not_with_the_document(kind: type[Memory]) -> None:
    memory = made(kind)
    sizes: dict[int | None, list[int]] = {}
    for depth in (1, 2, 4, None):
        state = replace(memory.start(2), depth=depth)
        sizes[depth] = []
        for hidden, mask in segments((5,) * 24):
            state = memory.recall(state, OwnAttention()).then(hidden, mask)
            sizes[depth].append(nodes(loss_of(memory, state)))
            if depth is not None:
                held = [tensor for tensor in state.tensors().values() if tensor.requires_grad]
                assert not held
        if depth is not None:
            assert len(set(sizes[depth][8:])) == 1
    assert sizes[1][-1] < sizes[2][-1] < sizes[4][-1] < sizes[None][-1]
    assert sizes[None][-1] > 4 * sizes[4][-1]


def test_a_state_with_several_pending_segments_is_a_value() -> None:
    """Stored by name and read back, selected, joined with a document that has just begun."""
    memory = made(AttentiveMemory)
    state = replace(memory.start(2), depth=3)
    for hidden, mask in segments()[:3]:
        state = memory.recall(state).then(hidden, mask)
    again = MemoryState.of_tensors(state.tensors(), 3)
    torch.testing.assert_close(memory.settle(again).memory, memory.settle(state).memory)
    both = state.joined(replace(memory.start(1), depth=3))
    assert len(both.pending) == 3
    settled = memory.settle(both).memory
    torch.testing.assert_close(settled[:2], memory.settle(state).memory)
    torch.testing.assert_close(settled[2], memory.initial)
    one = state.select(torch.tensor([1]))
    torch.testing.assert_close(memory.settle(one).memory[0], memory.settle(state).memory[1])
