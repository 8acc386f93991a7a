"""CachED: BART on chunks that are encoded alone and attended to together. No weights but BART's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.bart.modeling_bart import BartEncoder

from awesum.models.long_bart import LongBart


class ChunkEncoder(BartEncoder):
    """BART's encoder, chunk by chunk. Positions begin anew in each."""

    def forward(
        self, input_ids: torch.Tensor | None = None, attention_mask: torch.Tensor | None = None, **kwargs: Any
    ) -> BaseModelOutput:
        """All chunks, side by side: (B, N, d)."""
        assert input_ids is not None, "it reads tokens"
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        encoded = [self.encode_chunk(input_ids[:, part], mask[:, part]) for part in self.chunks(input_ids.shape[1])]
        return BaseModelOutput(last_hidden_state=torch.cat(encoded, 1))

    def chunks(self, length: int) -> Iterator[slice]:
        """Where the chunks are; the last may be shorter."""
        size = min(self.config.chunk_size, self.config.max_position_embeddings)
        return (slice(at, min(at + size, length)) for at in range(0, length, size))

    def encode_chunk(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """One chunk of those documents that have it; zeros for the others."""
        rows = mask.any(1)
        if rows.all():
            return super().forward(ids, attention_mask=mask).last_hidden_state
        found = super().forward(ids[rows], attention_mask=mask[rows]).last_hidden_state
        return found.new_zeros(*ids.shape, found.shape[-1]).index_put((rows,), found)


class CachedBart(LongBart):
    """BART whose decoder attends to all chunks of a document. `chunk_size` is in its configuration."""

    def make_encoder(self, config: Any) -> nn.Module:
        """Chunk by chunk."""
        if not hasattr(config, "chunk_size"):
            config.chunk_size = config.max_position_embeddings
        return ChunkEncoder(config)
