"""Attention to something other than the segment's own tokens: memory slots, salient vectors.

The beams of a document read the same memory. They are treated as more queries of that document, so nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import torch
from torch import nn


@dataclass(frozen=True)
class Source:
    """Keys and values that queries attend to, (B, heads, length, size), and which of them exist, (B, length)."""

    keys: torch.Tensor
    values: torch.Tensor
    mask: torch.Tensor | None

    def joined(self, other: Source) -> Source:
        """Both as one, this one first."""
        masks = [
            source.keys.new_ones(source.keys.shape[0], source.keys.shape[2], dtype=torch.bool)
            if source.mask is None
            else source.mask
            for source in (self, other)
        ]
        return Source(
            torch.cat([self.keys, other.keys], 2), torch.cat([self.values, other.values], 2), torch.cat(masks, 1)
        )


def all_joined(sources: Sequence[Source]) -> Source | None:
    """Several as one, in order; None if there are none."""
    return reduce(Source.joined, sources) if sources else None


class SelfAttention(Protocol):
    """The self-attention of the layer that a memory sits in."""

    def source(self, states: torch.Tensor, mask: torch.Tensor | None) -> Source:
        """The keys and values that it computes of `states`."""


class Attention(nn.Module):
    """Multi-head attention with four matrices and no biases, as the paper's count of parameters implies."""

    def __init__(self, size: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if size % heads:
            raise ValueError(f"a hidden size of {size} cannot be divided among {heads} heads")
        self.heads, self.dropout = heads, dropout
        self.q_proj = nn.Linear(size, size, bias=False)
        self.k_proj = nn.Linear(size, size, bias=False)
        self.v_proj = nn.Linear(size, size, bias=False)
        self.out_proj = nn.Linear(size, size, bias=False)

    def source(self, states: torch.Tensor, mask: torch.Tensor | None = None) -> Source:
        """The keys and values of `states`: (B, length, d)."""
        return Source(split(self.k_proj(states), self.heads), split(self.v_proj(states), self.heads), mask)

    def forward(self, queries: torch.Tensor, source: Source) -> torch.Tensor:
        """Attend from `queries` (B or B x beams, N, d) to `source`."""
        q = folded(split(self.q_proj(queries), self.heads), source.keys.shape[0])  # (B, heads, beams N, size)
        mask = None if source.mask is None else source.mask[:, None, None, :]
        found = nn.functional.scaled_dot_product_attention(
            q, source.keys, source.values, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0
        )
        return self.out_proj(merged(unfolded(found, queries.shape[0])))


def split(states: torch.Tensor, heads: int) -> torch.Tensor:
    """(B, N, d) -> (B, heads, N, d / heads)."""
    return states.view(*states.shape[:2], heads, states.shape[2] // heads).transpose(1, 2)


def merged(states: torch.Tensor) -> torch.Tensor:
    """(B, heads, N, size) -> (B, N, heads size)."""
    return states.transpose(1, 2).flatten(2)


def folded(queries: torch.Tensor, documents: int) -> torch.Tensor:
    """(B beams, heads, N, size) -> (B, heads, beams N, size): a document's beams become more queries of it."""
    rows, heads, length, size = queries.shape
    if rows == documents:
        return queries
    beams = rows // documents
    return (
        queries.view(documents, beams, heads, length, size)
        .transpose(1, 2)
        .reshape(documents, heads, beams * length, size)
    )


def unfolded(states: torch.Tensor, rows: int) -> torch.Tensor:
    """The inverse of `folded`."""
    documents, heads, length, size = states.shape
    if rows == documents:
        return states
    beams = rows // documents
    return states.view(documents, heads, beams, length // beams, size).transpose(1, 2).flatten(0, 1)


def attend_to_both(
    queries: torch.Tensor, source: Source, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor:
    """One softmax over `source`, which the beams share, and each beam's own `keys`, without copying either.

    For few queries, because the weights are materialized. `mask` says which own keys each query sees:
    (rows, 1, N, length).
    """
    queries = queries * queries.shape[-1] ** -0.5  # before the product, which could overflow in half precision
    rows = queries.shape[0]
    shared = folded(queries, source.keys.shape[0]) @ source.keys.transpose(2, 3)
    if source.mask is not None:
        shared = shared.masked_fill(~source.mask[:, None, None, :], -torch.inf)
    own = queries @ keys.transpose(2, 3)
    if mask is not None:
        own = own.masked_fill(~mask, -torch.inf)
    shared = unfolded(shared, rows)
    full = torch.promote_types(values.dtype, torch.float32)
    weights = torch.cat([shared, own], -1).softmax(-1, dtype=full).to(values.dtype)
    to_shared, to_own = torch.split(weights, [shared.shape[-1], own.shape[-1]], -1)
    found = folded(to_shared, source.keys.shape[0]) @ source.values
    return unfolded(found, rows) + to_own @ values
