"""Attentive memory: equations 9 to 12 of the paper.

A fixed number of slots queries the segment for what is worth keeping, and a gate decides how much of it replaces what
is there. Each layer reads its memory through a cross-attention of its own, after the self-attention.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from awesum.memory.attention import Attention, SelfAttention, Source
from awesum.memory.memory import Memory
from awesum.memory.state import MemoryState, Recollection

SEED = 9  # arbitrary, but it must never change


class AttentiveMemory(Memory):
    """`slots` vectors of `size` numbers, read and written by attention. 12 size^2 weights, as the paper counts."""

    initial: torch.Tensor

    def __init__(self, size: int, heads: int, slots: int = 1024, dropout: float = 0.0) -> None:
        super().__init__(size, slots)
        self.reading = Attention(size, heads, dropout)
        self.writing = Attention(size, heads, dropout)
        self.u1 = nn.Linear(size, size, bias=False)
        self.u2 = nn.Linear(size, size, bias=False)
        self.g1 = nn.Linear(size, size, bias=False)
        self.g2 = nn.Linear(size, size, bias=False)
        self.layer_norm = nn.LayerNorm(size)
        # Slots that start equal ask the same question, get the same answer and stay equal for ever. These are distinct,
        # and as large as hidden states, so that their questions differ from the first segment on.
        self.register_buffer("initial", torch.empty(slots, size))
        self.reset()

    @classmethod
    def make(cls, *, size: int, heads: int, slots: int, ratio: int, dropout: float) -> AttentiveMemory:
        """It needs no ratio."""
        return cls(size, heads, slots, dropout)

    def starting_values(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Distinct slots, and a read that adds nothing to what the pretrained model computes."""
        yield self.initial, self.distinct_slots()
        yield self.reading.out_proj.weight, torch.zeros_like(self.reading.out_proj.weight)

    def distinct_slots(self) -> torch.Tensor:
        """Random slots, the same ones each time."""
        return torch.randn(self.initial.shape, generator=torch.Generator().manual_seed(SEED), device="cpu")

    def start(self, documents: int) -> MemoryState:
        """M^0."""
        memory = self.initial.expand(documents, -1, -1)
        return MemoryState(memory, memory.new_ones(memory.shape[:2], dtype=torch.bool))

    def update(self, memory: torch.Tensor, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """M^t from M^{t-1} (B, m, d) and H^t_self (B, N, d). A document with no token in `mask` keeps its memory."""
        some = mask.any(1)
        mask = mask | ~some[:, None]  # attention to nothing at all is not a number; its result is not used
        s = self.writing(memory, self.writing.source(hidden, mask))  # (12)
        g = torch.sigmoid(self.g1(memory) + self.g2(s)) * some[:, None, None]  # (11)
        u = torch.tanh(self.u1(memory) + self.u2(s))  # (10)
        # In mixed precision only the products are rounded, not the memory, which is carried through the whole document.
        return torch.lerp(memory, u.to(memory.dtype), g.to(memory.dtype))  # (9): g * u + (1 - g) * memory

    def settle(self, state: MemoryState) -> MemoryState:
        """The state with its pending hidden states written to the memory."""
        if state.written is None or state.written_mask is None:
            return state
        return MemoryState(self.update(state.memory, state.written, state.written_mask), state.mask)

    def recall(self, state: MemoryState, attention: SelfAttention | None = None) -> Recollection:
        """Settle the state and compute its keys and values with the memory's own weights."""
        state = self.settle(state)
        source = self.reading.source(state.memory)
        return Recollection(state.memory, state.mask, source.keys, source.values)

    def read(self, hidden: torch.Tensor, recollection: Recollection) -> torch.Tensor:
        """What the segment finds in its memory, to be added to `hidden` (B or B x beams, N, d).

        The norm comes before the attention, not after the sum as in BART's own sublayers: there it would change the
        pretrained model even where nothing is read.
        """
        return self.reading(self.layer_norm(hidden), Source(recollection.keys, recollection.values, None))
