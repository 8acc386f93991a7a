"""Attentive memory as equations 9 to 12 say it, with nothing added: for comparison, and for older checkpoints.

Its slots become one within some segments (docs/results.md); `attentive` is the memory to use.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from awesum.memory.attentive import SEED, AttentiveMemory


class LiteralMemory(AttentiveMemory):
    """Slots that ask for themselves, and write what they find as it is."""

    gate_sharpness = 1.0

    def add_tensors(self) -> None:
        """Slots that start equal ask the same question, get the same answer and stay equal for ever. These are
        distinct, and as large as hidden states, so that at least their first questions differ."""
        self.gate = None
        self.register_buffer("initial", torch.empty(self.slots, self.size))

    def starting_values(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Distinct slots, and a read that adds nothing to what the pretrained model computes."""
        yield self.initial, self.random_slots(SEED)
        yield self.reading.out_proj.weight, torch.zeros_like(self.reading.out_proj.weight)

    def found(self, memory: torch.Tensor, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """S^t, equation 12."""
        return self.writing(memory, self.writing.source(hidden, mask))
