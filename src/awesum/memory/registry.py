"""The kinds of memory, by name. A new kind is one file beside this one and one line in `KINDS`.

`none` is not listed: it is the absence of a memory. Classes are imported on first use, so that listing the kinds costs
nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from awesum.memory.memory import Memory

KINDS = {
    "attentive": "awesum.memory.attentive:AttentiveMemory",
    "attentive-literal": "awesum.memory.literal:LiteralMemory",
    "compressive": "awesum.memory.compressive:CompressiveMemory",
    "salient": "awesum.memory.salient:SalientMemory",
}
"""Name of the kind -> "module:class"."""


def kinds() -> tuple[str, ...]:
    """The names of all kinds."""
    return tuple(KINDS)


def memory_class(kind: str) -> type[Memory]:
    """The class of a kind; `KeyError` if there is no such kind."""
    module, _, name = KINDS[kind].partition(":")
    found: type[Memory] = getattr(import_module(module), name)
    return found


def make(kind: str, *, size: int, heads: int, slots: int, ratio: int = 5, dropout: float = 0.0) -> Memory:
    """A new memory for one layer. `size` and `heads` are the layer's; see `Memory.make`."""
    memory = memory_class(kind).make(size=size, heads=heads, slots=slots, ratio=ratio, dropout=dropout)
    memory.reset()
    return memory
