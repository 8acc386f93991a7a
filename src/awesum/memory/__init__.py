"""External memories that flow from segment to segment: pure tensor code, nothing about documents, files or training.

A memory is a module with weights (`Memory`) and a `MemoryState` that goes in and comes out. Reading and writing follow
the paper (Cao and Wang, AWESOME): equations 1 to 8 in `compressive`, 9 to 12 in `attentive` and, with nothing added,
in `literal`. `salient` keeps the tokens of selected sentences. `registry` has the kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from awesum.memory.registry import kinds, make, memory_class

if TYPE_CHECKING:
    from awesum.memory.attention import SelfAttention, Source
    from awesum.memory.attentive import AttentiveMemory
    from awesum.memory.compressive import CompressiveMemory
    from awesum.memory.literal import LiteralMemory
    from awesum.memory.memory import HasStartingValues, Memory
    from awesum.memory.salient import SalientMemory
    from awesum.memory.state import MemoryState, Recollection, Written

__all__ = [
    "AttentiveMemory",
    "CompressiveMemory",
    "HasStartingValues",
    "LiteralMemory",
    "Memory",
    "MemoryState",
    "Recollection",
    "SalientMemory",
    "SelfAttention",
    "Source",
    "Written",
    "kinds",
    "make",
    "memory_class",
]

# Resolved on first use: the command line asks for `kinds()` without waiting for torch.
_HOME = {
    "AttentiveMemory": "attentive",
    "CompressiveMemory": "compressive",
    "HasStartingValues": "memory",
    "LiteralMemory": "literal",
    "Memory": "memory",
    "MemoryState": "state",
    "Recollection": "state",
    "SalientMemory": "salient",
    "SelfAttention": "attention",
    "Source": "attention",
    "Written": "state",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
