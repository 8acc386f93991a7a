"""Models that read a document as one input: where a mechanism has nothing to do, each is the plain model, logits and
gradients; batches of different lengths change nothing; and the fast paths agree with slow, obvious ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import BartForConditionalGeneration, DynamicCache, EncoderDecoderCache

from awesum.errors import AwesumError
from awesum.models.block_attention import BlockBart
from awesum.models.cached import CachedBart
from awesum.models.long_input import load
from awesum.models.longformer import Longformer
from awesum.models.pagesum import PageSumBart
from awesum.models.unlimiformer import RANDOM, Index, RetrievalAttention, UnlimiformerBart, windows

PAD = 1
SINGLE = 2e-6
"""The library's LED has its softmax in single precision."""
ENDLESS: dict[str, Any] = {"eos_token_id": None, "forced_eos_token_id": None, "suppress_tokens": [2]}
"""Generation that no token ends."""
Weights = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def bart(tiny_bart_folder: Path) -> BartForConditionalGeneration:
    return BartForConditionalGeneration.from_pretrained(tiny_bart_folder).double().eval()


@pytest.fixture
def made(tiny_bart_folder: Path) -> Callable[..., Any]:
    """A model with the weights of the plain one."""

    def make(kind: Any, **changes: Any) -> Any:
        return load(kind, str(tiny_bart_folder), lambda name, model_type: None, **changes).double().eval()

    return make


def tokens(length: int, rows: int = 1, seed: int = 0) -> torch.Tensor:
    return torch.randint(4, 400, (rows, length), generator=torch.Generator().manual_seed(seed))


