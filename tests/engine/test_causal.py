"""Prompts side by side are answered exactly as each would be alone."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import pytest
import torch
from benchmarks.tiny_models import tiny_llama
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    Gemma3TextConfig,
    GPT2Config,
    LlamaForCausalLM,
    MambaConfig,
    MistralConfig,
    PretrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    StableLmConfig,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from awesum import compat
from awesum.engine import causal, rules, slots
from awesum.engine.causal import CausalEngine, write, write_answers
from awesum.engine.rules import Text
from awesum.engine.slots import Slots
from awesum.models import attention
from awesum.models.attention import grouped_attention
from awesum.models.causal import ChatModel
from awesum.models.prompt import SHORTEST, Prompt
from tests.conftest import topical_text
from tests.engine.sessions import never, other_chat, prompts_alike
from tests.reference.writing import draft, write_alone


@pytest.fixture(scope="module")
def plain_model(tiny_tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """The same weights with the library's plainest attention."""
    model = tiny_llama(tiny_tokenizer)
    model.set_attn_implementation("eager")
    return model


@pytest.mark.parametrize(("heads", "groups"), [(6, 2), (8, 8), (4, 1)])
@pytest.mark.parametrize("length", [1, 5])
def test_grouped_attention_is_the_library_s(heads: int, groups: int, length: int) -> None:
    torch.manual_seed(heads * length)
    query = torch.randn(3, heads, length, 8)
    key, value = torch.randn(2, 3, groups, 11, 8)
    module: Any = torch.nn.Module()
    module.num_key_value_groups = heads // groups
    padding = torch.ones(3, 1, length, 11, dtype=torch.bool)
    padding[0, ..., :4] = padding[2, ..., :7] = False
    some = torch.rand(3, 1, length, 11) < 0.6
    some[..., 0] = True
    by_head = torch.randn(3, heads, length, 11)
    for mask in (padding, some, torch.randn(3, 1, length, 11), by_head, None):
        for scaling in (None, 0.3):
            ours, _ = grouped_attention(module, query, key, value, mask, scaling=scaling, is_causal=False)
            theirs, _ = sdpa_attention_forward(module, query, key, value, mask, scaling=scaling, is_causal=False)
            torch.testing.assert_close(ours, theirs)


@pytest.fixture
def without_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that multiplies bfloat16, but not in tiles; then nothing is left to the library's attention."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("the library's attention was called")

    monkeypatch.setattr(compat, "has_amx", lambda: False)
    monkeypatch.setattr(attention, "sdpa_attention_forward", refuse)


@pytest.mark.parametrize(("heads", "groups"), [(6, 2), (8, 8), (4, 1)])
@pytest.mark.parametrize("length", [2, 17, 300])
@torch.no_grad()
def test_prompt_in_bfloat16_is_read_in_blocks(heads: int, groups: int, length: int, without_tiles: None) -> None:
    query = torch.randn(2, heads, length, 8, dtype=torch.bfloat16)
    key, value = torch.randn(2, 2, groups, length, 8, dtype=torch.bfloat16)
    module: Any = torch.nn.Module()
    module.num_key_value_groups, module.is_causal = heads // groups, True
    exact = (query.double(), key.double(), value.double())
    for scaling in (None, 0.3):
        ours, _ = grouped_attention(module, query, key, value, None, scaling=scaling)
        theirs, _ = sdpa_attention_forward(module, *exact, None, scaling=scaling)
        torch.testing.assert_close(ours.double(), theirs, rtol=0.02, atol=0.02)
    changed = key.index_fill(2, torch.tensor([length - 1]), 3.0)
    before, _ = grouped_attention(module, query, changed, value, None)
    after, _ = grouped_attention(module, query, key, value, None)
    assert torch.equal(before[:, :-1], after[:, :-1]), "no token sees a later one"
    assert not torch.equal(before[:, -1], after[:, -1])


@pytest.mark.parametrize(("heads", "groups"), [(6, 2), (4, 1)])
@pytest.mark.parametrize("length", [1, 5])
@torch.no_grad()
def test_step_in_bfloat16_sees_what_the_mask_shows(heads: int, groups: int, length: int, without_tiles: None) -> None:
    query = torch.randn(3, heads, length, 8, dtype=torch.bfloat16)
    key, value = torch.randn(2, 3, groups, 211, 8, dtype=torch.bfloat16)
    module: Any = torch.nn.Module()
    module.num_key_value_groups = heads // groups
    mask = torch.rand(3, 1, length, 211) < 0.4
    mask[..., 7] = True
    ours, _ = grouped_attention(module, query, key, value, mask)
    theirs, _ = sdpa_attention_forward(module, query.double(), key.double(), value.double(), mask, is_causal=False)
    torch.testing.assert_close(ours.double(), theirs, rtol=0.02, atol=0.02)


