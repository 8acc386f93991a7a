"""What BART reads and writes with a memory is the paper's equations, in batches as alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from transformers.models.bart.modeling_bart import shift_tokens_right

from awesum.models.bart import Memories
from awesum.models.bart_layers import Salient
from awesum.models.memory_settings import memory_layers
from tests.models.awesome_barts import (
    ATTENTIVE,
    KINDS,
    LENGTHS,
    Batch,
    close,
    gradients,
    plain,
    run,
    tiny,
    with_memory,
    without_gradient,
)
from tests.reference.memory import Document, attentive_update, compressive_update, vectors

# ---------------------------------------------------------------------------------------------------- with memory


def rows_of(memory: Any, kind: str) -> np.ndarray:
    """The vectors of a memory as the reference has it."""
    if kind == "salient":
        return vectors(memory, 24)
    return memory if kind in ATTENTIVE else np.concatenate(memory)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("layers", [2, "all", [1]])
@pytest.mark.parametrize("kind", [*KINDS, "salient"])
@torch.no_grad()
def test_it_is_the_paper(kind: str, layers: Any, attention: str) -> None:
    """The whole model, three segments, each document of a padded batch against NumPy for that document alone."""
    model = tiny(memory=kind, memory_layers=layers, attn_implementation=attention)
    encoder, decoder = model.model.encoder, model.model.decoder
    w = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    documents = [
        Document(
            w,
            kind=kind,
            layers={
                "encoder": list(memory_layers(layers, len(encoder.layers))),
                "decoder": list(memory_layers(layers, len(decoder.layers))),
            },
            heads={"encoder": 4, "decoder": 3},
            slots=10,
            ratio=3,
        )
        for _ in LENGTHS
    ]
    for segment, output in enumerate(run(model)):
        batch = Batch(segment)
        made = {
            "encoder": encoder.recollect(output.memory.encoder),
            "decoder": decoder.recollect(output.memory.decoder),
        }
        for row, document in enumerate(documents):
            length, target = batch.lengths[row], batch.target_lengths[row]
            encoded, logits = document.segment(
                batch.ids[row, :length].tolist(), [2, *batch.labels[row, : target - 1].tolist()]
            )
            np.testing.assert_allclose(output.encoder_last_hidden_state[row, :length], encoded, rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(output.logits[row, :target], logits, rtol=1e-8, atol=1e-9)
            for place, expected in document.memory.items():
                side, _, layer = place.split(".")
                found = made[side][int(layer)]
                held = found.memory[row][found.mask[row]]
                rows = rows_of(expected, kind)
                np.testing.assert_allclose(held, rows, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", ["none", *KINDS])
@torch.no_grad()
def test_salient_vectors_are_extra_keys_and_values(kind: str, attention: str) -> None:
    model = tiny(memory=kind, salient="key-value", attn_implementation=attention)
    w = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    layers = {"encoder": [], "decoder": []} if kind == "none" else {"encoder": [2, 3], "decoder": [1, 2]}
    documents = [
        Document(w, kind=kind, layers=layers, heads={"encoder": 4, "decoder": 3}, slots=10, ratio=3) for _ in LENGTHS
    ]
    memory = None
    for segment in range(3):
        batch = Batch(segment)
        salient = batch.salient()
        output = model(**batch.inputs, memory=memory, salient=salient)
        memory = output.memory
        for row, document in enumerate(documents):
            length, target = batch.lengths[row], batch.target_lengths[row]
            tokens, start = batch.ids[row, :length].tolist(), [2, *batch.labels[row, : target - 1].tolist()]
            encoded, logits = document.segment(tokens, start, salient.vectors[row][salient.mask[row]].numpy())
            np.testing.assert_allclose(output.encoder_last_hidden_state[row, :length], encoded, rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(output.logits[row, :target], logits, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kind", ["none", *KINDS])
@torch.no_grad()
def test_salient_vectors_that_are_masked_change_nothing(kind: str) -> None:
    model = tiny(memory=kind, salient="key-value")
    batch = Batch(1)
    masked = replace(batch.salient(), mask=torch.zeros(3, 5, dtype=torch.bool))
    memory = model(**Batch(0).inputs).memory
    with_none, with_masked, with_some = (
        model(**batch.inputs, memory=memory, salient=salient) for salient in (None, masked, batch.salient())
    )
    close(with_masked.logits, with_none.logits)
    assert not torch.isclose(with_some.logits, with_none.logits).all(-1).any()


def test_salient_projection_begins_as_nothing_done_and_learns() -> None:
    bart = plain()
    model = with_memory(bart, memory="none", salient="key-value")
    batch = Batch(0)
    for layer in model.model.encoder.layers:
        assert torch.equal(layer.salient_projection.weight, torch.eye(24, dtype=torch.float64))
    close(model(**batch.inputs).logits, bart(**batch.inputs).logits)
    model(**batch.inputs, salient=batch.salient()).loss.backward()
    for layer in model.model.encoder.layers:
        assert layer.salient_projection.weight.grad.any()


@pytest.mark.parametrize("salient", ["none", "key-value"])
@pytest.mark.parametrize("kind", ["none", *KINDS])
@torch.no_grad()
def test_batched_documents_give_what_each_gives_alone(kind: str, salient: str) -> None:
    model = tiny(memory=kind, salient=salient)
    together, alone = None, [None] * len(LENGTHS)
    for segment in range(3):
        batch = Batch(segment)
        output = model(**batch.inputs, memory=together, salient=batch.salient() if salient != "none" else None)
        together = output.memory
        for row in range(len(LENGTHS)):
            own = Batch(segment, [row])
            given = batch.salient() if salient != "none" else None
            given = given and Salient(given.vectors[row : row + 1], given.mask[row : row + 1])
            single = model(**own.inputs, memory=alone[row], salient=given)
            alone[row] = single.memory
            length, target = own.lengths[0], own.target_lengths[0]
            close(output.encoder_last_hidden_state[row, :length], single.encoder_last_hidden_state[0])
            close(output.logits[row, :target], single.logits[0])
            for side in ("encoder", "decoder"):
                stack = getattr(model.model, side)
                ours = stack.recollect(getattr(together.select(torch.tensor([row])), side))
                theirs = stack.recollect(getattr(single.memory, side))
                for layer in theirs:
                    there = theirs[layer].mask[0]
                    assert torch.equal(ours[layer].mask[0], there)
                    close(ours[layer].memory[0][there], theirs[layer].memory[0][there])


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_documents_that_drop_out_do_not_disturb_the_others(kind: str) -> None:
    model = tiny(memory=kind)
    first, second, third = run(model)
    kept = torch.tensor([2, 0])
    for memory, segment, expected in ((first.memory, 1, second), (second.memory, 2, third)):
        batch = Batch(segment, kept.tolist())
        ours = model(**batch.inputs, memory=memory.select(kept)).logits
        for row, document in enumerate(kept.tolist()):
            length = batch.target_lengths[row]
            close(ours[row, :length], expected.logits[document, :length])


@pytest.mark.parametrize("start", ["none", "empty", "start"])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_no_memory_given_is_the_first_segment(kind: str, start: str) -> None:
    model = tiny(memory=kind)
    given = {"none": None, "empty": Memories(), "start": model.start(3)}[start]
    first = model(**Batch(0).inputs, memory=given)
    assert first.memory.encoder.keys() == {2, 3}
    assert first.memory.decoder.keys() == {1, 2}
    expected = run(model, 2)
    close(first.logits, expected[0].logits)
    close(model(**Batch(1).inputs, memory=first.memory).logits, expected[1].logits)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_nothing_stays_on_the_model(kind: str) -> None:
    model = tiny(memory=kind, salient="key-value", memory_direction="both")

    def attributes() -> dict[str, dict[str, Any]]:
        hidden = ("_parameters", "_buffers", "_modules")
        return {
            name: {key: repr(value) for key, value in vars(module).items() if key not in hidden}
            for name, module in model.named_modules()
        }

    run(model, 1)  # what the library notes once
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    before = attributes()
    first = run(model, salient=Batch(0).salient())
    assert attributes() == before
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    again = run(model, salient=Batch(0).salient())
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one.logits, other.logits)


# ------------------------------------------------------------------------------------------------------------ trunk


@pytest.mark.parametrize("salient", ["none", "key-value"])
@pytest.mark.parametrize(
    ("kind", "layers"), [("none", 2), ("attentive", 2), ("attentive", "all"), ("compressive", 1), ("compressive", [1])]
)
def test_batched_trunks_are_the_plain_pass(kind: str, layers: Any, salient: str) -> None:
    model = tiny(memory=kind, memory_layers=layers, salient=salient)
    batches = [Batch(segment) for segment in range(3)]
    longest = max(batch.ids.shape[1] for batch in batches)
    ids = torch.cat(
        [torch.nn.functional.pad(batch.ids, (0, longest - batch.ids.shape[1]), value=1) for batch in batches]
    )
    mask = torch.cat([torch.nn.functional.pad(batch.mask, (0, longest - batch.mask.shape[1])) for batch in batches])
    vectors = [batch.salient() if salient == "key-value" else None for batch in batches]
    every = vectors[0] and Salient(torch.cat([v.vectors for v in vectors]), torch.cat([v.mask for v in vectors]))
    trunk = model.model.encoder.trunk(ids, mask, every)
    losses, gradient = [], []
    for with_trunks in (True, False):
        memory, total = None, torch.zeros((), dtype=torch.float64)
        for segment, batch in enumerate(batches):
            inputs: dict[str, Any] = batch.inputs
            if with_trunks:
                own = trunk[3 * segment : 3 * segment + 3, : batch.ids.shape[1]]
                states = {"memory": memory.encoder} if memory else {}
                encoded = model.model.encoder(attention_mask=batch.mask, salient=vectors[segment], trunk=own, **states)
                shifted = shift_tokens_right(batch.inputs["labels"], 1, model.config.decoder_start_token_id)
                below = model.model.decoder.trunk(shifted, encoded.last_hidden_state, batch.mask)
                inputs = {k: v for k, v in inputs.items() if k != "input_ids"}
                inputs |= {"encoder_outputs": encoded, "decoder_trunk": below}
            output = model(**inputs, memory=memory, salient=vectors[segment])
            memory, total = output.memory, total + output.loss
        model.zero_grad()
        total.backward()
        losses.append(total)
        gradient.append({name: found.clone() for name, found in gradients(model).items()})
    close(*losses)
    assert gradient[0].keys() == gradient[1].keys()
    for name in gradient[0]:
        close(gradient[0][name], gradient[1][name], name)


def test_trunk_ends_below_the_first_memory() -> None:
    for layers, first in ((1, 3), (2, 2), ("all", 0), ([1, 3], 1), ([-2], 2)):
        options = {"memory_layers": layers, "decoder_layers": 4}
        model = tiny(**options).model
        assert (model.encoder.first, model.decoder.first) == (first, first)
    assert tiny(memory="none").model.encoder.first == 4


# ------------------------------------------------------------------------------------------------- the other direction


@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_later_segments(kind: str) -> None:
    """From the last segment to the first: each segment reads what the later ones have left."""
    model = tiny(memory=kind, memory_direction="both")
    encoder = model.model.encoder
    states, before = encoder.start(3, ahead=True), {}
    for segment in reversed(range(3)):
        before[segment] = states
        batch = Batch(segment)
        trunk = encoder.trunk(batch.ids, batch.mask)
        saved: list[torch.Size] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor, to=saved: to.append(tensor.shape), lambda _: None):
            states = encoder.look_ahead(trunk, batch.mask, states)
        assert trunk.requires_grad
        assert not saved
        for state in states.values():
            assert all(tensor.grad_fn is None and not tensor.requires_grad for tensor in state.tensors().values())
    memory = None
    for segment in range(3):
        memory = replace(memory or model.start(3), ahead=before[segment])
        output = model(**Batch(segment).inputs, memory=memory)
        alone = model(**Batch(segment).inputs, memory=replace(memory, ahead={}))
        assert not torch.isclose(output.logits, alone.logits).all(-1).any() or (kind == "compressive" and segment == 2)
        memory = output.memory
        output.loss.backward()
        if segment == 0:  # it reads segment 1, still to be written, with what segment 2 has left
            weights = {name for name, _ in model.named_parameters() if ".ahead." in name}
            assert weights
            assert not without_gradient(model, ("ahead",))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_memory_of_later_segments_is_the_equations(kind: str) -> None:
    """Two segments back: the memory that the first one reads, from what the layers wrote, in NumPy."""
    model = tiny(memory=kind, memory_direction="both", memory_layers=1)
    encoder = model.model.encoder
    w = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    name, row = "model.encoder.layers.3.ahead", 1
    states = encoder.start(3, ahead=True)
    expected: Any = w[f"{name}.initial"] if kind in ATTENTIVE else (np.zeros((0, 24)), np.zeros((0, 24)))
    for segment in (2, 1):
        batch = Batch(segment)
        states = encoder.look_ahead(encoder.trunk(batch.ids, batch.mask), batch.mask, states)
        written = states[3].pending[0].states[row, : batch.lengths[row]].numpy()
        if kind in ATTENTIVE:
            expected = attentive_update(w, name, expected, written, 4)
        else:
            expected = compressive_update(w, name, expected, written, 10, 3)
    found = encoder.recollect(states, ahead=True)[3]
    rows = expected if kind in ATTENTIVE else np.concatenate(expected)
    np.testing.assert_allclose(found.memory[row][found.mask[row]], rows, rtol=1e-8, atol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_looking_ahead_in_a_batch_is_looking_ahead_alone(kind: str) -> None:
    model = tiny(memory=kind, memory_direction="both")
    encoder = model.model.encoder

    def looked(documents: list[int]) -> Any:
        states = encoder.start(len(documents), ahead=True)
        for segment in (2, 1):
            batch = Batch(segment, documents)
            states = encoder.look_ahead(encoder.trunk(batch.ids, batch.mask), batch.mask, states)
        batch = Batch(0, documents)
        return encoder(batch.ids, batch.mask, memory=None, ahead=states).last_hidden_state

    together = looked([0, 1, 2])
    for document in range(3):
        close(together[document, : LENGTHS[document][0]], looked([document])[0])
