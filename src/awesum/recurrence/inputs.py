"""A document as token ids, as the recurrent loops take it, and the weight of its targets. No texts, no files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

Backward = Callable[[torch.Tensor], object]
"""Runs the backward pass of a share of the loss."""


@dataclass(frozen=True)
class DocumentInputs:
    """A document as token ids."""

    name: str
    segments: Sequence[Sequence[int]]
    """The tokens of each segment, with its special tokens."""
    targets: Sequence[Sequence[int]] = ()
    """The tokens of each segment's summary; only special tokens for an empty summary."""
    spans: Sequence[tuple[int, int, int]] = ()
    """Salient sentences for the encoder's keys and values: segment, first token, one past the last."""
    salient: Sequence[Sequence[int]] = ()
    """Which of `spans` each segment attends to."""
    requests: Sequence[Sequence[int]] = ()
    """For a causal model: the tokens between each segment and its answer."""
    frame: int = 0
    """For a causal model: how many tokens at the start of each segment are not the document's; the same for all."""
    special: int = 2
    """How many special tokens a target has."""
    salience: Sequence[Sequence[float]] = ()
    """For a memory that keeps the most salient tokens: how salient the sentence of each token of each segment is, 0 if
    it is not selected. Empty: all tokens alike."""

    is_paged: bool = False
    """Whether `segments` are pages of one input, with one target for all of them."""

    @property
    def tokens(self) -> int:
        """The number of tokens that training on it processes."""
        return sum(len(tokens) for each in (self.segments, self.requests, self.targets) for tokens in each)


def salience_rows(documents: Sequence[DocumentInputs], number: int, length: int) -> torch.Tensor | None:
    """How salient each token of segment `number` is, (B, length); None if no document says so."""
    if not any(document.salience for document in documents):
        return None
    rows = torch.zeros(len(documents), length)
    for row, document in zip(rows, documents, strict=True):
        row[: len(document.segments[number])] = torch.tensor(document.salience[number]) if document.salience else 1.0
    return rows


def is_empty(document: DocumentInputs, number: int) -> bool:
    """Whether a target is the empty summary."""
    return len(document.targets[number]) <= document.special


def token_weight(document: DocumentInputs, empty_targets: bool) -> float:
    """The weight of one target token in the mean over all of them."""
    count = sum(
        len(target) for number, target in enumerate(document.targets) if empty_targets or not is_empty(document, number)
    )
    return 1 / count if count else 0.0


def longest_first(documents: Sequence[DocumentInputs]) -> list[int]:
    """The indices of the documents in the order of each step's rows: those that end first come last."""
    return sorted(range(len(documents)), key=lambda place: -len(documents[place].segments))
