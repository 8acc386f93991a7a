"""A new kind of memory is one class and one line in the registry: every model then has it, trains it and saves it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from awesum import memory as memories
from awesum.errors import AwesumError
from awesum.memory import (
    AttentiveMemory,
    CompressiveMemory,
    Memory,
    MemoryState,
    Recollection,
    Source,
    Written,
    registry,
)
from awesum.memory.attention import SelfAttention, split
from awesum.models.adapter import WEIGHTS, AwesomeCausal, after
from awesum.models.adapter_config import AdapterConfig
from awesum.models.adapter_layers import Passage
from awesum.models.bart import AwesomeBart
from awesum.models.bart_config import AwesomeConfig
from awesum.models.memory_slots import MemorySlots
from awesum.recurrence import DocumentInputs, causal, generate, train
from awesum.settings import ADAPTER
from awesum.training.trunk import read_now


class RunningMean(Memory):
    """The toy: one slot, the mean of each segment blended in; read through a matrix that starts at zero."""

    def __init__(self, size: int) -> None:
        super().__init__(size, slots=1)
        self.blend = nn.Linear(size, size)
        self.project = nn.Linear(size, size, bias=False)
        self.scale = nn.Parameter(torch.zeros(size))

    @classmethod
    def make(cls, *, size: int, heads: int, slots: int, ratio: int, dropout: float) -> RunningMean:
        return cls(size)

    @classmethod
    def check(cls, *, slots: int, ratio: int, heads: int | None = None) -> None:
        if slots == 13:
            raise ValueError(f"a toy memory is superstitious: memory_size={slots}")

    def starting_values(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        yield self.scale, torch.full_like(self.scale, 0.5)

    def start(self, documents: int) -> MemoryState:
        memory = self.scale.new_zeros(documents, 1, self.size)
        return MemoryState(memory, torch.ones(documents, 1, dtype=torch.bool, device=memory.device))

    def write(self, state: MemoryState, written: Written) -> MemoryState:
        weights = written.mask[..., None] / written.mask.sum(1).clamp(min=1)[:, None, None]
        mean = (written.states * weights).sum(1, keepdim=True)
        return replace(state, memory=torch.tanh(self.blend(state.memory + mean)))

    def recollect(self, state: MemoryState, attention: SelfAttention | None = None) -> Recollection:
        keys = split(state.memory, 1)
        return Recollection(state.memory, state.mask, keys, keys)

    def read(self, hidden: torch.Tensor, recollection: Recollection) -> torch.Tensor:
        found = self.project(recollection.memory * self.scale)
        return found.repeat_interleave(len(hidden) // len(found), 0).expand_as(hidden)


class LastTokens(Memory):
    """Another: the last hidden states as extra keys and values, and their mean added; grows as it fills up."""

    def __init__(self, size: int, slots: int) -> None:
        super().__init__(size, slots)
        self.project = nn.Linear(size, size)

    def start(self, documents: int) -> MemoryState:
        memory = self.project.weight.new_zeros(documents, 0, self.size)
        return MemoryState(memory, torch.zeros(documents, 0, dtype=torch.bool, device=memory.device))

    def write(self, state: MemoryState, written: Written) -> MemoryState:
        memory = torch.cat([state.memory, self.project(written.states)], 1)[:, -self.slots :]
        return replace(state, memory=memory, mask=torch.cat([state.mask, written.mask], 1)[:, -self.slots :])

    def recollect(self, state: MemoryState, attention: SelfAttention | None = None) -> Recollection:
        assert attention is not None
        source = attention.source(state.memory, state.mask)
        return Recollection(state.memory, state.mask, source.keys, source.values)

    def extra(self, recollection: Recollection) -> Source:
        return Source(recollection.keys, recollection.values, recollection.mask)

    def read(self, hidden: torch.Tensor, recollection: Recollection) -> torch.Tensor:
        there = recollection.mask[..., None]
        found = (recollection.memory * there).sum(1, keepdim=True) / there.sum(1, keepdim=True).clamp(min=1)
        return found.repeat_interleave(len(hidden) // len(found), 0).expand_as(hidden)

    def to_write(self, inputs: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
        return inputs


KINDS = ("attentive", "attentive-literal", "compressive", "salient")
TOYS = {"running-mean": RunningMean, "last-tokens": LastTokens}


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line in the registry."""
    for kind, toy in TOYS.items():
        monkeypatch.setitem(registry.KINDS, kind, f"{__name__}:{toy.__name__}")