def batch_of(*lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of different lengths, padded, and their mask."""
    ids = torch.full((len(lengths), max(lengths)), PAD)
    for number, (row, length) in enumerate(zip(ids, lengths, strict=True)):
        row[:length] = tokens(length, seed=number)[0]
    return ids, ids.ne(PAD).long()


def gradients(model: Any, logits: torch.Tensor) -> Weights:
    model.zero_grad()
    (logits * torch.linspace(-1, 1, logits.numel(), dtype=logits.dtype).view_as(logits)).sum().backward()
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


def equal(first: torch.Tensor, second: torch.Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(first, second, rtol=tolerance, atol=tolerance)


def same(plain: Any, other: Any, ids: torch.Tensor, labels: torch.Tensor, shaped: Any = None, **renamed: str) -> None:
    """Logits and gradients are those of the plain model."""
    expected = plain(input_ids=ids, labels=labels).logits
    found = other(input_ids=ids if shaped is None else shaped, labels=labels).logits
    equal(found, expected)
    wanted, got = gradients(plain, expected), gradients(other, found)
    for name, gradient in wanted.items():
        if name in got:
            equal(got[name][: len(gradient)], gradient)
    assert len(wanted.keys() & got.keys()) > 60 or renamed


LABELS = tokens(9, 2, seed=9)


# ------------------------------------------------------------------------------------------------- degenerate cases


@pytest.mark.parametrize("length", [5, 16])
def test_half_a_block_without_global_tokens_is_bart(made: Any, bart: BartForConditionalGeneration, length: int) -> None:
    same(bart, made(BlockBart, block_size=32, global_tokens=0), tokens(length, 2), LABELS)


def test_longer_texts_and_global_tokens_are_not_bart(made: Any, bart: BartForConditionalGeneration) -> None:
    """Else the test above could not fail."""
    for options, length in (({"global_tokens": 0}, 17), ({"global_tokens": 2}, 16)):
        model = made(BlockBart, block_size=32, **options)
        ids = tokens(length, 2)
        difference = model(input_ids=ids, labels=LABELS).logits - bart(input_ids=ids, labels=LABELS).logits
        assert difference.abs().max() > 1e-3


def test_one_chunk_is_bart(made: Any, bart: BartForConditionalGeneration) -> None:
    same(bart, made(CachedBart, chunk_size=32), tokens(32, 2), LABELS)


def test_one_page_is_bart(made: Any, bart: BartForConditionalGeneration) -> None:
    ids = tokens(40, 2)
    same(bart, made(PageSumBart, pages=1), ids, LABELS, shaped=ids[:, None])


def test_equal_pages_are_one_page(made: Any, bart: BartForConditionalGeneration) -> None:
    ids = tokens(20, 2)
    found = made(PageSumBart, pages=3)(input_ids=ids[:, None].expand(-1, 3, -1), labels=LABELS).logits
    equal(found, bart(input_ids=ids, labels=LABELS).logits)


@pytest.mark.parametrize("length", [40, 128])
def test_one_window_and_all_tokens_retrieved_is_bart(
    made: Any, bart: BartForConditionalGeneration, length: int
) -> None:
    same(bart, made(UnlimiformerBart, retrieved=length, search="exact"), tokens(length, 2), LABELS)


def renamed_gradients(found: Weights) -> Weights:
    """Those of a LED under BART's names; local and global projections are the same weight in BART."""
    result: Weights = {}
    for name, gradient in found.items():
        name = name.replace("led.", "model.").replace("longformer_self_attn.", "")
        for part in ("query", "key", "value"):
            name = name.replace(f"{part}_global", part).replace(f"self_attn.{part}", f"self_attn.{part[0]}_proj")
        if "encoder.layers" in name:
            name = name.replace("self_attn.output", "self_attn.out_proj")
        result[name] = result[name] + gradient if name in result else gradient
    return result


def test_led_from_bart_is_bart_within_half_a_window(made: Any, bart: BartForConditionalGeneration) -> None:
    ids = tokens(16, 2)
    model = made(Longformer, attention_window=32)
    expected = bart(input_ids=ids, labels=LABELS).logits
    found = model(input_ids=ids, labels=LABELS).logits
    equal(found, expected, SINGLE)
    wanted, got = gradients(bart, expected), renamed_gradients(gradients(model, found))
    compared = 0
    for name, gradient in wanted.items():
        if "embed_positions" in name:
            gradient = gradient[2:]
            equal(got[name][: len(gradient)], gradient, SINGLE)
        else:
            equal(got[name], gradient, SINGLE)
        compared += 1
    assert compared == len(wanted) > 60
    longer = tokens(40, 2)
    difference = model(input_ids=longer, labels=LABELS).logits - bart(input_ids=longer, labels=LABELS).logits
    assert difference.abs().max() > 1e-4, "a longer text is another matter"


def test_first_token_is_always_global(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = made(Longformer, attention_window=16)
    seen = []
    encoder = type(model.led.encoder).__mro__[1]
    forward = encoder.forward

    def looking(self: Any, ids: Any, mask: Any, is_global: Any, **options: Any) -> Any:
        seen.append(is_global.tolist())
        return forward(self, ids, mask, is_global, **options)

    monkeypatch.setattr(encoder, "forward", looking)
    model(input_ids=tokens(6, 2), labels=LABELS)
    model.generate(input_ids=tokens(6, 1), num_beams=2, max_length=4)
    first = [1, *[0] * 15]
    assert seen == [[first] * 2, [first]]


def test_positions_beyond_barts_begin_again(made: Any, bart: BartForConditionalGeneration) -> None:
    known = bart.model.encoder.embed_positions.weight[2:]
    led = made(Longformer, attention_window=32).led.encoder.embed_positions.weight
    block = made(BlockBart, block_size=32, global_tokens=0)
    block.extend_positions(300)
    extended = block.model.encoder.embed_positions.weight[2:]
    assert len(led) == 16_384
    assert len(extended) == 300 == block.config.encoder_positions
    for place in (0, 127, 128, 200, 299):
        equal(led[place], known[place % 128])
        equal(extended[place], known[place % 128])
    block.extend_positions(200)
    assert block.config.encoder_positions == 300, "never shortened"


# ---------------------------------------------------------------------------------- batches, caches, and slow versions

KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "block": (BlockBart, {"block_size": 16, "global_tokens": 3}),
    "chunks": (CachedBart, {"chunk_size": 20}),
    "windows": (UnlimiformerBart, {"retrieved": 11, "search": "exact"}),
    "led": (Longformer, {"attention_window": 16}),
}


@pytest.fixture(params=KINDS)
def long_model(request: pytest.FixtureRequest, made: Any) -> Any:
    kind, changes = KINDS[request.param]
    model = made(kind, **changes)
    if hasattr(model, "extend_positions"):
        model.extend_positions(400)
    return model


def test_batch_of_different_lengths_is_the_documents_alone(long_model: Any) -> None:
    lengths = (150, 37, 300, 5)
    ids, mask = batch_of(*lengths)
    labels = tokens(7, 4)
    together = long_model(input_ids=ids, attention_mask=mask, labels=labels).logits
    assert together.isfinite().all()
    for row, length in enumerate(lengths):
        alone = long_model(input_ids=ids[row : row + 1, :length], labels=labels[row : row + 1]).logits
        torch.testing.assert_close(together[row : row + 1], alone, rtol=1e-6, atol=1e-8)
    gradient = gradients(long_model, together)
    assert all(each.isfinite().all() for each in gradient.values())


def test_beams_of_a_batch_are_those_of_the_documents_alone(long_model: Any) -> None:
    ids, mask = batch_of(150, 37, 300)
    options = {"num_beams": 3, "max_length": 12, "min_length": 12, "no_repeat_ngram_size": 2}
    together = long_model.generate(input_ids=ids, attention_mask=mask, **options)
    for row, length in enumerate((150, 37, 300)):
        alone = long_model.generate(input_ids=ids[row : row + 1, :length], **options)
        assert together[row].tolist() == alone[0].tolist()


def without_sharing(model: Any, states: torch.Tensor, mask: torch.Tensor, beams: int, length: int) -> list[int]:
    """Beam search of one document, slowly: every prefix is decoded anew, with no cache."""
    config = model.config
    found: list[tuple[float, list[int]]] = [(0.0, [config.decoder_start_token_id])]
    while len(found[0][1]) < length:
        grown = []
        for score, prefix in found:
            logits = model(
                encoder_outputs=(states,),
                attention_mask=mask,
                decoder_input_ids=torch.tensor([prefix]),
                use_cache=False,
            ).logits[0, -1]
            logits[config.eos_token_id] = -torch.inf
            chances = logits.log_softmax(-1)
            grown += [
                (score + float(chances[token]), [*prefix, int(token)]) for token in chances.topk(2 * beams).indices
            ]
        found = sorted(grown, key=lambda pair: -pair[0])[:beams]
    return found[0][1]


@pytest.mark.parametrize("name", ["block", "chunks", "windows"])
def test_shared_beam_search_is_the_slow_one(made: Any, name: str) -> None:
    kind, changes = KINDS[name]
    model = made(kind, **changes)
    ids = tokens(90, 2)
    options = {"num_beams": 3, "max_length": 9, "length_penalty": 0.0, **ENDLESS}
    written = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **options)
    for row in range(2):
        states = model.model.encoder(ids[row : row + 1]).last_hidden_state
        mask = torch.ones(1, 90, dtype=torch.long)
        assert written[row].tolist() == without_sharing(model, states, mask, 3, 9)


