"""Models with random weights and documents of random tokens, for measuring time and peak memory."""

from __future__ import annotations

import random

import torch

from awesum.analysis.segmentation import UPPER
from awesum.models.bart import AwesomeBart
from awesum.models.bart_config import AwesomeConfig
from awesum.recurrence import DocumentInputs

TARGET = 96
"""Tokens per target."""
SENTENCE = 32
"""Tokens per selected sentence."""


def random_model(config: AwesomeConfig) -> AwesomeBart:
    """A model without the cost of initialization: built on the meta device, then filled with small random numbers."""
    torch.manual_seed(0)
    with torch.device("meta"):
        model = AwesomeBart(config)
    model = model.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point():
                tensor.normal_(0, 0.02)
    model.tie_weights()
    return model


def random_document(config: AwesomeConfig, segments: int, seed: int = 0) -> DocumentInputs:
    """A document in the proportions of GovReport, with segments and salient content of the maximum length."""
    chance = random.Random(seed)
    length = config.max_position_embeddings if config.salient == "text" else UPPER

    def tokens(count: int) -> list[int]:
        return [0, *chance.choices(range(4, config.vocab_size), k=count - 2), 2]

    spans: list[tuple[int, int, int]] = []
    salient: list[list[int]] = []
    if config.salient == "key-value":
        spans = [(segment, at, at + SENTENCE) for segment in range(segments) for at in range(32, 544, SENTENCE)]
        most = config.salient_size // SENTENCE
        for segment in range(segments):
            before = [number for number, span in enumerate(spans) if span[0] < segment]
            after = [number for number, span in enumerate(spans) if span[0] > segment]
            half = most // 2
            salient.append([*before[:half], *after[-half:]])
    return DocumentInputs(
        f"random {seed}",
        [tokens(length) for _ in range(segments)],
        [tokens(TARGET) for _ in range(segments)],
        spans,
        salient,
    )
