"""The paper's extractor: self-attention over the vectors of all sentences, then a small network that scores each.

The vectors come from a frozen pretrained encoder. Beside them stands how each meets the document as a whole and, where
there is one, the query, and what can be counted (`features`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from awesum.analysis.salience.features import NAMES


@dataclass(frozen=True)
class Shape:
    """The size of an extractor."""

    vector: int = 384
    """Of a sentence vector."""
    size: int = 192
    heads: int = 4
    layers: int = 1
    """Of self-attention, as in the paper."""
    inner: int = 512
    dropout: float = 0.3

    def to_json(self) -> dict[str, Any]:
        """For the file."""
        return asdict(self)


class Extractor(nn.Module):
    """Scores of all sentences of some documents, as logits."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed = nn.Linear(3 * shape.vector + len(NAMES), shape.size)
        layer = nn.TransformerEncoderLayer(
            shape.size, shape.heads, shape.inner, shape.dropout, "gelu", batch_first=True, norm_first=True
        )
        self.context = nn.TransformerEncoder(layer, shape.layers, nn.LayerNorm(shape.size), enable_nested_tensor=False)
        self.scorer = nn.Sequential(
            nn.Linear(2 * shape.size + len(NAMES), shape.size), nn.GELU(), nn.Linear(shape.size, 1)
        )
        self.dropout = nn.Dropout(shape.dropout)

    def forward(
        self, vectors: torch.Tensor, features: torch.Tensor, query: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """`vectors` (B, N, d), `features` (B, N, F), `query` (B, d), zero where there is none, `mask` (B, N)."""
        scale = self.shape.vector**0.5  # unit vectors have components that are far smaller than features
        whole = nn.functional.normalize((vectors * mask[..., None]).sum(1, keepdim=True), dim=-1)
        met = [vectors * scale, vectors * whole * scale**2, vectors * query[:, None] * scale**2]
        own = self.dropout(torch.cat(met, -1))
        first = self.embed(torch.cat([own, features], -1))
        seen = self.context(first, src_key_padding_mask=~mask)
        return self.scorer(torch.cat([self.dropout(first), seen, features], -1))[..., 0]
