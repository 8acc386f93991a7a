"""What learns, and from what; and no graph outlives its segment."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from awesum.memory import MemoryState
from awesum.models import bart as module
from awesum.models.bart import AwesomeBart, Memories
from awesum.models.bart_layers import Pass, Salient
from tests.graphs import counting
from tests.models.awesome_barts import (
    ATTENTIVE,
    KINDS,
    Batch,
    close,
    gradients,
    plain,
    run,
    tiny,
    with_memory,
    without_gradient,
)

UPDATE = {
    "attentive": ("writing", "u1", "u2", "g1", "g2", "gate"),
    "attentive-literal": ("writing", "u1", "u2", "g1", "g2"),
    "compressive": ("compress",),
}


NEEDED = {kind: {*UPDATE[kind], *({"reading", "layer_norm"} if kind in ATTENTIVE else ())} for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_of_the_memory_learns_from_the_next_segment(kind: str) -> None:
    model = tiny(memory=kind)
    first = model(**Batch(0).inputs)
    first.loss.backward()
    after_first = without_gradient(model)
    assert {name.split(".memory.")[1].split(".")[0] for name in after_first} == set(UPDATE[kind])
    assert after_first == {
        name for name, _ in model.named_parameters() if any(f".memory.{part}." in f"{name}." for part in UPDATE[kind])
    }
    model(**Batch(1).inputs, memory=first.memory).loss.backward()
    assert not without_gradient(model)
    found = {name.split(".memory.")[1].split(".")[0] for name, _ in model.named_parameters() if ".memory." in name}
    assert found == NEEDED[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_after_one_step_of_a_fresh_model_everything_learns(kind: str) -> None:
    """The read that starts at zero is in the way of all other gradients, but only once."""
    torch.manual_seed(0)
    model = with_memory(plain(), memory=kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(2):
        optimizer.zero_grad()
        memory = None
        for segment in range(2):
            output = model(**Batch(segment).inputs, memory=memory)
            output.loss.backward()
            memory = output.memory
        if step == 0 and kind in ATTENTIVE:
            weights = {name for name, _ in model.named_parameters() if ".memory." in name}
            assert without_gradient(model) == {name for name in weights if "reading.out_proj" not in name}
        optimizer.step()
    assert not without_gradient(model)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_is_that_of_one_segment_with_its_memory_given(kind: str) -> None:
    """Stopped at what was written, and one update deep: against the update written out by hand."""
    model = tiny(memory=kind)
    with torch.no_grad():
        first = model(**Batch(0).inputs)
        second = model(**Batch(1).inputs, memory=first.memory)
    third = Batch(2)
    model(**third.inputs, memory=second.memory).loss.backward()
    lazily = {name: gradient.clone() for name, gradient in gradients(model).items()}
    model.zero_grad()
    written = {}
    for side in ("encoder", "decoder"):
        for index, state in getattr(second.memory, side).items():
            layer = getattr(model.model, side).layers[index]
            (new,) = state.pending
            settled = layer.memory.write(replace(state, pending=()), new)
            assert not settled.pending
            written.setdefault(side, {})[index] = settled
    model(**third.inputs, memory=Memories(**written)).loss.backward()
    for name, gradient in gradients(model).items():
        close(lazily[name], gradient, name)


def states_of(memories: Memories) -> Iterator[torch.Tensor]:
    for part in (memories.encoder, memories.decoder, memories.ahead):
        for state in part.values():
            yield from state.tensors().values()


@pytest.mark.parametrize("kind", KINDS)
def test_states_have_no_graph(kind: str) -> None:
    for output in run(tiny(memory=kind)):
        assert len(list(states_of(output.memory))) == 4 * 4
        for tensor in states_of(output.memory):
            assert tensor.grad_fn is None
            assert not tensor.requires_grad


def alive_after(model: AwesomeBart, segments: int, backward: bool) -> tuple[list[int], list[int]]:
    """How many saved tensors there are at the end of each segment, and how many when its output is dropped."""
    with_output, without = [], []
    memory = None
    gc.collect()
    gc.freeze()  # what was there before need not be looked at each time
    with counting() as kept:
        for segment in range(segments):
            output = model(**Batch(segment % 3).inputs, memory=memory)
            with_output.append(len(kept))
            if backward:
                output.loss.backward()
            memory = output.memory
            del output
            without.append(len(kept))
    gc.unfreeze()
    return with_output, without


@pytest.mark.parametrize("backward", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_state_keeps_nothing_of_a_segment_s_graph(kind: str, backward: bool) -> None:
    """Not even without a backward pass: what the state does not hold is gone with the output."""
    graphs, left = alive_after(tiny(memory=kind), 8, backward)
    assert left == [0] * 8
    assert len(set(graphs[1:])) == 1
    assert graphs[0] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_state_that_is_not_cut_off_would_show(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryState, "cut", lambda self: self)
    _, left = alive_after(tiny(memory=kind), 4, backward=False)
    assert left == sorted(set(left))
    assert left[-1] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_checkpointing_gives_the_same(kind: str) -> None:
    model = tiny(memory=kind, memory_direction="both", salient="key-value")
    found = []
    for checkpointing in (False, True):
        model.train()
        model.zero_grad()
        if checkpointing:
            model.gradient_checkpointing_enable()
        ahead = model.model.encoder.start(3, ahead=True)
        memory, losses = replace(model.start(3), ahead=ahead), []
        for segment in range(3):
            output = model(**Batch(segment).inputs, memory=memory, salient=Batch(segment).salient())
            output.loss.backward()
            losses.append(output.loss.detach())
            memory = replace(output.memory, ahead=ahead)
        found.append((losses, {name: gradient.clone() for name, gradient in gradients(model).items()}))
    for one, other in zip(found[0][0], found[1][0], strict=True):
        close(one, other)
    assert found[0][1].keys() == found[1][1].keys()
    for name, gradient in found[0][1].items():
        close(found[1][1][name], gradient, name)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_checkpointing_keeps_nothing_either(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its graph holds what the layers were given; if that held the graph, nothing could ever let go of them."""
    passes: list[weakref.ref[Pass]] = []

    class Watched(Pass):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            passes.append(weakref.ref(self))

    monkeypatch.setattr(module, "Pass", Watched)
    model = tiny(memory=kind).train()
    model.gradient_checkpointing_enable()
    run(model)
    gc.collect()
    assert len(passes) == 3 * 3
    assert not any(watched() for watched in passes)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_loss_may_be_left_to_the_caller(kind: str) -> None:
    model, batch = tiny(memory=kind), Batch(0)
    output = model(**batch.inputs, use_loss=False)
    assert output.loss is None
    assert torch.equal(output.logits, model(**batch.inputs).logits)


