"""Compressive memory: equations 1 to 8 of the paper.

Half of the slots hold the newest inputs of the self-attention as they are, half hold older ones, of which a
convolution makes one out of `ratio`. It is empty before the first segment and fills up from its newest end. Slots that
hold nothing in any document of the batch are not there at all, so that a large memory costs only what is in it; where
only some documents have nothing, they are masked.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import nn

from awesum.memory.attention import Source
from awesum.memory.state import MemoryState, Recollection


class SelfAttention(Protocol):
    """The attention of the layer that the memory is in."""

    def source(self, states: torch.Tensor, mask: torch.Tensor | None) -> Source:
        """The keys and values that it makes of `states`."""


class Compression(nn.Conv1d):
    """It begins as the mean: what it makes then looks to the pretrained attention like what it stands for."""

    def __init__(self, size: int, ratio: int) -> None:
        super().__init__(size, size, kernel_size=ratio, stride=ratio)

    def reset_parameters(self) -> None:
        """Begin."""
        with torch.no_grad():
            self.weight.copy_(self.mean())
            if self.bias is not None:
                self.bias.zero_()

    def mean(self) -> torch.Tensor:
        """The weights that make a mean."""
        size, _, ratio = self.weight.shape
        return torch.eye(size)[..., None].expand(-1, -1, ratio) / ratio


class CompressiveMemory(nn.Module):
    """`slots` vectors of `size` numbers; the layer's own self-attention reads them as further keys and values."""

    def __init__(self, size: int, slots: int = 1024, ratio: int = 5) -> None:
        super().__init__()
        self.size, self.slots, self.ratio = size, slots, ratio
        self.compress = Compression(size, ratio)

    def start(self, documents: int) -> MemoryState:
        """M^0: nothing."""
        memory = self.compress.weight.new_zeros(documents, 0, self.size)
        return MemoryState(memory, torch.zeros(memory.shape[:2], dtype=torch.bool, device=memory.device))

    def update(
        self, memory: torch.Tensor, mask: torch.Tensor, hidden: torch.Tensor, hidden_mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """M^t and its mask from M^{t-1} (B, up to m, d) and H^t_inp (B, N, d)."""
        half = self.slots // 2
        split = max(memory.shape[1] - half, 0)  # nothing is compressed before the other half is full
        compressed, uncompressed = memory[:, :split], memory[:, split:]  # (1)
        newest = torch.cat([uncompressed, hidden], 1)  # (2)
        newest, newest_mask = filled(newest, torch.cat([mask[:, split:], hidden_mask], 1))
        if newest.shape[1] <= half:  # nothing leaves the newer half
            return torch.cat([compressed, newest], 1), torch.cat([mask[:, :split], newest_mask], 1)
        older, older_mask = self._compressed(newest[:, :-half], newest_mask[:, :-half])  # (3)
        uncompressed, uncompressed_mask = newest[:, -half:], newest_mask[:, -half:]  # (4)
        compressed, compressed_mask = filled(
            torch.cat([compressed, older], 1), torch.cat([mask[:, :split], older_mask], 1)
        )
        memory = torch.cat([compressed[:, -half:], uncompressed], 1)  # (5), (6)
        return memory, torch.cat([compressed_mask[:, -half:], uncompressed_mask], 1)

    def _compressed(self, states: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """One vector out of `ratio`, counted from the newest: where the oldest are fewer, zeros stand before them."""
        missing = -states.shape[1] % self.ratio
        states = nn.functional.pad(states * mask[..., None], (0, 0, missing, 0))
        mask = nn.functional.pad(mask, (missing, 0))
        return (
            self.compress(states.transpose(1, 2)).transpose(1, 2),
            mask.view(mask.shape[0], -1, self.ratio).any(2),
        )

    def settle(self, state: MemoryState) -> MemoryState:
        """What a segment left to be written is written now."""
        if state.written is None or state.written_mask is None:
            return state
        return MemoryState(*self.update(state.memory, state.mask, state.written, state.written_mask))

    def recall(self, state: MemoryState, attention: SelfAttention) -> Recollection:
        """The memory that a segment reads, with the keys and values that the layer's own attention makes of it (7)."""
        state = self.settle(state)
        source = attention.source(state.memory, state.mask)
        return Recollection(state.memory, state.mask, source.keys, source.values)

    def read(self, recollection: Recollection) -> Source:
        """What stands before the segment's own keys and values in the self-attention (8)."""
        return Source(recollection.keys, recollection.values, recollection.mask)


def filled(states: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row's vectors at its end, in their order, and before them what is masked, as the fullest row has it."""
    if mask.all():
        return states, mask
    order = mask.int().argsort(dim=1, stable=True)[:, mask.shape[1] - int(mask.sum(1).max()) :]
    return states.gather(1, order[..., None].expand(-1, -1, states.shape[2])), mask.gather(1, order)