BART: dict[str, Any] = {
    "vocab_size": 41,
    "d_model": 16,
    "encoder_layers": 3,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 48,
    "dropout": 0.0,
    "init_std": 0.2,
    "memory_layers": 2,
    "memory_size": 6,
}


def bart(kind: str, **options: Any) -> AwesomeBart:
    torch.manual_seed(0)
    return AwesomeBart(AwesomeConfig(**BART, memory=kind, **options))


def llama(kind: str) -> AwesomeCausal:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=41,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.2,
        eos_token_id=2,
    )
    settings = AdapterConfig(base="tiny", memory=kind, memory_layers=2, memory_size=6, update="none")
    return AwesomeCausal(LlamaForCausalLM(config).eval(), settings)


DOCUMENTS = [
    DocumentInputs(
        name,
        segments=[[1, 5 + number, 6, 7 + number, 2] for number in range(count)],
        targets=[[8, 9 + number, 2] for number in range(count)],
        requests=[[11, 12]] * count,
        frame=1,
        special=1,
    )
    for name, count in (("long", 3), ("short", 2))
]


def step(model: torch.nn.Module, learn: Any) -> None:
    """One training step; each weight of the memories takes part in it."""
    weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad and ".memory." in name}
    assert weights
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    optimizer = torch.optim.SGD(weights.values(), lr=0.5)
    loss = learn(model, DOCUMENTS, torch.Tensor.backward)
    assert torch.isfinite(loss)
    optimizer.step()
    for name, weight in weights.items():
        assert not torch.equal(weight, before[name]), name


def test_kinds_are_ours_and_the_toys() -> None:
    assert memories.kinds() == (*KINDS, *TOYS)
    assert memories.memory_class("attentive") is AttentiveMemory
    assert memories.memory_class("running-mean") is RunningMean


def test_kinds_are_listed_without_torch() -> None:
    code = "import sys, awesum.memory; print(awesum.memory.kinds(), 'torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == f"{KINDS} False\n"


def test_names_of_the_package_are_all_there() -> None:
    for name in memories.__all__:
        assert getattr(memories, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Forgetful'"):
        _ = memories.Forgetful


def test_each_kind_takes_the_settings_that_it_needs() -> None:
    options: dict[str, Any] = {"size": 8, "heads": 2, "slots": 6, "ratio": 3, "dropout": 0.25}
    attentive, compressive = (memories.make(kind, **options) for kind in ("attentive", "compressive"))
    assert isinstance(attentive, AttentiveMemory)
    assert (attentive.slots, attentive.reading.heads, attentive.writing.dropout) == (6, 2, 0.25)
    assert isinstance(compressive, CompressiveMemory)
    assert (compressive.size, compressive.slots, compressive.ratio) == (8, 6, 3)
    with pytest.raises(KeyError):
        memories.make("none", **options)


def test_what_a_kind_does_is_what_it_implements() -> None:
    made = {kind: memories.make(kind, size=8, heads=2, slots=6) for kind in memories.kinds()}
    assert {kind: (memory.can_read, memory.gives_extra) for kind, memory in made.items()} == {
        "attentive": (True, False),
        "attentive-literal": (True, False),
        "compressive": (False, True),
        "salient": (False, True),
        "running-mean": (True, False),
        "last-tokens": (True, True),
    }
    numbers = {kind: memory.numbers(width=4) for kind, memory in made.items()}
    assert numbers == {
        "attentive": 6 * 24,
        "attentive-literal": 6 * 24,
        "compressive": 6 * 16,
        "salient": 6 * 16,
        "running-mean": 24,
        "last-tokens": 6 * 32,
    }


def test_settings_are_checked_against_the_registry() -> None:
    for make in (lambda **options: AwesomeConfig(**BART | options), AdapterConfig):
        with pytest.raises(
            AwesumError, match="none, attentive, attentive-literal, compressive, salient, running-mean, last-tokens"
        ):
            make(memory="walking-mean")
        with pytest.raises(AwesumError, match="did you mean 'running-mean'"):
            make(memory="runing-mean")
        with pytest.raises(AwesumError, match="superstitious: memory_size=13"):
            make(memory="running-mean", memory_size=13)


@pytest.mark.parametrize("direction", ["forward", "both"])
@pytest.mark.parametrize("kind", TOYS)
def test_bart_has_it(kind: str, direction: str, tmp_path: Path) -> None:
    model = bart(kind, memory_direction=direction)
    if kind == "running-mean":
        assert (model.model.decoder.layers[2].memory.scale == 0.5).all()
    step(model, partial(train, trunk_batch=2))
    model.eval()
    parts = list(generate(model, DOCUMENTS, num_beams=2, max_length=6))
    assert [part[:2] for part in parts] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]
    model.save_pretrained(tmp_path)
    loaded = AwesomeBart.from_pretrained(tmp_path)
    assert list(generate(loaded, DOCUMENTS, num_beams=2, max_length=6)) == parts


