"""What every kind of memory has to offer: the interface between a memory and the layer that it sits in.

A layer goes through one segment like this:

    recollection = memory.recall(state, attention)      # once a segment: M^{t-1} with its keys and values
    output = self_attention(inputs, memory.extra(recollection))
    output = output + memory.read(output, recollection)
    state = recollection.then(memory.to_write(inputs, output), mask)   # written when the next segment begins

A kind of memory implements `extra` or `read`, or both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar, Protocol, Self, runtime_checkable

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from awesum.memory.attention import SelfAttention, Source
from awesum.memory.state import MemoryState, Recollection, Written


@runtime_checkable
class HasStartingValues(Protocol):
    """A module some of whose own tensors start with given values instead of random ones."""

    def starting_values(self) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
        """Each such parameter or buffer, and the value that it starts with.

        Define it on the module that holds the tensors: the library skips modules without tensors of their own.
        """


class Memory(nn.Module):
    """The memory of one layer: `slots` vectors of `size` numbers for each document. Holds weights, never a state."""

    learns_to_write: ClassVar[bool] = True
    """Whether what it writes depends on weights of its own."""

    def __init__(self, size: int, slots: int) -> None:
        super().__init__()
        self.size, self.slots = size, slots

    @classmethod
    def make(cls, *, size: int, heads: int, slots: int, ratio: int, dropout: float) -> Self:
        """A new memory from all settings that there are; a kind takes those that it needs."""
        return cls(size, slots)

    @classmethod
    def check(cls, *, slots: int, ratio: int, heads: int | None = None) -> None:
        """Raise `ValueError`, in one line, if these settings do not suit this kind.

        `heads` is None as long as the model is not known.
        """

    @torch.no_grad()
    def reset(self) -> None:
        """Set the starting values of all its modules."""
        for module in self.modules():
            if isinstance(module, HasStartingValues):
                for tensor, value in module.starting_values():
                    tensor.copy_(value)

    def start(self, documents: int) -> MemoryState:
        """M^0, the state before the first segment."""
        raise NotImplementedError

    def write(self, state: MemoryState, written: Written) -> MemoryState:
        """M^t from M^{t-1}, the memory of `state`, and what segment t has written. Nothing is pending in the result."""
        raise NotImplementedError

    def recollect(self, state: MemoryState, attention: SelfAttention | None = None) -> Recollection:
        """What the layer reads during a segment before which nothing is pending.

        `attention` is the layer's own self-attention, for kinds whose keys and values it has to compute.
        """
        raise NotImplementedError

    def settle(self, state: MemoryState) -> MemoryState:
        """The state with everything that is pending written to the memory."""
        return self._settled(state)[0]

    def recall(self, state: MemoryState, attention: SelfAttention | None = None) -> Recollection:
        """Settle the state and compute what the layer reads during the next segment."""
        settled, before = self._settled(state)
        return replace(self.recollect(settled, attention), before=before)

    def _settled(self, state: MemoryState) -> tuple[MemoryState, MemoryState]:
        """The settled state, and the state with room for what one more segment writes."""
        settled = replace(state, pending=())
        before = state if state.depth is not None and len(state.pending) < state.depth else None
        for number, written in enumerate(state.pending, 1):
            if number < len(state.pending) and torch.is_grad_enabled():
                # Of all updates but the last, only the inputs are held; the backward pass computes them once more.
                settled = checkpoint(self.write, settled, written, use_reentrant=False)
            else:
                settled = self.write(settled, written)
            if before is None and state.depth is not None:  # the oldest of them is written for good
                before = replace(settled, pending=state.pending[number:])
        return settled, settled if before is None else before

    def extra(self, recollection: Recollection) -> Source | None:
        """Extra keys and values for the layer's self-attention; None for a kind that gives none."""
        return None

    def read(self, hidden: torch.Tensor, recollection: Recollection) -> torch.Tensor | None:
        """What to add to `hidden` (B or B x beams, N, d) after self-attention; None for a kind that adds nothing."""
        return None

    def to_write(self, inputs: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
        """Which hidden states of a segment it takes: the `inputs` of the self-attention or its `outputs`, (B, N, d)."""
        return outputs

    @property
    def gives_extra(self) -> bool:
        """Whether this kind implements `extra`."""
        return type(self).extra is not Memory.extra

    @property
    def can_read(self) -> bool:
        """Whether this kind implements `read`."""
        return type(self).read is not Memory.read

    def numbers(self, width: int) -> int:
        """The most numbers held for one document during a segment: its slots, and their keys and values.

        `width` is the size of one token's keys and values in the layer's own attention. Those of `extra` count twice:
        once by themselves, and once joined with those of the documents that are processed together.
        """
        return self.slots * (self.size + 2 * self.size * self.can_read + 2 * width * self.gives_extra)