def test_half_precision_has_twice_the_rows(tiny_chat: ChatModel) -> None:
    half = ChatModel(deepcopy(tiny_chat.model).bfloat16(), tiny_chat.tokenizer, "half")
    assert causal.rows_of(half) == 2 * causal.rows_of(tiny_chat) == 2 * causal.ROWS
    assert causal.rows_of(half) * half.bytes_per_token() == causal.ROWS * tiny_chat.bytes_per_token()
    assert CausalEngine(half).count == 2 * causal.ROWS


def test_chat_model_decodes_with_grouped_attention(tiny_chat: ChatModel) -> None:
    assert tiny_chat.model.config._attn_implementation == "awesum_grouped"


def tokens(chat: ChatModel, prompts: list[Prompt], rows: int = 8) -> list[list[int]]:
    return [list(answer.tokens) for answer in write_answers(chat, prompts, rows)]


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("enough", [never, lambda text: len(text.split()) > 3], ids=["to the end", "until enough"])
def test_prompts_side_by_side_are_written_as_each_alone(
    rows: int, enough: Callable[[str], bool], tiny_chat: ChatModel, plain_model: LlamaForCausalLM
) -> None:
    tokenizer = tiny_chat.tokenizer
    prompts = prompts_alike(tiny_chat, enough)
    slow = [write_alone(plain_model, tokenizer, prompt, SHORTEST, rules.NO_REPEAT) for prompt in prompts]
    assert tokens(tiny_chat, prompts, rows) == slow
    texts = list(write(tiny_chat, prompts, rows))
    assert texts == [tokenizer.decode(row, skip_special_tokens=True).strip() for row in slow]
    assert len(set(texts)) == len(prompts), "prompts that all give the same would test nothing"


def test_prompt_is_asked_for_when_there_is_room_for_it(tiny_chat: ChatModel) -> None:
    asked: list[int] = []

    def coming() -> Iterator[Prompt]:
        for number, prompt in enumerate(prompts_alike(tiny_chat)):
            asked.append(number)
            yield Prompt(prompt.tokens, never, 9 if number == 1 else 40)

    answers = write(tiny_chat, coming(), 2)
    next(answers)
    assert asked[:3] == [0, 1, 2], "the short second answer made room while the first was being written"
    assert len(asked) < 5, "there was no room for the last one yet"
    assert len(list(answers)) == 4


def test_prompts_side_by_side_are_written_as_by_plain_generate(
    tiny_chat: ChatModel, plain_model: LlamaForCausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "NO_REPEAT", 0)  # the plain way would count the prompt's own runs of tokens as well
    prompts = prompts_alike(tiny_chat)
    end = tiny_chat.tokenizer.eos_token_id
    for prompt, row in zip(prompts, tokens(tiny_chat, prompts), strict=True):
        ids = torch.tensor([prompt.tokens])
        alone = plain_model.generate(
            ids, attention_mask=torch.ones_like(ids), min_new_tokens=SHORTEST, max_new_tokens=40, do_sample=False
        )[0, len(prompt.tokens) :].tolist()
        assert row == (alone[: alone.index(end)] if end in alone else alone)


def test_prompts_that_are_all_the_same_are_written_the_same(tiny_chat: ChatModel) -> None:
    prompt = prompts_alike(tiny_chat)[0]
    assert list(write(tiny_chat, [prompt] * 3)) == list(write(tiny_chat, [prompt])) * 3


def test_prompts_with_nothing_in_common_are_written_as_each_alone(
    tiny_chat: ChatModel, plain_model: LlamaForCausalLM
) -> None:
    tokenizer = tiny_chat.tokenizer
    prompts = [
        Prompt(tokenizer.encode(text), never, 20) for text in ("tax bond", "the quay and the crane", "nurse ward")
    ]
    slow = [write_alone(plain_model, tokenizer, prompt, SHORTEST, rules.NO_REPEAT) for prompt in prompts]
    assert list(write(tiny_chat, prompts)) == [tokenizer.decode(row, skip_special_tokens=True).strip() for row in slow]


