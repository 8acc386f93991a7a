"""Compressive memory is equations 1 to 8, for each document of a padded batch as for that document alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BartConfig

from awesum.memory import CompressiveMemory, MemoryState, Recollection
from awesum.models.bart_layers import AwesomeAttention
from tests.memory.test_attentive import padded
from tests.reference.memory import attend, compress, compressive_update, nothing

SIZE, HEADS = 16, 4


def random_memory(slots: int, ratio: int) -> CompressiveMemory:
    torch.manual_seed(0)
    memory = CompressiveMemory(SIZE, slots, ratio).double().requires_grad_(False)
    for weight in memory.parameters():
        weight.normal_(0, 0.3)
    return memory


def random_attention(causal: bool) -> AwesomeAttention:
    torch.manual_seed(3)
    config = BartConfig(d_model=SIZE)
    config._attn_implementation = "sdpa"
    attention = AwesomeAttention(SIZE, HEADS, is_decoder=causal, is_causal=causal, config=config, layer_idx=0)
    with torch.no_grad():
        for weight in attention.parameters():
            weight.normal_(0, 0.4)
    return attention.double().eval().requires_grad_(False)


def arrays(name: str, module: torch.nn.Module) -> dict[str, np.ndarray]:
    return {f"{name}.{key}": tensor.numpy() for key, tensor in module.state_dict().items()}


def held(memory: torch.Tensor, mask: torch.Tensor, half: int) -> tuple[np.ndarray, np.ndarray]:
    """What the two halves of one document's memory hold. What is empty stands before what is not."""
    split = max(len(memory) - half, 0)
    for part in (mask[:split], mask[split:]):
        assert torch.equal(part, part.sort().values)
    return memory[:split][mask[:split]].numpy(), memory[split:][mask[split:]].numpy()


def lengths_from(least: int) -> st.SearchStrategy[list[list[int]]]:
    """Tokens of three segments of some documents."""
    return st.lists(st.lists(st.integers(least, 13), min_size=3, max_size=3), min_size=1, max_size=4)


