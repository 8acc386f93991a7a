"""The keys and values of the rows that are written side by side, each row in a slot of its own."""

from __future__ import annotations

from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import Cache, DynamicLayer

GRAIN = 64
"""Tokens. The room for a row is a multiple of this, so that a slightly longer prompt seldom needs a larger one."""


class Slots(Cache):
    """Keys and values of several rows, each in a slot of its own that it fills from position 0 on.

    Nothing is padded and nothing moves while a row is written; a new row takes the place of one that has ended. Slots
    that no row has used are asked for but not touched, which costs no memory.
    """

    def __init__(self, count: int) -> None:
        super().__init__(layers=[])
        self.layers: list[Any]
        self.count = count
        self.length = 0
        """Positions of each slot."""
        self.used = 0
        """Slots that a row has been in."""
        self.positions = torch.empty(0)
        """Where the next keys and values go, a list for each row."""
        self.end = 0
        """After the last of them."""

    @torch.inference_mode()
    def fill(self, slot: int, alone: DynamicCache, end: int) -> None:
        """Put a row that was read alone into a slot, where it will reach up to `end`."""
        if not self.layers:
            self.layers = [DynamicLayer() for _ in alone.layers]
        if end > self.length:
            self._grow(alone, -(-end // GRAIN) * GRAIN)
        self.used = max(self.used, slot + 1)
        for layer, its in zip(self.layers, alone.layers, strict=True):
            for held, new in ((layer.keys, its.keys), (layer.values, its.values)):
                held[slot, :, : new.shape[2]] = new[0]
                held[slot, :, new.shape[2] :] = 0  # what was there by chance could be no number, which no mask hides

    def _grow(self, like: DynamicCache, length: int) -> None:
        """Longer slots; what the used ones hold is moved tensor by tensor, so that little is there twice."""
        for layer, its in zip(self.layers, like.layers, strict=True):
            layer.keys = self._longer(layer.keys, its.keys, length)
            layer.values = self._longer(layer.values, its.values, length)
            layer.is_initialized = True
        self.length = length

    def _longer(self, old: torch.Tensor | None, like: torch.Tensor, length: int) -> torch.Tensor:
        new = like.new_empty(self.count, like.shape[1], length, like.shape[3])
        if old is not None:
            new[: self.used, :, : self.length] = old[: self.used]
            new[: self.used, :, self.length :] = 0
        return new

    @torch.inference_mode()
    def move(self, source: int, target: int) -> None:
        """Let a row go on in another slot."""
        if source == target:
            return
        for layer in self.layers:
            layer.keys[target] = layer.keys[source]
            layer.values[target] = layer.values[source]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Put the new keys and values of the first rows at their positions; give those of all positions in use."""
        layer, rows = self.layers[layer_idx], len(key_states)
        slots = torch.arange(rows, device=key_states.device)[:, None]
        for held, new in ((layer.keys, key_states), (layer.values, value_states)):
            held[slots, :, self.positions] = new.transpose(1, 2)  # (rows, queries, heads, size)
        return layer.keys[:rows, :, : self.end], layer.values[:rows, :, : self.end]
