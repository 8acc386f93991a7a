"""From segment to segment with a causal model: the loop that trains its adapter.

Step t takes segment t of every document of the batch; documents that have ended drop out. The prompt (the segment and
the request) passes through the frozen layers without a graph; only the answer, a tenth of the tokens, is learned from.
Knows tokens and tensors, no texts and no files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache

from awesum.memory import MemoryState
from awesum.models.adapter import AwesomeCausal, Passage, States, after
from awesum.models.masks import visible
from awesum.recurrence.inputs import Backward, DocumentInputs, is_empty, longest_first, token_weight

AT_A_TIME = 64
"""Target tokens whose scores are there at the same time."""
Trunk = Callable[[Sequence[int], Sequence[int]], torch.Tensor]
"""The trunk's output, (N, d), of a segment's tokens and of those behind them."""
Told = Callable[[DocumentInputs, int, float, int], object]
"""Told a document, the number of a segment, the sum of the losses of its target's tokens, and how many these are."""


def train(
    model: AwesomeCausal,
    documents: Sequence[DocumentInputs],
    backward: Backward,
    *,
    trunk: Trunk,
    empty_targets: bool = True,
    label_smoothing: float = 0.0,
    told: Told | None = None,
) -> torch.Tensor:
    """One pass over some documents, `backward` called after each step with its share of the loss; gives the whole loss.

    The loss is the mean over each document's target tokens, and the mean of these over the documents, as it is for an
    encoder with a decoder. To measure without learning, give a `backward` that does nothing, under `torch.no_grad`.
    """
    torch.set_flush_denormal(True)  # see ChatModel.write_tokens
    ordered = [documents[place] for place in longest_first(documents)]
    weights = {id(document): token_weight(document, empty_targets) / len(documents) for document in documents}
    total = torch.zeros((), device=model.device)
    states: States = model.start(len(documents))
    for number in range(len(ordered[0].segments)):
        there = [document for document in ordered if number < len(document.segments)]
        step = Step.of(there, number, trunk, model.device)
        scale = [weights[id(d)] if empty_targets or not is_empty(d, number) else 0.0 for d in there]
        with torch.set_grad_enabled(any(scale) and torch.is_grad_enabled()):
            losses, states = answer(model, first_rows(states, len(there)), step, label_smoothing)
            if any(scale):
                loss = (losses.sum(1) * torch.tensor(scale, device=losses.device)).sum()
                if loss.requires_grad or not torch.is_grad_enabled():  # an empty memory has nothing to learn from
                    backward(loss)
                total += loss.detach()
        if told:
            for document, row in zip(there, losses.tolist(), strict=True):
                told(document, number, sum(row), len(document.targets[number]))
    return total


@dataclass(frozen=True)
class Step:
    """Segment t of the documents that have one, as the trunk's output.

    Prompts are padded before their first token and answers behind their last, so that each answer stands right behind
    its prompt. The prompt's last token counts to the answer: it is what the answer's first token is written behind.
    """

    prompt: torch.Tensor
    """(B, P, d)."""
    prompt_mask: torch.Tensor
    """(B, P)."""
    segment_mask: torch.Tensor
    """Which tokens are the segment's own: (B, P)."""
    answer: torch.Tensor
    """(B, A, d): what the targets are written behind."""
    targets: torch.Tensor
    """(B, A), with -100 behind each."""

    @classmethod
    def of(cls, documents: Sequence[DocumentInputs], number: int, trunk: Trunk, device: torch.device) -> Step:
        """Segment `number` of some documents that have one."""
        rows = [
            trunk(document.segments[number], [*document.requests[number], *document.targets[number]]).to(device)
            for document in documents
        ]
        targets = [document.targets[number] for document in documents]
        prompts = [len(document.segments[number]) + len(document.requests[number]) - 1 for document in documents]
        longest, widest, size = max(prompts), max(map(len, targets)), rows[0].shape[1]
        prompt = rows[0].new_zeros(len(rows), longest, size)
        answer = rows[0].new_zeros(len(rows), widest, size)
        prompt_mask, segment_mask = (torch.zeros(len(rows), longest, dtype=torch.bool, device=device) for _ in range(2))
        labels = torch.full((len(rows), widest), -100, device=device)
        for at, (document, row, length, target) in enumerate(zip(documents, rows, prompts, targets, strict=True)):
            pad = longest - length
            prompt[at, pad:] = row[:length]
            prompt_mask[at, pad:] = True
            segment_mask[at, pad + document.frame : pad + len(document.segments[number])] = True
            answer[at, : len(target)] = row[length : length + len(target)]
            labels[at, : len(target)] = torch.tensor(target)
        return cls(prompt, prompt_mask, segment_mask, answer, labels)


