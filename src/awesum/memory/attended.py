"""What the memories that a layer's own self-attention reads have in common: hidden states in, keys and values out."""

from __future__ import annotations

import torch

from awesum.memory.attention import SelfAttention, Source
from awesum.memory.memory import Memory
from awesum.memory.state import MemoryState, Recollection


class AttendedMemory(Memory):
    """Its slots are inputs of the self-attention, or made of them; it reads them beside the segment's own tokens."""

    def recollect(self, state: MemoryState, attention: SelfAttention | None = None) -> Recollection:
        """The memory with keys and values by the layer's own attention (7)."""
        if attention is None:
            raise ValueError(f"{type(self).__name__} is read by the layer's self-attention: give `attention`")
        source = attention.source(state.memory, state.mask)
        return Recollection(state.memory, state.mask, source.keys, source.values)

    def extra(self, recollection: Recollection) -> Source:
        """The keys and values that precede the segment's own in the self-attention (8)."""
        return Source(recollection.keys, recollection.values, recollection.mask)

    def to_write(self, inputs: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
        """H_inp, the inputs of the self-attention."""
        return inputs
