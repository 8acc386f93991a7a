"""Tiny causal models of each family with an adapter, and documents to run them on."""

from __future__ import annotations

import random
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

from awesum.errors import AwesumError
from awesum.models.adapter import AwesomeCausal
from awesum.models.adapter_config import AdapterConfig
from awesum.recurrence import DocumentInputs
from awesum.recurrence.causal import Step
from awesum.training.trunk import read_now

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


# ---------------------------------------------------------------------------------------------------- saved and read


def one_line(error: pytest.ExceptionInfo[AwesumError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


# ------------------------------------------------------------------------------------------------------- fingerprint


def changed(name: str) -> str:
    base = pretrained()
    with torch.no_grad():
        dict(base.named_parameters())[name][..., 0] += 0.1
    return adapted(base).fingerprint()
