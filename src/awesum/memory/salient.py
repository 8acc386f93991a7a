"""Salient memory: the tokens of selected sentences, as they are. Not in the paper.

The layer's own self-attention reads them beside the segment's tokens, as it reads a compressive memory. When the slots
are full, the least salient tokens are dropped; of equally salient ones, the oldest. A token that belongs to no selected
sentence is not kept at all. Where nothing says how salient tokens are (the tokens of a summary, a model that is given
no salience), all are alike, so the newest are kept. It has no weights.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from awesum.memory.attended import AttendedMemory
from awesum.memory.state import MemoryState, Written


class SalientMemory(AttendedMemory):
    """Up to `slots` vectors of `size` numbers, in the order of the document."""

    learns_to_write = False
    nothing: torch.Tensor

    def __init__(self, size: int, slots: int = 1024) -> None:
        super().__init__(size, slots)
        # Without weights of its own, it knows by this on which device and in which format it is.
        self.register_buffer("nothing", torch.zeros(0, size), persistent=False)

    def start(self, documents: int) -> MemoryState:
        """M^0: nothing."""
        memory = self.nothing.expand(documents, -1, -1)
        mask = torch.zeros(memory.shape[:2], dtype=torch.bool, device=memory.device)
        return MemoryState(memory, mask, torch.zeros(memory.shape[:2], device=memory.device))

    def write(self, state: MemoryState, written: Written) -> MemoryState:
        """The most salient of what is there and what is new."""
        new = written.mask.float() if written.salience is None else written.salience.float() * written.mask
        old = state.mask.float() if state.salience is None else state.salience
        memory = torch.cat([state.memory, written.states.to(state.memory.dtype)], 1)
        salience = torch.cat([old, new], 1)  # (B, N), 0 for what is not kept
        # Newest first, so that of equally salient tokens the newest come first; then back into the document's order.
        order = salience.shape[1] - 1 - salience.flip(1).argsort(dim=1, descending=True, stable=True)
        count = min(self.slots, int((salience > 0).sum(1).max()) if salience.numel() else 0)
        kept = order[:, :count].sort(1).values
        salience = salience.gather(1, kept)
        memory = memory.gather(1, kept[..., None].expand(-1, -1, self.size))
        return replace(state, memory=memory, mask=salience > 0, salience=salience)
