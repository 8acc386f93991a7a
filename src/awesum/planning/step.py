"""One training step of a system, or one summary, traced without weights: its peak and what it consists of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from awesum import compat
from awesum.analysis.salience.sentence_encoder import SentenceScorer
from awesum.analysis.segmentation import UPPER
from awesum.errors import AwesumError
from awesum.models.adapter import AwesomeCausal
from awesum.models.memory_settings import NO_MEMORY
from awesum.planning.optimizers import Weight, held, weights_of
from awesum.planning.tracing import Attention, Kind, Peak, Tracer, traced
from awesum.recurrence import DocumentInputs
from awesum.recurrence.whole import padded
from awesum.training.settings import TrainingSettings
from awesum.training.trainable import Trainable

FLAT = 3
"""Segments after which the peak of a recurrent system has been reached: a first one without anything to remember, a
second that writes what it read, and a third that goes back through that."""
SENTENCE = 32
"""Tokens of a selected sentence."""
REQUEST = 32
"""Tokens of what a causal model is asked after each segment, the chat's marks included."""
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
    passes: Peak
    """Of the passes over documents alone, without the optimizer's step."""
    weights: int
    """Parameters of the model, ..."""
    trained: int
    """... and those of them that are trained."""
    layer: int
    """Parameters of the largest layer."""


def is_flat(own: Any) -> bool:
    """Whether these are the settings of a system that goes from segment to segment, in memory that does not grow."""
    goes_in_order = hasattr(own, "trunk_batch") or hasattr(own, "adapted_tokens")
    return goes_in_order and getattr(own, "memory_depth", 1) is not None


def _depth(trainable: Trainable) -> int | None:
    depth: int | None = getattr(trainable.settings, "memory_depth", 1)
    return depth


def training_step(
    trainable: Trainable,
    settings: TrainingSettings,
    lengths: Lengths,
    *,
    attention: Attention = "fused",
    saved: Mapping[str, Any],
) -> Step:
    """Trace one step of `trainable`, made from the configuration `saved`: passes over documents, then the optimizer.

    Gradients are there from the start if they are accumulated, as they are from the second batch on.
    """
    fake = compat.fake_tensors()
    with fake, compat.dispatching(compat.remembering(fake)):
        trainable.make_blank(saved, lengths.input_tokens, settings.precision)
        model = trainable.model.train()
    documents = [planned_document(model, lengths, _depth(trainable))] * settings.batch_size
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer_holds = held(settings.optim, weights_of(model))
    with traced(fake, attention, offload=settings.offload) as tracer:
        tracer.name(model)
        states = _hold(tracer, "optimizer", optimizer_holds.states)
        if settings.accumulation > 1:
            for parameter in parameters:
                parameter.grad = torch.empty_like(parameter)
        tracer.mark("gradients", [parameter.grad for parameter in parameters if parameter.grad is not None])
        _follow_gradients(tracer, parameters, settings.optim if settings.step_in_backward else None)
        tracer.restart()
        with _autocast(settings.precision):
            trainable.loss(documents, torch.Tensor.backward, empty_targets=settings.empty_targets)
        passes = tracer.peak
        tracer.restart()
        step = _hold(tracer, "temporary", 0 if settings.step_in_backward else optimizer_holds.step)
        at_step = replace(tracer.peak, place="the optimizer's step")
        del states, step
    peak = max(passes, at_step, key=lambda each: each.bytes)
    return Step(peak, passes, _count(model.parameters()), _count(parameters), _largest_layer(model))


@torch.no_grad()
def generation(
    trainable: Trainable,
    settings: TrainingSettings,
    lengths: Lengths,
    *,
    attention: Attention = "fused",
    saved: Mapping[str, Any],
) -> Step:
    """Trace a summary: the input is read, then the last token is written, with all others in the cache of each beam."""
    fake = compat.fake_tensors()
    with fake, compat.dispatching(compat.remembering(fake)), _made_in(DTYPES[settings.precision] or torch.float32):
        trainable.make_blank(saved, lengths.input_tokens)
    model: Any = trainable.model.eval()
    if isinstance(model, SentenceScorer):
        raise AwesumError("this system selects sentences and writes none of its own: leave out --generate")
    if isinstance(model, AwesomeCausal):
        raise NotImplementedError("writing is only traced of encoder-decoders")
    own = trainable.settings
    beams = own.num_beams
    document = document_of(model.config, lengths)
    with traced(fake, attention) as tracer:
        tracer.name(model)
        batch = padded([document], model.config.pad_token_id, torch.device("cpu"))
        memory = model.start(1) if hasattr(model, "start") else None
        encoder = model.get_encoder()
        encoded = encoder(batch.ids, attention_mask=batch.mask, **({"memory": memory.encoder} if memory else {}))
        tracer.mark("activations", [encoded[0]])
        caches = _hold(tracer, "activations", _cache_bytes(model, encoded[0], lengths.target_tokens, beams))
        logits = torch.empty(beams, model.config.vocab_size, dtype=torch.float32)
        peak = tracer.peak
        del caches, logits
    return Step(peak, peak, _count(model.parameters()), 0, _largest_layer(model))


