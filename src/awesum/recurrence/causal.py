"""From segment to segment with a causal model: the loop that trains its adapter.

Step t takes segment t of every document of the batch; documents that have ended drop out. The prompt (the segment and
the request) passes through frozen layers, with the same result in every epoch; only the answer, a tenth of the tokens,
has a graph. A model that adapts the prompt too has only the layers below the adapter frozen, and a graph of all tokens.
Knows tokens and tensors, no texts and no files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache

from awesum.memory import MemoryState
from awesum.models.adapter import AwesomeCausal, States, after
from awesum.models.masks import visible
from awesum.recurrence.inputs import Backward, DocumentInputs, LossWeights, longest_first, salience_rows
from awesum.recurrence.teacher import Taught, Teacher

CHUNK = 128
"""Target tokens whose scores are computed at a time."""


@dataclass(frozen=True)
class Reading:
    """The output of the frozen layers for a segment, the request after it, and its target.

    The request's last token belongs to the answer: it predicts the answer's first token. Where the prompt passes
    through the adapter, no layer above the trunk is frozen: P is 0, and there are no states.
    """

    keys: torch.Tensor
    """The prompt's, in each layer above the trunk: (layers, P, heads, size)."""
    values: torch.Tensor
    states: torch.Tensor
    """The hidden states for the memories, in each layer that has one: (layers, segment, d), or no layers."""
    trunk: torch.Tensor
    """The trunk's output at the tokens that pass through the adapter, the last of which predict the target: (A, d)."""


Reader = Callable[[Sequence[int], Sequence[int], Sequence[int]], Reading]
"""From the tokens of a segment, of its request and of its target."""
OnSegment = Callable[[DocumentInputs, int, float, int], object]
"""Called with a document, the number of a segment, the summed loss of its target's tokens, and their count."""


def train(
    model: AwesomeCausal,
    documents: Sequence[DocumentInputs],
    backward: Backward,
    *,
    read: Reader,
    empty_targets: bool = True,
    label_smoothing: float = 0.0,
    on_segment: OnSegment | None = None,
    depth: int | None = 1,
    teacher: Teacher | None = None,
    distill: float = 0.0,
) -> torch.Tensor:
    """One pass over some documents; calls `backward` after each step with its share of the loss, returns all of it.

    The loss is the mean over each document's target tokens, averaged over the documents, as for an encoder-decoder. To
    evaluate, give a `backward` that does nothing, under `torch.no_grad`. `depth` is the number of memory updates that
    the gradient of a step goes back through; None: all, in one backward pass for the whole document. `distill` is the
    weight of the divergence from what the `teacher` predicts; the targets have the rest.
    """
    torch.set_flush_denormal(True)  # denormal numbers are up to 100 times slower to multiply
    ordered = [documents[place] for place in longest_first(documents)]
    weights = LossWeights(documents, empty_targets)
    total = torch.zeros((), device=model.device)
    if not torch.is_grad_enabled():
        depth = 1  # the same numbers
    states: States = model.start(len(documents), depth)
    taught = {id(document): teacher(document) for document in ordered} if teacher and distill else {}
    held: list[torch.Tensor] = []
    for number in range(len(ordered[0].segments)):
        there = [document for document in ordered if number < len(document.segments)]
        step = Step.of(there, number, read, model.device)
        scale = weights.of(there, number)
        with torch.set_grad_enabled((any(scale) or depth is None) and torch.is_grad_enabled()):
            lesson = None
            if taught:
                lesson = Taught(torch.cat([taught[id(document)][number] for document in there]), distill)
            losses, states = answer(model, first_rows(states, len(there)), step, label_smoothing, lesson)
            if any(scale):
                loss = (losses.sum(1) * torch.tensor(scale, device=losses.device)).sum()
                if loss.requires_grad or not torch.is_grad_enabled():  # an empty memory has no weight to train
                    (held.append if depth is None else backward)(loss)
                total += loss.detach()
        if on_segment:
            for document, row in zip(there, losses.tolist(), strict=True):
                on_segment(document, number, sum(row), len(document.targets[number]))
    if held:
        backward(torch.stack(held).sum())
    return total


