"""From segment to segment with an encoder-decoder: the loop for training and the loop for generation.

Step t takes segment t of every document of the batch; documents that have ended drop out. The trunk, the layers that
read no memory, runs for several steps at once (`trunk_batch`): the encoder's always, the decoder's where the targets
are known. Knows tokens and tensors, no texts and no files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers.models.bart.modeling_bart import shift_tokens_right

from awesum.memory import MemoryState
from awesum.models.bart import AwesomeBart, AwesomeEncoderOutput, Memories, States
from awesum.models.bart_layers import Salient
from awesum.recurrence.inputs import Backward, DocumentInputs, LossWeights, longest_first, salience_rows
from awesum.recurrence.whole import weighted_loss


@dataclass(frozen=True)
class Step:
    """Segment t of the documents that have one."""

    number: int
    documents: Sequence[DocumentInputs]
    """The longest first, so that those that end first come last."""
    attention_mask: torch.Tensor
    """(B, N)."""
    trunk: torch.Tensor
    """(B, N, d)."""
    salient: Salient | None
    salience: torch.Tensor | None = None
    """How salient each token is, for the memory: (B, N)."""


def train(
    model: AwesomeBart,
    documents: Sequence[DocumentInputs],
    backward: Backward,
    *,
    trunk_batch: int = 1,
    empty_targets: bool = True,
    label_smoothing: float = 0.0,
    depth: int | None = 1,
) -> torch.Tensor:
    """One pass over some documents; calls `backward` after each step with its share of the loss, returns all of it.

    The loss is the mean over each document's target tokens, averaged over the documents: the same as if all segments
    were computed at once, with the gradient cut at the memories. `empty_targets=False` leaves empty targets out of the
    loss; their segments still update the memories. To evaluate, give a `backward` that does nothing, under
    `torch.no_grad`.

    `depth` is the number of memory updates through which the gradient of a step goes back. With None it goes back
    through the whole document, its layers included: there is then one backward pass, and the graphs of all segments are
    held until then.
    """
    weights = LossWeights(documents, empty_targets)
    total = torch.zeros((), device=model.device)
    if not torch.is_grad_enabled():
        depth = 1  # the same numbers
    memory = model.start(len(documents), depth)
    held = _Held(backward) if depth is None else None
    for group in _groups(model, documents, trunk_batch, depth):
        steps = list(group.steps())
        labels, scales = zip(*(_labels(step, weights, model.device) for step in steps), strict=True)
        encoded: list[_Cut] = []
        for step, scale in zip(steps, scales, strict=True):
            with _grad_where(scale, always=depth is None):
                output = _encode(model, memory, step, group.ahead)
            memory = replace(memory, encoder=output.memory)
            encoded.append(_Cut(output.last_hidden_state))
        trunk = _Cut(_decoder_trunk(model, steps, labels, [cut.above for cut in encoded]))
        rows = _rows(steps)
        for step, its_labels, scale, its_encoded, its_rows in zip(steps, labels, scales, encoded, rows, strict=True):
            with _grad_where(scale, always=depth is None):
                answer = model(
                    encoder_outputs=AwesomeEncoderOutput(last_hidden_state=its_encoded.above),
                    attention_mask=step.attention_mask,
                    labels=its_labels,
                    memory=replace(memory, decoder=_remaining(memory.decoder, step)),
                    decoder_trunk=trunk.above[its_rows, : its_labels.shape[1]],
                    use_loss=False,
                )
                memory = replace(memory, decoder=answer.memory.decoder)
                if scale.any():
                    loss = weighted_loss(answer.logits, its_labels, scale, label_smoothing)
                    (held.losses.append if held else backward)(loss)
                    total += loss.detach()
            del answer
        cuts = [[trunk], encoded, [group.trunk]]
        if held:
            held.cuts.append(cuts)
        else:
            _backward(cuts)
    if held:
        held.backward()
    return total


class _Held:
    """The losses and the cuts of a whole document, until there is nothing more to come."""

    def __init__(self, backward: Backward) -> None:
        self._backward = backward
        self.losses: list[torch.Tensor] = []
        self.cuts: list[list[list[_Cut]]] = []

    def backward(self) -> None:
        """Through everything, once: all cuts at the same height together, because memories connect them."""
        if self.losses:
            self._backward(torch.stack(self.losses).sum())
        _backward([[cut for cuts in level for cut in cuts] for level in zip(*self.cuts, strict=True)])


def _grad_where(scale: torch.Tensor, always: bool = False) -> torch.set_grad_enabled:
    """A step without loss needs no graph, unless a later one goes back through it."""
    return torch.set_grad_enabled((always or bool(scale.any())) and torch.is_grad_enabled())


def _decoder_trunk(
    model: AwesomeBart, steps: Sequence[Step], labels: Sequence[torch.Tensor], encoded: Sequence[torch.Tensor]
) -> torch.Tensor:
    """The decoder's trunk for several steps at once."""
    config = model.config
    return model.model.decoder.trunk(
        shift_tokens_right(_stack_rows(labels, -100), config.pad_token_id, config.decoder_start_token_id),
        _stack_rows(encoded),
        _stack_rows([step.attention_mask for step in steps]),
    )