@contextmanager
def _made_in(dtype: torch.dtype) -> Iterator[None]:
    """New weights are of this format: fake ones cannot be converted afterwards."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _cache_bytes(model: Any, encoded: torch.Tensor, written: int, beams: int) -> int:
    """The keys and values of all decoder layers: of what was written, for each beam, and of what was read, once for
    each row of the encoder's output that the library makes."""
    config = model.config
    layers = getattr(config, "decoder_layers", None) or config.num_decoder_layers
    width = 2 * layers * config.d_model * encoded.dtype.itemsize
    read = encoded.numel() // encoded.shape[-1]
    copies = 1 if getattr(model, "undivided_inputs", ()) else beams
    memory = getattr(config, "memory_size", 0) * bool(getattr(config, "memory", NO_MEMORY) != NO_MEMORY)
    return int(width * (beams * written * getattr(config, "pages", 1) + copies * read + memory))


def _count(parameters: Iterable[torch.nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in parameters)


def _largest_layer(model: torch.nn.Module) -> int:
    """Parameters of the largest part that is gathered at once when layers are sharded: the embeddings, or a layer."""
    lists = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
    layers = [layer for each in lists for layer in each]
    embeddings = [module for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    return max((_count(module.parameters()) for module in (*layers, *embeddings)), default=0)


def _hold(tracer: Tracer, kind: Kind, count: int) -> torch.Tensor:
    """So many bytes."""
    tensor = torch.empty(count, dtype=torch.uint8)
    tracer.mark(kind, [tensor])
    return tensor


def _follow_gradients(tracer: Tracer, parameters: Iterable[torch.nn.Parameter], stepping: str | None) -> None:
    """Count gradients as such; and with an optimizer that steps in the backward pass, they go once they were used."""

    def arrive(weight: torch.Tensor) -> None:
        if weight.grad is not None:
            tracer.mark("gradients", [weight.grad])
        if stepping:
            step = _hold(tracer, "temporary", held(stepping, [Weight(tuple(weight.shape))]).step)
            del step
            weight.grad = None

    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(arrive)  # type: ignore[no-untyped-call]


def _autocast(precision: str) -> Any:
    dtype = DTYPES[precision]
    return nullcontext() if dtype is None else torch.autocast("cpu", dtype)


def planned_document(model: Any, lengths: Lengths, depth: int | None) -> DocumentInputs:
    """A document of these lengths, as `model` reads it."""
    if isinstance(model, AwesomeCausal):
        config, count = model.adapter_config, _traced_segments(lengths, depth)
        request = REQUEST + (config.salient_size if config.salient == "text" else 0)
        parts = (lengths.segment_tokens, lengths.target_tokens, request)
        segments, answers, requests = ([_tokens(length)] * count for length in parts)
        return DocumentInputs("planned", segments, answers, requests=requests)
    if isinstance(model, SentenceScorer):
        sentences = -(-lengths.input_tokens // SENTENCE)
        return DocumentInputs("planned", [_tokens(SENTENCE)] * sentences, [[0]])
    return document_of(model.config, lengths, depth)


def _traced_segments(lengths: Lengths, depth: int | None) -> int:
    return lengths.segments if depth is None else min(lengths.segments, FLAT + depth - 1)


def document_of(config: Any, lengths: Lengths, depth: int | None = 1) -> DocumentInputs:
    """A document of these lengths, as the system's own layout would make it of one that fills every limit."""
    if hasattr(config, "salient"):
        return _segments(config, lengths, depth)
    is_paged = hasattr(config, "page_size")
    pages = config.pages if is_paged else 1
    each = -(-lengths.input_tokens // pages)
    if is_paged:
        each = min(each, config.page_size)
    return DocumentInputs("planned", [_tokens(each)] * pages, [_tokens(lengths.target_tokens)], is_paged=is_paged)


def _segments(config: Any, lengths: Lengths, depth: int | None) -> DocumentInputs:
    count = _traced_segments(lengths, depth)
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


def check_lengths(saved: Mapping[str, Any], lengths: Lengths) -> None:
    """Refuse a target that the decoder has no positions for."""
    window = saved.get("max_decoder_position_embeddings") or saved.get("max_position_embeddings")
    if window is not None and lengths.target_tokens > window:
        raise AwesumError(
            f"--target-tokens {lengths.target_tokens:,} is beyond the {window:,} positions of the decoder: say "
            f"{window} or fewer"
        )
    if window is not None and lengths.segment_tokens > window:
        raise AwesumError(
            f"--segment-tokens {lengths.segment_tokens:,} is beyond the {window:,} positions of the encoder: say "
            f"{window} or fewer"
        )
