"""A prefix cache on disk: the keys and values of segments, read once for every adapter and every request.

A prompt begins with its segment. Where it passes through the pretrained layers unchanged, its keys and values depend on
neither the adapter nor the request. Where it passes through the adapter, this is true of the layers below the adapter
alone: the others are computed each time. Everything is stored in the model's own number format, so that no answer
changes.
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
    """Keys, values and the hidden states for memories, by segment: 46 KB a token for SmolLM2, and 2 KB a memory.

    Of prompts that pass through the adapter: the keys and values of the layers below it, and their output.
    """

    def __init__(self, model: AwesomeCausal, folder: Path) -> None:
        self.model = model
        text = model.base.config.get_text_config()
        attention = model.base.get_decoder().layers[0].self_attn
        self.heads = (text.num_key_value_heads, attention.head_dim)
        self.size: int = text.hidden_size
        form = torch.float32 if model.base.dtype == torch.bfloat16 else model.base.dtype  # NumPy has no bfloat16
        name = str(form).removeprefix("torch.")
        known = model.fingerprint()[:16]
        self.arrays = Arrays(
            folder / f"{known}-{name}", getattr(np, name), f"model {known}, {name}", "name another folder"
        )

    def read(
        self, tokens: Sequence[int], passage: Passage, compute: Callable[[Sequence[int], Passage], DynamicCache]
    ) -> DynamicCache:
        """The result of `compute`, from disk if it is there; memory-mapped, so that only what is used is read."""
        if self.model.adapts_prompt:
            return self._read_trunk(tokens, passage, compute)
        heads, size = self.heads
        remembering = self.model.roles.remembering
        at = self.arrays.path("keys and values", [*tokens])
        beside = [self.arrays.path(self.model.adapter_config.memory, layer, [*tokens]) for layer in remembering]
        found = self.arrays.load(at, (self.model.roles.layers, 2, heads, len(tokens), size))
        states = [self.arrays.load(path, (len(tokens), self.size)) for path in beside]
        if found is None or any(each is None for each in states):
            cache = compute(tokens, passage)
            if found is None:
                self.arrays.keep(at, _array(_joined(cache.layers)))
            for path, each, layer in zip(beside, states, remembering, strict=True):
                if each is None:
                    self.arrays.keep(path, _array(passage.written[layer][0]))
            return cache
        cache = DynamicCache()
        cache.layers = [_layer(*both) for both in self._tensor(found)]
        passage.written = {layer: self._tensor(each)[None] for layer, each in zip(remembering, states, strict=True)}
        return cache

    def _read_trunk(
        self, tokens: Sequence[int], passage: Passage, compute: Callable[[Sequence[int], Passage], DynamicCache]
    ) -> DynamicCache:
        """The same for a prompt that passes through the adapter: only the layers below it are read from disk."""
        heads, size = self.heads
        first = self.model.first
        at, beside = (self.arrays.path(what, first, [*tokens]) for what in ("trunk keys and values", "trunk"))
        found = self.arrays.load(at, (first, 2, heads, len(tokens), size))
        output = self.arrays.load(beside, (len(tokens), self.size))
        if found is None or output is None:
            cache = compute(tokens, passage)
            assert passage.trunk is not None
            if first:
                self.arrays.keep(at, _array(_joined(cache.layers[:first])))
            self.arrays.keep(beside, _array(passage.trunk[0]))
            return cache
        passage.trunk = self._tensor(output)[None]
        cache = DynamicCache()
        self.model.run_top_layers(passage, past_key_values=cache, use_cache=True)
        cache.layers[:first] = [_layer(*both) for both in self._tensor(found)]
        return cache

    def _tensor(self, array: NDArray[Any] | None) -> torch.Tensor:
        assert array is not None
        return torch.from_numpy(array).to(self.model.device, self.model.base.dtype)


def _joined(layers: Sequence[Any]) -> torch.Tensor:
    """The keys and values of some layers, (layers, 2, heads, N, size)."""
    return torch.stack([torch.stack([layer.keys[0], layer.values[0]]) for layer in layers])


def _layer(keys: torch.Tensor, values: torch.Tensor) -> DynamicLayer:
    """Those of one layer, as a cache holds them."""
    layer = DynamicLayer()
    layer.keys, layer.values, layer.is_initialized = keys[None], values[None], True  # `update` would copy
    return layer


def _array(numbers: torch.Tensor) -> NDArray[Any]:
    return (numbers.float() if numbers.dtype == torch.bfloat16 else numbers).cpu().numpy()
