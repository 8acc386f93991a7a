"""From segment to segment: the loop that trains and the loop that generates, in memory that does not grow.

Step t takes segment t of every document of the batch; documents that have ended drop out. The encoder's trunk, which no
memory reaches, runs for several steps at once (`trunk_batch`). Knows tokens and tensors, no texts and no files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from awesum.memory import MemoryState
from awesum.models.awesome import AwesomeBart, AwesomeEncoderOutput, Memories, Salient


@dataclass(frozen=True)
class DocumentInputs:
    """A document as the model takes it."""

    name: str
    segments: Sequence[Sequence[int]]
    """The tokens of each segment, what frames them included."""
    targets: Sequence[Sequence[int]] = ()
    """The tokens that each segment is to be answered with; a target of only special tokens is the empty summary."""
    spans: Sequence[tuple[int, int, int]] = ()
    """Salient sentences for the encoder's keys and values: segment, first token, behind the last."""
    salient: Sequence[Sequence[int]] = ()
    """Which of `spans` each segment may look at."""


@dataclass(frozen=True)
class Step:
    """Segment t of the documents that have one."""

    number: int
    documents: Sequence[DocumentInputs]
    """The longest first, so that those that have ended are the last ones."""
    attention_mask: torch.Tensor
    """(B, N)."""
    trunk: torch.Tensor
    """(B, N, d)."""
    salient: Salient | None


Backward = Callable[[torch.Tensor], object]


