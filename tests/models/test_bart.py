"""Without memory it is BART, number for number; and it has as many weights as the paper says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from awesum.models.bart import AwesomeBart
from awesum.models.bart_config import AwesomeConfig
from tests.models.awesome_barts import Batch, close, gradients, plain, tiny, with_memory

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
