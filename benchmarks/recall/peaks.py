"""What training takes: the peak of a step, the budget, and how many tokens of a document fit into it.

Counted to the byte by `awesum.planning.tracing`, for a batch as in training, with weights, gradients and both moments
of Adam. Systems that go from segment to segment compute one segment at a time here, which changes no result.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import nn

from awesum.planning.tracing import traced
from awesum.recurrence import DocumentInputs, train
from benchmarks.recall import memories
from benchmarks.recall.memories import WINDOW, System
from benchmarks.recall.task import BATCH, LENGTH, document, fact
from benchmarks.recall.whole import SETTINGS, WholeDocuments

BUDGET = 27 / 11.1
"""Of the paper's GPU, in peaks of Se3."""
FLAT = 3
"""Segments after which the peak of a recurrent system has been reached."""
LENGTHS = (1, 2, 4, 8, 16, 32, 64)
"""Segments."""
MOST = LENGTHS[-1] * LENGTH + 2
"""Tokens of the longest document."""
SEGMENTED = ("se3", "attentive", "salient", "text", "key-value", "attentive-text")
IN_WINDOW = ("truncated", "extract-abstract")
"""Systems that never read more than BART's positions."""


def peak(model: nn.Module, step: Callable[[], object]) -> int:
    """The most bytes that a step holds at the same time, with what the optimizer holds all the time."""
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    with traced(None, "own") as tracer:
        tracer.name(model)
        tracer.mark("gradients", [weight.grad for weight in model.parameters() if weight.grad is not None])
        tracer.restart()
        step()
    return tracer.peak.bytes + 2 * sum(weight.nbytes for weight in model.parameters())


def documents(segments: int) -> list[DocumentInputs]:
    """A batch of documents that ask in their last segment for what their first states."""
    chance = random.Random(0)
    made = []
    for _ in range(BATCH):
        pair = fact(chance, False)
        made.append(document([pair, *[None] * (segments - 1)], [*[None] * (segments - 1), pair[0]], chance))
    return made


def segmented(system: System, segments: int) -> int:
    """The peak of a system that goes from segment to segment, one at a time."""
    model = memories.make(system, 0).train()
    batch = memories.shown(system, documents(segments))
    return peak(model, lambda: train(model, batch, torch.Tensor.backward, depth=system.depth))


def whole(system: str, tokens: int) -> int:
    """The peak of a system that reads a document of so many tokens as one input."""
    segments = -(-tokens // LENGTH)
    if system == "pagesum":  # more tokens take more pages, each of at most a window
        return _paged(-(-tokens // WINDOW), min(tokens, WINDOW))
    name = "truncated" if system == "extract-abstract" else system  # the same model, and extracts that fill it
    made = WholeDocuments(name, 0, tokens, is_taught=False)
    made.model.train()
    read = [made.reader.read(each, training=True) for each in documents(segments)]
    return peak(made.model, lambda: made.training.loss(read, torch.Tensor.backward))


def _paged(pages: int, size: int) -> int:
    made = WholeDocuments("pagesum", 0, size, is_taught=False)
    made.model.train()
    page = [*documents(1)[0].segments[0]]
    read = [
        DocumentInputs("", [(page * 2)[:size]] * pages, [document.targets[-1]], special=1, is_paged=True)
        for document in documents(1)
    ]
    return peak(made.model, lambda: made.training.loss(read, torch.Tensor.backward))


@cache
def of_se3() -> int:
    """The peak of Se3."""
    return segmented(memories.SYSTEMS["se3"], FLAT)


@cache
def fitting(system: str) -> int:
    """The most tokens of a document, or of one of the pages, with which a system stays within the budget."""
    budget = BUDGET * of_se3()
    if system == "pagesum":
        return _largest(lambda tokens: _paged(SETTINGS[system]["pages"], tokens) <= budget, 3, WINDOW)
    if system in IN_WINDOW:
        return _largest(lambda tokens: whole(system, tokens) <= budget, 3, WINDOW)
    return _largest(lambda tokens: whole(system, tokens) <= budget, 3, MOST)


def taken(system: str, tokens: int) -> int:
    """The peak with what fits."""
    return _paged(SETTINGS[system]["pages"], tokens) if system == "pagesum" else whole(system, tokens)


def _largest(fits: Callable[[int], bool], low: int, high: int) -> int:
    """The largest number up to `high` that fits, if `low` does."""
    while 2 * low < high and fits(2 * low):  # large numbers take long to try
        low *= 2
    high = min(high, 2 * low)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def by_length(names: Sequence[str] = (*SEGMENTED, *SETTINGS)) -> dict[str, dict[int, int]]:
    """The peak of each system for documents of growing length, as if there were no budget."""
    found: dict[str, dict[int, int]] = {}
    for name in names:
        for segments in LENGTHS:
            tokens = segments * LENGTH + 2
            if name in SEGMENTED:
                found.setdefault(name, {})[segments] = segmented(memories.SYSTEMS[name], segments)
            else:
                found.setdefault(name, {})[segments] = whole(name, min(tokens, WINDOW) if name in IN_WINDOW else tokens)
    return found