@dataclass(frozen=True)
class Step:
    """Segment t of the documents that have one, as a batch of readings.

    Prompts are padded before their first token and answers after their last, so that each answer directly follows its
    prompt.
    """

    keys: torch.Tensor
    """(layers, B, heads, P, size)."""
    values: torch.Tensor
    prompt_mask: torch.Tensor
    """(B, P)."""
    states: torch.Tensor
    """(layers, B, S, d), or no layers."""
    segment_mask: torch.Tensor
    """Which tokens of the segments are the document's own: (B, S)."""
    salience: torch.Tensor | None
    """How salient these tokens are, for the memory: (B, S)."""
    trunk: torch.Tensor
    """The trunk's output at the tokens that pass through the adapter: (B, A, d)."""
    targets: torch.Tensor
    """The token that each of them predicts, -100 for those that predict no target: (B, A)."""
    answers: Sequence[slice]
    """Where the targets of each row are."""

    @classmethod
    def of(cls, documents: Sequence[DocumentInputs], number: int, read: Reader, device: torch.device) -> Step:
        """Segment `number` of documents that have one."""
        parts = [(each.segments[number], each.requests[number], each.targets[number]) for each in documents]
        readings = [read(*part) for part in parts]
        targets = [target for _, _, target in parts]
        prompt, prompt_mask = _padded([reading.keys.transpose(0, 1) for reading in readings], before=True)
        values, _ = _padded([reading.values.transpose(0, 1) for reading in readings], before=True)
        states, _ = _padded([reading.states.transpose(0, 1) for reading in readings])
        segment_mask = torch.zeros(len(documents), max(len(segment) for segment, _, _ in parts), dtype=torch.bool)
        for row, document, (segment, _, _) in zip(segment_mask, documents, parts, strict=True):
            row[document.frame : len(segment)] = True
        salience = salience_rows(documents, number, segment_mask.shape[1])
        trunk, _ = _padded([reading.trunk for reading in readings])
        labels = torch.full(trunk.shape[:2], -100)
        ends = [len(reading.trunk) for reading in readings]
        answers = [slice(end - len(target), end) for end, target in zip(ends, targets, strict=True)]
        for row, place, target in zip(labels, answers, targets, strict=True):
            row[place] = torch.tensor(target)
        return cls(
            prompt.permute(2, 0, 3, 1, 4).to(device),
            values.permute(2, 0, 3, 1, 4).to(device),
            prompt_mask.to(device),
            states.permute(2, 0, 1, 3).to(device),
            segment_mask.to(device),
            None if salience is None else salience.to(device),
            trunk.to(device),
            labels.to(device),
            answers,
        )


