"""From segment to segment: the loops for training and generation, in constant memory.

`encoder_decoder` is for BART with memory, `causal` for a causal model with an adapter.
"""

from __future__ import annotations

from awesum.recurrence.encoder_decoder import generate, train
from awesum.recurrence.inputs import DocumentInputs

__all__ = ["DocumentInputs", "generate", "train"]
