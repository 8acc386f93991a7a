"""External memories that flow from segment to segment: pure tensor code, nothing of documents, files or training.

Each memory is a module with the weights, and a `MemoryState` that goes in and comes out. Reading and writing are the
paper's (Cao and Wang, AWESOME): equations 1 to 8 in `compressive`, 9 to 12 in `attentive`.
"""

from __future__ import annotations

from awesum.memory.attention import Source
from awesum.memory.attentive import AttentiveMemory
from awesum.memory.compressive import CompressiveMemory
from awesum.memory.state import MemoryState, Recollection

__all__ = ["AttentiveMemory", "CompressiveMemory", "MemoryState", "Recollection", "Source"]