def _padded(rows: Sequence[torch.Tensor], before: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Several (N, ...) as one (B, longest N, ...), and its mask."""
    longest = max(map(len, rows))
    padded = rows[0].new_zeros(len(rows), longest, *rows[0].shape[1:])
    mask = torch.zeros(len(rows), longest, dtype=torch.bool, device=padded.device)
    for at, row in enumerate(rows):
        place = slice(longest - len(row), longest) if before else slice(len(row))
        padded[at, place] = row
        mask[at, place] = True
    return padded, mask


def answer(
    model: AwesomeCausal, states: States, step: Step, label_smoothing: float = 0.0, taught: Taught | None = None
) -> tuple[torch.Tensor, States]:
    """The loss of each target token, (B, longest target), and the states after the segment.

    `taught` is for the target tokens of all rows, one row after another.
    """
    cache = DynamicCache()
    for number, keys, values in zip(range(model.first, model.roles.layers), step.keys, step.values, strict=True):
        cache.update(keys, values, number)
    positions = (step.prompt_mask.cumsum(1) - 1).clamp(min=0)
    at = step.prompt_mask.sum(1, keepdim=True) + torch.arange(step.trunk.shape[1], device=positions.device)
    recalled = model.recall(states)
    written = model.with_memory(recalled, step.trunk)
    hidden = model.run_top_layers(
        written,
        attention_mask=visible(
            model.base.config,
            at,
            torch.cat([positions, at], 1),
            torch.cat([step.prompt_mask, torch.ones_like(at, dtype=torch.bool)], 1),
        ),
        position_ids=at,
        past_key_values=cache,
        use_cache=True,
    )
    there = step.targets != -100
    lengths = [place.stop - place.start for place in step.answers]
    of_targets, targets = (
        torch.cat([row[place] for row, place in zip(rows, step.answers, strict=True)])
        for rows in (hidden, step.targets)
    )
    found = torch.split(_losses(model, of_targets, targets, label_smoothing, taught), lengths)
    losses = torch.nn.utils.rnn.pad_sequence(list(found), batch_first=True)
    if model.adapts_prompt:
        length, start = step.segment_mask.shape[1], min(place.start for place in step.answers)
        read = {layer: states[:, :length] for layer, states in written.written.items()}
        predicting = {layer: states[:, start:] for layer, states in written.written.items()}
        there = there[:, start:]
    else:
        read, predicting = dict(zip(model.roles.remembering, step.states, strict=True)), written.written
    # The last target ends the answer and is not part of the summary; the tokens that predict the others are.
    return losses, after(recalled, read, step.segment_mask, predicting, there, step.salience)


def _losses(
    model: AwesomeCausal, hidden: torch.Tensor, targets: torch.Tensor, smoothing: float, taught: Taught | None = None
) -> torch.Tensor:
    """The cross entropy of each target, predicted from `hidden` (N, d); with a teacher, also its share of the loss."""
    if (head := model.plain_head) is not None and torch.is_grad_enabled():
        found: torch.Tensor = _CrossEntropy.apply(hidden, head, targets, smoothing, taught)  # type: ignore[no-untyped-call]
        return found
    logits = model.logits(hidden).float()
    losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing)
    if taught is None:
        return losses
    wanted = model.logits(taught.hidden.to(hidden.dtype)).float().log_softmax(1)
    divergence = (wanted.exp() * (wanted - logits.log_softmax(1))).sum(1)
    return (1 - taught.weight) * losses + taught.weight * divergence


class _CrossEntropy(torch.autograd.Function):
    """Cross entropy after a frozen matrix; the forward pass also computes the gradient, a chunk of tokens at a time.

    Going over the scores of a whole vocabulary again and again took a third of a training step. Here they are computed,
    turned into probabilities in place, multiplied back, and dropped. What a teacher predicts is treated alike.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        head: torch.Tensor,
        targets: torch.Tensor,
        smoothing: float,
        taught: Taught | None = None,
    ) -> torch.Tensor:
        share = 1.0 if taught is None else 1 - taught.weight  # of the targets
        losses = hidden.new_empty(len(targets), dtype=torch.float32)
        gradient = torch.empty_like(hidden)
        for first in range(0, len(targets), CHUNK):
            rows = slice(first, first + CHUNK)
            scores = (hidden[rows] @ head.T).float()
            wanted = scores.gather(1, targets[rows, None])[:, 0]
            losses[rows] = -(1 - smoothing) * wanted
            if smoothing:
                losses[rows] -= smoothing * scores.mean(1)
            if taught is not None:
                wanted = (taught.hidden[rows].to(head.dtype) @ head.T).float().log_softmax(1)
                likely = wanted.exp()
                losses[rows] = share * losses[rows] + taught.weight * (likely * (wanted - scores)).sum(1)
            highest = scores.amax(1, keepdim=True)
            total = scores.sub_(highest).exp_().sum(1, keepdim=True)
            losses[rows] += (highest + total.log())[:, 0]
            scores.div_(total)
            if smoothing:
                scores.sub_(share * smoothing / scores.shape[1])
            scores[torch.arange(len(scores), device=scores.device), targets[rows]] -= share * (1 - smoothing)
            if taught is not None:
                scores.sub_(likely, alpha=taught.weight)
            gradient[rows] = scores.to(head.dtype) @ head
        ctx.save_for_backward(gradient)
        return losses

    @staticmethod
    def backward(ctx: Any, *given: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * given[0][:, None].to(gradient.dtype), None, None, None, None


def first_rows(states: States, count: int) -> States:
    """The states of the first `count` documents, which have not ended."""

    def some(state: MemoryState) -> MemoryState:
        if state.memory.shape[0] == count:
            return state
        return state.select(torch.arange(count, device=state.memory.device))

    return {layer: {kind: some(state) for kind, state in of.items()} for layer, of in states.items()}
