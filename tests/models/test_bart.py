"""AWESOME: without memory it is BART, with memory it is the paper; in batches, in steps and in beams all the same."""

from __future__ import annotations

import gc
import json
import logging
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, BartConfig, BartForConditionalGeneration, T5Config
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.models.bart.modeling_bart import shift_tokens_right
from transformers.utils import logging as library_logging

from awesum.errors import AwesumError
from awesum.memory import MemoryState
from awesum.models import bart as module
from awesum.models.bart import (
    AwesomeBart,
    AwesomeConfig,
    AwesomeEncoderOutput,
    AwesomeOutput,
    Memories,
    Pass,
    Salient,
    load_config,
)
from awesum.models.memory_settings import memory_layers
from tests.reference.memory import Document, attentive_update, compressive_update, vectors

TINY: dict[str, Any] = {
    "vocab_size": 53,
    "d_model": 24,
    "encoder_layers": 4,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 64,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "init_std": 0.2,
    "forced_eos_token_id": None,
}
MEMORY: dict[str, Any] = {"memory_layers": 2, "memory_size": 10, "compression_ratio": 3}
ATTENTIVE = ["attentive", "attentive-literal"]
KINDS = [*ATTENTIVE, "compressive"]
LENGTHS = [[9, 4, 8], [5, 9, 3], [2, 6, 7]]
"""Of the three segments of three documents: two are always padded, and not always the same."""
TARGETS = [[4, 6, 3], [7, 2, 5], [3, 5, 4]]