def slow_pages(model: Any, pages: list[torch.Tensor], prefix: list[int]) -> torch.Tensor:
    """The logits after a prefix, page by page with the library's own encoder and decoder."""
    hidden = []
    for page in pages:
        states = super(type(model.model.encoder), model.model.encoder).forward(page[None]).last_hidden_state
        ids = torch.tensor([prefix])
        hidden.append(model.model.decoder(input_ids=ids, encoder_hidden_states=states, use_cache=False)[0][0, -1])
    scores = torch.stack([each @ model.confidence.weight[0] + model.confidence.bias[0] for each in hidden])
    weights = scores.softmax(0)
    mixed = sum(weight * each for weight, each in zip(weights, hidden, strict=True))
    return model.lm_head(mixed) + model.final_logits_bias[0]


def test_pagesum_beam_search_is_the_slow_one(made: Any) -> None:
    """Pages of different lengths, two documents, beams that change places."""
    model = made(PageSumBart, pages=3)
    nn.init.normal_(model.confidence.weight, std=2.0)
    lengths = [[9, 30, 4], [17, 3, 22]]
    pages = [
        [tokens(length, seed=10 * row + page)[0] for page, length in enumerate(each)]
        for row, each in enumerate(lengths)
    ]
    ids = torch.full((2, 3, 30), PAD)
    for row in range(2):
        for page in range(3):
            ids[row, page, : lengths[row][page]] = pages[row][page]
    beams, length = 3, 8
    options = {"num_beams": beams, "max_length": length, "length_penalty": 0.0, **ENDLESS}
    written = model.generate(input_ids=ids, attention_mask=ids.ne(PAD).long(), **options)
    for row in range(2):
        found: list[tuple[float, list[int]]] = [(0.0, [model.config.decoder_start_token_id])]
        while len(found[0][1]) < length:
            grown = []
            for score, prefix in found:
                logits = slow_pages(model, pages[row], prefix)
                logits[2] = -torch.inf
                chances = logits.log_softmax(-1)
                grown += [(score + float(chances[token]), [*prefix, int(token)]) for token in chances.topk(6).indices]
            found = sorted(grown, key=lambda pair: -pair[0])[:beams]
        assert written[row].tolist() == found[0][1]


