"""What an adapter remembers and reads is what its equations say."""

from __future__ import annotations

import random
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from awesum.errors import AwesumError
from awesum.models.adapter import AwesomeCausal, States
from awesum.models.adapter_layers import KINDS
from awesum.recurrence import DocumentInputs
from awesum.recurrence.causal import answer
from tests.models.adapters import MEMORIES, adapted, document, documents, one_line, pretrained, rows, step_of
from tests.reference.adapter import Document
from tests.reference.memory import vectors


@pytest.mark.parametrize("update", ["low-rank", "full"])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("memory", ["none", *MEMORIES])
def test_losses_and_memories_are_those_of_the_equations(memory: str, family: str, update: str) -> None:
    """Three segments of three documents side by side, padded, against each alone."""
    model = adapted(pretrained(family), trained=True, memory=memory, update=update)
    assert compared(model) == (set() if memory == "none" else {2, 3})


@pytest.mark.parametrize("given", [False, True], ids=["all alike", "some salient"])
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_salient_memory_is_that_of_the_reference(family: str, given: bool) -> None:
    """Six slots for more tokens than that; what is not selected is never kept."""
    model = adapted(pretrained(family), trained=True, memory="salient", update="low-rank")
    chance = random.Random(5)
    batch = [
        replace(
            each,
            salience=[[chance.choice([0, 0.25, 0.5, 1]) for _ in segment] for segment in each.segments]
            if given
            else [],
        )
        for each in documents()
    ]
    assert compared(model, batch) == {2, 3}


def compared(model: AwesomeCausal, batch: list[DocumentInputs] | None = None) -> set[int]:
    """The layers that remember, once losses and memories of some documents were found to be the equations'."""
    batch = batch or documents()
    slow = [Document(model) for _ in batch]
    states: States = model.start(3)
    for number in range(3):
        with torch.no_grad():
            losses, states = answer(model, states, step_of(model, batch, number))
            recalled = model.recall(states)
        expected = [one.losses(each, number) for one, each in zip(slow, batch, strict=True)]
        for row, alone in zip(rows(losses, batch, number), expected, strict=True):
            np.testing.assert_allclose(row.numpy(), alone, rtol=2e-4, atol=2e-4)
        for layer, of in recalled.items():
            for kind in KINDS:
                for at, one in enumerate(slow):
                    ours = of[kind].memory[at][of[kind].mask[at]].numpy()
                    theirs = one.memory[layer, kind]
                    if isinstance(theirs, list):
                        theirs = vectors(theirs, ours.shape[1])
                    theirs = np.concatenate(theirs) if isinstance(theirs, tuple) else theirs
                    np.testing.assert_allclose(ours, theirs, rtol=5e-4, atol=5e-4)
    return set(recalled)


@pytest.mark.parametrize("layers", [(1, 2), (0, 3), (1,), "all"], ids=str)
@pytest.mark.parametrize("memory", MEMORIES)
def test_memory_in_any_layers_is_that_of_the_equations(memory: str, layers: Any) -> None:
    """Also where layers above it or between neither remember nor change; the last one changes."""
    model = adapted(pretrained(), trained=True, memory=memory, memory_layers=layers, update_layers=1)
    numbers = range(4) if layers == "all" else layers
    assert model.first == numbers[0]
    assert {int(name.split(".")[0]) for name in model.new_weights()} == {*numbers, 3}
    assert compared(model) == set(numbers)


def test_layers_that_are_not_there_are_reported_in_one_line() -> None:
    for options, text in (({"memory_layers": (2, 9)}, "0 to 3"), ({"update_layers": 5}, "there are 4 layers")):
        with pytest.raises(AwesumError, match=text) as error:
            adapted(pretrained(), **options)
        one_line(error)


@pytest.mark.parametrize("memory", MEMORIES)
def test_each_memory_is_read(memory: str) -> None:
    """The equations are not compared where they say nothing: both memories of both layers change the answer."""
    model = adapted(pretrained(), trained=True, memory=memory)
    batch = documents()[:1]
    with torch.no_grad():
        _, states = answer(model, model.start(1), step_of(model, batch, 0))
        with_it, _ = answer(model, states, step_of(model, batch, 1))
        for layer in (2, 3):
            for kind in KINDS:
                without = {number: dict(of) for number, of in states.items()}
                without[layer][kind] = model.start(1)[layer][kind]
                without_it, _ = answer(model, without, step_of(model, batch, 1))
                assert (with_it - without_it).abs().max() > 1e-5, (layer, kind)


