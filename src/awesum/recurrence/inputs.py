"""A document as a model that remembers takes it, and what its targets weigh. Tokens only: no texts, no files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

Backward = Callable[[torch.Tensor], object]
"""Learns from a share of the loss."""


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
    requests: Sequence[Sequence[int]] = ()
    """For a causal model: the tokens between each segment and its answer."""
    frame: int = 0
    """For a causal model: the first tokens of each segment, which are the same for all and not the document's."""
    special: int = 2
    """The tokens that frame a target."""

    @property
    def tokens(self) -> int:
        """All that it is trained on."""
        return sum(len(tokens) for each in (self.segments, self.requests, self.targets) for tokens in each)


def is_empty(document: DocumentInputs, number: int) -> bool:
    """Whether a target has no token but those that frame it."""
    return len(document.targets[number]) <= document.special


def token_weight(document: DocumentInputs, empty_targets: bool) -> float:
    """What a token of the targets weighs, for the mean over all of them."""
    count = sum(
        len(target) for number, target in enumerate(document.targets) if empty_targets or not is_empty(document, number)
    )
    return 1 / count if count else 0.0


def longest_first(documents: Sequence[DocumentInputs]) -> list[int]:
    """The places of the documents in the order of the rows of every step: those that have ended are the last ones."""
    return sorted(range(len(documents)), key=lambda place: -len(documents[place].segments))