def random_prompts(chat: ChatModel, seed: int, count: int = 9) -> list[Prompt]:
    """Prompts of 1 to 60 tokens, some of which go round in circles, with limits of 1 to 50."""
    chance = random.Random(seed)
    usual = [token for token in range(len(chat.tokenizer)) if token not in chat.tokenizer.all_special_ids]
    prompts = []
    for _ in range(count):
        circle = [chance.choice(usual) for _ in range(chance.choice([1, 3, 7, 60]))]
        length = chance.randint(1, 60)
        enough = chance.choice([never, lambda text: len(text.split()) > 4])
        prompts.append(Prompt((circle * length)[:length], enough, chance.randint(1, 50)))
    return prompts


def alone(model: torch.nn.Module, chat: ChatModel, prompts: list[Prompt]) -> list[list[int]]:
    return [write_alone(model, chat.tokenizer, prompt, SHORTEST, rules.NO_REPEAT) for prompt in prompts]


@contextmanager
def counted(model: torch.nn.Module) -> Iterator[list[tuple[int, ...]]]:
    """The shapes of what the whole model is given; a prompt is read by its trunk alone and does not count."""
    shapes: list[tuple[int, ...]] = []

    def note(module: torch.nn.Module, args: object, kwargs: dict[str, torch.Tensor]) -> None:
        shapes.append(tuple(kwargs["input_ids"].shape))

    hook = model.register_forward_pre_hook(note, with_kwargs=True)
    yield shapes
    hook.remove()


@pytest.mark.parametrize("seed", range(4))
def test_random_prompts_are_written_as_each_alone(
    seed: int, tiny_chat: ChatModel, plain_model: LlamaForCausalLM
) -> None:
    prompts = random_prompts(tiny_chat, seed)
    slow = alone(plain_model, tiny_chat, prompts)
    for rows in range(1, 6):
        assert tokens(tiny_chat, prompts, rows) == slow


@pytest.mark.parametrize("right", [0, 1, 3, 99], ids="{} right".format)
@pytest.mark.parametrize("rows", [1, 3])
def test_drafts_change_the_time_and_not_the_answer(
    right: int,
    rows: int,
    tiny_chat: ChatModel,
    plain_model: LlamaForCausalLM,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Drafts that are right for `right` tokens and wrong after them, whatever the model and the text are."""
    prompts = random_prompts(tiny_chat, seed=5)
    slow = alone(plain_model, tiny_chat, prompts)
    answers = {tuple(prompt.tokens): answer for prompt, answer in zip(prompts, slow, strict=True)}
    assert len(answers) == len(prompts)

    def oracle(self: Text, most: int) -> list[int]:
        size = next(size for size in range(len(self.tokens) + 1) if tuple(self.tokens[:size]) in answers)
        rest = answers[tuple(self.tokens[:size])][len(self.tokens) - size :]
        return [token if at < right else token ^ 1 for at, token in enumerate(rest)][:most]

    monkeypatch.setattr(Text, "draft", oracle)
    monkeypatch.setattr(causal, "DRAFTED", {9: 5})
    with counted(tiny_chat.model) as steps:
        assert tokens(tiny_chat, prompts, rows) == slow
    assert max(width for _, width in steps) == 6
    if rows == 1:
        share = len(steps) / sum(map(len, slow))  # some answers are too short for long drafts
        assert share >= 1 if right == 0 else share < {1: 0.7, 3: 0.5, 99: 0.4}[right]


def test_answer_that_goes_round_in_circles_takes_few_steps(
    tiny_tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that looks at nothing but the last token comes back to it sooner or later, and then nothing is new."""
    monkeypatch.setattr(rules, "NO_REPEAT", 1000)
    model = tiny_llama(tiny_tokenizer)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    chat = ChatModel(model, tiny_tokenizer, "circles")
    prompts = [Prompt(prompt.tokens, never, 120) for prompt in random_prompts(chat, seed=1, count=5)]
    slow = alone(model, chat, prompts)
    with counted(model) as steps:
        assert tokens(chat, prompts, rows=1) == slow
    assert len(steps) < sum(map(len, slow)) * 2 / 3
    assert tokens(chat, prompts, rows=3) == slow


def test_every_row_is_drafted_as_far_as_its_company_allows(tiny_chat: ChatModel) -> None:
    with counted(tiny_chat.model) as steps:
        tokens(tiny_chat, random_prompts(tiny_chat, seed=2, count=24), rows=12)
    assert {rows for rows, _ in steps} >= {1, 12}
    for rows, width in steps:
        assert width <= 1 + next((most for up_to, most in causal.DRAFTED.items() if rows <= up_to), 1)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(0, 6), st.integers(0, 40))
