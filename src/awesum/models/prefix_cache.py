"""A prefix cache on disk: the keys and values of segments, read once for every adapter and every request.

A prompt begins with its segment and passes through the pretrained layers unchanged, so its keys and values depend on
neither the adapter nor the request. They are stored in the model's own number format, so that no answer changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from awesum.models.adapter_layers import Passage
from awesum.models.arrays import Arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from awesum.models.adapter import AwesomeCausal


class PrefixCache:
    """Keys, values and the hidden states for memories, by segment: 46 KB a token for SmolLM2, and 2 KB a memory."""

    def __init__(self, model: AwesomeCausal, folder: Path) -> None:
        self.model = model
        text = model.base.config.get_text_config()
        attention = model.base.get_decoder().layers[0].self_attn
        self.heads = (text.num_key_value_heads, attention.head_dim)
        self.size: int = text.hidden_size
        form = torch.float32 if model.base.dtype == torch.bfloat16 else model.base.dtype  # NumPy has no bfloat16
        name = str(form).removeprefix("torch.")
        self.arrays = Arrays(folder / f"{model.fingerprint()[:16]}-{name}", getattr(np, name), "name another folder")

    def read(
        self, tokens: Sequence[int], passage: Passage, compute: Callable[[Sequence[int], Passage], DynamicCache]
    ) -> DynamicCache:
        """The result of `compute`, from disk if it is there; memory-mapped, so that only what is used is read."""
        heads, size = self.heads
        remembering = self.model.roles.remembering
        at = self.arrays.path("keys and values", [*tokens])
        beside = [self.arrays.path(self.model.adapter_config.memory, layer, [*tokens]) for layer in remembering]
        found = self.arrays.load(at, (self.model.roles.layers, 2, heads, len(tokens), size))
        states = [self.arrays.load(path, (len(tokens), self.size)) for path in beside]
        if found is None or any(each is None for each in states):
            cache = compute(tokens, passage)
            if found is None:
                both = [torch.stack([layer.keys[0], layer.values[0]]) for layer in cache.layers]
                self.arrays.keep(at, _array(torch.stack(both)))
            for path, each, layer in zip(beside, states, remembering, strict=True):
                if each is None:
                    self.arrays.keep(path, _array(passage.written[layer][0]))
            return cache
        cache = DynamicCache()
        for keys, values in self._tensor(found):
            layer = DynamicLayer()
            layer.keys, layer.values, layer.is_initialized = keys[None], values[None], True  # `update` would copy
            cache.layers.append(layer)
        passage.written = {layer: self._tensor(each)[None] for layer, each in zip(remembering, states, strict=True)}
        return cache

    def _tensor(self, array: NDArray[Any] | None) -> torch.Tensor:
        assert array is not None
        return torch.from_numpy(array).to(self.model.device, self.model.base.dtype)


def _array(numbers: torch.Tensor) -> NDArray[Any]:
    return (numbers.float() if numbers.dtype == torch.bfloat16 else numbers).cpu().numpy()
