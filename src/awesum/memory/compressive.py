"""Compressive memory: equations 1 to 8 of the paper.

Half of the slots hold the newest inputs of the self-attention as they are; the other half holds older ones, compressed
`ratio` to one by a convolution. It is empty before the first segment and fills up from its newest end. Slots that are
empty in every document of the batch are not stored, so that a large memory costs only what is in it; slots that are
empty in some documents are masked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import nn

from awesum.memory.attended import AttendedMemory
from awesum.memory.state import MemoryState, Written


class Compression(nn.Conv1d):
    """Starts as the mean, so that the pretrained attention sees a compressed vector like those that it stands for."""

    def __init__(self, size: int, ratio: int) -> None:
        super().__init__(size, size, kernel_size=ratio, stride=ratio)

    def reset_parameters(self) -> None:
        """Set the starting values."""
        with torch.no_grad():
            self.weight.copy_(self.mean())
            if self.bias is not None:
                self.bias.zero_()

    def starting_values(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The bias starts at zero, as the library has it."""
        yield self.weight, self.mean()

    def mean(self) -> torch.Tensor:
        """The weights that compute a mean."""
        size, _, ratio = self.weight.shape
        return torch.eye(size)[..., None].expand(-1, -1, ratio) / ratio


class CompressiveMemory(AttendedMemory):
    """`slots` vectors of `size` numbers; the layer's own self-attention reads them as extra keys and values."""

    def __init__(self, size: int, slots: int = 1024, ratio: int = 5) -> None:
        super().__init__(size, slots)
        self.ratio = ratio
        self.compress = Compression(size, ratio)

    @classmethod
    def make(cls, *, size: int, heads: int, slots: int, ratio: int, dropout: float) -> CompressiveMemory:
        """It has no attention of its own, so it needs neither heads nor dropout."""
        return cls(size, slots, ratio)

    @classmethod
    def check(cls, *, slots: int, ratio: int, heads: int | None = None) -> None:
        """Both halves have the same size."""
        if slots % 2:
            raise ValueError(f"a compressive memory has two halves: memory_size={slots} is odd")

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
        """One vector for every `ratio`, counted from the newest; zeros fill up the oldest group."""
        missing = -states.shape[1] % self.ratio
        states = nn.functional.pad(states * mask[..., None], (0, 0, missing, 0))
        mask = nn.functional.pad(mask, (missing, 0))
        return (
            self.compress(states.transpose(1, 2)).transpose(1, 2),
            mask.view(mask.shape[0], -1, self.ratio).any(2),
        )

    def write(self, state: MemoryState, written: Written) -> MemoryState:
        """See `Memory.write`."""
        memory, mask = self.update(state.memory, state.mask, written.states, written.mask)
        return replace(state, memory=memory, mask=mask)


def filled(states: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Move each row's vectors to its end, in their order; masked ones come first, as many as the fullest row leaves."""
    if mask.all():
        return states, mask
    order = mask.int().argsort(dim=1, stable=True)[:, mask.shape[1] - int(mask.sum(1).max()) :]
    return states.gather(1, order[..., None].expand(-1, -1, states.shape[2])), mask.gather(1, order)