def test_draft_is_what_followed_the_longest_clue_the_last_time(text: list[int], most: int, read: int) -> None:
    fast = Text(text[:read])
    for token in text[read:]:
        fast.add(token)
    assert fast.tokens == text
    assert fast.draft(most) == draft(text, rules.LONGEST_CLUE, most)


def test_cache_does_not_grow_with_the_number_of_prompts(tiny_chat: ChatModel, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[tuple[int, ...]] = []
    fill = Slots.fill

    def looking(self: Slots, *args: Any) -> None:
        fill(self, *args)
        kept.extend(tuple(states.shape) for layer in self.layers for states in (layer.keys, layer.values))

    monkeypatch.setattr(Slots, "fill", looking)
    prompts = random_prompts(tiny_chat, seed=3, count=30)
    longest = max(len(prompt.tokens) + prompt.limit for prompt in prompts)
    tokens(tiny_chat, prompts, rows=3)
    assert {(rows, heads, size) for rows, heads, _, size in kept} == {(3, 2, 8)}
    lengths = [length for _, _, length, _ in kept]
    assert lengths == sorted(lengths)
    assert longest <= lengths[-1] < longest + slots.GRAIN


def test_prompt_that_is_longer_than_those_before_it_finds_room(
    tiny_chat: ChatModel, plain_model: LlamaForCausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "GRAIN", 1)
    ids = tiny_chat.prompt(topical_text(12))
    prompts = [Prompt(ids[:length], never, 9 + length % 17) for length in (2, 9, 30, 31, 60, 100, 5, 150)]
    for rows in (1, 3):
        assert tokens(tiny_chat, prompts, rows) == alone(plain_model, tiny_chat, prompts)


def test_cache_that_holds_no_numbers_is_never_looked_at(tiny_chat: ChatModel, plain_model: LlamaForCausalLM) -> None:
    prompts = random_prompts(tiny_chat, seed=4)
    slow = alone(plain_model, tiny_chat, prompts)
    torch.use_deterministic_algorithms(True)  # which fills what is asked for with NaN
    try:
        assert torch.empty(3).new_empty(4).isnan().all()
        assert tokens(tiny_chat, prompts, rows=4) == slow
    finally:
        torch.use_deterministic_algorithms(False)


TINY = {"hidden_size": 32, "num_hidden_layers": 3, "initializer_range": 0.3, "max_position_embeddings": 256}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48}
MIXED = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}


