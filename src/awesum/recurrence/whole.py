"""Whole documents in one pass: a batch of inputs as tensors, its targets, and its loss. The recurrent loops have their
own, segment by segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from awesum.recurrence.inputs import DocumentInputs, is_empty, token_weight


class Batch(NamedTuple):
    """Some documents, padded."""

    ids: torch.Tensor
    """(B, N); or (B, P, N) where documents come in pages."""
    mask: torch.Tensor
    """1 for tokens, 0 for padding."""


def padded(documents: Sequence[DocumentInputs], pad: int, device: torch.device) -> Batch:
    """The inputs of some documents. Documents of several pages must have equally many."""
    pages = len(documents[0].segments)
    longest = max(len(page) for document in documents for page in document.segments)
    ids = torch.full((len(documents), pages, longest), pad, device=device)
    mask = torch.zeros_like(ids)
    for row, document in enumerate(documents):
        for page, tokens in enumerate(document.segments):
            ids[row, page, : len(tokens)] = torch.tensor(tokens, device=device)
            mask[row, page, : len(tokens)] = 1
    if documents[0].is_paged:
        return Batch(ids, mask)
    return Batch(ids[:, 0], mask[:, 0])


def targets(
    documents: Sequence[DocumentInputs], empty_targets: bool, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """The labels, (B, T), and the weight of each document's tokens in the loss, (B,)."""
    longest = max(len(document.targets[0]) for document in documents)
    labels = torch.full((len(documents), longest), -100, device=device)
    weights = torch.zeros(len(documents), device=device)
    for row, document in enumerate(documents):
        if empty_targets or not is_empty(document, 0):
            labels[row, : len(document.targets[0])] = torch.tensor(document.targets[0], device=device)
            weights[row] = token_weight(document, empty_targets) / len(documents)
    return labels, weights


def weighted_loss(
    logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor, label_smoothing: float
) -> torch.Tensor:
    """The mean over each document's target tokens, averaged over the documents."""
    losses = torch.nn.functional.cross_entropy(
        logits.transpose(1, 2).float(), labels, reduction="none", label_smoothing=label_smoothing
    )
    return (losses.sum(1) * weights).sum()
