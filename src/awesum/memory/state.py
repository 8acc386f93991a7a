"""The state of one layer's memory, as a value that goes in and comes out.

The update is lazy. The hidden states that a segment writes are kept as they are, detached from the graph, and become
part of the memory only when the next segment begins, inside that segment's graph. So the weights of the update learn
from the next segment's loss, and yet nothing older than one segment is ever held: training takes constant memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import torch
from torch import nn


@dataclass(frozen=True)
class MemoryState:
    """The state between two segments: the memory before the last segment, and what that segment will add to it."""

    memory: torch.Tensor
    """M^{t-1}: (B, m, d). A compressive memory has only the slots that are filled in some document."""
    mask: torch.Tensor
    """Which slots are filled: (B, m)."""
    written: torch.Tensor | None = None
    """The pending hidden states of segment t: (B, N, d). None before the first segment."""
    written_mask: torch.Tensor | None = None
    """Which of them are tokens, not padding: (B, N)."""

    def detach(self) -> Self:
        """The same values without a graph."""
        return self._map(lambda tensor: tensor.detach())

    def then(self, written: torch.Tensor, written_mask: torch.Tensor) -> MemoryState:
        """The state after the segment that wrote these hidden states. This is SG(.): the graph ends here."""
        memory = self.memory.detach()
        if not written.shape[1]:
            return MemoryState(memory, self.mask)
        return MemoryState(memory, self.mask, written.detach(), written_mask)

    def select(self, rows: torch.Tensor) -> Self:
        """The state of some documents of the batch, in that order."""
        return self._map(lambda tensor: tensor.index_select(0, rows.to(tensor.device)))

    def to(self, device: torch.device | str) -> Self:
        """The state on another device."""
        return self._map(lambda tensor: tensor.to(device))

    def joined(self, other: MemoryState) -> MemoryState:
        """The documents of this state followed by those of another. Missing pending states become padding."""
        slots = max(state.memory.shape[1] for state in (self, other))
        memory, mask = (
            torch.cat([nn.functional.pad(tensor, before) for tensor, before in tensors])
            for tensors in (
                [(state.memory, (0, 0, slots - state.memory.shape[1], 0)) for state in (self, other)],
                [(state.mask, (slots - state.mask.shape[1], 0)) for state in (self, other)],
            )
        )
        length = max(0 if state.written is None else state.written.shape[1] for state in (self, other))
        if not length:
            return MemoryState(memory, mask)
        written = [state._padded(length) for state in (self, other)]
        return MemoryState(
            memory,
            mask,
            torch.cat([states for states, _ in written]),
            torch.cat([mask for _, mask in written]),
        )

    def _padded(self, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        documents, _, size = self.memory.shape
        states = self.memory.new_zeros(documents, length, size)
        mask = torch.zeros(documents, length, dtype=torch.bool, device=states.device)
        if self.written is not None and self.written_mask is not None:
            states[:, : self.written.shape[1]] = self.written
            mask[:, : self.written.shape[1]] = self.written_mask
        return states, mask

    def _map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        tensors = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: change(tensor) for name, tensor in tensors.items() if tensor is not None})


@dataclass(frozen=True)
class Recollection:
    """What one layer reads during a segment: constant until the segment ends, and shared by all beams."""

    memory: torch.Tensor
    """M^{t-1}, in the graph of the segment: (B, m, d)."""
    mask: torch.Tensor
    """(B, m)."""
    keys: torch.Tensor
    """(B, heads, m, d / heads): computed once a segment, not once a decoding step."""
    values: torch.Tensor

    def then(self, written: torch.Tensor, written_mask: torch.Tensor) -> MemoryState:
        """The state after the segment that wrote these hidden states."""
        return MemoryState(self.memory, self.mask).then(written, written_mask)

    @classmethod
    def stacked(cls, recollections: Sequence[Recollection]) -> Recollection:
        """The recollections of several documents as one batch. Shorter memories get masked slots at their start."""
        slots = max(each.mask.shape[1] for each in recollections)

        def rows(name: str, *after: int) -> torch.Tensor:
            """`after`: the padding of the dimensions after the slots."""
            tensors = [getattr(each, name) for each in recollections]
            missing = [slots - each.mask.shape[1] for each in recollections]
            pad = nn.functional.pad
            return torch.cat([pad(t, (*after, n, 0)) if n else t for t, n in zip(tensors, missing, strict=True)])

        return cls(rows("memory", 0, 0), rows("mask"), rows("keys", 0, 0), rows("values", 0, 0))
