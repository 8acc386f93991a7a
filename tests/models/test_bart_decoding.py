"""Decoding step by step gives what the full pass gives, and leaves the same memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from awesum.models.bart import AwesomeBart, AwesomeEncoderOutput, Memories
from tests.models.awesome_barts import KINDS, Batch, close, run, tiny


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
