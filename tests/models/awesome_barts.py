"""Tiny models with the paper's memories, and batches of segments to run them on."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from transformers import BartConfig, BartForConditionalGeneration

from awesum.models.bart import AwesomeBart, AwesomeOutput
from awesum.models.bart_config import AwesomeConfig
from awesum.models.bart_layers import Salient

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


def without_gradient(model: AwesomeBart, parts: tuple[str, ...] = ("memory", "ahead")) -> set[str]:
    """The weights of memories that a backward pass has not reached."""
    return {
        name
        for name, weight in model.named_parameters()
        if any(f".{part}." in name for part in parts) and (weight.grad is None or not weight.grad.any())
    }
