"""Attentive memory: equations 9 to 12 of the paper, made so that its slots stay distinct.

A fixed number of slots queries the segment for what is worth keeping, and a gate decides how much of it replaces what
is there. Each layer reads its memory through a cross-attention of its own, after the self-attention.

Taken literally (`literal`), the equations let all slots become one within some segments: hidden states share a large
mean, so an attention that cannot tell tokens apart writes the same vector everywhere. Here each slot has a query of its
own, the attentions start orthogonal, the mean of a segment's states is subtracted before slots look for anything, and
what all slots would write alike is removed before it is written. What is then written has a mean of zero over the
slots, and so has any gate that is a linear function of it: only a bias lets a segment with nothing in it leave all
slots as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import torch
from torch import nn

from awesum.memory.attention import Attention, SelfAttention, Source
from awesum.memory.memory import Memory
from awesum.memory.state import MemoryState, Recollection, Written

SEED, QUERY_SEED = 9, 12  # arbitrary, but they must never change
INITIAL_SIZE = 0.6
"""Root mean square of the initial slots: about that of slots that were written many times."""
SHARPNESS = 4.0
"""Factor of the write attention's first queries: each slot should find a few tokens, not the mean of all."""

GATE_SHARPNESS = 4.0
"""Factor of what opens and closes a gate. A gate that lets 5% through loses half of a slot in 14 segments: to keep a
fact it has to close almost completely, and with small weights it learns that slowly."""