def answer(
    model: AwesomeCausal, states: States, step: Step, label_smoothing: float = 0.0
) -> tuple[torch.Tensor, States]:
    """The loss of each token of the targets, (B, A), and the memories after the segment."""
    cache = DynamicCache()
    positions = (step.prompt_mask.cumsum(1) - 1).clamp(min=0)
    read = Passage(trunk=step.prompt)
    if step.prompt.shape[1]:
        with torch.no_grad():
            model.above(
                read,
                attention_mask=None if step.prompt_mask.all() else step.prompt_mask.long(),
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
            )
    width = step.answer.shape[1]
    behind = step.prompt_mask.sum(1, keepdim=True) + torch.arange(width, device=positions.device)
    recalled = model.recall(states)
    written = model.with_memory(recalled, step.answer)
    hidden = model.above(
        written,
        attention_mask=visible(
            model.base.config,
            behind,
            torch.cat([positions, behind], 1),
            torch.cat([step.prompt_mask, torch.ones_like(behind, dtype=torch.bool)], 1),
        ),
        position_ids=behind,
        past_key_values=cache,
        use_cache=True,
    )
    there = step.targets != -100
    losses = hidden.new_zeros(step.targets.shape, dtype=torch.float32)
    losses[there] = _losses(model, hidden[there], step.targets[there], label_smoothing)
    # The last target is the end of the answer, which is not the summary's: the others are what stands before it.
    return losses, after(recalled, read.written, step.segment_mask, written.written, there)


def _losses(model: AwesomeCausal, hidden: torch.Tensor, targets: torch.Tensor, smoothing: float) -> torch.Tensor:
    """The cross entropy of each target, written behind `hidden` (N, d)."""
    if (head := model.plain_head) is not None and torch.is_grad_enabled():
        found: torch.Tensor = _CrossEntropy.apply(hidden, head, targets, smoothing)  # type: ignore[no-untyped-call]
        return found
    logits = model.logits(hidden).float()
    return torch.nn.functional.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing)


class _CrossEntropy(torch.autograd.Function):
    """Cross entropy behind a frozen matrix, with its gradient made on the way, some tokens at a time.

    A third of a training step's time went into passing over the scores of a whole vocabulary again and again. Here they
    are made, turned into probabilities where they stand, multiplied back, and forgotten.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, head: torch.Tensor, targets: torch.Tensor, smoothing: float
    ) -> torch.Tensor:
        losses = hidden.new_empty(len(targets), dtype=torch.float32)
        gradient = torch.empty_like(hidden)
        for first in range(0, len(targets), AT_A_TIME):
            rows = slice(first, first + AT_A_TIME)
            scores = hidden[rows] @ head.T
            wanted = scores.gather(1, targets[rows, None])[:, 0].float()
            normalizer = scores.float().logsumexp(1)
            losses[rows] = normalizer - (1 - smoothing) * wanted
            if smoothing:
                losses[rows] -= smoothing * scores.float().mean(1)
            scores.sub_(normalizer[:, None].to(scores.dtype)).exp_()
            if smoothing:
                scores.sub_(smoothing / scores.shape[1])
            scores[torch.arange(len(scores), device=scores.device), targets[rows]] -= 1 - smoothing
            gradient[rows] = scores @ head
        ctx.save_for_backward(gradient)
        return losses

    @staticmethod
    def backward(ctx: Any, *given: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * given[0][:, None].to(gradient.dtype), None, None, None


def first_rows(states: States, count: int) -> States:
    """The states of the documents that have not ended."""

    def some(state: MemoryState) -> MemoryState:
        if state.memory.shape[0] == count:
            return state
        return state.select(torch.arange(count, device=state.memory.device))

    return {layer: {kind: some(state) for kind, state in of.items()} for layer, of in states.items()}
