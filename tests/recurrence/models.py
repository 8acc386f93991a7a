"""A tiny BART with memories as if it were trained, documents for it, and what it learns from them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch

from awesum.models.bart import AwesomeBart
from awesum.models.bart_config import AwesomeConfig
from awesum.recurrence import DocumentInputs, train

START, PAD, END = 0, 1, 2
VOCABULARY = 41
TINY: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 24,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 48,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "init_std": 0.2,
    "memory_layers": [-1],
    "memory_size": 6,
    "compression_ratio": 2,
}
VARIANTS = [
    {"memory": memory, "salient": salient, "memory_direction": direction}
    for memory in ("none", "attentive", "compressive", "salient")
    for salient in ("none", "key-value")
    for direction in ("forward", "both")
    if memory != "none" or direction == "forward"
]
KINDS = [variant for variant in VARIANTS if variant["salient"] == "none" and variant["memory_direction"] == "forward"]
EVERYTHING = [
    {"memory": memory, "salient": "key-value", "memory_direction": "both"} for memory in ("attentive", "compressive")
]
WRITING: dict[str, Any] = {"num_beams": 3, "min_length": 4, "max_length": 10, "no_repeat_ngram_size": 3}


def named(variant: dict[str, Any]) -> str:
    return "-".join(map(str, variant.values()))


def tiny(seed: int = 3, **options: Any) -> AwesomeBart:
    """As if it were trained, in float64: no bias zero, no norm one, no read that finds nothing."""
    model = AwesomeBart(AwesomeConfig(**TINY | options)).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
            weight.copy_(1 + noise * 0.2 if "norm" in name and name.endswith("weight") else noise * 0.25)
    return model


def document(segments: int, seed: int = 0, empty: tuple[int, ...] = (), name: str | None = None) -> DocumentInputs:
    """Segments and targets of many lengths; salient are two stretches of each segment, seen from all others."""
    chance = random.Random(seed)

    def framed(length: int) -> list[int]:
        return [START, *(chance.randrange(4, VOCABULARY) for _ in range(length)), END]

    made = [framed(chance.randint(3, 8)) for _ in range(segments)]
    targets = [framed(0 if number in empty else chance.randint(1, 5)) for number in range(segments)]
    spans = [(number, start, start + 2) for number in range(segments) for start in (1, len(made[number]) - 2)]
    salient = [[at for at, (of, _, _) in enumerate(spans) if of != number][:5] for number in range(segments)]
    how = [[chance.choice([0, 0.5, 1]) for _ in tokens] for tokens in made]
    return DocumentInputs(name or f"document {seed}", made, targets, spans, salient, salience=how)


def documents(empty: tuple[int, ...] = ()) -> list[DocumentInputs]:
    """The longest is not the first, and one has a single segment."""
    return [document(2, 1), document(4, 2, empty), document(1, 3), document(3, 4)]


def learn(
    model: AwesomeBart, batch: list[DocumentInputs], **options: Any
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model.zero_grad()
    loss = train(model, batch, lambda loss: loss.backward(), **options)
    return loss, gradients(model)


def gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Of every weight; one that was not used has none, which is zero."""
    return {
        name: torch.zeros_like(weight) if weight.grad is None else weight.grad.clone()
        for name, weight in model.named_parameters()
    }


def same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor], tolerance: float = 1e-5) -> None:
    """The loss is taken in float32, whatever the model computes in."""
    for name, gradient in theirs.items():
        scale = max(float(gradient.abs().max()), 1e-3)
        torch.testing.assert_close(
            ours[name], gradient, rtol=0, atol=tolerance * scale, msg=lambda text, name=name: f"{name}: {text}"
        )


def same_direction(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor], least: float) -> None:
    """With eight bits of precision, the cosine is at least that much; of another direction it would be near 0."""
    for name, gradient in theirs.items():
        if gradient.abs().max() > 1e-6:
            cosine = torch.nn.functional.cosine_similarity(ours[name].flatten(), gradient.flatten(), 0)
            assert cosine > least, f"{name}: {cosine}"


# ----------------------------------------------------------------------------------------------------------- memory


def alike(segments: int) -> DocumentInputs:
    """Segments of equal length, so that one costs what another costs."""
    chance = random.Random(segments)
    made = [[START, *(chance.randrange(4, VOCABULARY) for _ in range(6)), END] for _ in range(segments)]
    salient = [[0] if number else [] for number in range(segments)]
    return DocumentInputs("alike", made, [segment[:5] for segment in made], [(0, 1, 3)], salient)


# ------------------------------------------------------------------------------------------------------- generating


def parts_of(written: Iterator[tuple[int, int, list[int]]], count: int) -> list[list[list[int]]]:
    """The parts of each document; they must come in order."""
    parts: list[list[list[int]]] = [[] for _ in range(count)]
    for place, segment, tokens in written:
        assert segment == len(parts[place])
        parts[place].append(tokens)
    return parts