class AttentiveMemory(Memory):
    """`slots` vectors of `size` numbers, read and written by attention. 12 size^2 weights, as the paper counts."""

    gate_sharpness: ClassVar[float] = GATE_SHARPNESS
    initial: torch.Tensor
    queries: torch.Tensor

    def __init__(self, size: int, heads: int, slots: int = 1024, dropout: float = 0.0) -> None:
        super().__init__(size, slots)
        self.reading = Attention(size, heads, dropout)
        self.writing = Attention(size, heads, dropout)
        self.u1 = nn.Linear(size, size, bias=False)
        self.u2 = nn.Linear(size, size, bias=False)
        self.g1 = nn.Linear(size, size, bias=False)
        self.g2 = nn.Linear(size, size, bias=False)
        self.layer_norm = nn.LayerNorm(size)
        self.add_tensors()
        self.reset()

    def add_tensors(self) -> None:
        """The gate's bias, and what is fixed and saved with the weights."""
        self.gate: nn.Parameter | None = nn.Parameter(torch.empty(self.size))
        self.register_buffer("initial", torch.empty(self.slots, self.size))
        # Learned ones would change the paper's count of parameters, and could become equal.
        self.register_buffer("queries", torch.empty(self.slots, self.size))

    @classmethod
    def make(cls, *, size: int, heads: int, slots: int, ratio: int, dropout: float) -> AttentiveMemory:
        """It needs no ratio."""
        return cls(size, heads, slots, dropout)

    @classmethod
    def check(cls, *, slots: int, ratio: int, heads: int | None = None) -> None:
        """Each head of the read attention needs a slot to choose."""
        if heads is not None and slots < heads:
            raise ValueError(
                f"memory_size={slots} is less than the {heads} attention heads, which would have to share a slot: give "
                f"at least {heads}"
            )

    def starting_values(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """A read that adds nothing to what the pretrained model computes, attentions that can tell vectors apart, and
        slots that move halfway to what they find."""
        yield self.initial, INITIAL_SIZE * self.random_slots(SEED)
        yield self.queries, self.random_slots(QUERY_SEED)
        turn = _orthogonal(self.size, self.initial.device)
        for attention, sharpness in ((self.reading, 1.0), (self.writing, SHARPNESS)):
            yield attention.q_proj.weight, sharpness * _turned(turn)
            yield attention.k_proj.weight, _turned(turn)
            yield attention.v_proj.weight, _turned(turn)
        yield self.writing.out_proj.weight, _turned(turn)
        yield self.reading.out_proj.weight, torch.zeros_like(turn)
        yield self.u2.weight, torch.eye(self.size, device=turn.device)
        for zero in (self.u1, self.g1, self.g2):
            yield zero.weight, torch.zeros_like(turn)
        if self.gate is not None:
            yield self.gate, torch.zeros_like(self.gate)

    def random_slots(self, seed: int) -> torch.Tensor:
        """Random vectors of about the size of hidden states, one for each slot; the same ones each time."""
        return torch.randn(self.initial.shape, generator=torch.Generator().manual_seed(seed), device="cpu")

    def start(self, documents: int) -> MemoryState:
        """M^0."""
        memory = self.initial.expand(documents, -1, -1)
        return MemoryState(memory, memory.new_ones(memory.shape[:2], dtype=torch.bool))

    def update(self, memory: torch.Tensor, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """M^t from M^{t-1} (B, m, d) and H^t_self (B, N, d). A document with no token in `mask` keeps its memory."""
        some = mask.any(1)
        mask = mask | ~some[:, None]  # attention to nothing at all is not a number; its result is not used
        s = self.found(memory, hidden, mask)  # (12)
        g = self.g1(memory) + self.g2(s)
        g = g if self.gate is None else g + self.gate
        g = torch.sigmoid(self.gate_sharpness * g) * some[:, None, None]  # (11)
        u = torch.tanh(self.u1(memory) + self.u2(s))  # (10)
        # In mixed precision only the products are rounded, not the memory, which is carried through the whole document.
        return torch.lerp(memory, u.to(memory.dtype), g.to(memory.dtype))  # (9): g * u + (1 - g) * memory

    def found(self, memory: torch.Tensor, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """S^t: what each slot finds in the segment and the others do not, all of the same size. (B, m, d)."""
        s = self.writing(memory + self.queries, self.writing.source(standardized(hidden, mask), mask))
        return normalized(s - s.mean(1, keepdim=True))

    def write(self, state: MemoryState, written: Written) -> MemoryState:
        """See `Memory.write`."""
        return replace(state, memory=self.update(state.memory, written.states, written.mask))

    def recollect(self, state: MemoryState, attention: SelfAttention | None = None) -> Recollection:
        """The memory with keys and values by its own weights."""
        source = self.reading.source(state.memory)
        return Recollection(state.memory, state.mask, source.keys, source.values)

    def read(self, hidden: torch.Tensor, recollection: Recollection) -> torch.Tensor:
        """What the segment finds in its memory, to be added to `hidden` (B or B x beams, N, d).

        The norm comes before the attention, not after the sum as in BART's own sublayers: there it would change the
        pretrained model even where nothing is read.
        """
        return self.reading(self.layer_norm(hidden), Source(recollection.keys, recollection.values, None))


EPSILON = 1e-4
"""Added to the mean square: of a segment of one token all slots find the same, and rounding is not to be blown up."""


def normalized(states: torch.Tensor) -> torch.Tensor:
    """Vectors divided by their root mean square, which is computed in single precision."""
    full = states.to(torch.promote_types(states.dtype, torch.float32))
    return (full * (full.square().mean(-1, keepdim=True) + EPSILON).rsqrt()).to(states.dtype)


def standardized(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Hidden states (B, N, d) without the mean of the segment's tokens, which are those in `mask`; of the same size."""
    full = states.to(torch.promote_types(states.dtype, torch.float32))
    there = mask[..., None].to(full.dtype)
    mean = (full * there).sum(1, keepdim=True) / there.sum(1, keepdim=True)
    return normalized(full - mean).to(states.dtype)


def _orthogonal(size: int, device: torch.device) -> torch.Tensor:
    """A random orthogonal matrix."""
    return nn.init.orthogonal_(torch.empty(size, size, device=device))


def _turned(orthogonal: torch.Tensor) -> torch.Tensor:
    """Another one: its rows in random order, its columns with random signs. Much cheaper than a new one."""
    order = torch.randperm(len(orthogonal), device=orthogonal.device)
    signs = torch.randint(0, 2, (len(orthogonal),), device=orthogonal.device) * 2 - 1
    return orthogonal[order] * signs