@torch.inference_mode()
def generate(
    model: AwesomeBart,
    documents: Sequence[DocumentInputs],
    *,
    trunk_batch: int = 1,
    known: Sequence[Sequence[int]] = (),
    **options: Any,
) -> Iterator[tuple[int, int, list[int]]]:
    """Index of the document, number of the segment, and tokens of each part, as soon as it is generated.

    The decoder's memory is fixed during the beam search of a segment; one teacher-forced pass over the chosen summary
    then gives the hidden states to write to it. `known` are the first parts of one interrupted document: they are not
    generated again, only written to memory. `options` are those of the library's `generate`.
    """
    if known and len(documents) > 1:
        raise ValueError("known parts are for one document only")
    places = longest_first(documents)
    memory = model.start(len(documents))
    for group in _groups(model, documents, trunk_batch):
        for step in group.steps():
            encoded = _encode(model, memory, step, group.ahead)
            memory = replace(memory, decoder=_remaining(memory.decoder, step))
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
            for place, row, length in zip(places, written.tolist(), lengths, strict=False):  # the rest have ended
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
    """Tokens after the start token, up to and including the end token; the rest is padding."""
    ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    return next((at for at, token in enumerate(row[1:], 1) if token in ends), len(row) - 1)


def _labels(step: Step, weights: LossWeights, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The targets, padded with -100, and the weight in the loss of a token of each document."""
    targets = [document.targets[step.number] for document in step.documents]
    labels = torch.full((len(targets), max(map(len, targets))), -100)
    for row, target in zip(labels, targets, strict=True):
        row[: len(target)] = torch.tensor(target)
    return labels.to(device), torch.tensor(weights.of(step.documents, step.number), device=device)


def _encode(model: AwesomeBart, memory: Memories, step: Step, ahead: _Ahead | None) -> AwesomeEncoderOutput:
    """The encoder's output for the segments of a step."""
    return model.model.encoder(
        attention_mask=step.attention_mask,
        memory=_remaining(memory.encoder, step),
        ahead=ahead.states(step.number, len(step.documents)) if ahead else None,
        salient=step.salient,
        trunk=step.trunk,
        salience=step.salience,
    )


def _remaining(states: States, step: Step) -> States:
    """The states of the documents that have a segment in this step."""
    count = len(step.documents)
    return {
        layer: state
        if state.memory.shape[0] == count
        else state.select(torch.arange(count, device=state.memory.device))
        for layer, state in states.items()
    }


class _Cut:
    """A cut through the graph: gradients from above accumulate here, and are then passed down in one go.

    So each step has its backward pass as soon as it is computed, and the part of the graph that several steps share has
    only one.
    """

    def __init__(self, below: torch.Tensor) -> None:
        self.below = below
        self.above = below.detach().requires_grad_(below.requires_grad)


def _backward(levels: Iterable[Sequence[_Cut]]) -> None:
    """Pass the gradients on below each cut, level by level from the top."""
    for cuts in levels:
        there = [cut for cut in cuts if cut.above.grad is not None]
        if there:
            torch.autograd.backward([cut.below for cut in there], [cut.above.grad for cut in there])


class _Group:
    """Several steps whose trunk is computed together."""

    def __init__(self, model: AwesomeBart, batches: Sequence[_Batch], vectors: _Vectors | None, ahead: _Ahead | None):
        self.batches, self.ahead = batches, ahead
        self.salient = [vectors.of(batch) if vectors else None for batch in batches]
        self.trunk = _Cut(model.model.encoder.trunk(*_stack(batches, model), _stack_salient(self.salient)))

    def steps(self) -> Iterator[Step]:
        trunk = self.trunk.above
        for batch, salient, rows in zip(self.batches, self.salient, _rows(self.batches), strict=True):
            mask = batch.mask.to(trunk.device)
            salience = None if batch.salience is None else batch.salience.to(trunk.device)
            yield Step(batch.number, batch.documents, mask, trunk[rows, : mask.shape[1]], salient, salience)


def _rows(steps: Sequence[Step | _Batch]) -> Iterator[slice]:
    """The rows of each step when all steps are stacked."""
    first = 0
    for step in steps:
        yield slice(first, first := first + len(step.documents))


@dataclass(frozen=True)
class _Batch:
    """Segment t of the documents that have one, padded."""

    number: int
    documents: Sequence[DocumentInputs]
    ids: torch.Tensor
    mask: torch.Tensor
    salience: torch.Tensor | None


def _batches(documents: Sequence[DocumentInputs], pad: int) -> list[Callable[[], _Batch]]:
    """One for each step, made on demand: all of them together are as large as the document."""
    ordered = [documents[place] for place in longest_first(documents)]

    def make(number: int) -> _Batch:
        there = [document for document in ordered if number < len(document.segments)]
        longest = max(len(document.segments[number]) for document in there)
        ids = torch.full((len(there), longest), pad)
        mask = torch.zeros_like(ids)
        for row, document in enumerate(there):
            tokens = document.segments[number]
            ids[row, : len(tokens)] = torch.tensor(tokens)
            mask[row, : len(tokens)] = 1
        return _Batch(number, there, ids, mask, salience_rows(there, number, longest))

    return [partial(make, number) for number in range(len(ordered[0].segments))]


def _groups(
    model: AwesomeBart, documents: Sequence[DocumentInputs], trunk_batch: int, depth: int | None = 1
) -> Iterator[_Group]:
    """The steps in groups of `trunk_batch`, after the passes that need the whole document."""
    batches = _batches(documents, model.config.pad_token_id)
    vectors = _Vectors(model, batches, trunk_batch) if model.config.salient == "key-value" else None
    has_ahead = bool(model.model.encoder.remembering) and model.config.memory_direction == "both"
    with _Ahead.computed(model, batches, vectors, depth) if has_ahead else nullcontext() as ahead:
        for first in range(0, len(batches), trunk_batch):
            made = [make() for make in batches[first : first + trunk_batch]]
            yield _Group(model, made, vectors, ahead)


def _stack(batches: Sequence[_Batch], model: AwesomeBart) -> tuple[torch.Tensor, torch.Tensor]:
    """The tokens of several steps and their mask."""
    ids = _stack_rows([batch.ids for batch in batches], model.config.pad_token_id)
    mask = _stack_rows([batch.mask for batch in batches])
    return ids.to(model.device), mask.to(model.device)


def _stack_salient(parts: Sequence[Salient | None]) -> Salient | None:
    there = [part for part in parts if part is not None]
    if not there:
        return None
    return Salient(_stack_rows([part.vectors for part in there]), _stack_rows([part.mask for part in there]))


def _stack_rows(tensors: Sequence[torch.Tensor], value: float = 0) -> torch.Tensor:
    """The rows of several tensors, (B, N) or (B, N, d), padded to the longest."""
    longest = max(tensor.shape[1] for tensor in tensors)
    unpadded = (0, 0) * (tensors[0].dim() - 2)
    return torch.cat(
        [torch.nn.functional.pad(tensor, (*unpadded, 0, longest - tensor.shape[1]), value=value) for tensor in tensors]
    )


@contextmanager
def _evaluating(model: AwesomeBart) -> Iterator[None]:
    """Without gradient and without dropout."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


class _Vectors:
    """The first pass for key-value salient content: the encoder's output at the tokens of the salient sentences.

    It streams: only vectors that some segment attends to are kept. Those are the outermost, at most `salient_size`
    tokens from either end, however long the document.
    """

    def __init__(self, model: AwesomeBart, batches: Sequence[Callable[[], _Batch]], trunk_batch: int) -> None:
        self.size, self.device, self.dtype = model.config.d_model, model.device, model.dtype
        self.kept: dict[tuple[int, int], torch.Tensor] = {}
        with _evaluating(model):
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
        attended = {at for ats in document.salient for at in ats}
        return [
            (at, start, end) for at, (of, start, end) in enumerate(document.spans) if of == segment and at in attended
        ]

    def of(self, batch: _Batch) -> Salient:
        """The vectors that the segments of a step attend to. At least one column, which may be masked."""
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

    Each segment reads a state of its own, and all of them together grow with the document, so they are kept on disk.
    That pass has no gradient, so where all others go back through the whole document, this memory has a depth of 1.
    """

    def __init__(self, folder: Path, device: torch.device, depth: int) -> None:
        self.folder, self.device, self.depth = folder, device, depth

    @classmethod
    @contextmanager
    def computed(
        cls,
        model: AwesomeBart,
        batches: Sequence[Callable[[], _Batch]],
        vectors: _Vectors | None,
        depth: int | None,
    ) -> Iterator[_Ahead]:
        """Compute and store the states, until the end of the context."""
        with TemporaryDirectory(prefix="awesum-ahead-") as folder:
            ahead = cls(Path(folder), model.device, depth or 1)
            encoder = model.model.encoder
            with _evaluating(model):
                states: dict[int, MemoryState] = {}
                for make in reversed(batches):
                    batch = make()
                    have = next(iter(states.values())).memory.shape[0] if states else 0
                    if len(batch.documents) > have:  # this is the last segment of some documents
                        fresh = encoder.start(len(batch.documents) - have, ahead=True, depth=ahead.depth)
                        states = {n: states[n].joined(state) if states else state for n, state in fresh.items()}
                    ahead._store(batch.number, states)
                    salient = vectors.of(batch) if vectors else None
                    ids, mask = _stack([batch], model)
                    salience = None if batch.salience is None else batch.salience.to(model.device)
                    states = encoder.look_ahead(encoder.trunk(ids, mask, salient), mask, states, salient, salience)
            yield ahead

    def _store(self, step: int, states: Mapping[int, MemoryState]) -> None:
        tensors = {
            f"{layer}.{name}": tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            for layer, state in states.items()
            for name, tensor in state.tensors().items()
        }
        save_file(tensors, self.folder / f"{step}.safetensors")

    def states(self, step: int, documents: int) -> dict[int, MemoryState]:
        """The states that the segments of a step read, of the segments after them."""
        path = self.folder / f"{step}.safetensors"
        found: dict[int, dict[str, torch.Tensor]] = {}
        for key, tensor in load_file(path).items():
            layer, _, name = key.partition(".")
            found.setdefault(int(layer), {})[name] = tensor[:documents].to(self.device)
        path.unlink()
        return {layer: MemoryState.of_tensors(tensors, self.depth) for layer, tensors in found.items()}