def test_compressive_memory_is_read_without_position() -> None:
    """One layer's attention by hand: what stands in memory has keys without rotation, and every query sees it."""
    model = adapted(pretrained(num_hidden_layers=1), trained=True, memory="compressive", memory_layers=1, update="none")
    attention = model.base.model.layers[0].answering.self_attn
    seen: list[torch.Tensor] = []
    attention.o_proj.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    given: list[torch.Tensor] = []
    model.base.model.layers[0].answering.input_layernorm.register_forward_hook(lambda *args: given.append(args[2]))
    torch.manual_seed(3)
    memory = torch.randn(1, 6, 32)
    mask = torch.tensor([[False, True, True, False, False, True]])
    state = {kind: deepcopy(start) for kind, start in model.start(1)[0].items()}
    state["summary"] = type(state["summary"])(memory, mask)
    with torch.no_grad():
        passage = model.with_memory(model.recall({0: state}))
        model.base.model(input_ids=torch.tensor([[5, 9, 11]]), passage=passage)
        hidden = given[-1][0]
        own = [attention.q_proj(hidden), attention.k_proj(hidden), attention.v_proj(hidden)]
        there = memory[0][mask[0]]
        keys, values = attention.k_proj(there).view(-1, 2, 8), attention.v_proj(there).view(-1, 2, 8)
        q, k, v = (states.view(3, -1, 8) for states in own)
        position = torch.arange(3)[None]
        cos, sin = (part[0] for part in model.base.model.rotary_emb(hidden[None], position))

        def rotated(states: torch.Tensor) -> torch.Tensor:
            turned = torch.cat([-states[..., 4:], states[..., :4]], -1)
            return states * cos[:, None] + turned * sin[:, None]

        q, k = rotated(q), rotated(k)
        expected = torch.zeros(3, 4, 8)
        for at in range(3):
            for head in range(4):
                all_keys = torch.cat([keys[:, head // 2], k[: at + 1, head // 2]])
                all_values = torch.cat([values[:, head // 2], v[: at + 1, head // 2]])
                expected[at, head] = (all_keys @ q[at, head] / 8**0.5).softmax(0) @ all_values
    torch.testing.assert_close(seen[-1][0], expected.flatten(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("memory", MEMORIES)
def test_only_the_segment_and_the_answer_are_written(memory: str) -> None:
    """Neither frame, request nor the end of the answer; and nothing of a graph."""
    model = adapted(pretrained(), trained=True, memory=memory)
    batch = documents()
    _, states = answer(model, model.start(3), step_of(model, batch, 0))
    for of in states.values():
        for state in of.values():
            assert not state.pending[0].states.requires_grad
            assert not state.memory.requires_grad
        assert of["source"].pending[0].mask.sum(1).tolist() == [len(each.segments[0]) - 2 for each in batch]
        assert of["summary"].pending[0].mask.sum(1).tolist() == [len(each.targets[0]) - 1 for each in batch]

    def written(kind: str, **changes: Any) -> torch.Tensor:
        changed = DocumentInputs(**vars(batch[0]) | changes)
        with torch.no_grad():
            _, after = answer(model, model.start(1), step_of(model, [changed], 0))
        (written,) = after[2][kind].pending
        return written.states[written.mask]

    first = batch[0]
    end = {"targets": [[*first.targets[0][:-1], 9]]}
    request = {"requests": [[*first.requests[0], 7, 8, 9]]}
    assert torch.equal(written("source", **end), written("source"))
    assert torch.equal(written("summary", **end), written("summary"))
    torch.testing.assert_close(written("source", **request), written("source"))
    assert len(written("source", frame=0)) == len(written("source")) + 2
    other = {"targets": [[first.targets[0][0] ^ 1, *first.targets[0][1:]]]}
    assert not torch.allclose(written("summary", **other), written("summary"))


@pytest.mark.parametrize("memory", MEMORIES)
def test_empty_answer_leaves_the_memory_of_the_summary(memory: str) -> None:
    model = adapted(pretrained(), trained=True, memory=memory)
    loud, silent = document(3, 1), document(3, 2, empty=(1,))
    for batch in ([silent], [loud, silent]):
        at = len(batch) - 1
        with torch.no_grad():
            _, states = answer(model, model.start(len(batch)), step_of(model, batch, 0))
            before = model.recall(states)
            _, states = answer(model, states, step_of(model, batch, 1))
            after = model.recall(states)
        for layer in (2, 3):
            one, other = before[layer]["summary"], after[layer]["summary"]
            assert torch.equal(one.mask[at], other.mask[at])
            assert torch.equal(one.memory[at][one.mask[at]], other.memory[at][other.mask[at]])
            one, other = before[layer]["source"], after[layer]["source"]
            assert not torch.equal(one.memory[at], other.memory[at])