@pytest.mark.parametrize(
    "config",
    [
        MistralConfig(**TINY, **HEADS, sliding_window=7),
        Qwen2Config(**TINY, **HEADS, **MIXED, use_sliding_window=True, sliding_window=5),
        Gemma3TextConfig(**TINY, **HEADS, **MIXED, head_dim=8, query_pre_attn_scalar=8, sliding_window=6),
    ],
    ids=lambda config: config.model_type,
)
def test_sliding_window_is_respected(config: PretrainedConfig, tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    chat = other_chat(tiny_tokenizer, config)
    prompts = random_prompts(chat, seed=6)
    slow = alone(chat.model, chat, prompts)
    for rows in (1, 4):
        with counted(chat.model) as steps:
            assert tokens(chat, prompts, rows) == slow
        assert max(rows for rows, _ in steps) == rows
    chat.model.config.sliding_window = 1000
    assert tokens(chat, prompts) != slow, "a window that changes nothing would test nothing"


def test_prompt_may_fill_the_model_s_window_to_the_last_token(tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    """A table of positions has no place for the drafted tokens that one row has too many because another has them."""
    chat = other_chat(tiny_tokenizer, GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, initializer_range=0.3))
    lengths = [14, 54, 30, 56]
    prompts = [Prompt([20 + length, 31] * (length // 2), never, 64 - length) for length in lengths]
    with counted(chat.model) as steps:
        fast = tokens(chat, prompts, 4)
    assert max(steps)[0] == 4
    assert fast == alone(chat.model, chat, prompts)


@pytest.mark.parametrize(
    "config",
    [
        MambaConfig(hidden_size=32, state_size=4, num_hidden_layers=2, initializer_range=0.3),
        StableLmConfig(**TINY, **HEADS),
    ],
    ids=lambda config: config.model_type,
)
def test_model_that_cannot_take_back_or_takes_no_mask_is_run_by_the_library(
    config: PretrainedConfig, tiny_tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(CausalEngine, "_write_a_step")
    chat = other_chat(tiny_tokenizer, config)
    prompts = random_prompts(chat, seed=7)
    asked: list[int] = []

    def coming() -> Iterator[Prompt]:
        for prompt in prompts:
            asked.append(len(prompt.tokens))
            yield prompt

    answers = (answer.tokens for answer in write_answers(chat, coming(), 4))
    first = next(answers)
    assert len(asked) == 1, "one at a time, each when it is its turn"
    assert [first, *answers] == alone(chat.model, chat, prompts)


def test_eager_attention_is_run_by_the_library(tiny_tokenizer: PreTrainedTokenizerFast, tiny_chat: ChatModel) -> None:
    model = tiny_llama(tiny_tokenizer)
    model.set_attn_implementation("eager")
    prompts = random_prompts(tiny_chat, seed=8)
    assert tokens(ChatModel(model, tiny_tokenizer, "eager"), prompts) == tokens(tiny_chat, prompts)


@pytest.mark.parametrize("kind", ["chunked_attention", "linear_attention", "conv"])
def test_layer_of_another_kind_is_left_to_the_library(
    kind: str, tiny_tokenizer: PreTrainedTokenizerFast, tiny_chat: ChatModel
) -> None:
    model = tiny_llama(tiny_tokenizer)
    model.config.layer_types = ["full_attention", kind]
    assert tiny_chat.can_step
    assert not ChatModel(model, tiny_tokenizer, "other").can_step


def test_answer_ends_with_any_of_the_model_s_marks(
    tiny_tokenizer: PreTrainedTokenizerFast, tiny_chat: ChatModel
) -> None:
    model = tiny_llama(tiny_tokenizer)
    prompt = Prompt(tiny_chat.prompt("The crane."), never, 60)
    whole = tokens(tiny_chat, [prompt])[0]
    mark = whole[SHORTEST + 2]
    for ends in (mark, [tiny_tokenizer.eos_token_id, mark]):
        model.generation_config.eos_token_id = ends
        ended = tokens(ChatModel(model, tiny_tokenizer, "marks"), [prompt])[0]
        assert mark not in ended
        assert len(ended) >= SHORTEST


def test_no_run_of_tokens_is_written_twice(tiny_chat: ChatModel) -> None:
    for row in tokens(tiny_chat, prompts_alike(tiny_chat, limit=150)):
        runs = [tuple(row[at : at + rules.NO_REPEAT]) for at in range(len(row) - rules.NO_REPEAT + 1)]
        assert len(set(runs)) == len(runs)


def test_each_row_ends_at_its_own_limit(tiny_chat: ChatModel) -> None:
    whole = prompts_alike(tiny_chat)
    limits = [9, 12, 40, 10, 25]
    limited = [Prompt(prompt.tokens, never, limit) for prompt, limit in zip(whole, limits, strict=True)]
    for alone, row, limit in zip(tokens(tiny_chat, whole), tokens(tiny_chat, limited), limits, strict=True):
        assert row == alone[:limit]


def test_row_that_ends_by_itself_ends_alone(tiny_chat: ChatModel) -> None:
    lengths = [len(row) for row in tokens(tiny_chat, prompts_alike(tiny_chat, limit=120))]
    assert min(lengths) >= SHORTEST
    assert len(set(lengths)) > 2, f"the tiny model should end its answers at various places: {lengths}"


def test_row_ends_after_a_sentence_once_that_is_enough(tiny_chat: ChatModel) -> None:
    whole = list(write(tiny_chat, prompts_alike(tiny_chat)))
    ended = list(write(tiny_chat, prompts_alike(tiny_chat, lambda text: True)))
    assert ended != whole
    for text, alone in zip(ended, whole, strict=True):
        assert alone.startswith(text)
        assert text == alone or re.search(r"[.!?]\s+\S+$", text)


def test_row_that_has_enough_does_not_stop_the_others(tiny_chat: ChatModel) -> None:
    whole = prompts_alike(tiny_chat)
    mixed = [Prompt(prompt.tokens, [never, lambda text: True][n % 2], 40) for n, prompt in enumerate(whole)]
    assert list(write(tiny_chat, mixed))[::2] == list(write(tiny_chat, whole))[::2]
