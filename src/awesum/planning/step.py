"""One training step of a system, or one summary, traced without weights: its peak and what it consists of."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from awesum.analysis.segmentation import UPPER
from awesum.errors import AwesumError
from awesum.planning.optimizers import Held, held, weights_of
from awesum.planning.tracing import KINDS, Attention, Kind, Peak, Tracer, fake_mode, traced
from awesum.recurrence import DocumentInputs
from awesum.training.settings import TrainingSettings
from awesum.training.trainable import Trainable

FLAT = 3
"""Segments after which the peak of a recurrent system has been reached: a first one without anything to remember, a
second that writes what it read, and a third that goes back through that."""
SENTENCE = 32
"""Tokens of a selected sentence."""
DTYPES = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.bfloat16}
"""What is computed in; float16 is as large as bfloat16, which the CPU build can trace."""


@dataclass(frozen=True)
class Lengths:
    """How long a document and its summary are."""

    input_tokens: int
    """Of the document."""
    target_tokens: int
    """Of the summary; for a system that goes from segment to segment, of a segment's part of it."""
    segment_tokens: int = UPPER
    """Of a segment."""

    @property
    def segments(self) -> int:
        """How many there are."""
        return max(1, -(-self.input_tokens // self.segment_tokens))


@dataclass(frozen=True)
class Step:
    """A traced step."""

    peak: Peak
    weights: int
    """Parameters of the model, ..."""
    trained: int
    """... and those of them that are trained."""


def is_recurrent(trainable: Trainable) -> bool:
    """Whether it goes from segment to segment."""
    return hasattr(trainable.settings, "trunk_batch")  # type: ignore[attr-defined]


def training_step(
    trainable: Trainable,
    settings: TrainingSettings,
    lengths: Lengths,
    *,
    attention: Attention = "fused",
    optimizer: str = "adamw_torch_fused",
    offload: bool = False,
    saved: dict[str, Any],
) -> Step:
    """Trace one step of `trainable`, made from the configuration `saved`: passes over documents, then the optimizer.

    Gradients are there from the start if they are accumulated, as they are from the second batch on.
    """
    fake = fake_mode()
    with fake:
        trainable.make_blank(saved, lengths.input_tokens)
        model = trainable.model.train()
        model.requires_grad_(True)
    documents = [document_of(trainable, model.config, lengths)] * settings.batch_size
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer_holds = held(optimizer, weights_of(model))
    with traced(fake, attention, offload=offload) as tracer:
        tracer.name(model)
        states = _hold(tracer, "optimizer", optimizer_holds.states)
        if settings.accumulation > 1:
            for parameter in parameters:
                parameter.grad = torch.empty_like(parameter)
        tracer.mark("gradients", [parameter.grad for parameter in parameters if parameter.grad is not None])
        tracer.restart()
        with _autocast(settings.precision):
            trainable.loss(documents, torch.Tensor.backward, empty_targets=settings.empty_targets)
        peak = tracer.peak
        tracer.mark("gradients", [parameter.grad for parameter in parameters if parameter.grad is not None])
        tracer.restart()
        step = _hold(tracer, "temporary", optimizer_holds.step)
        at_step = replace(tracer.peak, place="the optimizer's step")
        del states, step
    peak = max(peak, at_step, key=lambda each: each.bytes)
    return Step(peak, sum(p.numel() for p in model.parameters()), sum(p.numel() for p in parameters))


def _hold(tracer: Tracer, kind: Kind, count: int) -> torch.Tensor:
    """So many bytes."""
    tensor = torch.empty(count, dtype=torch.uint8)
    tracer.mark(kind, [tensor])
    return tensor


def _autocast(precision: str) -> Any:
    dtype = DTYPES[precision]
    return nullcontext() if dtype is None else torch.autocast("cpu", dtype)


def document_of(trainable: Trainable, config: Any, lengths: Lengths) -> DocumentInputs:
    """A document of these lengths, as the system's own layout would make it of one that fills every limit."""
    if is_recurrent(trainable):
        return _segments(config, lengths, getattr(trainable.settings, "memory_depth", 1))  # type: ignore[attr-defined]
    pages = getattr(config, "pages", 1) if getattr(config, "page_size", None) else 1
    each = min(-(-lengths.input_tokens // pages), getattr(config, "page_size", lengths.input_tokens))
    return DocumentInputs(
        "planned", [_tokens(each)] * pages, [_tokens(lengths.target_tokens)], is_paged=hasattr(config, "page_size")
    )


def _segments(config: Any, lengths: Lengths, depth: int | None) -> DocumentInputs:
    count = lengths.segments if depth is None else min(lengths.segments, FLAT + depth - 1)
    length = min(lengths.segment_tokens, lengths.input_tokens)
    if config.salient == "text":
        length = config.max_position_embeddings  # salient sentences fill the window
    spans: list[tuple[int, int, int]] = []
    salient: Sequence[Sequence[int]] = ()
    if config.salient == "key-value":
        most = config.salient_size // SENTENCE
        each = max(1, min(length // SENTENCE, -(-most // max(1, count - 1))))
        spans = [(segment, at * SENTENCE, (at + 1) * SENTENCE) for segment in range(count) for at in range(each)]
        salient = [
            [number for number, span in enumerate(spans) if span[0] != segment][:most] for segment in range(count)
        ]
    return DocumentInputs(
        "planned", [_tokens(length)] * count, [_tokens(lengths.target_tokens)] * count, spans, salient
    )


def _tokens(count: int) -> list[int]:
    return [0] * max(count, 3)


def check_lengths(trainable: Trainable, saved: dict[str, Any], lengths: Lengths) -> None:
    """Refuse what the model has no positions for."""
    window = saved.get("max_decoder_position_embeddings") or saved.get("max_position_embeddings")
    if window is not None and lengths.target_tokens > window:
        raise AwesumError(
            f"--target-tokens {lengths.target_tokens:,} is beyond the {window:,} positions of the decoder: say "
            f"{window} or fewer"
        )


def total(parts: dict[Kind, int]) -> int:
    """Of all kinds."""
    return sum(parts[kind] for kind in KINDS)


__all__ = ["Held", "Lengths", "Step", "check_lengths", "document_of", "is_recurrent", "total", "training_step"]
