"""Sessions, prompts and models to try an engine with."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from benchmarks.tiny_models import FOUR_LAYERS, tiny_llama
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedTokenizerFast

from awesum import Document
from awesum.engine.causal import CausalEngine
from awesum.engine.engine import Engine
from awesum.models.causal import ChatModel
from awesum.models.prompt import Answer, Prompt
from awesum.summary import Part
from tests.conftest import topical_text
from tests.models.adapters import adapted


class Listed:
    """Some prompts as a session, at most `ahead` of them at a time. It fails where it is told to."""

    def __init__(self, prompts: Sequence[Prompt], ahead: int = 3, fails: str | None = None) -> None:
        self.prompts = [replace(prompt, number=number) for number, prompt in enumerate(prompts)]
        self.ahead = ahead
        self.fails = fails
        self.complete = False
        self.error: Exception | None = None
        self.has_begun = False
        self.asked: list[int] = []
        self.answers: dict[int, list[int]] = {}

    def _event(self, event: str) -> None:
        if event == self.fails:
            raise RuntimeError(event)

    def begin(self) -> Sequence[Part]:
        assert not self.has_begun
        self.has_begun = True
        self._event("begin")
        self.complete = not self.prompts
        return ()

    def next_prompt(self) -> Prompt | None:
        number = len(self.asked)
        if number == len(self.prompts) or number - len(self.answers) >= self.ahead:
            return None
        self._event(f"prompt {number}")
        self.asked.append(number)
        return self.prompts[number]

    def accept(self, number: int, answer: Answer) -> Sequence[Part]:
        assert number in self.asked
        assert number not in self.answers
        self._event(f"answer {number}")
        self.answers[number] = list(answer.tokens)
        self.complete = len(self.answers) == len(self.prompts)
        return ()


def never(text: str) -> bool:
    return False


def prompts_of(seed: int, count: int, limit: int = 14) -> list[Prompt]:
    """Prompts of many lengths."""
    chance = random.Random(seed)
    lengths = [chance.randint(2, 50) for _ in range(count)]
    return [
        Prompt(
            [chance.randrange(10, 600) for _ in range(length)], never, chance.randint(1, limit), slice(0, length - 1)
        )
        for length in lengths
    ]


def prompts_alike(chat: ChatModel, enough: Callable[[str], bool] = never, limit: int = 40) -> list[Prompt]:
    """Five prompts of quite different lengths that begin alike."""
    texts = [f"Summarize this: {topical_text(size, seed=size)}" for size in (1, 7, 3, 12, 2)]
    return [Prompt(chat.prompt(text), enough, limit) for text in texts]


def alone(chat: ChatModel, session: Listed) -> dict[int, list[int]]:
    """The answers to the same prompts with nobody else there, one at a time."""
    again = Listed(session.prompts, ahead=1)
    finish(CausalEngine(chat, 1), again)
    return again.answers


def finish(engine: Engine, *sessions: Any) -> None:
    for session in sessions:
        engine.add(session)
    while engine.is_busy:
        engine.step()


def made(kind: str, tokenizer: PreTrainedTokenizerFast) -> ChatModel:
    base = tiny_llama(tokenizer, **FOUR_LAYERS)
    if kind == "chat":
        return ChatModel(base, tokenizer, "tiny")
    with torch.no_grad():
        base.lm_head.weight[tokenizer.eos_token_id] *= 1.2
    options = {
        "writer": {"memory": "none", "salient": "rewrite"},
        "memory": {"memory": "attentive"},
        "writer with memory": {"memory": "compressive", "salient": "rewrite"},
    }[kind]
    model = adapted(base, trained=True, ending=0.04, **options)
    model.merge()
    return ChatModel(model.base, tokenizer, "tiny", adapter=model)


def documents(*sizes: int) -> list[Document]:
    return [Document(topical_text(size, seed=size), path=f"{size}.txt") for size in sizes or (90, 30, 150, 3, 60)]


def other_chat(tokenizer: PreTrainedTokenizerFast, config: PretrainedConfig) -> ChatModel:
    """A model of another kind with random weights."""
    torch.manual_seed(0)
    config = deepcopy(config)
    config.vocab_size = len(tokenizer)
    config.bos_token_id, config.eos_token_id = tokenizer.bos_token_id, tokenizer.eos_token_id
    config.pad_token_id = tokenizer.pad_token_id
    return ChatModel(AutoModelForCausalLM.from_config(config), tokenizer, "other")