def test_pagesum_teacher_forced_is_the_slow_one(made: Any) -> None:
    model = made(PageSumBart, pages=2)
    nn.init.normal_(model.confidence.weight)
    pages = [tokens(12, seed=1)[0], tokens(12, seed=2)[0]]
    labels = tokens(5, seed=3)
    logits = model(input_ids=torch.stack(pages)[None], labels=labels).logits[0]
    prefix = model.prepare_decoder_input_ids_from_labels(labels)[0].tolist()
    for step in range(5):
        equal(logits[step], slow_pages(model, pages, prefix[: step + 1]))


# --------------------------------------------------------------------------------------------------------- windows


@pytest.mark.parametrize("size", [4, 8, 128])
@pytest.mark.parametrize("length", [1, 3, 8, 9, 12, 13, 100, 128, 129, 513])
def test_windows_keep_every_token_once_with_context(length: int, size: int) -> None:
    kept: list[int] = []
    for each in windows(length, size):
        assert each.end - each.start == min(size, length)
        assert each.start <= each.first < each.last <= each.end
        if each.start and each.end < length:
            assert each.first - each.start >= size // 4
        if each.end < length:
            assert each.end - each.last == size // 4
        kept += range(each.first, each.last)
    assert kept == list(range(length))


def test_encoder_keeps_the_middle_of_each_window(made: Any, bart: BartForConditionalGeneration) -> None:
    model = made(UnlimiformerBart, retrieved=4, search="exact")
    ids = tokens(300)
    found = model.model.encoder(ids).last_hidden_state[0]
    for each in windows(300, 128):
        alone = bart.model.encoder(ids[:, each.start : each.end]).last_hidden_state[0]
        torch.testing.assert_close(
            found[each.first : each.last], alone[each.first - each.start : each.last - each.start], rtol=1e-6, atol=1e-8
        )


def attention(made: Any, **changes: Any) -> RetrievalAttention:
    found: RetrievalAttention = made(UnlimiformerBart, **changes).model.decoder.layers[1].encoder_attn
    return found


def brute_force(layer: RetrievalAttention, hidden: torch.Tensor, states: torch.Tensor, k: int) -> torch.Tensor:
    """One query, one head after the other, over all encoded tokens."""
    heads = []
    for head in range(layer.num_heads):
        part = slice(head * layer.head_dim, (head + 1) * layer.head_dim)
        query, keys, values = (
            projection(source)[:, part]
            for projection, source in ((layer.q_proj, hidden[None]), (layer.k_proj, states), (layer.v_proj, states))
        )
        products = (query @ keys.T)[0] * layer.scaling
        nearest = sorted(range(len(states)), key=lambda number: -float(products[number]))[:k]
        heads.append(products[nearest].softmax(0) @ values[nearest])
    return layer.out_proj(torch.cat(heads))


@pytest.mark.parametrize("k", [1, 5, 40])
def test_exact_search_is_brute_force(made: Any, k: int) -> None:
    layer = attention(made, retrieved=k, search="exact")
    states, hidden = torch.randn(2, 60, 32).double(), torch.randn(2, 3, 32).double()
    lengths = [60, 50]
    mask = torch.arange(60)[None] < torch.tensor(lengths)[:, None]
    found, _ = layer(hidden, states, attention_mask=mask[:, None, None])
    for row in range(2):
        for query in range(3):
            equal(found[row, query], brute_force(layer, hidden[row, query], states[row, : lengths[row]], k))


def test_faiss_finds_the_nearest(made: Any) -> None:
    layer = attention(made, retrieved=5, search="faiss")
    states, queries = torch.randn(70, 32), torch.randn(1, 4, 6, 8).double()
    index = Index(states, torch.ones(70, dtype=torch.bool))
    found = layer._found(queries, [index], 5)
    keys = layer.k_proj(states.double()).view(70, 4, 8).transpose(0, 1)
    products = queries[0] @ keys.transpose(1, 2)
    assert found.shape == (1, 4, 6, 5)
    assert found[0, ..., 0].tolist() == products.argmax(-1).tolist()


