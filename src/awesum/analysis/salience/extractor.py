"""The paper's extractor: self-attention over the vectors of all sentences, then a small network that scores each.

The vectors come from a frozen pretrained encoder. Further inputs are each vector's elementwise product with the
document vector and with the query vector, if there is a query, and the surface `features`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from awesum.analysis.salience.features import NAMES


@dataclass(frozen=True)
class Shape:
    """The dimensions of an extractor."""

    vector: int = 384
    """Size of a sentence vector."""
    size: int = 192
    heads: int = 4
    layers: int = 1
    """Self-attention layers; one, as in the paper."""
    inner: int = 512
    dropout: float = 0.3

    def to_json(self) -> dict[str, Any]:
        """As stored in the file."""
        return asdict(self)


class Extractor(nn.Module):
    """Scores all sentences of a batch of documents, as logits."""

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
        """`vectors` (B, N, d), `features` (B, N, F), `query` (B, d), zero for none, `mask` (B, N) -> scores (B, N)."""
        scale = self.shape.vector**0.5  # the components of unit vectors are far smaller than the features
        document = nn.functional.normalize((vectors * mask[..., None]).sum(1, keepdim=True), dim=-1)  # (B, 1, d)
        products = [vectors * scale, vectors * document * scale**2, vectors * query[:, None] * scale**2]
        inputs = self.dropout(torch.cat(products, -1))  # (B, N, 3d)
        hidden = self.embed(torch.cat([inputs, features], -1))
        context = self.context(hidden, src_key_padding_mask=~mask)
        return self.scorer(torch.cat([self.dropout(hidden), context, features], -1))[..., 0]