@pytest.mark.parametrize("kind", TOYS)
@torch.no_grad()
def test_bart_s_next_segment_reads_it(kind: str) -> None:
    model = bart(kind).eval()
    ids, others = torch.tensor([[0, 5, 6, 2]]), torch.tensor([[0, 9, 8, 2]])
    memory = model(ids, decoder_input_ids=ids).memory
    fresh, later = (model(others, decoder_input_ids=ids, memory=each).logits for each in (None, memory))
    assert not torch.isclose(fresh, later).all(-1).any()


@pytest.mark.parametrize("kind", TOYS)
def test_causal_model_has_it(kind: str, tmp_path: Path) -> None:
    model = llama(kind)
    step(model, partial(causal.train, read=partial(read_now, model)))
    assert model.bytes_of_memory() == 2 * 2 * model.base.model.layers[2].memory["source"].numbers(16) * 4
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / ADAPTER).read_text())["memory"] == kind
    assert (tmp_path / WEIGHTS).is_file()
    loaded = llama(kind)
    loaded.load_adapter(tmp_path)
    for name, weight in model.new_weights().items():
        assert torch.equal(loaded.new_weights()[name], weight), name


@pytest.mark.parametrize("kind", [*TOYS, *KINDS])
@torch.no_grad()
def test_documents_together_read_what_each_reads_alone(kind: str) -> None:
    """Whose memories are of other lengths: two segments of one document, one of the other."""
    model = llama(kind).eval()
    for weight in model.new_weights().values():
        weight.add_(0.2 * torch.randn_like(weight))

    def read(tokens: list[int]) -> Passage:
        passage = Passage()
        model.base.model(input_ids=torch.tensor([tokens]), passage=passage)
        return passage

    states = []
    for segments in ([[5, 6, 7], [8, 9]], [[10, 11]]):
        state = model.start(1)
        for tokens in segments:
            state = after(model.recall(state), read(tokens).written, slice(None), {}, 0)
        states.append(state)
    slots = MemorySlots(model, 3)
    for slot, state in enumerate(states):
        slots.fill(slot, model.recall(state), read([5, 6]), slice(None), limit=4)
    ids = torch.tensor([[12, 13, 14]])
    together = model.base.model(input_ids=ids.expand(2, -1), passage=slots.passage(2)).last_hidden_state
    for row, state in zip(together, states, strict=True):
        passage = model.with_memory(model.recall(state))
        alone = model.base.model(input_ids=ids, passage=passage).last_hidden_state
        torch.testing.assert_close(row, alone[0])
    assert not torch.isclose(together[0], together[1]).all(-1).any()