@settings(max_examples=30)
@given(lengths=lengths_from(0), half=st.integers(1, 6), ratio=st.integers(1, 5), room=st.integers(0, 2))
def test_update_over_three_segments(lengths: list[list[int]], half: int, ratio: int, room: int) -> None:
    """Lengths that the ratio does not divide, fewer tokens than slots, and many more, each in one batch."""
    memory = random_memory(2 * half, ratio)
    w = arrays("memory", memory)
    torch.manual_seed(1)
    attention = random_attention(causal=False)
    alone = [nothing(SIZE)] * len(lengths)
    state = memory.start(len(lengths))
    for segment in range(3):
        recollection = memory.recall(state, attention)
        for number, expected in enumerate(alone):
            found = held(recollection.memory[number], recollection.mask[number], half)
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
        rows = [torch.randn(row[segment], SIZE, dtype=torch.float64) for row in lengths]
        for number, row in enumerate(rows):
            alone[number] = compressive_update(w, "memory", alone[number], row.numpy(), 2 * half, ratio)
        state = recollection.then(*padded(rows, room))
    final = memory.recall(state, attention)
    for number, expected in enumerate(alone):
        for ours, theirs in zip(held(final.memory[number], final.mask[number], half), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
@settings(max_examples=30)
@given(lengths=lengths_from(1))
def test_read_over_three_segments(causal: bool, lengths: list[list[int]]) -> None:
    """One softmax over memory and segment; the memory is seen by every token, also where the attention is causal."""
    slots, ratio = 8, 3
    memory, attention = random_memory(slots, ratio), random_attention(causal)
    w = arrays("memory", memory) | arrays("attention", attention)
    alone = [nothing(SIZE)] * len(lengths)
    state = memory.start(len(lengths))
    for segment in range(3):
        rows = [torch.randn(row[segment], SIZE, dtype=torch.float64) for row in lengths]
        hidden, mask = padded(rows)
        recollection = memory.recall(state, attention)
        length = hidden.shape[1]
        visible = mask[:, None, None, :].expand(-1, 1, length, -1)
        visible = visible & torch.ones(length, length, dtype=torch.bool).tril() if causal else visible
        found, _ = attention(hidden, attention_mask=visible, extra=memory.extra(recollection))
        for number, row in enumerate(rows):
            inp, before = row.numpy(), np.concatenate(alone[number])
            own = np.ones((len(inp), len(inp)), bool)
            allowed = np.concatenate([np.ones((len(inp), len(before)), bool), np.tril(own) if causal else own], 1)
            expected = attend(w, "attention", inp, np.concatenate([before, inp]), HEADS, allowed)
            np.testing.assert_allclose(found[number, : len(row)], expected, rtol=1e-9, atol=1e-11)
            alone[number] = compressive_update(w, "memory", alone[number], inp, slots, ratio)
        state = recollection.then(hidden, mask)


@pytest.mark.parametrize("causal", [False, True])
def test_empty_memory_is_plain_attention(causal: bool) -> None:
    memory, attention = random_memory(8, 3), random_attention(causal)
    hidden = torch.randn(2, 6, SIZE, dtype=torch.float64)
    visible = torch.ones(2, 1, 6, 6, dtype=torch.bool)
    visible = visible.tril() if causal else visible
    visible[1, ..., 4:] = False
    empty = memory.extra(memory.recall(memory.start(2), attention))
    found, _ = attention(hidden, attention_mask=visible, extra=empty)
    plain, _ = attention(hidden, attention_mask=visible)
    torch.testing.assert_close(found, plain)
    assert not empty.mask.any()


def test_lengths_that_the_ratio_does_not_divide_lose_nothing() -> None:
    """Seven vectors by threes: the newest six make two groups, the oldest one a group with zeros before it."""
    memory = random_memory(8, 3)
    vectors = torch.randn(7, SIZE, dtype=torch.float64)
    found = compress(arrays("memory", memory), "memory", vectors.numpy(), 3)
    assert len(found) == 3
    filled = torch.cat([torch.zeros(2, SIZE, dtype=torch.float64), vectors])
    np.testing.assert_allclose(found, memory.compress(filled.T[None])[0].T)
    ours, mask = memory._compressed(vectors[None], torch.ones(1, 7, dtype=torch.bool))
    np.testing.assert_allclose(ours[0], found)
    assert mask.all()
    kernel = memory.compress.weight.numpy()
    np.testing.assert_allclose(found[0], kernel[:, :, 2] @ vectors[0].numpy() + memory.compress.bias.numpy())


def test_old_content_leaves_at_its_oldest_end() -> None:
    """It begins as a mean; here that of two, so that what is held says where it came from."""
    memory = CompressiveMemory(SIZE, 4, 2).double().requires_grad_(False)
    state = memory.start(1)
    attention = random_attention(causal=False)
    for tokens in ([1, 2, 3], [4, 5, 6], [7, 8]):
        states = torch.tensor(tokens, dtype=torch.float64)[None, :, None].expand(-1, -1, SIZE)
        state = memory.recall(state, attention).then(states, torch.ones(1, len(tokens), dtype=torch.bool))
    # after [1 2 3]: 1 | 2 3, of which (0 + 1) / 2 is compressed; after [4 5 6]: (0 + 2) / 2, (3 + 4) / 2 join it; ...
    recollection = memory.recall(state, attention)
    assert recollection.mask.all()
    assert recollection.memory[0, :, 0].tolist() == [3.5, 5.5, 7.0, 8.0]


def test_beams_read_the_memory_of_their_document() -> None:
    memory, attention, beams = random_memory(8, 3), random_attention(causal=True), 3
    mask = torch.rand(2, 8) > 0.4
    state = MemoryState(torch.randn(2, 8, SIZE, dtype=torch.float64), mask)
    of = torch.arange(2).repeat_interleave(beams)
    shared = memory.extra(memory.recall(state, attention))
    copied = memory.extra(memory.recall(state.select(of), attention))
    for length in (1, 4):
        hidden = torch.randn(2 * beams, length, SIZE, dtype=torch.float64)
        found, _ = attention(hidden, extra=shared)
        torch.testing.assert_close(found, attention(hidden, extra=copied)[0])
        other = memory.extra(memory.recall(state.select(of.flip(0)), attention))
        assert not torch.isclose(found, attention(hidden, extra=other)[0]).all(-1).any()


def test_nothing_stays_on_the_module() -> None:
    memory, attention = random_memory(8, 3), random_attention(causal=False)
    weights = {name: tensor.clone() for name, tensor in memory.state_dict().items()}
    names = {name: set(vars(module)) for name, module in memory.named_modules()}
    first = state = memory.start(2)
    for _ in range(3):
        recollection = memory.recall(state, attention)
        assert isinstance(recollection, Recollection)
        state = recollection.then(*padded([torch.randn(n, SIZE, dtype=torch.float64) for n in (3, 6)]))
    assert all(torch.equal(tensor, weights[name]) for name, tensor in memory.state_dict().items())
    assert {name: set(vars(module)) for name, module in memory.named_modules()} == names
    assert not first.memory.any()
    assert not first.mask.any()
