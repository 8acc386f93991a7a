"""A teacher that needs no training: the pretrained model with the earlier segments of a document in its window.

What it predicts is what a memory should make the model predict from the segment alone. It is slow, because it attends
to the whole document: its last hidden states are computed once, and its predictions from them when they are needed.
Knows tokens and tensors, no texts and no files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from transformers import DynamicCache

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from awesum.recurrence.inputs import DocumentInputs

Teacher = Callable[["DocumentInputs"], Sequence[torch.Tensor]]
"""Gives a document's last hidden states at the tokens that predict each target: (A, d) each."""


@dataclass(frozen=True)
class Taught:
    """What a teacher predicts for some target tokens, and how much that counts."""

    hidden: torch.Tensor
    """The teacher's last hidden states at the tokens that predict them: (N, d)."""
    weight: float
    """Of the divergence from its predictions in the loss; the targets have the rest, up to 1."""


def in_view(
    document: DocumentInputs, window: int, kept: Callable[[int], Sequence[int]] | None = None
) -> Iterator[list[list[int]]]:
    """What stands before each segment: the template's tokens, then the newest earlier segments that fit, oldest first.

    `kept` says which tokens of an earlier segment are in view; by default, all of its own.
    """
    frame = [*document.segments[0][: document.frame]]
    before: list[list[int]] = []
    for number, segment in enumerate(document.segments):
        asked = len(segment) + len(document.requests[number]) + len(document.targets[number]) - 1
        while before and asked + sum(map(len, before)) > window:
            before.pop(0)
        yield [frame, *before]
        following = document.segments[number + 1 : number + 2]
        if [*segment] not in map(list, following):  # a long target takes several passes over its segment
            before.append([*segment[document.frame :]] if kept is None else [*kept(number)])


@torch.no_grad()
def teach(
    model: PreTrainedModel,
    document: DocumentInputs,
    window: int,
    kept: Callable[[int], Sequence[int]] | None = None,
) -> Iterator[torch.Tensor]:
    """The last hidden states at the tokens that predict each segment's target, (A, d), in the document's order.

    Each token is read once, as long as all earlier segments fit into the window.
    """
    cache, held = DynamicCache(), list[int]()

    def read(tokens: Sequence[int]) -> torch.Tensor:
        ids = torch.tensor([[*tokens]], device=model.device)
        held.extend(tokens)
        found: torch.Tensor = model.get_decoder()(
            input_ids=ids, past_key_values=cache, use_cache=True
        ).last_hidden_state
        return found[0]

    for number, before in enumerate(in_view(document, window, kept)):
        target = document.targets[number]
        own = document.segments[number][document.frame :]
        wanted = [token for tokens in before for token in tokens]
        same = next((at for at, (a, b) in enumerate(zip(held, wanted, strict=False)) if a != b), len(wanted))
        if len(held) > same:
            cache.crop(same - len(held))  # a negative number: tokens to forget
            del held[same:]
        if wanted[len(held) :]:
            read(wanted[len(held) :])
        yield read([*own, *document.requests[number], *target[:-1]])[-len(target) :]