def scrambled(model: torch.nn.Module, seed: int = 0) -> Any:
    """Weights as if it were trained, and harshly: no bias zero, no norm one, no read that finds nothing."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64).to(weight.dtype)
            is_scale = "norm" in name and name.endswith("weight")
            weight.copy_(1 + noise * 0.2 if is_scale else noise * 0.25)
        bias = torch.randn(model.final_logits_bias.shape, generator=generator).to(weight.dtype)
        model.final_logits_bias.copy_(bias)
    return model


_made: dict[str, AwesomeBart] = {}


def tiny(seed: int = 0, **options: Any) -> AwesomeBart:
    """As if it were trained; in float64, so that equal means equal to ten digits. A copy is faster than a new one."""
    key = repr((seed, sorted(options.items())))
    if key not in _made:
        _made[key] = scrambled(AwesomeBart(AwesomeConfig(**TINY | MEMORY | options)).double().eval(), seed)
    return deepcopy(_made[key])


def plain(seed: int = 0, **options: Any) -> BartForConditionalGeneration:
    return scrambled(BartForConditionalGeneration(BartConfig(**TINY | options)).double().eval(), seed)


def with_memory(bart: BartForConditionalGeneration, **options: Any) -> AwesomeBart:
    """Fresh, with the weights of a BART, as `from_pretrained` would make it."""
    model = AwesomeBart(AwesomeConfig(**TINY | MEMORY | options)).double().eval()
    missing, unexpected = model.load_state_dict(bart.state_dict(), strict=False)
    assert not unexpected
    assert all(".memory." in name or ".ahead." in name or "salient_projection" in name for name in missing)
    model.set_attn_implementation(bart.config._attn_implementation)
    return model


class Batch:
    """Segment t of several documents. In the padding stand tokens, so that looking there would show."""

    def __init__(self, segment: int, documents: list[int] | None = None) -> None:
        documents = list(range(len(LENGTHS))) if documents is None else documents
        generator = torch.Generator().manual_seed(segment)
        ids = torch.randint(3, 53, (len(LENGTHS), 12), generator=generator)[documents]
        targets = torch.randint(3, 53, (len(LENGTHS), 12), generator=generator)[documents]
        self.lengths = [LENGTHS[document][segment] for document in documents]
        self.target_lengths = [TARGETS[document][segment] for document in documents]
        self.ids = ids[:, : max(self.lengths)]
        self.mask = (torch.arange(self.ids.shape[1]) < torch.tensor(self.lengths)[:, None]).long()
        there = torch.arange(max(self.target_lengths)) < torch.tensor(self.target_lengths)[:, None]
        self.labels = torch.where(there, targets[:, : there.shape[1]], -100)

    @property
    def inputs(self) -> dict[str, torch.Tensor]:
        return {"input_ids": self.ids, "attention_mask": self.mask, "labels": self.labels}

    @property
    def target_mask(self) -> torch.Tensor:
        return self.labels != -100

    def salient(self, size: int = 24) -> Salient:
        """Other vectors for each document, and of other numbers."""
        generator = torch.Generator().manual_seed(len(self.lengths))
        vectors = torch.randn(len(self.lengths), 5, size, generator=generator, dtype=torch.float64)
        return Salient(vectors, torch.arange(5) < torch.tensor([3, 5, 1])[: len(self.lengths), None])


def run(model: AwesomeBart, segments: int = 3, **options: Any) -> list[AwesomeOutput]:
    """Three documents, segment after segment, the memory carried on."""
    outputs: list[AwesomeOutput] = []
    for segment in range(segments):
        memory = outputs[-1].memory if outputs else None
        outputs.append(model(**Batch(segment).inputs, memory=memory, **options))
    return outputs


def close(ours: torch.Tensor, theirs: torch.Tensor, message: str = "") -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11, msg=lambda text: f"{message}: {text}")


def gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


# ---------------------------------------------------------------------------------------------- without memory: BART


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("options", [{"memory": "none"}, {"memory": "none", "salient": "text"}])
def test_without_memory_it_is_bart(attention: str, options: dict[str, Any]) -> None:
    bart = plain(attn_implementation=attention)
    model = with_memory(bart, **options)
    assert model.config._attn_implementation == bart.config._attn_implementation == attention
    assert model.state_dict().keys() == bart.state_dict().keys()
    batch = Batch(0)
    ours, theirs = model(**batch.inputs), bart(**batch.inputs)
    close(ours.logits, theirs.logits)
    close(ours.loss, theirs.loss)
    close(ours.encoder_last_hidden_state, theirs.encoder_last_hidden_state)
    ours.loss.backward()
    theirs.loss.backward()
    assert gradients(model).keys() == gradients(bart).keys() == dict(bart.named_parameters()).keys()
    for name, gradient in gradients(bart).items():
        close(gradients(model)[name], gradient, name)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("beams", [1, 3])
def test_without_memory_it_writes_what_bart_writes(attention: str, beams: int) -> None:
    bart = plain(attn_implementation=attention)
    model = with_memory(bart, memory="none")
    batch = Batch(0)
    options = {"num_beams": beams, "length_penalty": 2.0, "no_repeat_ngram_size": 2, "max_new_tokens": 12}
    scores = {"return_dict_in_generate": True, "output_scores": True} if beams > 1 else {}
    ours, theirs = (each.generate(batch.ids, attention_mask=batch.mask, **options, **scores) for each in (model, bart))
    if beams > 1:
        close(ours.sequences_scores, theirs.sequences_scores)
        ours, theirs = ours.sequences, theirs.sequences
    assert torch.equal(ours, theirs)
    assert ours.shape[1] > 5


def test_without_labels_it_is_bart_with_and_without_a_mask_of_the_decoder() -> None:
    bart, batch = plain(), Batch(0)
    model = with_memory(bart, memory="none")
    inputs = {"input_ids": batch.ids, "attention_mask": batch.mask}
    close(model(**inputs).logits, bart(**inputs).logits)
    close(model(input_ids=batch.ids).logits, bart(input_ids=batch.ids).logits)
    inputs |= {"decoder_input_ids": batch.labels.clamp(min=0), "decoder_attention_mask": batch.target_mask}
    close(model(**inputs).logits, bart(**inputs).logits)
    inputs |= {"labels": batch.labels, "decoder_attention_mask": batch.target_mask.flip(1)}
    close(model(**inputs).logits, bart(**inputs).logits)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("layers", [1, 2, "all", [0, 2], [-1]])
@pytest.mark.parametrize("direction", ["forward", "both"])
def test_bart_with_a_fresh_attentive_memory_is_bart(attention: str, layers: Any, direction: str) -> None:
    """In all segments: the memory fills up, but the read starts at zero."""
    bart = plain(attn_implementation=attention)
    model = with_memory(bart, memory_layers=layers, memory_direction=direction)
    memory = None
    for segment in range(3):
        batch = Batch(segment)
        ours, theirs = model(**batch.inputs, memory=memory), bart(**batch.inputs)
        close(ours.logits, theirs.logits)
        close(ours.loss, theirs.loss)
        memory = ours.memory
        ours.loss.backward()
        theirs.loss.backward()
        if direction == "both":
            start = model.model.encoder.start(3, ahead=True)
            memory = replace(memory, ahead=start)
    for layer, state in memory.encoder.items():
        assert not torch.isclose(state.memory[0], model.model.encoder.layers[layer].memory.initial).all(-1).any()
    for name, gradient in gradients(bart).items():
        close(gradients(model)[name], gradient, name)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("layers", [1, "all"])
def test_compressive_memory_begins_as_bart(attention: str, layers: Any) -> None:
    """In the first segment, when it is empty; then no more."""
    bart = plain(attn_implementation=attention)
    model = with_memory(bart, memory="compressive", memory_layers=layers)
    batch = Batch(0)
    ours, theirs = model(**batch.inputs), bart(**batch.inputs)
    close(ours.logits, theirs.logits)
    ours.loss.backward()
    theirs.loss.backward()
    for name, gradient in gradients(bart).items():
        close(gradients(model)[name], gradient, name)
    batch = Batch(1)
    later = model(**batch.inputs, memory=ours.memory).logits
    assert not torch.isclose(later, bart(**batch.inputs).logits).all(-1).any()


def test_embeddings_are_one_and_weights_have_bart_s_names() -> None:
    model = tiny()
    embeddings = [model.model.shared, model.model.encoder.embed_tokens, model.model.decoder.embed_tokens, model.lm_head]
    assert len({module.weight.data_ptr() for module in embeddings}) == 1
    assert model.get_input_embeddings() is model.model.shared


# ------------------------------------------------------------------------------------------------ the paper's figures


@pytest.mark.parametrize(
    ("options", "millions"),
    [
        ({"memory_layers": "all"}, 708),
        ({"memory_layers": 3}, 481),
        ({"memory": "compressive", "compression_ratio": 5}, 437),
    ],
)
def test_paper_s_number_of_parameters(options: dict[str, Any], millions: int) -> None:
    with torch.device("meta"):
        model = AwesomeBart(AwesomeConfig(**options))
    assert sum(weight.numel() for weight in model.parameters()) // 1_000_000 == millions


def test_without_memory_as_many_parameters_as_bart_large() -> None:
    with torch.device("meta"):
        model = AwesomeBart(AwesomeConfig(memory="none"))
    assert sum(weight.numel() for weight in model.parameters()) == 406_291_456


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


# ------------------------------------------------------------------------------------------------------- gradients


UPDATE = {
    "attentive": ("writing", "u1", "u2", "g1", "g2", "gate"),
    "attentive-literal": ("writing", "u1", "u2", "g1", "g2"),
    "compressive": ("compress",),
}
NEEDED = {kind: {*UPDATE[kind], *({"reading", "layer_norm"} if kind in ATTENTIVE else ())} for kind in KINDS}


def without_gradient(model: AwesomeBart, parts: tuple[str, ...] = ("memory", "ahead")) -> set[str]:
    """The weights of memories that a backward pass has not reached."""
    return {
        name
        for name, weight in model.named_parameters()
        if any(f".{part}." in name for part in parts) and (weight.grad is None or not weight.grad.any())
    }


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


class Saved:
    """A tensor that the graph keeps for the way back; itself not part of the graph, which would then hold itself."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor.detach()