def test_faiss_in_cells_finds_the_nearest(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many cells as are searched, it is exact; with more, nearly."""
    monkeypatch.setattr("awesum.models.unlimiformer.PER_CELL", 50)
    monkeypatch.setattr("awesum.models.unlimiformer.PROBED", 8)
    states = torch.randn(1000, 32)
    index = Index(states, torch.ones(1000, dtype=torch.bool))
    assert type(index._index).__name__ == "IndexIVFFlat"
    queries = states[:200] + 0.1 * torch.randn(200, 32)
    found = index.search(queries[None], 3)[0, :, 0]
    agreed = (found == (queries @ states.T).argmax(-1)).double().mean()
    assert agreed > 0.9


def test_faiss_writes_what_exact_search_writes(made: Any) -> None:
    ids, mask = batch_of(150, 90)
    options = {"num_beams": 3, "max_length": 10, "min_length": 10}
    exact, indexed = (
        made(UnlimiformerBart, retrieved=20, search=search).generate(input_ids=ids, attention_mask=mask, **options)
        for search in ("exact", "faiss")
    )
    assert exact.tolist() == indexed.tolist()


def test_missing_faiss_is_one_line(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(AwesumError, match=r"awesum\[faiss\]") as error:
        made(UnlimiformerBart, retrieved=5, search="faiss")
    assert "\n" not in str(error.value)


def test_random_tokens_differ_between_layers_and_passes(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = made(UnlimiformerBart, retrieved=6, search="exact")
    drawn = []
    original = __import__("awesum.models.unlimiformer", fromlist=["_random_tokens"])._random_tokens

    def watching(*args: Any) -> torch.Tensor:
        drawn.append(original(*args))
        return drawn[-1]

    monkeypatch.setattr("awesum.models.unlimiformer._random_tokens", watching)
    ids, mask = batch_of(50, 9)
    for _ in range(2):
        model(input_ids=ids, attention_mask=mask, labels=LABELS, attend_to=RANDOM)
    assert len(drawn) == 6  # three layers, two passes
    assert len({tuple(each[0].tolist()) for each in drawn}) == 6
    for each in drawn:
        assert each[0].tolist() == sorted(set(each[0].tolist()))
        assert max(each[1].tolist()) < 9, "no padding where there is something else"


def test_plain_cache_still_works(made: Any) -> None:
    """Whoever calls the model with the library's cache gets what the cache of the beams gives."""
    model = made(CachedBart, chunk_size=20)
    ids = tokens(50)
    states = model.model.encoder(ids).last_hidden_state
    cache = EncoderDecoderCache(DynamicCache(config=model.config), DynamicCache(config=model.config))
    whole = model(encoder_outputs=(states,), decoder_input_ids=LABELS[:1]).logits
    for step in range(LABELS.shape[1]):
        found = model(
            encoder_outputs=(states,),
            decoder_input_ids=LABELS[:1, step : step + 1],
            past_key_values=cache,
            use_cache=True,
        ).logits
        equal(found[:, 0], whole[:, step])


# ------------------------------------------------------------------------------------------------------ block attention


def test_block_attention_is_its_definition(made: Any) -> None:
    """One layer against a mask over everything: same block or global token, blocks shifted in odd layers."""
    model = made(BlockBart, block_size=8, global_tokens=2)
    encoder = model.model.encoder
    length, extra = 21, 2
    text, tokens_of_all = torch.randn(1, length, 32).double(), torch.randn(1, extra, 32).double()
    for number, layer in enumerate(encoder.layers):
        found, found_extra = layer(text, tokens_of_all, torch.ones(1, length, dtype=torch.bool))
        shift = 4 if number % 2 else 0
        block = (torch.arange(length) + shift) // 8
        seen = torch.ones(extra + length, extra + length, dtype=torch.bool)
        seen[extra:, extra:] = block[:, None] == block[None]
        plain = BartForConditionalGeneration(model.config).double().eval().model.encoder.layers[number]
        plain.load_state_dict(layer.state_dict())
        expected = plain(torch.cat([tokens_of_all, text], 1), seen[None, None])
        equal(torch.cat([found_extra, found], 1), expected)


def test_global_tokens_start_as_words(made: Any) -> None:
    model = made(BlockBart, block_size=8, global_tokens=5)
    words = model.model.shared.weight
    for token in model.model.encoder.global_tokens:
        assert (words - token).abs().amax(1).min() < 1e-6


def test_global_tokens_carry_from_block_to_block(made: Any) -> None:
    ids = tokens(64)
    changed = ids.clone()
    changed[0, 60] = 3
    for extra, carries in ((0, False), (2, True)):
        encoder = made(BlockBart, block_size=8, global_tokens=extra).model.encoder
        difference = (encoder(ids).last_hidden_state - encoder(changed).last_hidden_state)[0, :30].abs().max()
        assert (difference > 0) == carries