def test_attention_to_memory_is_dropped_out_also_for_a_single_token() -> None:
    model = tiny(memory="compressive", attention_dropout=0.5).train()
    memory = run(model, 1)[-1].memory
    batch = Batch(1)
    inputs = {"input_ids": batch.ids, "attention_mask": batch.mask, "decoder_input_ids": batch.ids[:, :1]}
    attention = model.model.decoder.layers[2].self_attn
    hidden, found = torch.randn(3, 1, 24, dtype=torch.float64), []
    recollection = model.model.decoder.recollect(memory.decoder)[2]
    extra = model.model.decoder.layers[2].memory.extra(recollection)
    for seed in range(2):
        torch.manual_seed(seed)
        found.append(attention(hidden, extra=extra)[0])
    assert not torch.equal(*found)
    assert model(**inputs, memory=memory, use_cache=False).logits.isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_runs_in_mixed_precision(kind: str) -> None:
    model = tiny(memory=kind, memory_direction="both", salient="key-value").float().train()
    salient = Salient(Batch(0).salient().vectors.float(), Batch(0).salient().mask)
    memory = replace(model.start(3), ahead=model.model.encoder.start(3, ahead=True))
    with torch.autocast("cpu", torch.bfloat16):
        for segment in range(3):
            output = model(**Batch(segment).inputs, memory=memory, salient=salient)
            output.loss.backward()
            memory = replace(output.memory, ahead=memory.ahead)
    assert output.loss.isfinite()
    assert not without_gradient(model, ("memory",))
