"""Documents side by side are answered, and remembered, exactly as each would be alone and token by token."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from benchmarks.tiny_models import FOUR_LAYERS, tiny_llama
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Gemma3TextConfig, PreTrainedTokenizerFast, Qwen3Config

from awesum.engine import causal as engine
from awesum.engine import slots
from awesum.engine.causal import follow
from awesum.engine.rules import NO_REPEAT_TRAINED, Text
from awesum.errors import AwesumError
from awesum.models import causal
from awesum.models.causal import ChatModel
from awesum.models.prompt import Answer, Prompt
from tests.engine.sessions import other_chat
from tests.models.adapters import GEMMA, MIXED, TINY, adapted
from tests.reference.adapter import Document
from tests.reference.memory import softmax
from tests.reference.writing import would_repeat

MEMORIES = ["none", "attentive", "compressive", "salient"]
TOKENS = ["answer", "all"]
"""That pass through the adapter."""
Make = Callable[..., ChatModel]


def never(text: str) -> bool:
    return False


@pytest.fixture(scope="module")
def make(tiny_tokenizer: PreTrainedTokenizerFast) -> Make:
    """A model whose adapter has learned something, if only noise: its memory matters."""
    made: dict[tuple[str, str], ChatModel] = {}

    def chat(memory: str, tokens: str = "answer", fresh: bool = False, ending: float = 0.04) -> ChatModel:
        if fresh or (memory, tokens) not in made:
            base = tiny_llama(tiny_tokenizer, **FOUR_LAYERS)
            with torch.no_grad():
                base.lm_head.weight[tiny_tokenizer.eos_token_id] *= 1.2
            model = adapted(base, trained=True, memory=memory, ending=ending, adapted_tokens=tokens)
            model.merge()
            ready = ChatModel(model.base, tiny_tokenizer, "tiny", adapter=model)
            if fresh:
                return ready
            made[memory, tokens] = ready
        return made[memory, tokens]

    return chat


def document(chat: ChatModel, seed: int, segments: int = 3, limit: int = 14) -> list[Prompt]:
    """Prompts of many lengths, some of which go round in circles; each says which of its tokens are the segment's."""
    chance = random.Random(seed)
    usual = [token for token in range(len(chat.tokenizer)) if token not in chat.tokenizer.all_special_ids]
    prompts = []
    for _ in range(segments):
        circle = [chance.choice(usual) for _ in range(chance.choice([3, 7, 60]))]
        length = chance.randint(6, 40)
        start = chance.randint(0, 3)
        prompts.append(
            Prompt(
                (circle * length)[:length],
                never,
                chance.randint(1, limit),
                slice(start, length - 1 - start),
                least=chance.choice([0, 0, 5]),
            )
        )
    return prompts


def documents(chat: ChatModel, count: int = 4, seed: int = 0) -> list[list[Prompt]]:
    """Of one to four segments."""
    return [document(chat, seed * 100 + number, 1 + (number + seed) % 4) for number in range(count)]


def followed(chat: ChatModel, given: Sequence[Sequence[Prompt]], rows: int) -> list[list[Answer]]:
    """The answers of each document; they must come in order."""
    found: list[list[Answer]] = [[] for _ in given]
    for number, segment, answer in follow(chat, given, rows):
        assert segment == len(found[number])
        found[number].append(answer)
    return found


def answer_of(chat: ChatModel, tokens: list[int], is_whole: bool) -> Answer:
    return Answer(chat.tokenizer.decode(tokens, skip_special_tokens=True), tokens, is_whole)


def slow(chat: ChatModel, prompts: Sequence[Prompt]) -> list[Answer]:
    """One document, token by token, everything computed anew for each."""
    assert chat.adapter is not None
    reference = Document(chat.adapter)
    ends = chat.ends()
    found = []
    for prompt in prompts:
        new: list[int] = list(prompt.known or ())
        is_whole = prompt.known is not None
        while not is_whole and len(new) < prompt.limit:
            scores = reference.logits(prompt.tokens, new)[0][-1]
            is_likely = softmax(scores)[ends].sum() >= chat.adapter.adapter_config.ending
            is_whole = bool(len(new) >= prompt.least and is_likely)
            if not is_whole:
                scores[[*ends, *would_repeat([prompt.tokens[-1], *new], NO_REPEAT_TRAINED)]] = -torch.inf
                new.append(int(scores.argmax()))
        _, states = reference.logits(prompt.tokens, new)
        reference.remember(states, prompt.segment, len(prompt.tokens), len(new) - (not is_whole))
        found.append(answer_of(chat, new, is_whole))
    return found


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("memory", MEMORIES)
def test_documents_side_by_side_are_answered_as_each_alone_and_slowly(memory: str, tokens: str, make: Make) -> None:
    chat = make(memory, tokens)
    given = documents(chat)
    expected = [slow(chat, prompts) for prompts in given]
    for rows in (1, 3, 8):
        assert followed(chat, given, rows) == expected
    answers = [answer for each in expected for answer in each]
    assert {answer.is_whole for answer in answers} == {True, False}, "all ended alike: that tests little"
    assert len({tuple(answer.tokens) for answer in answers}) > len(answers) / 2