@contextmanager
def counting() -> Iterator[weakref.WeakSet[Saved]]:
    alive: weakref.WeakSet[Saved] = weakref.WeakSet()

    def pack(tensor: torch.Tensor) -> Saved:
        saved = Saved(tensor)
        alive.add(saved)
        return saved

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved.tensor):
        yield alive


def alive_after(model: AwesomeBart, segments: int, backward: bool) -> tuple[list[int], list[int]]:
    """How many saved tensors there are at the end of each segment, and how many when its output is dropped."""
    with_output, without = [], []
    memory = None
    gc.collect()
    gc.freeze()  # what was there before need not be looked at each time
    with counting() as alive:
        for segment in range(segments):
            output = model(**Batch(segment % 3).inputs, memory=memory)
            with_output.append(len(alive))
            if backward:
                output.loss.backward()
            memory = output.memory
            del output
            gc.collect()
            without.append(len(alive))
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


# --------------------------------------------------------------------------------------------------------- decoding


def expanded(tensor: torch.Tensor, beams: int) -> torch.Tensor:
    return tensor.repeat_interleave(beams, 0)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("begin", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_step_by_step_is_the_full_pass(kind: str, begin: int, attention: str) -> None:
    """With memory of two segments, beams of three documents, and beams that take over from others on the way."""
    model = tiny(memory=kind, attn_implementation=attention)
    memory = run(model, 2)[-1].memory
    batch, beams = Batch(2), 3
    encoder, decoder = model.model.encoder, model.model.decoder
    encoded = encoder(batch.ids, batch.mask, memory=memory.encoder).last_hidden_state
    inputs = {
        "encoder_outputs": AwesomeEncoderOutput(last_hidden_state=expanded(encoded, beams)),
        "attention_mask": expanded(batch.mask, beams),
    }
    of = torch.arange(3).repeat_interleave(beams)
    shared = decoder.recollect(memory.decoder)
    copied = decoder.recollect(memory.select(of).decoder)
    generator = torch.Generator().manual_seed(5)
    prefix = torch.randint(3, 53, (3 * beams, begin), generator=generator)
    cache = EncoderDecoderCache(DynamicCache(config=model.config), DynamicCache(config=model.config))
    new = prefix
    for step in range(6):
        stepped = model(**inputs, decoder_input_ids=new, decoder_memory=shared, past_key_values=cache, use_cache=True)
        whole = model(**inputs, decoder_input_ids=prefix, decoder_memory=copied, use_cache=False)
        unshared = model(**inputs, decoder_input_ids=prefix, decoder_memory=shared, use_cache=False)
        close(stepped.logits, whole.logits[:, -new.shape[1] :])
        close(unshared.logits, whole.logits)
        assert stepped.memory is None
        order = of * beams + torch.randint(0, beams, (3 * beams,), generator=generator)
        cache.reorder_cache(order)
        new = torch.randint(3, 53, (3 * beams, 1 + step % 2), generator=generator)  # also two at once
        prefix = torch.cat([prefix[order], new], 1)
    unlike = decoder.recollect(memory.select(of.flip(0)).decoder)
    right, wrong = (
        model(**inputs, decoder_input_ids=prefix, decoder_memory=given, use_cache=False).logits[of != 1]
        for given in (copied, unlike)
    )
    assert not torch.isclose(right, wrong).all(-1).any()


def write(model: AwesomeBart, batch: Batch, memory: Memories, **options: Any) -> torch.Tensor:
    encoded = model.model.encoder(batch.ids, batch.mask, memory=memory.encoder)
    return model.generate(
        encoder_outputs=AwesomeEncoderOutput(last_hidden_state=encoded.last_hidden_state),
        attention_mask=batch.mask,
        decoder_memory=model.model.decoder.recollect(memory.decoder),
        **options,
    )


def ended(row: torch.Tensor) -> list[int]:
    """Without the padding after the end."""
    tokens = row.tolist()
    return tokens[: tokens.index(2, 1) + 1] if 2 in tokens[1:] else tokens


@pytest.fixture
def talkative() -> Any:
    """A model that ends now and then, and not always at once."""

    def make(kind: str, seed: int) -> AwesomeBart:
        model = tiny(seed, memory=kind)
        model.final_logits_bias[0, 2] = 4.5 if kind == "attentive" else 2.5
        return model

    return make


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_greedy_generation_is_a_loop_without_a_cache(kind: str, talkative: Any) -> None:
    lengths, differs = set(), 0
    for seed in range(4):
        model = talkative(kind, seed)
        memory = run(model, 2)[-1].memory
        batch = Batch(2)
        found = write(model, batch, memory, num_beams=1, do_sample=False, max_new_tokens=10)
        forgetful = write(model, batch, model.start(3), num_beams=1, do_sample=False, max_new_tokens=10)
        for row in range(3):
            own = Batch(2, [row])
            before = memory.select(torch.tensor([row]))
            tokens = [2]
            while len(tokens) < 11 and (len(tokens) == 1 or tokens[-1] != 2):
                output = model(own.ids, own.mask, torch.tensor([tokens]), memory=before, use_cache=False)
                tokens.append(int(output.logits[0, -1].argmax()))
            assert ended(found[row]) == tokens
            lengths.add(len(tokens))
            differs += ended(forgetful[row]) != tokens
    assert len(lengths) > 1
    assert differs


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_beam_search_of_a_batch_is_that_of_each_document(kind: str, talkative: Any) -> None:
    options = {"num_beams": 3, "length_penalty": 1.5, "no_repeat_ngram_size": 3, "max_new_tokens": 10}
    lengths = set()
    for seed in range(4):
        model = talkative(kind, seed)
        memory = run(model, 2)[-1].memory
        found = write(model, Batch(2), memory, **options)
        for row in range(3):
            alone = write(model, Batch(2, [row]), memory.select(torch.tensor([row])), **options)
            assert ended(found[row]) == ended(alone[0])
            lengths.add(len(ended(alone[0])))
    assert len(lengths) > 1


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_beam_search_keeps_to_the_scores_of_the_full_pass(kind: str) -> None:
    """The library says what its best beam's tokens were worth; without cache and beams they are worth the same."""
    model = tiny(memory=kind)
    memory = run(model, 2)[-1].memory
    batch = Batch(2)
    options = {"num_beams": 4, "length_penalty": 1.0, "max_new_tokens": 8, "min_new_tokens": 8}
    found = write(model, batch, memory, **options, return_dict_in_generate=True, output_scores=True)
    encoded = model.model.encoder(batch.ids, batch.mask, memory=memory.encoder)
    logits = model(
        encoder_outputs=encoded,
        attention_mask=batch.mask,
        decoder_input_ids=found.sequences[:, :-1],
        memory=memory,
        use_cache=False,
    ).logits.log_softmax(-1)
    logits[..., 2].fill_(-torch.inf)
    worth = logits.gather(2, found.sequences[:, 1:, None]).sum((1, 2)) / 8
    torch.testing.assert_close(found.sequences_scores.double(), worth, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_generate_from_tokens_is_the_first_segment(kind: str) -> None:
    model, batch = tiny(memory=kind), Batch(0)
    options = {"num_beams": 3, "max_new_tokens": 8}
    found = model.generate(batch.ids, attention_mask=batch.mask, **options)
    assert torch.equal(found, write(model, batch, model.start(3), **options))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_written_summary_leaves_the_memory_that_training_leaves(kind: str) -> None:
    """Teacher-forced with the mask of its tokens, encoder outputs given: what `labels` would have written."""
    model = tiny(memory=kind)
    memory = run(model, 1)[-1].memory
    batch = Batch(1)
    expected = model(**batch.inputs, memory=memory).memory
    encoded = model.model.encoder(batch.ids, batch.mask, memory=memory.encoder)
    start = torch.cat([torch.full((3, 1), 2), batch.labels[:, :-1].clamp(min=1)], 1)
    found = model(
        encoder_outputs=encoded,
        attention_mask=batch.mask,
        decoder_input_ids=start,
        decoder_attention_mask=batch.target_mask,
        memory=memory,
        use_cache=False,
    ).memory
    for side in ("encoder", "decoder"):
        stack = getattr(model.model, side)
        ours, theirs = stack.recollect(getattr(found, side)), stack.recollect(getattr(expected, side))
        for layer in theirs:
            close(ours[layer].memory, theirs[layer].memory)


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


# ---------------------------------------------------------------------------------------------- saving and loading


VARIANTS = [
    {"memory": memory, "salient": salient, "memory_direction": direction}
    for memory in ("none", *KINDS)
    for salient in ("none", "text", "key-value")
    for direction in ("forward", "both")
    if direction == "forward" or (memory != "none" and salient != "text")
]


def message(error: pytest.ExceptionInfo[AwesumError]) -> str:
    text = str(error.value)
    assert text
    assert "\n" not in text
    return text


@pytest.fixture(scope="module")
def bart_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bart")
    plain().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def trained_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Never changed; tests that spoil it copy it first."""
    folder = tmp_path_factory.mktemp("trained")
    tiny().save_pretrained(folder)
    return folder


def copy_of(folder: Path, target: Path) -> Path:
    target.mkdir(exist_ok=True)
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target


@pytest.mark.parametrize("options", VARIANTS, ids=lambda options: "-".join(options.values()))
@torch.no_grad()
def test_saved_and_loaded_it_is_the_same(options: dict[str, str], tmp_path: Path) -> None:
    model = tiny(**options)
    model.save_pretrained(tmp_path)
    kinds = {file.suffix for file in tmp_path.iterdir()}
    assert kinds == {".json", ".safetensors"}
    loaded = AwesomeBart.from_pretrained(tmp_path)
    assert type(loaded) is AwesomeBart
    assert not loaded.training
    assert loaded.state_dict().keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    for name in (
        "memory",
        "memory_layers",
        "memory_size",
        "compression_ratio",
        "memory_direction",
        "salient",
        "salient_size",
    ):
        assert getattr(loaded.config, name) == getattr(model.config, name)
    salient = Batch(0).salient() if options["salient"] == "key-value" else None
    for ours, theirs in zip(run(loaded, salient=salient), run(model, salient=salient), strict=True):
        close(ours.logits, theirs.logits)


@pytest.mark.parametrize("layers", [1, "all", [0, 2], (0, 2)])
def test_layers_survive_saving_in_every_spelling(layers: Any, tmp_path: Path) -> None:
    model = tiny(memory_layers=layers)
    model.save_pretrained(tmp_path)
    for options in ({}, {"memory": "attentive", "memory_layers": layers, "memory_size": 10, "salient": "none"}):
        loaded = AwesomeBart.from_pretrained(tmp_path, **options)
        assert loaded.state_dict().keys() == model.state_dict().keys()


def test_bart_gets_memory_and_stays_bart(bart_folder: Path) -> None:
    bart = BartForConditionalGeneration.from_pretrained(bart_folder).eval()
    model = AwesomeBart.from_pretrained(bart_folder, memory="attentive", memory_layers=2, memory_size=8)
    assert model.config.memory_size == 8
    assert model.config.model_type == "awesome-bart"
    memory = None
    for segment in range(3):
        ours = model(**Batch(segment).inputs, memory=memory)
        close(ours.logits, bart(**Batch(segment).inputs).logits)
        memory = ours.memory
    fresh = AwesomeBart(AwesomeConfig(**TINY, memory_layers=2, memory_size=8)).model.encoder.layers[3].memory
    close(model.model.encoder.layers[3].memory.initial, fresh.initial.double())
    assert all(weight.isfinite().all() for weight in model.parameters())


def test_bart_gets_a_compression_that_is_a_mean(bart_folder: Path) -> None:
    model = AwesomeBart.from_pretrained(bart_folder, memory="compressive", memory_layers=1, memory_size=8)
    compress = model.model.decoder.layers[2].memory.compress
    states = torch.randn(1, 24, 5, dtype=torch.float64)
    torch.testing.assert_close(compress(states)[..., 0], states.mean(-1), rtol=1e-6, atol=1e-6)
    assert not compress.bias.any()


def test_bart_without_its_head_gets_memory_too(tmp_path: Path) -> None:
    """As `facebook/bart-large` is stored: names without `model.`, a configuration full of older days."""
    bart = plain()
    bart.final_logits_bias.zero_()
    bart.model.save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    stored |= {
        "_name_or_path": "bart-large",
        "_num_labels": 3,
        "add_bias_logits": False,
        "add_final_layer_norm": False,
        "architectures": ["BartModel"],
        "classif_dropout": 0.1,
        "early_stopping": True,
        "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
        "label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2},
        "no_repeat_ngram_size": 3,
        "normalize_before": False,
        "num_beams": 4,
        "task_specific_params": {"summarization": {"length_penalty": 1.0, "max_length": 128, "num_beams": 4}},
        "transformers_version": "4.7.0.dev0",
    }
    (tmp_path / "config.json").write_text(json.dumps(stored))
    assert "shared.weight" in load_file(tmp_path / "model.safetensors")
    model = AwesomeBart.from_pretrained(tmp_path, memory_layers=1)
    close(model(**Batch(0).inputs).logits, bart(**Batch(0).inputs).logits)
    model.save_pretrained(tmp_path / "again")
    again = AwesomeBart.from_pretrained(tmp_path / "again")
    close(again(**Batch(0).inputs).logits, bart(**Batch(0).inputs).logits)


def test_options_of_the_library_are_still_its_own(bart_folder: Path) -> None:
    model = AwesomeBart.from_pretrained(
        bart_folder, memory_layers=1, dtype=torch.bfloat16, attn_implementation="eager", dropout=0.3
    )
    assert model.dtype == torch.bfloat16
    assert model.model.encoder.layers[3].memory.initial.dtype == torch.bfloat16
    assert model.config._attn_implementation == "eager"
    assert model.model.decoder.layers[0].dropout == 0.3
    given = AwesomeConfig(**TINY, memory="none")
    assert AwesomeBart.from_pretrained(bart_folder, config=given).config.memory == "none"


@pytest.mark.parametrize("options", VARIANTS, ids=lambda options: "-".join(options.values()))
@torch.no_grad()
def test_library_s_auto_class_loads_what_we_save(options: dict[str, str], tmp_path: Path) -> None:
    model = tiny(**options)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert type(loaded) is AwesomeBart
    salient = Batch(0).salient() if options["salient"] == "key-value" else None
    for ours, theirs in zip(run(loaded, salient=salient), run(model, salient=salient), strict=True):
        close(ours.logits, theirs.logits)
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name


def test_library_s_auto_class_takes_its_options(trained_folder: Path) -> None:
    loaded, report = AutoModelForSeq2SeqLM.from_pretrained(
        trained_folder, dtype=torch.bfloat16, attn_implementation="eager", output_loading_info=True
    )
    assert (type(loaded), loaded.dtype) == (AwesomeBart, torch.bfloat16)
    assert loaded.config._attn_implementation == "eager"
    assert not report["missing_keys"]


@pytest.mark.parametrize("folder", ["bart_folder", "trained_folder"])
@pytest.mark.parametrize(
    "options",
    [
        {"local_files_only": True},
        {"local_files_only": False},
        {"use_safetensors": True},
        {"use_safetensors": None},
        {"trust_remote_code": False},
        {"trust_remote_code": None},
        {"revision": "main"},
        {"token": None, "cache_dir": None, "force_download": False},
        {"device_map": "cpu"},
        {"dtype": "auto"},
        {"low_cpu_mem_usage": True},
    ],
    ids=str,
)
@torch.no_grad()
def test_options_of_every_model_of_the_library(
    options: dict[str, Any], folder: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(folder)
    plain = AwesomeBart.from_pretrained(path, **MEMORY)
    model = AwesomeBart.from_pretrained(path, **MEMORY, **options)
    assert model.dtype == torch.float64
    assert model.device.type == "cpu"
    close(model(**Batch(0).inputs).logits, plain(**Batch(0).inputs).logits)


def test_loading_info_is_that_of_the_library(bart_folder: Path, trained_folder: Path) -> None:
    model, report = AwesomeBart.from_pretrained(trained_folder, output_loading_info=True)
    assert isinstance(model, AwesomeBart)
    assert not any(report[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    _, report = AwesomeBart.from_pretrained(bart_folder, **MEMORY, output_loading_info=True)
    assert report["missing_keys"]
    assert all(".memory." in key for key in report["missing_keys"])


def test_sizes_may_differ_where_that_is_asked_for(bart_folder: Path) -> None:
    with pytest.raises(AwesumError, match="of another size"):
        AwesomeBart.from_pretrained(bart_folder, memory="none", max_position_embeddings=32)
    model = AwesomeBart.from_pretrained(
        bart_folder, memory="none", max_position_embeddings=32, ignore_mismatched_sizes=True
    )
    assert model.config.max_position_embeddings == 32


@pytest.mark.parametrize("option", [{"trust_remote_code": True}, {"use_safetensors": False}], ids=str)
def test_code_and_pickles_of_others_are_refused(option: dict[str, bool], trained_folder: Path) -> None:
    with pytest.raises(AwesumError) as error:
        AwesomeBart.from_pretrained(trained_folder, **option)
    assert "=".join(map(str, *option.items())) in message(error)


def test_configuration_may_be_a_file_or_a_folder(trained_folder: Path) -> None:
    for config in (trained_folder, str(trained_folder), trained_folder / "config.json"):
        assert AwesomeBart.from_pretrained(trained_folder, config=config).config.memory_size == 10


@pytest.mark.parametrize("system", ["awesome", "se3"])
def test_folder_records_its_system(system: str, bart_folder: Path, tmp_path: Path) -> None:
    options = {} if system == "awesome" else {"memory": "none", "system": system}
    AwesomeBart.from_pretrained(bart_folder, **{"memory_layers": 1} | options).save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["system"] == system
    assert AwesomeBart.from_pretrained(tmp_path).config.system == system


def aged(folder: Path) -> None:
    """A folder as it was saved when `attentive` was what is now `attentive-literal`."""
    stored = json.loads((folder / "config.json").read_text())
    assert stored.pop("memory_format") == 2
    stored["memory"] = stored["memory"].removesuffix("-literal")
    (folder / "config.json").write_text(json.dumps(stored))


@pytest.mark.parametrize("kind", ["attentive-literal", "compressive"])
@torch.no_grad()
def test_older_checkpoint_is_loaded_as_the_literal_variant(kind: str, tmp_path: Path) -> None:
    """By every way there is, with the same output; what was never attentive is what it was."""
    model = tiny(memory=kind)
    expected = run(model)
    model.save_pretrained(tmp_path)
    aged(tmp_path)
    for loaded in (AwesomeBart.from_pretrained(tmp_path), AutoModelForSeq2SeqLM.from_pretrained(tmp_path)):
        assert loaded.config.memory == kind
        for ours, theirs in zip(run(loaded), expected, strict=True):
            close(ours.logits, theirs.logits)
    assert load_config(str(tmp_path)).memory == kind
    loaded.save_pretrained(tmp_path / "again")
    assert AwesomeBart.from_pretrained(tmp_path / "again").config.memory == kind


@pytest.mark.parametrize(
    ("kind", "other", "is_old"),
    [
        ("attentive", "attentive-literal", False),
        ("attentive-literal", "attentive", False),
        ("attentive-literal", "attentive", True),
    ],
)
def test_one_variant_is_not_loaded_as_the_other(kind: str, other: str, is_old: bool, tmp_path: Path) -> None:
    tiny(memory=kind).save_pretrained(tmp_path)
    if is_old:
        aged(tmp_path)
    with pytest.raises(
        AwesumError, match=f"memory='{kind}', not '{other}': load it as it is .memory='{kind}'."
    ) as error:
        AwesomeBart.from_pretrained(tmp_path, memory=other)
    assert "\n" not in str(error.value)
    assert AwesomeBart.from_pretrained(tmp_path, memory=kind).config.memory == kind


def test_slots_fewer_than_heads_are_refused() -> None:
    for kind in ATTENTIVE:
        with pytest.raises(AwesumError, match=r"memory_size=3 is less than the 4 attention heads.*give at least 4"):
            AwesomeConfig(**TINY | {"memory": kind, "memory_size": 3})
    AwesomeConfig(**TINY | {"memory": "salient", "memory_size": 3})


def test_folder_of_before_systems_still_loads(trained_folder: Path, tmp_path: Path) -> None:
    folder = copy_of(trained_folder, tmp_path)
    saved = json.loads((folder / "config.json").read_text())
    del saved["system"]
    (folder / "config.json").write_text(json.dumps(saved))
    assert AwesomeBart.from_pretrained(folder).config.system == "awesome"


# --------------------------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"memory": "atentive"},
            "memory='atentive' is not one of none, attentive, attentive-literal, compressive, salient; did you mean "
            "'attentive'?",
        ),
        ({"memory": "compresive"}, "did you mean 'compressive'?"),
        ({"salient": "keyvalue"}, "did you mean 'key-value'?"),
        ({"memory_direction": "forwards"}, "did you mean 'forward'?"),
        ({"memory": "xyz"}, "memory='xyz' is not one of none, attentive, attentive-literal, compressive"),
        ({"memory_layers": 4}, "there are 3 layers"),
        ({"memory_layers": 0}, "for none of them, memory='none'"),
        ({"memory_layers": [3]}, "there are 3 layers, 0 to 2"),
        ({"memory_layers": [-4]}, "there are 3 layers, 0 to 2"),
        ({"memory_layers": []}, "there are"),
        ({"memory_layers": "last"}, "memory_layers='last'"),
        ({"memory": "compressive", "memory_size": 9}, "memory_size=9 is odd"),
        ({"memory_size": 0}, "memory_size must be a whole number, 1 or more, not 0"),
        ({"compression_ratio": -1}, "compression_ratio must be a whole number, 1 or more, not -1"),
        ({"memory_size": "many"}, "memory_size must be a whole number, 1 or more, not 'many'"),
    ],
)
def test_wrong_options_are_reported_in_one_line(options: dict[str, Any], expected: str, bart_folder: Path) -> None:
    with pytest.raises(AwesumError) as error:
        AwesomeBart.from_pretrained(bart_folder, **{"memory_layers": 2} | options)
    assert expected in message(error)
    with pytest.raises(AwesumError) as error:
        AwesomeConfig(**TINY | MEMORY | options)
    assert expected in message(error)


@pytest.mark.parametrize(
    "options",
    [{"memory": "none"}, {"memory": "compressive"}, {"memory_layers": 1}, {"memory_size": 8}, {"salient": "key-value"}],
)
def test_checkpoint_of_another_configuration(options: dict[str, Any], trained_folder: Path) -> None:
    with pytest.raises(AwesumError) as error:
        AwesomeBart.from_pretrained(trained_folder, **options)
    ((name, value),) = options.items()
    assert f"was trained with {name}=" in message(error)
    assert f"not {value!r}" in message(error)


def test_checkpoint_with_another_configuration_beside_it(trained_folder: Path, tmp_path: Path) -> None:
    """Weights of one model, config.json of another: of other sizes, with fewer memories, with more."""
    for options in (
        {"d_model": 48},
        {"memory_size": 6},
        {"memory_layers": 1},
        {"memory_layers": 3},
        {"memory": "none"},
    ):
        folder = copy_of(trained_folder, tmp_path / "copy")
        AwesomeConfig(**TINY | MEMORY | options).save_pretrained(folder)
        with pytest.raises(AwesumError) as error:
            AwesomeBart.from_pretrained(folder)
        assert str(folder) in message(error)
        assert "report" not in message(error)


def test_checkpoint_of_another_kind_of_model(tmp_path: Path) -> None:
    T5Config().save_pretrained(tmp_path)
    with pytest.raises(AwesumError) as error:
        AwesomeBart.from_pretrained(tmp_path)
    assert "is a 't5' model: give a BART model" in message(error)


@pytest.mark.parametrize("content", ["nothing", "config.json only", "broken config.json", "no folder", "weights only"])
def test_folder_that_is_not_a_checkpoint(content: str, trained_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "missing" / "far away" if content == "no folder" else tmp_path
    if content == "config.json only":
        (folder / "config.json").write_bytes((trained_folder / "config.json").read_bytes())
    elif content == "broken config.json":
        copy_of(trained_folder, folder)
        (folder / "config.json").write_text('{"model_type": "awes')
    elif content == "weights only":
        (folder / "model.safetensors").write_bytes((trained_folder / "model.safetensors").read_bytes())
    with pytest.raises(AwesumError) as error:
        AwesomeBart.from_pretrained(folder)
    assert str(folder) in message(error)


@pytest.mark.parametrize("damage", ["truncated", "cut in the header", "empty", "noise"])
def test_corrupt_weights(damage: str, trained_folder: Path, tmp_path: Path) -> None:
    file = copy_of(trained_folder, tmp_path) / "model.safetensors"
    content = file.read_bytes()
    file.write_bytes(
        {
            "truncated": content[: len(content) // 2],
            "cut in the header": content[:100],
            "empty": b"",
            "noise": bytes(range(256)) * 40,
        }[damage]
    )
    with pytest.raises(AwesumError) as error:
        AwesomeBart.from_pretrained(tmp_path)
    assert str(tmp_path) in message(error)


@pytest.mark.parametrize(
    "lost",
    [
        "model.encoder.layers.3.memory.u1.weight",
        "model.decoder.layers.2.memory.initial",
        "model.encoder.layers.0.fc1.bias",
    ],
)
def test_weights_that_are_partly_missing(lost: str, trained_folder: Path, tmp_path: Path) -> None:
    """Never a fresh weight where a trained one is meant to be."""
    file = copy_of(trained_folder, tmp_path) / "model.safetensors"
    weights = load_file(file)
    del weights[lost]
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(AwesumError) as error:
        AwesomeBart.from_pretrained(tmp_path)
    assert lost in message(error)


def test_bart_whose_own_weights_are_partly_missing(bart_folder: Path, tmp_path: Path) -> None:
    file = copy_of(bart_folder, tmp_path) / "model.safetensors"
    weights = load_file(file)
    lost = "model.decoder.layers.1.encoder_attn.k_proj.weight"
    del weights[lost]
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(AwesumError) as error:
        AwesomeBart.from_pretrained(tmp_path, memory_layers=1)
    assert lost in message(error)


def test_loading_is_quiet_and_leaves_the_library_as_it_was(
    bart_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append
    logger = logging.getLogger("transformers")
    logger.addHandler(handler)
    bars = library_logging.is_progress_bar_enabled()
    level, hub = library_logging.get_verbosity(), logging.getLogger("huggingface_hub").level
    try:
        library_logging.enable_progress_bar()
        library_logging.set_verbosity_warning()
        AwesomeBart.from_pretrained(bart_folder, memory_layers=1)
        with pytest.raises(AwesumError):
            AwesomeBart.from_pretrained(tmp_path)
        assert not records
        assert capsys.readouterr() == ("", "")
        assert library_logging.is_progress_bar_enabled()
        assert library_logging.get_verbosity() == logging.WARNING
        assert logging.getLogger("huggingface_hub").level == hub
        # The same loading as the library does it, so that this can fail:
        super(AwesomeBart, AwesomeBart).from_pretrained(bart_folder, config=AwesomeConfig(**TINY, memory_layers=1))
        assert "LOAD REPORT" in records[-1].getMessage()
        assert "Loading weights" in capsys.readouterr().err
    finally:
        logger.removeHandler(handler)
        library_logging.set_verbosity(level)
        if not bars:
            library_logging.disable_progress_bar()
