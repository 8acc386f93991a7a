"""An adapter that knows nothing yet changes nothing; what it remembers and reads is what its equations say."""

from __future__ import annotations

import gc
import json
import random
import weakref
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    GPT2Config,
    GraniteConfig,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

import awesum
from awesum.errors import AwesumError
from awesum.models.adapter import (
    KINDS,
    WEIGHTS,
    AdapterConfig,
    AwesomeCausal,
    LowRank,
    Passage,
    States,
    ends_of,
    is_adapter,
    read_config,
)
from awesum.models.memory_slots import MemorySlots
from awesum.recurrence import DocumentInputs
from awesum.recurrence.causal import Step, answer, first_rows
from awesum.settings import ADAPTER
from awesum.training.trunk import read_now
from tests.reference.adapter import Document
from tests.reference.memory import vectors

END, VOCABULARY = 2, 53
TINY: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.25,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": END,
    "pad_token_id": 0,
}
MIXED = {"layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]}
GEMMA = {"head_dim": 8, "query_pre_attn_scalar": 8}
FAMILIES: dict[str, PretrainedConfig] = {
    "llama": LlamaConfig(**TINY),
    "qwen2": Qwen2Config(**TINY),
    "qwen3": Qwen3Config(**TINY, head_dim=16),
    "mistral": MistralConfig(**TINY, sliding_window=5),
    "gemma": GemmaConfig(**TINY, head_dim=8),
    "gemma2": Gemma2Config(**TINY, **GEMMA, **MIXED, sliding_window=5, final_logit_softcapping=3.0),
    "gemma2 without a cap on its attention": Gemma2Config(
        **TINY, **GEMMA, **MIXED, sliding_window=5, final_logit_softcapping=3.0, attn_logit_softcapping=None
    ),
    "gemma3": Gemma3TextConfig(**TINY, **GEMMA, **MIXED, sliding_window=5),
}
SMALL: dict[str, Any] = {"memory_layers": 2, "update_layers": 2, "memory_size": 6, "compression_ratio": 2, "rank": 3}
UPDATES = ["none", "low-rank", "full"]
MEMORIES = ["attentive", "attentive-literal", "compressive"]


def pretrained(family: str = "llama", seed: int = 0, **changes: Any) -> PreTrainedModel:
    """Random, as if it were trained: no bias zero, no norm one."""
    torch.manual_seed(seed)
    config = deepcopy(FAMILIES[family])
    for name, value in changes.items():
        setattr(config, name, value)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                weight.add_(0.3 * torch.randn_like(weight))
    return model


def adapted(base: PreTrainedModel, trained: bool = False, **options: Any) -> AwesomeCausal:
    """Fresh, or as if it were trained: every new weight has some noise."""
    base.set_attn_implementation("awesum_grouped")
    torch.manual_seed(7)
    model = AwesomeCausal(base, AdapterConfig(base="tiny", **SMALL | options)).eval()
    if trained:
        with torch.no_grad():
            for name, weight in model.new_weights().items():
                if not name.endswith((".initial", ".queries")):
                    weight.add_(0.15 * torch.randn_like(weight))
    return model


def document(segments: int, seed: int = 0, empty: tuple[int, ...] = (), frame: int = 2) -> DocumentInputs:
    """Segments, requests and targets of many lengths."""
    chance = random.Random(seed)

    def some(low: int, high: int) -> list[int]:
        return [chance.randrange(3, VOCABULARY) for _ in range(chance.randint(low, high))]

    return DocumentInputs(
        f"document {seed}",
        [[1] * frame + some(2, 12) for _ in range(segments)],
        [[*([] if number in empty else some(1, 6)), END] for number in range(segments)],
        requests=[some(1, 4) for _ in range(segments)],
        frame=frame,
        special=1,
    )


def documents() -> list[DocumentInputs]:
    return [document(3, 1), document(3, 2, empty=(1,)), document(3, 3)]


def step_of(model: AwesomeCausal, batch: list[DocumentInputs], number: int) -> Step:
    return Step.of(batch, number, partial(read_now, model), model.device)


def rows(losses: torch.Tensor, batch: list[DocumentInputs], number: int) -> list[torch.Tensor]:
    return [row[: len(each.targets[number])] for row, each in zip(losses, batch, strict=True)]


@torch.no_grad()
def plain_losses(plain: PreTrainedModel, each: DocumentInputs, number: int) -> torch.Tensor:
    """What the library's model makes of a prompt and its answer."""
    target = torch.tensor(each.targets[number])
    ids = torch.tensor([[*each.segments[number], *each.requests[number], *each.targets[number]]])
    logits = plain(ids).logits[0, -len(target) - 1 : -1]
    return torch.nn.functional.cross_entropy(logits, target, reduction="none")


# -------------------------------------------------------------------------------------------------------- zero start


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("memory", ["none", "attentive"])
@pytest.mark.parametrize("family", FAMILIES)
def test_fresh_adapter_answers_as_the_pretrained_model(family: str, memory: str, update: str) -> None:
    base = pretrained(family)
    plain = deepcopy(base)
    model = adapted(base, memory=memory, update=update)
    for batch in (documents(), documents()[:1]):  # padded, and not
        states: States = model.start(len(batch))
        for number in range(3):
            with torch.no_grad():
                losses, states = answer(model, states, step_of(model, batch, number))
            for row, each in zip(rows(losses, batch, number), batch, strict=True):
                torch.testing.assert_close(row, plain_losses(plain, each, number), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_compressive_memory_begins_with_nothing(family: str) -> None:
    """The first segment is answered as by the pretrained model, and the second is not."""
    base = pretrained(family)
    plain = deepcopy(base)
    model = adapted(base, memory="compressive")
    batch = documents()
    with torch.no_grad():
        losses, states = answer(model, model.start(3), step_of(model, batch, 0))
        for row, each in zip(rows(losses, batch, 0), batch, strict=True):
            torch.testing.assert_close(row, plain_losses(plain, each, 0), rtol=1e-4, atol=1e-4)
        losses, _ = answer(model, states, step_of(model, batch, 1))
    for row, each in zip(rows(losses, batch, 1), batch, strict=True):
        assert (row - plain_losses(plain, each, 1)).abs().max() > 1e-4


@pytest.mark.parametrize("family", ["mistral", "gemma2", "gemma3"])
def test_windows_of_these_tests_matter(family: str) -> None:
    """The tests above are not blind: with another window the answers are others."""
    each = document(1, 1)
    narrow, wide = pretrained(family), pretrained(family, sliding_window=100)
    assert not torch.allclose(plain_losses(narrow, each, 0), plain_losses(wide, each, 0), atol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_passage_the_library_s_model_is_as_it_was(family: str) -> None:
    base = pretrained(family)
    base.set_attn_implementation("awesum_grouped")
    ids = torch.randint(3, VOCABULARY, (2, 11))
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    with torch.no_grad():
        before = base(ids, attention_mask=mask).logits
        written = base.generate(ids, attention_mask=mask, max_new_tokens=5, do_sample=False, pad_token_id=0)
        model = adapted(base, trained=True, update="full")
        assert torch.equal(model.base(ids, attention_mask=mask).logits, before)
        again = base.generate(ids, attention_mask=mask, max_new_tokens=5, do_sample=False, pad_token_id=0)
    assert torch.equal(again, written)


@pytest.mark.parametrize("layers", [1, 3, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_trunk_and_what_is_above_it_are_the_whole(family: str, layers: int) -> None:
    base = pretrained(family)
    plain = deepcopy(base)
    model = adapted(base, memory_layers=layers, update="none")
    ids = torch.randint(3, VOCABULARY, (1, 13))
    with torch.no_grad():
        trunk = model.trunk(ids)
        expected = plain(ids, output_hidden_states=True)
        torch.testing.assert_close(trunk, expected.hidden_states[4 - layers], rtol=1e-4, atol=1e-4)
        logits = model.logits(model.run_top_layers(Passage(answering=True, trunk=trunk)))
    torch.testing.assert_close(logits, expected.logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_trunk_that_goes_on_from_a_cache_is_the_whole_trunk(family: str) -> None:
    model = adapted(pretrained(family))
    ids = torch.randint(3, VOCABULARY, (1, 17))
    with torch.no_grad():
        whole = model.trunk(ids)
        cache = DynamicCache()
        parts = [model.trunk(ids[:, start:end], cache) for start, end in ((0, 9), (9, 10), (10, 17))]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-4, atol=1e-4)


# --------------------------------------------------------------------------------------------------------- equations


@pytest.mark.parametrize("update", ["low-rank", "full"])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("memory", ["none", *MEMORIES])
def test_losses_and_memories_are_those_of_the_equations(memory: str, family: str, update: str) -> None:
    """Three segments of three documents side by side, padded, against each alone."""
    model = adapted(pretrained(family), trained=True, memory=memory, update=update)
    assert compared(model) == (set() if memory == "none" else {2, 3})


@pytest.mark.parametrize("given", [False, True], ids=["all alike", "some salient"])
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_salient_memory_is_that_of_the_reference(family: str, given: bool) -> None:
    """Six slots for more tokens than that; what is not selected is never kept."""
    model = adapted(pretrained(family), trained=True, memory="salient", update="low-rank")
    chance = random.Random(5)
    batch = [
        replace(
            each,
            salience=[[chance.choice([0, 0.25, 0.5, 1]) for _ in segment] for segment in each.segments]
            if given
            else [],
        )
        for each in documents()
    ]
    assert compared(model, batch) == {2, 3}


def compared(model: AwesomeCausal, batch: list[DocumentInputs] | None = None) -> set[int]:
    """The layers that remember, once losses and memories of some documents were found to be the equations'."""
    batch = batch or documents()
    slow = [Document(model) for _ in batch]
    states: States = model.start(3)
    for number in range(3):
        with torch.no_grad():
            losses, states = answer(model, states, step_of(model, batch, number))
            recalled = model.recall(states)
        expected = [one.losses(each, number) for one, each in zip(slow, batch, strict=True)]
        for row, alone in zip(rows(losses, batch, number), expected, strict=True):
            np.testing.assert_allclose(row.numpy(), alone, rtol=2e-4, atol=2e-4)
        for layer, of in recalled.items():
            for kind in KINDS:
                for at, one in enumerate(slow):
                    ours = of[kind].memory[at][of[kind].mask[at]].numpy()
                    theirs = one.memory[layer, kind]
                    if isinstance(theirs, list):
                        theirs = vectors(theirs, ours.shape[1])
                    theirs = np.concatenate(theirs) if isinstance(theirs, tuple) else theirs
                    np.testing.assert_allclose(ours, theirs, rtol=5e-4, atol=5e-4)
    return set(recalled)


@pytest.mark.parametrize("layers", [(1, 2), (0, 3), (1,), "all"], ids=str)
@pytest.mark.parametrize("memory", MEMORIES)
def test_memory_in_any_layers_is_that_of_the_equations(memory: str, layers: Any) -> None:
    """Also where layers above it or between neither remember nor change; the last one changes."""
    model = adapted(pretrained(), trained=True, memory=memory, memory_layers=layers, update_layers=1)
    numbers = range(4) if layers == "all" else layers
    assert model.first == numbers[0]
    assert {int(name.split(".")[0]) for name in model.new_weights()} == {*numbers, 3}
    assert compared(model) == set(numbers)


def test_layers_that_are_not_there_are_reported_in_one_line() -> None:
    for options, text in (({"memory_layers": (2, 9)}, "0 to 3"), ({"update_layers": 5}, "there are 4 layers")):
        with pytest.raises(AwesumError, match=text) as error:
            adapted(pretrained(), **options)
        one_line(error)


@pytest.mark.parametrize("memory", MEMORIES)
def test_each_memory_is_read(memory: str) -> None:
    """The equations are not compared where they say nothing: both memories of both layers change the answer."""
    model = adapted(pretrained(), trained=True, memory=memory)
    batch = documents()[:1]
    with torch.no_grad():
        _, states = answer(model, model.start(1), step_of(model, batch, 0))
        with_it, _ = answer(model, states, step_of(model, batch, 1))
        for layer in (2, 3):
            for kind in KINDS:
                without = {number: dict(of) for number, of in states.items()}
                without[layer][kind] = model.start(1)[layer][kind]
                without_it, _ = answer(model, without, step_of(model, batch, 1))
                assert (with_it - without_it).abs().max() > 1e-5, (layer, kind)


def test_compressive_memory_is_read_without_position() -> None:
    """One layer's attention by hand: what stands in memory has keys without rotation, and every query sees it."""
    model = adapted(pretrained(num_hidden_layers=1), trained=True, memory="compressive", memory_layers=1, update="none")
    attention = model.base.model.layers[0].answering.self_attn
    seen: list[torch.Tensor] = []
    attention.o_proj.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    given: list[torch.Tensor] = []
    model.base.model.layers[0].answering.input_layernorm.register_forward_hook(lambda *args: given.append(args[2]))
    torch.manual_seed(3)
    memory = torch.randn(1, 6, 32)
    mask = torch.tensor([[False, True, True, False, False, True]])
    state = {kind: deepcopy(start) for kind, start in model.start(1)[0].items()}
    state["summary"] = type(state["summary"])(memory, mask)
    with torch.no_grad():
        passage = model.with_memory(model.recall({0: state}))
        model.base.model(input_ids=torch.tensor([[5, 9, 11]]), passage=passage)
        hidden = given[-1][0]
        own = [attention.q_proj(hidden), attention.k_proj(hidden), attention.v_proj(hidden)]
        there = memory[0][mask[0]]
        keys, values = attention.k_proj(there).view(-1, 2, 8), attention.v_proj(there).view(-1, 2, 8)
        q, k, v = (states.view(3, -1, 8) for states in own)
        position = torch.arange(3)[None]
        cos, sin = (part[0] for part in model.base.model.rotary_emb(hidden[None], position))

        def rotated(states: torch.Tensor) -> torch.Tensor:
            turned = torch.cat([-states[..., 4:], states[..., :4]], -1)
            return states * cos[:, None] + turned * sin[:, None]

        q, k = rotated(q), rotated(k)
        expected = torch.zeros(3, 4, 8)
        for at in range(3):
            for head in range(4):
                all_keys = torch.cat([keys[:, head // 2], k[: at + 1, head // 2]])
                all_values = torch.cat([values[:, head // 2], v[: at + 1, head // 2]])
                expected[at, head] = (all_keys @ q[at, head] / 8**0.5).softmax(0) @ all_values
    torch.testing.assert_close(seen[-1][0], expected.flatten(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("memory", MEMORIES)
def test_only_the_segment_and_the_answer_are_written(memory: str) -> None:
    """Neither frame, request nor the end of the answer; and nothing of a graph."""
    model = adapted(pretrained(), trained=True, memory=memory)
    batch = documents()
    _, states = answer(model, model.start(3), step_of(model, batch, 0))
    for of in states.values():
        for state in of.values():
            assert not state.pending[0].states.requires_grad
            assert not state.memory.requires_grad
        assert of["source"].pending[0].mask.sum(1).tolist() == [len(each.segments[0]) - 2 for each in batch]
        assert of["summary"].pending[0].mask.sum(1).tolist() == [len(each.targets[0]) - 1 for each in batch]

    def written(kind: str, **changes: Any) -> torch.Tensor:
        changed = DocumentInputs(**vars(batch[0]) | changes)
        with torch.no_grad():
            _, after = answer(model, model.start(1), step_of(model, [changed], 0))
        (written,) = after[2][kind].pending
        return written.states[written.mask]

    first = batch[0]
    end = {"targets": [[*first.targets[0][:-1], 9]]}
    request = {"requests": [[*first.requests[0], 7, 8, 9]]}
    assert torch.equal(written("source", **end), written("source"))
    assert torch.equal(written("summary", **end), written("summary"))
    torch.testing.assert_close(written("source", **request), written("source"))
    assert len(written("source", frame=0)) == len(written("source")) + 2
    other = {"targets": [[first.targets[0][0] ^ 1, *first.targets[0][1:]]]}
    assert not torch.allclose(written("summary", **other), written("summary"))


@pytest.mark.parametrize("memory", MEMORIES)
def test_empty_answer_leaves_the_memory_of_the_summary(memory: str) -> None:
    model = adapted(pretrained(), trained=True, memory=memory)
    loud, silent = document(3, 1), document(3, 2, empty=(1,))
    for batch in ([silent], [loud, silent]):
        at = len(batch) - 1
        with torch.no_grad():
            _, states = answer(model, model.start(len(batch)), step_of(model, batch, 0))
            before = model.recall(states)
            _, states = answer(model, states, step_of(model, batch, 1))
            after = model.recall(states)
        for layer in (2, 3):
            one, other = before[layer]["summary"], after[layer]["summary"]
            assert torch.equal(one.mask[at], other.mask[at])
            assert torch.equal(one.memory[at][one.mask[at]], other.memory[at][other.mask[at]])
            one, other = before[layer]["source"], after[layer]["source"]
            assert not torch.equal(one.memory[at], other.memory[at])


# ---------------------------------------------------------------------------------------------------------- learning

UPDATE_OF_MEMORY = ("writing", "u1", "u2", "g1", "g2", "gate")


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("memory", ["none", *MEMORIES])
def test_every_new_weight_learns_and_no_other(memory: str, update: str) -> None:
    model = adapted(pretrained(), trained=True, memory=memory, update=update, memory_size=4)
    batch = documents()
    states: States = model.start(3)
    new = {name: weight for name, weight in model.new_weights().items() if not name.endswith((".initial", ".queries"))}
    assert bool(new) == (memory != "none" or update != "none")
    learned: list[set[str]] = []
    for number in range(2):
        losses, states = answer(model, states, step_of(model, batch, number))
        if losses.requires_grad:  # a compressive memory that is empty has nothing to learn from
            losses.sum().backward()
        learned.append({name for name, weight in new.items() if weight.grad is not None and weight.grad.any()})
        model.zero_grad(set_to_none=True)
    late = {name for name in new if memory.startswith("attentive") and set(name.split(".")) & set(UPDATE_OF_MEMORY)}
    late |= {name for name in new if ".compress." in name}
    assert learned[0] == set(new) - late
    assert learned[1] == set(new)
    assert bool(late) == (memory != "none")


@pytest.mark.parametrize("update", UPDATES)
def test_pretrained_weights_are_not_to_be_learned(update: str) -> None:
    base = pretrained()
    before = {name: weight.clone() for name, weight in base.named_parameters()}
    model = adapted(base, memory="attentive", update=update)
    wanted = {id(weight) for weight in model.new_weights().values()}
    assert {id(weight) for weight in model.parameters() if weight.requires_grad} <= wanted
    optimizer = torch.optim.SGD([weight for weight in model.parameters() if weight.requires_grad], 0.5)
    batch = documents()
    losses, _ = answer(model, model.start(3), step_of(model, batch, 0))
    losses.sum().backward()
    optimizer.step()
    names = {name.replace(".prompted.", "."): weight for name, weight in model.base.named_parameters()}
    for name, weight in before.items():
        assert torch.equal(names[name], weight), name
    assert all(weight.grad is None for name, weight in names.items() if name in before)


@pytest.mark.usefixtures("nothing_older")
@pytest.mark.parametrize("memory", MEMORIES)
def test_no_graph_is_kept_from_segment_to_segment(memory: str) -> None:
    model = adapted(pretrained(), trained=True, memory=memory)
    alive: weakref.WeakSet[Any] = weakref.WeakSet()

    class Packed:
        def __init__(self, tensor: torch.Tensor) -> None:
            self.tensor = tensor

    def pack(tensor: torch.Tensor) -> Packed:
        packed = Packed(tensor)
        alive.add(packed)
        return packed

    each = document(1, 5)
    alike = DocumentInputs(
        "alike", each.segments * 6, each.targets * 6, requests=each.requests * 6, frame=each.frame, special=1
    )
    states: States = model.start(1)
    held = []
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed.tensor):
        for number in range(6):
            losses, states = answer(model, states, step_of(model, [alike], number))
            gc.collect()
            held.append(len(alive))
            losses.sum().backward()
            del losses
            gc.collect()
            assert len(alive) == 0
    assert held[0] < held[1] == held[2] == held[5]


# ---------------------------------------------------------------------------------------------------- saved and read


def one_line(error: pytest.ExceptionInfo[AwesumError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


def all_losses(model: AwesomeCausal) -> torch.Tensor:
    batch = documents()
    states: States = model.start(3)
    found = []
    for number in range(3):
        with torch.no_grad():
            losses, states = answer(model, states, step_of(model, batch, number))
        found.append(losses.flatten())
    return torch.cat(found)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("memory", ["none", *MEMORIES])
def test_adapter_is_saved_alone_and_read_again(memory: str, update: str, tmp_path: Path) -> None:
    model = adapted(pretrained(), trained=True, memory=memory, update=update)
    assert not is_adapter(tmp_path)
    model.save_pretrained(tmp_path)
    assert is_adapter(tmp_path)
    assert read_config(tmp_path) == replace(model.adapter_config, base_sha256=model.fingerprint())
    saved = load_file(tmp_path / WEIGHTS)
    assert not any("prompted" in name or "original" in name or "initial" in name for name in saved)
    numbers = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert sum(tensor.numel() for tensor in saved.values()) == numbers
    assert (tmp_path / WEIGHTS).stat().st_size < 4 * numbers + 200 * len(saved) + 200
    fresh = adapted(pretrained(), memory=memory, update=update)
    expected = all_losses(model)
    if saved:
        assert not torch.allclose(all_losses(fresh), expected, atol=1e-3)
    fresh.load_adapter(tmp_path)
    assert torch.equal(all_losses(fresh), expected)


def test_half_precision_takes_half_the_room(tmp_path: Path) -> None:
    model = adapted(pretrained(), trained=True)
    for name, dtype in (("whole", torch.float32), ("half", torch.float16)):
        model.save_pretrained(tmp_path / name, dtype)
    sizes = [(tmp_path / name / WEIGHTS).stat().st_size for name in ("whole", "half")]
    assert sizes[1] < 0.6 * sizes[0]
    fresh = adapted(pretrained())
    fresh.load_adapter(tmp_path / "half")
    assert all(weight.dtype == torch.float32 for weight in fresh.new_weights().values())
    torch.testing.assert_close(all_losses(fresh), all_losses(model), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("update", ["low-rank", "full"])
@pytest.mark.parametrize("memory", MEMORIES)
def test_merged_adapter_answers_the_same(memory: str, update: str) -> None:
    model = adapted(pretrained(), trained=True, memory=memory, update=update)
    expected = all_losses(model)
    model.merge()
    torch.testing.assert_close(all_losses(model), expected, rtol=1e-4, atol=1e-4)
    assert not any(isinstance(module, LowRank) for module in model.modules())


def damaged(kind: str, path: Path) -> None:
    saved = load_file(path / WEIGHTS)
    name = sorted(saved)[-1]
    if kind == "a tensor less":
        save_file({key: tensor for key, tensor in saved.items() if key != name}, path / WEIGHTS)
    elif kind == "a tensor more":
        save_file({**saved, "0.memory.source.u1.weight": saved[name].clone()}, path / WEIGHTS)
    elif kind == "another shape":
        save_file({**saved, name: saved[name][:-1].contiguous()}, path / WEIGHTS)
    elif kind == "garbage":
        (path / WEIGHTS).write_bytes(b"\x00garbage\n" * 50)
    elif kind == "half":
        (path / WEIGHTS).write_bytes((path / WEIGHTS).read_bytes()[:-100])
    else:
        (path / WEIGHTS).unlink()


@pytest.mark.parametrize("kind", ["a tensor less", "a tensor more", "another shape", "garbage", "half", "nothing"])
def test_adapter_that_does_not_fit_is_reported_in_one_line(kind: str, tmp_path: Path) -> None:
    model = adapted(pretrained(), trained=True)
    model.save_pretrained(tmp_path)
    damaged(kind, tmp_path)
    fresh = adapted(pretrained())
    before = all_losses(fresh)
    with pytest.raises(AwesumError) as error:
        fresh.load_adapter(tmp_path)
    assert WEIGHTS in one_line(error)
    assert torch.equal(all_losses(fresh), before), "half of an adapter was taken over"


@pytest.mark.parametrize(
    "text",
    ['{"memory": "attentive",', "[]", "7", '"text"', "null", '{"memory": "atentive"}', '{"rank": 0}', '{"rang": 8}'],
)
def test_configuration_that_cannot_be_read_is_reported_in_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / ADAPTER).write_text(text)
    with pytest.raises(AwesumError) as error:
        read_config(tmp_path)
    one_line(error)


def test_configuration_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(AwesumError) as error:
        read_config(tmp_path)
    assert ADAPTER in one_line(error)
    (tmp_path / ADAPTER).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(AwesumError) as error:
        read_config(tmp_path)
    one_line(error)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"memory": "atentive"}, "did you mean 'attentive'"),
        ({"salient": "key-value"}, "salient='key-value' is not one of"),
        ({"update": "lowrank"}, "did you mean 'low-rank'"),
        ({"update_layers": (1, 2)}, "update_layers must be a whole number"),
        ({"memory_layers": 2.5}, "memory_layers=2.5: give a number"),
        ({"memory_layers": True}, "memory_layers=True: give a number"),
        ({"memory_layers": ["a"]}, "give a number of last layers"),
        ({"memory_layers": "some"}, "give a number of last layers"),
        ({"memory_size": True}, "memory_size must be a whole number"),
        ({"rank": 0}, "rank must be a whole number"),
        ({"compression_ratio": 2.5}, "compression_ratio must be a whole number"),
        ({"memory": "compressive", "memory_size": 7}, "is odd"),
    ],
    ids=str,
)
def test_configuration_that_makes_no_sense(options: dict[str, Any], text: str) -> None:
    with pytest.raises(AwesumError, match=text) as error:
        AdapterConfig(**options)
    one_line(error)


def test_configuration_is_plain_text(tmp_path: Path) -> None:
    adapted(pretrained(), memory="compressive").save_pretrained(tmp_path)
    values = json.loads((tmp_path / ADAPTER).read_text())
    assert (values["base"], values["memory"], values["memory_layers"]) == ("tiny", "compressive", 2)
    assert values["system"] == "adapter"


def test_configuration_of_an_older_version_is_read(tmp_path: Path) -> None:
    """Without its system, and with the older name of a setting; the shipped adapter is one."""
    (tmp_path / ADAPTER).write_text('{"base": "tiny", "memory": "none", "salient": "points"}')
    config = read_config(tmp_path)
    assert (config.salient, config.system) == ("rewrite", "adapter")
    shipped = read_config(Path(awesum.__file__).parent / "writer")
    assert (shipped.salient, shipped.memory, shipped.system) == ("rewrite", "none", "adapter")
    with pytest.raises(AwesumError, match="'points' is not one of none, text, rewrite"):
        AdapterConfig(salient="points")


@pytest.mark.parametrize(
    "config",
    [
        GPT2Config(n_embd=32, n_layer=4, n_head=4, vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=END),
        GraniteConfig(**TINY, residual_multiplier=0.3, attention_multiplier=0.35),
    ],
    ids=lambda config: config.model_type,
)
def test_model_of_another_structure_is_refused(config: PretrainedConfig) -> None:
    """Granite has the parts of a Llama, and puts them together in another way."""
    base = AutoModelForCausalLM.from_config(config)
    with pytest.raises(AwesumError) as error:
        adapted(base)
    one_line(error)


def test_more_layers_than_there_are() -> None:
    with pytest.raises(AwesumError, match="there are 4 layers") as error:
        adapted(pretrained(), memory_layers=5)
    one_line(error)


def test_rank_is_at_most_that_of_the_matrix() -> None:
    model = adapted(pretrained(), rank=1000, trained=True)
    shapes = {tuple(weight.shape) for name, weight in model.new_weights().items() if name.endswith(".b")}
    assert shapes == {(32, 32), (16, 16), (48, 32)}


# ------------------------------------------------------------------------------------------------------- fingerprint


def changed(name: str) -> str:
    base = pretrained()
    with torch.no_grad():
        dict(base.named_parameters())[name][..., 0] += 0.1
    return adapted(base).fingerprint()


def test_fingerprint_is_that_of_the_pretrained_model() -> None:
    plain = adapted(pretrained()).fingerprint()
    for options in ({"memory": "none"}, {"update": "full"}, {"trained": True}, {"memory": "compressive"}):
        assert adapted(pretrained(), **options).fingerprint() == plain
    for name in ("embed_tokens.weight", "layers.0.mlp.up_proj.weight", "layers.1.input_layernorm.weight"):
        assert changed(f"model.{name}") != plain, name
    for name in ("layers.2.mlp.up_proj.weight", "layers.3.input_layernorm.weight", "norm.weight"):
        assert changed(f"model.{name}") != plain, name


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("llama", {"rms_norm_eps": 1e-2}),
        ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}),
        ("mistral", {"sliding_window": 4}),
    ],
    ids=["norm", "positions", "window"],
)
def test_fingerprint_tells_models_apart_that_differ_in_their_configuration_only(
    family: str, changes: dict[str, Any]
) -> None:
    one, other = adapted(pretrained(family)), adapted(pretrained(family, **changes))
    ids = torch.randint(3, VOCABULARY, (1, 12))
    with torch.no_grad():
        assert not torch.allclose(one.trunk(ids), other.trunk(ids), atol=1e-3)
    assert one.fingerprint() != other.fingerprint()


# ------------------------------------------------------------------------------------------------------ side by side


def test_documents_that_have_ended_drop_out() -> None:
    model = adapted(pretrained(), trained=True)
    batch = documents()
    with torch.no_grad():
        _, states = answer(model, model.start(3), step_of(model, batch, 0))
        expected, _ = answer(model, states, step_of(model, batch, 1))
        found, _ = answer(model, first_rows(states, 2), step_of(model, batch[:2], 1))
    for ours, theirs in zip(rows(found, batch[:2], 1), rows(expected, batch, 1)[:2], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_slots_keep_their_own_memories() -> None:
    """What is noted at a place twice is the second; who moves takes all along."""
    model = adapted(pretrained(), trained=True)
    slots = MemorySlots(model, 3)
    read = Passage()
    with torch.no_grad():
        model.base.model(input_ids=torch.tensor([[5, 6, 7, 8]]), passage=read)
    for slot in range(2):
        slots.fill(slot, None, read, slice(1, 3), limit=4)
    torch.manual_seed(2)
    wrong, right = torch.randn(2, 2, 3, 32)
    slots.note(Passage(written={2: wrong, 3: wrong}), torch.tensor([[3, 4, 5], [3, 4, 5]]), [3, 3])
    slots.note(Passage(written={2: right, 3: right}), torch.tensor([[4, 5, 6], [4, 5, 6]]), [3, 3])
    states = slots.after(1, 4)
    for layer in (2, 3):
        assert torch.equal(states[layer]["summary"].pending[0].states[0], right[1])
        assert torch.equal(states[layer]["source"].pending[0].states[0], read.written[layer][0, 1:3])
    slots.move(1, 0)
    assert torch.equal(slots.after(0, 3)[2]["summary"].pending[0].states[0], right[1, :2])
    assert slots.after(0, 1)[2]["summary"].pending == ()
    assert slots.after(0, 0)[2]["summary"].pending == ()


def test_end_of_an_answer_is_what_the_model_says() -> None:
    base = pretrained()
    assert ends_of(base) == [END]
    base.generation_config.eos_token_id = [9, END]
    assert ends_of(base) == [9, END]
    assert adapted(base).end == 9
    base.generation_config.eos_token_id = base.config.eos_token_id = None
    assert ends_of(base) == []
    with pytest.raises(AwesumError, match="which token ends an answer") as error:
        _ = adapted(pretrained_without_end()).end
    one_line(error)


def pretrained_without_end() -> PreTrainedModel:
    base = pretrained()
    base.generation_config.eos_token_id = base.config.eos_token_id = None
    return base


@torch.no_grad()
def test_older_adapter_is_loaded_as_the_literal_variant(tmp_path: Path) -> None:
    """With the same answers; and neither variant is loaded as the other."""
    model = adapted(pretrained(), trained=True, memory="attentive-literal")
    expected, _ = answer(model, model.start(1), step_of(model, documents()[:1], 0))
    model.save_pretrained(tmp_path)
    stored = json.loads((tmp_path / ADAPTER).read_text())
    assert stored.pop("memory_format") == 2
    (tmp_path / ADAPTER).write_text(json.dumps(stored | {"memory": "attentive"}))
    assert read_config(tmp_path).memory == "attentive-literal"
    loaded = AwesomeCausal(pretrained(), read_config(tmp_path))
    loaded.load_adapter(tmp_path)
    found, _ = answer(loaded.eval(), loaded.start(1), step_of(loaded, documents()[:1], 0))
    torch.testing.assert_close(found, expected)
    other = adapted(pretrained(), memory="attentive")
    with pytest.raises(AwesumError, match=r"memory='attentive-literal', not 'attentive'.*='attentive-literal'"):
        other.load_adapter(tmp_path)
    other.save_pretrained(tmp_path)
    with pytest.raises(AwesumError, match=r"memory='attentive', not 'attentive-literal'.*='attentive'"):
        model.load_adapter(tmp_path)


def test_slots_fewer_than_heads_are_refused() -> None:
    with pytest.raises(AwesumError, match="memory_size=3 is less than the 4 attention heads") as error:
        adapted(pretrained(), memory="attentive", memory_size=3)
    one_line(error)