@pytest.mark.parametrize("memory", ["attentive", "compressive"])
def test_what_was_remembered_matters(memory: str, make: Make) -> None:
    """The test above is not blind: segments by themselves are answered in another way, all but the first."""
    chat = make(memory)
    given = documents(chat)
    together = followed(chat, given, 3)
    alone = [followed(chat, [[prompt] for prompt in prompts], 3) for prompts in given]
    assert [each[0] for each in together] == [each[0][0] for each in alone]
    later = [
        (ours, theirs[0])
        for each, one in zip(together, alone, strict=True)
        for ours, theirs in zip(each[1:], one[1:], strict=True)
    ]
    assert sum(ours != theirs for ours, theirs in later) > 2


@pytest.mark.parametrize("memory", ["attentive", "compressive"])
def test_longer_prompt_after_a_short_one_takes_nothing_from_its_neighbours(
    memory: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slots grow while others are being written to."""
    monkeypatch.setattr(slots, "GRAIN", 1)
    chat = make(memory)
    chance = random.Random(4)
    given = []
    for number in range(3):
        lengths = [6 + number, 25 + 9 * number, 50 - 8 * number]
        tokens = [[chance.randrange(10, 600) for _ in range(length)] for length in lengths]
        given.append([Prompt(each, never, 4 + 3 * number, slice(1, len(each) - 1), least=0) for each in tokens])
    expected = [followed(chat, [prompts], 1)[0] for prompts in given]
    assert expected == [slow(chat, prompts) for prompts in given]
    for rows in (2, 4):
        assert followed(chat, given, rows) == expected


@pytest.mark.parametrize("right", [0, 1, 99], ids="{} right".format)
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(("memory", "tokens"), [("attentive", "answer"), ("compressive", "answer"), ("salient", "all")])
def test_wrong_drafts_are_not_remembered(
    memory: str, tokens: str, rows: int, right: int, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = make(memory, tokens)
    given = documents(chat, seed=1)
    expected = [slow(chat, prompts) for prompts in given]
    answers = {
        tuple(prompt.tokens): answer.tokens
        for prompts, each in zip(given, expected, strict=True)
        for prompt, answer in zip(prompts, each, strict=True)
    }

    def oracle(self: Text, most: int) -> list[int]:
        size = next(size for size in range(len(self.tokens) + 1) if tuple(self.tokens[:size]) in answers)
        rest = [*answers[tuple(self.tokens[:size])], 5, 6, 7, 8][len(self.tokens) - size :]
        return [token if at < right else token ^ 1 for at, token in enumerate(rest)][:most]

    monkeypatch.setattr(Text, "draft", oracle)
    monkeypatch.setattr(engine, "DRAFTED", {9: 4})
    assert followed(chat, given, rows) == expected


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("memory", MEMORIES)
def test_known_answers_are_remembered_and_not_written_again(memory: str, tokens: str, make: Make) -> None:
    chat = make(memory, tokens)
    given = [[replace(prompt, limit=30) for prompt in document(chat, seed)] for seed in range(40)]
    whole = ((prompts, followed(chat, [prompts], 1)[0]) for prompts in given)
    prompts, answers = next((p, a) for p, a in whole if all(answer.is_whole for answer in a) and a[0].tokens)
    steps: list[int] = []
    hook = chat.model.register_forward_pre_hook(lambda *args: steps.append(1))
    try:
        for count in (0, 1, 3):
            steps.clear()
            known = [
                replace(prompt, known=answer.tokens if number < count else None)
                for number, (prompt, answer) in enumerate(zip(prompts, answers, strict=True))
            ]
            assert followed(chat, [known], 1)[0] == answers
            assert bool(steps) == (count < 3)
            assert followed(chat, [document(chat, 91), known, document(chat, 92)], 2)[1] == answers
    finally:
        hook.remove()


@pytest.mark.parametrize("memory", ["attentive", "compressive"])
def test_known_answer_that_ended_at_its_limit_is_remembered_as_it_was(memory: str, make: Make) -> None:
    """The last token of such an answer was never looked at."""
    chat = make(memory)
    for seed in range(12):
        prompts = [replace(prompt, limit=2) for prompt in document(chat, seed)]
        answers = followed(chat, [prompts], 1)[0]
        known = [replace(prompts[0], known=answers[0].tokens), *prompts[1:]]
        found = followed(chat, [known], 1)[0]
        assert [answer.tokens for answer in found] == [answer.tokens for answer in answers], seed


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("memory", ["attentive", "compressive"])
def test_known_answer_changes_what_comes_after_it(memory: str, tokens: str, make: Make) -> None:
    """Nothing at all, too, is an answer."""
    chat = make(memory, tokens)
    prompts = document(chat, 3, 2)
    for known in ([], [20], [300, 301, 302]):
        told = [replace(prompts[0], known=known), prompts[1]]
        assert followed(chat, [told], 1)[0] == slow(chat, told)
    others = 0
    for seed in range(8):
        first, second = document(chat, seed, 2)
        given = [[replace(first, known=known), second] for known in ([], [20, 21, 22], [300, 301, 302, 303, 304])]
        others += len({tuple(answers[1].tokens) for answers in followed(chat, given, 3)}) > 1
    assert others > 2


@pytest.mark.parametrize("memory", MEMORIES)
def test_model_may_stay_silent(memory: str, make: Make) -> None:
    """It was trained to: no answer is drawn out."""
    chat = make(memory, fresh=True, ending=0.02)
    prompts = [replace(prompt, limit=10, least=0) for prompt in document(chat, 5, 3)]
    assert chat.adapter is not None
    first = int(Document(chat.adapter).logits(prompts[0].tokens, [])[0][-1].argmax())
    chat.model.generation_config.eos_token_id = [chat.tokenizer.eos_token_id, first]
    found = followed(chat, [prompts, document(chat, 6)], 2)
    assert found[0][0] == Answer("", [], True)
    assert found == [slow(chat, prompts), slow(chat, document(chat, 6))]


@pytest.mark.parametrize("ending", [1e-9, 0.05, 1.0])
def test_answer_ends_where_that_is_likely_enough(ending: float, make: Make) -> None:
    chat = make("attentive", fresh=True, ending=ending)
    given = [[replace(prompt, limit=15, least=0) for prompt in document(chat, seed, 2)] for seed in range(3)]
    found = followed(chat, given, 3)
    assert found == [slow(chat, prompts) for prompts in given]
    lengths = [len(answer.tokens) for each in found for answer in each]
    if ending < 1e-8:
        assert not any(lengths)
    elif ending == 1:
        assert set(lengths) == {15}
    else:
        assert len(set(lengths)) > 1


def test_documents_with_nothing_to_write_keep_nobody_waiting(make: Make) -> None:
    """One without a prompt, or whose answers are all known, makes room at once."""
    chat = make("attentive")
    known = [replace(prompt, known=[30, 31]) for prompt in document(chat, 1, 2)]
    last = document(chat, 2, 2)
    for rows in (1, 2):
        found = followed(chat, [[], known, [], known, last], rows)
        assert [len(each) for each in found] == [0, 2, 0, 2, 2]
        assert found[4] == followed(chat, [last], 1)[0]


def test_prompt_is_asked_for_when_the_one_before_it_is_answered(make: Make) -> None:
    chat = make("attentive")
    given = [document(chat, seed, 3) for seed in range(4)]
    asked: list[tuple[int, int]] = []
    answered: set[tuple[int, int]] = set()

    def coming() -> Iterator[Iterator[Prompt]]:
        for number, prompts in enumerate(given):
            yield one(number, prompts)

    def one(number: int, prompts: list[Prompt]) -> Iterator[Prompt]:
        for segment, prompt in enumerate(prompts):
            assert not segment or (number, segment - 1) in answered
            asked.append((number, segment))
            assert len(set(asked) - answered) <= 2
            yield prompt

    for number, segment, _ in follow(chat, coming(), 2):
        assert (number, segment) in asked
        answered.add((number, segment))
    assert sorted(answered) == [(number, segment) for number in range(4) for segment in range(3)]
    assert asked[0] == (0, 0)
    assert next(follow(chat, [], 2), None) is None
    assert next(follow(chat, [[], []], 2), None) is None


@settings(max_examples=8)
@given(
    st.lists(st.lists(st.integers(0, 40), min_size=0, max_size=3), min_size=1, max_size=5),
    st.integers(1, 4),
    st.sampled_from(["attentive", "compressive"]),
    st.integers(0, 6),
)
def test_any_documents_side_by_side_are_answered_as_each_alone(
    make: Make, seeds: list[list[int]], rows: int, memory: str, known: int
) -> None:
    chat = make(memory)
    given = [[replace(document(chat, seed, 1, 6)[0]) for seed in each] for each in seeds]
    for prompts in given:
        for at, prompt in enumerate(prompts):
            if (at + known) % 5 == 0:
                prompts[at] = replace(prompt, known=list(range(30, 30 + known)))
    alone = [followed(chat, [prompts], 1)[0] for prompts in given]
    assert followed(chat, given, rows) == alone


@pytest.mark.parametrize(
    "config",
    [
        Qwen3Config(**TINY, head_dim=16),
        Gemma3TextConfig(**TINY, **GEMMA, **MIXED, sliding_window=6),
    ],
    ids=lambda config: config.model_type,
)
@pytest.mark.parametrize("memory", ["attentive", "compressive"])
def test_other_models_remember_side_by_side_as_alone(
    config: object, memory: str, tiny_tokenizer: PreTrainedTokenizerFast
) -> None:
    plain = other_chat(tiny_tokenizer, config)
    model = adapted(plain.model, trained=True, memory=memory)
    chat = ChatModel(model.base, tiny_tokenizer, "other", adapter=model)
    given = documents(chat, 4, seed=2)
    alone = [followed(chat, [prompts], 1)[0] for prompts in given]
    assert followed(chat, given, 3) == alone
    untold = [[followed(chat, [[prompt]], 1)[0][0] for prompt in prompts] for prompts in given]
    assert untold != alone


def test_model_that_only_the_library_can_run_is_refused(tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    model = adapted(tiny_llama(tiny_tokenizer, **FOUR_LAYERS), trained=True)
    model.base.set_attn_implementation("eager")
    chat = ChatModel(model.base, tiny_tokenizer, "tiny", adapter=model)
    with pytest.raises(AwesumError, match="memory is not for") as error:
        next(follow(chat, [document(chat, 1)], 1))
    assert "\n" not in str(error.value)


# ------------------------------------------------------------------------------------------------------ from a folder


@pytest.fixture(scope="module", params=["attentive", "compressive"])
def folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: PreTrainedTokenizerFast
) -> Path:
    """An adapter whose pretrained model lies in another folder."""
    base, folder = tmp_path_factory.mktemp("base"), tmp_path_factory.mktemp("adapter")
    tiny_llama(tiny_tokenizer, **FOUR_LAYERS).save_pretrained(base)
    tiny_tokenizer.save_pretrained(base)
    model = adapted(tiny_llama(tiny_tokenizer, **FOUR_LAYERS), trained=True, memory=request.param)
    model.adapter_config = replace(model.adapter_config, base=str(base))
    model.save_pretrained(folder)
    return folder


def in_format(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causal, "choose_device", lambda: (torch.device("cpu"), dtype, "as the test wants it"))


def test_adapter_in_a_folder_writes_what_it_wrote(
    folder: Path, tiny_tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_format(torch.float32, monkeypatch)
    chat = ChatModel.load(str(folder))
    assert chat.name == str(folder)
    assert chat.adapter is not None
    assert not chat.adapter.training
    given = documents(chat)
    model = adapted(tiny_llama(tiny_tokenizer, **FOUR_LAYERS), trained=True, memory=chat.adapter.adapter_config.memory)
    fresh = ChatModel(model.base, tiny_tokenizer, "tiny", adapter=model)
    assert followed(chat, given, 3) == followed(fresh, given, 3)


def test_adapter_writes_in_the_number_format_of_the_machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_format(torch.bfloat16, monkeypatch)
    chat = ChatModel.load(str(folder))
    assert chat.model.dtype == torch.bfloat16
    given = documents(chat)
    found = followed(chat, given, 3)
    assert sum(len(answer.tokens) for each in found for answer in each) > 20
    known = [[replace(prompt, known=[20, 21]) for prompt in prompts[:1]] + prompts[1:] for prompts in given]
    assert all(each[0].tokens == [20, 21] for each in followed(chat, known, 2))


def test_adapter_whose_model_is_gone_is_told_in_one_line(folder: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        text = path.read_bytes()
        (tmp_path / path.name).write_bytes(text)
    config = (folder / "adapter.json").read_text()
    start = config.index('"base": "') + 9
    gone = config[:start] + str(tmp_path / "gone") + config[config.index('"', start) :]
    (tmp_path / "adapter.json").write_text(gone)
    with pytest.raises(AwesumError, match="gone") as error:
        ChatModel.load(str(tmp_path))
    assert "\n" not in str(error.value)