def train(
    model: AwesomeBart,
    documents: Sequence[DocumentInputs],
    backward: Backward,
    *,
    trunk_batch: int = 1,
    empty_targets: bool = True,
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """One pass over some documents, `backward` called after each step with its share of the loss; gives the whole loss.

    The loss is the mean over each document's target tokens, and the mean of these over the documents: the same as if
    all segments were computed at once, cut off where the memory is. `empty_targets=False` takes the targets without a
    word out of the loss; their segments still pass through the memories. To measure without learning, give a `backward`
    that does nothing, under `torch.no_grad`.
    """
    weights = {id(document): _token_weight(document, empty_targets) / len(documents) for document in documents}
    total = torch.zeros((), device=model.device)
    memory: Memories | None = None
    for group in _groups(model, documents, trunk_batch):
        for step in group.steps():
            memory = _for_step(model, memory, step, group.ahead)
            labels, scale = _labels(step, weights, empty_targets, model.device)
            counts = bool(scale.any())
            with torch.set_grad_enabled(counts and torch.is_grad_enabled()):
                output = model(
                    attention_mask=step.attention_mask,
                    labels=labels,
                    memory=memory,
                    salient=step.salient,
                    trunk=step.trunk,
                    use_loss=False,
                )
                memory = output.memory
                if counts:
                    losses = torch.nn.functional.cross_entropy(
                        output.logits.transpose(1, 2).float(),
                        labels,
                        reduction="none",
                        label_smoothing=label_smoothing,
                    )
                    loss = (losses.sum(1) * scale).sum()
                    backward(loss)
                    total += loss.detach()
            del output
        group.finish()
    return total


@torch.inference_mode()
def generate(
    model: AwesomeBart,
    documents: Sequence[DocumentInputs],
    *,
    trunk_batch: int = 1,
    known: Sequence[Sequence[int]] = (),
    **options: Any,
) -> Iterator[tuple[int, int, list[int]]]:
    """Document, segment and tokens of each part, as soon as it is there; `options` are those of the library's generate.

    The memory of the decoder is fixed while a segment's beams are searched; the summary that was chosen is then read
    once more, to be written to it. `known` are the first parts of a document that was interrupted: these are not
    written again, only remembered.
    """
    if known and len(documents) > 1:
        raise ValueError("known parts can be given for one document only")
    places = _longest_first(documents)
    memory: Memories | None = None
    for group in _groups(model, documents, trunk_batch):
        for step in group.steps():
            memory = _for_step(model, memory, step, group.ahead)
            encoded = model.model.encoder(
                attention_mask=step.attention_mask,
                memory=memory.encoder,
                ahead=memory.ahead,
                salient=step.salient,
                trunk=step.trunk,
            )
            if step.number < len(known):
                start = model.config.decoder_start_token_id
                written = torch.tensor([[start, *known[step.number]]], device=model.device)
            else:
                written = model.generate(
                    encoder_outputs=AwesomeEncoderOutput(last_hidden_state=encoded.last_hidden_state),
                    attention_mask=step.attention_mask,
                    decoder_memory=model.model.decoder.recollect(memory.decoder),
                    **options,
                )
            lengths = [_length(row, model.config) for row in written.tolist()]
            memory = _after_generation(model, memory, encoded, step, written, lengths)
            for place, row, length in zip(places, written.tolist(), lengths, strict=False):  # the others have ended
                yield place, step.number, row[1 : 1 + length]


def _after_generation(
    model: AwesomeBart,
    memory: Memories,
    encoded: AwesomeEncoderOutput,
    step: Step,
    written: torch.Tensor,
    lengths: Sequence[int],
) -> Memories:
    if not memory.decoder:
        return replace(memory, encoder=encoded.memory)
    inputs = written[:, :-1]
    ends = torch.tensor(lengths, device=inputs.device)
    mask = torch.arange(inputs.shape[1], device=inputs.device)[None] < ends[:, None]
    output = model(
        encoder_outputs=encoded,
        attention_mask=step.attention_mask,
        decoder_input_ids=inputs,
        decoder_attention_mask=mask,
        memory=memory,
        use_cache=False,
    )
    return output.memory


def _length(row: Sequence[int], config: Any) -> int:
    """Tokens behind the start token up to the end, which is part of it; what the library put behind that is padding."""
    ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    return next((at for at, token in enumerate(row[1:], 1) if token in ends), len(row) - 1)


def is_empty(target: Sequence[int], special: int = 2) -> bool:
    """Whether a target has no token but the two that frame it."""
    return len(target) <= special


def _token_weight(document: DocumentInputs, empty_targets: bool) -> float:
    count = sum(len(target) for target in document.targets if empty_targets or not is_empty(target))
    return 1 / count if count else 0.0


def _labels(
    step: Step, weights: Mapping[int, float], empty_targets: bool, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """The targets, padded with -100, and what a token of each document weighs in the loss."""
    targets = [document.targets[step.number] for document in step.documents]
    labels = torch.full((len(targets), max(map(len, targets))), -100)
    for row, target in zip(labels, targets, strict=True):
        row[: len(target)] = torch.tensor(target)
    scale = [
        weights[id(document)] if empty_targets or not is_empty(target) else 0.0
        for document, target in zip(step.documents, targets, strict=True)
    ]
    return labels.to(device), torch.tensor(scale, device=device)


def _for_step(model: AwesomeBart, memory: Memories | None, step: Step, ahead: _Ahead | None) -> Memories:
    """The memories that a step begins with: those of the documents that are still there."""
    count = len(step.documents)
    if memory is None:
        memory = model.start(count)
    kept = replace(memory, ahead={})
    if any(state.memory.shape[0] != count for states in (kept.encoder, kept.decoder) for state in states.values()):
        kept = kept.select(torch.arange(count, device=model.device))
    return replace(kept, ahead=ahead.before(step.number, count)) if ahead else kept


class _Group:
    """Some steps whose trunk is computed together.

    Where gradients are wanted, the steps work on a copy of the trunk's output that ends their graphs. It gathers their
    gradients, and `finish` sends these down through the trunk: once a group, not once a step.
    """

    def __init__(self, model: AwesomeBart, batches: Sequence[_Batch], vectors: _Vectors | None, ahead: _Ahead | None):
        self.batches, self.ahead = batches, ahead
        self.salient = [vectors.of(batch) if vectors else None for batch in batches]
        self.output = model.model.encoder.trunk(*_stack(batches, model), _stack_salient(self.salient))
        self.top = self.output.detach()
        if self.output.requires_grad:
            self.top.requires_grad_()

    def steps(self) -> Iterator[Step]:
        first = 0
        for batch, salient in zip(self.batches, self.salient, strict=True):
            rows = slice(first, first + len(batch.documents))
            first = rows.stop
            mask = batch.mask.to(self.top.device)
            yield Step(batch.number, batch.documents, mask, self.top[rows, : mask.shape[1]], salient)

    def finish(self) -> None:
        if self.top.grad is not None:
            torch.autograd.backward(self.output, self.top.grad)


@dataclass(frozen=True)
class _Batch:
    """Segment t of the documents that have one, padded."""

    number: int
    documents: Sequence[DocumentInputs]
    ids: torch.Tensor
    mask: torch.Tensor


def _longest_first(documents: Sequence[DocumentInputs]) -> list[int]:
    """The places of the documents in the order of the rows of every step."""
    return sorted(range(len(documents)), key=lambda place: -len(documents[place].segments))


def _batches(documents: Sequence[DocumentInputs], pad: int) -> list[Callable[[], _Batch]]:
    """One a step; made when it is wanted, because all of them together are the document once more."""
    ordered = [documents[place] for place in _longest_first(documents)]

    def make(number: int) -> _Batch:
        there = [document for document in ordered if number < len(document.segments)]
        longest = max(len(document.segments[number]) for document in there)
        ids = torch.full((len(there), longest), pad)
        mask = torch.zeros_like(ids)
        for row, document in enumerate(there):
            tokens = document.segments[number]
            ids[row, : len(tokens)] = torch.tensor(tokens)
            mask[row, : len(tokens)] = 1
        return _Batch(number, there, ids, mask)

    return [partial(make, number) for number in range(len(ordered[0].segments))]


def _groups(model: AwesomeBart, documents: Sequence[DocumentInputs], trunk_batch: int) -> Iterator[_Group]:
    """The steps in groups of `trunk_batch`; before them what has to be known of the whole document."""
    batches = _batches(documents, model.config.pad_token_id)
    vectors = _Vectors(model, batches, trunk_batch) if model.config.salient == "key-value" else None
    backwards = model.config.memory != "none" and model.config.memory_direction == "both"
    with _Ahead.shelf(model, batches, vectors) if backwards else _nothing() as ahead:
        for first in range(0, len(batches), trunk_batch):
            made = [make() for make in batches[first : first + trunk_batch]]
            yield _Group(model, made, vectors, ahead)


def _stack(batches: Sequence[_Batch], model: AwesomeBart) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows of several steps under each other, padded to the longest."""
    longest = max(batch.ids.shape[1] for batch in batches)

    def padded(tensor: torch.Tensor, value: int) -> torch.Tensor:
        return torch.nn.functional.pad(tensor, (0, longest - tensor.shape[1]), value=value)

    ids = torch.cat([padded(batch.ids, model.config.pad_token_id) for batch in batches])
    mask = torch.cat([padded(batch.mask, 0) for batch in batches])
    return ids.to(model.device), mask.to(model.device)


def _stack_salient(parts: Sequence[Salient | None]) -> Salient | None:
    there = [part for part in parts if part is not None]
    if not there:
        return None
    longest = max(part.mask.shape[1] for part in there)
    return Salient(
        torch.cat([torch.nn.functional.pad(part.vectors, (0, 0, 0, longest - part.mask.shape[1])) for part in there]),
        torch.cat([torch.nn.functional.pad(part.mask, (0, longest - part.mask.shape[1])) for part in there]),
    )


@contextmanager
def _quietly(model: AwesomeBart) -> Iterator[None]:
    """Without gradient and without dropout: a pass that only looks."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


class _Vectors:
    """The first pass for key-value salient content: the encoder's output at the tokens of the salient sentences.

    It streams. Of the segments nothing is kept but the vectors that some segment may look at: those are the outermost,
    at most `salient_size` tokens from either end, however long the document.
    """

    def __init__(self, model: AwesomeBart, batches: Sequence[Callable[[], _Batch]], trunk_batch: int) -> None:
        self.size, self.device, self.dtype = model.config.d_model, model.device, model.dtype
        self.kept: dict[tuple[int, int], torch.Tensor] = {}
        with _quietly(model):
            for first in range(0, len(batches), trunk_batch):
                group = [make() for make in batches[first : first + trunk_batch]]
                if any(self._wanted(document, batch.number) for batch in group for document in batch.documents):
                    states = model.model.encoder(*_stack(group, model)).last_hidden_state
                    rows = [(document, batch.number) for batch in group for document in batch.documents]
                    for row, (document, number) in zip(states, rows, strict=True):
                        for at, start, end in self._wanted(document, number):
                            self.kept[id(document), at] = row[start:end].clone()

    @staticmethod
    def _wanted(document: DocumentInputs, segment: int) -> list[tuple[int, int, int]]:
        looked_at = {at for ats in document.salient for at in ats}
        return [
            (at, start, end) for at, (of, start, end) in enumerate(document.spans) if of == segment and at in looked_at
        ]

    def of(self, batch: _Batch) -> Salient:
        """The vectors that the segments of a step may look at. At least one column, which may be masked."""
        rows = [
            [self.kept[id(document), at] for at in document.salient[batch.number]] if document.salient else []
            for document in batch.documents
        ]
        lengths = [sum(map(len, row)) for row in rows]
        vectors = torch.zeros(len(rows), max(*lengths, 1), self.size, device=self.device, dtype=self.dtype)
        mask = torch.zeros(vectors.shape[:2], dtype=torch.bool, device=self.device)
        for number, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            if row:
                vectors[number, :length] = torch.cat(row)
                mask[number, :length] = True
        return Salient(vectors, mask)


class _Ahead:
    """The encoder's second memory, from the last segment to the first, computed before the forward pass.

    Each segment reads another state of it, and all of them together grow with the document: they wait on disk.
    """

    def __init__(self, folder: Path, device: torch.device) -> None:
        self.folder, self.device = folder, device

    @classmethod
    @contextmanager
    def shelf(
        cls, model: AwesomeBart, batches: Sequence[Callable[[], _Batch]], vectors: _Vectors | None
    ) -> Iterator[_Ahead]:
        """Compute and store the states; they are gone when the document is done."""
        with TemporaryDirectory(prefix="awesum-ahead-") as folder:
            ahead = cls(Path(folder), model.device)
            encoder = model.model.encoder
            with _quietly(model):
                states: dict[int, MemoryState] = {}
                for make in reversed(batches):
                    batch = make()
                    have = next(iter(states.values())).memory.shape[0] if states else 0
                    if len(batch.documents) > have:  # documents whose last segment this is
                        fresh = encoder.start(len(batch.documents) - have, ahead=True)
                        states = {n: states[n].joined(state) if states else state for n, state in fresh.items()}
                    ahead._store(batch.number, states)
                    salient = vectors.of(batch) if vectors else None
                    ids, mask = _stack([batch], model)
                    states = encoder.look_ahead(encoder.trunk(ids, mask, salient), mask, states, salient)
            yield ahead

    def _store(self, step: int, states: Mapping[int, MemoryState]) -> None:
        tensors = {
            f"{layer}.{name}": tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            for layer, state in states.items()
            for name, tensor in vars(state).items()
            if tensor is not None
        }
        save_file(tensors, self.folder / f"{step}.safetensors")

    def before(self, step: int, documents: int) -> dict[int, MemoryState]:
        """What the segments of a step read of those behind them."""
        path = self.folder / f"{step}.safetensors"
        found: dict[int, dict[str, torch.Tensor]] = {}
        for key, tensor in load_file(path).items():
            layer, name = key.split(".")
            found.setdefault(int(layer), {})[name] = tensor[:documents].to(self.device)
        path.unlink()
        return {layer: MemoryState(**tensors) for layer, tensors in found.items()}
