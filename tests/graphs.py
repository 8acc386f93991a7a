"""What autograd holds for the way back, counted."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Kept:
    """Counts what autograd keeps for the backward pass and has not let go yet."""

    def __init__(self) -> None:
        self.alive: weakref.WeakSet[Saved] = weakref.WeakSet()

    def __len__(self) -> int:
        gc.collect()
        return len(self.alive)

    def pack(self, tensor: torch.Tensor) -> Saved:
        saved = Saved(tensor)
        self.alive.add(saved)
        return saved


class Saved:
    """A tensor that the graph keeps; itself not part of the graph, which would then hold itself."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor.detach()


@contextmanager
def counting() -> Iterator[Kept]:
    """Counts all graphs that are made inside."""
    kept = Kept()
    with torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda saved: saved.tensor):
        yield kept


@contextmanager
def saved_bytes() -> Iterator[list[int]]:
    """The bytes that graphs hold at the moment, each tensor counted where it is saved."""
    total = [0]

    class Counted:
        def __init__(self, tensor: torch.Tensor) -> None:
            self.tensor = tensor
            total[0] += tensor.nbytes

        def __del__(self) -> None:
            total[0] -= self.tensor.nbytes

    with torch.autograd.graph.saved_tensors_hooks(Counted, lambda saved: saved.tensor):
        yield total
