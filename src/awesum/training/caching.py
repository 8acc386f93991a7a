"""Backpropagation through many pieces with the graph of one at a time: gradients are cached where the pieces join."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

RandomState = tuple[torch.Tensor, torch.Tensor | None]
"""Of the processor, and of another device."""


class CachedPieces:
    """Pieces of an input, computed without a graph; `backward` computes each again, with the same dropout, once the
    gradient of what it gave is known. The gradients are those of one graph over everything."""

    def __init__(self, pieces: Sequence[Callable[[], torch.Tensor]], device: torch.device) -> None:
        self._pieces, self._device = pieces, device
        self._states: list[RandomState] = []
        self.found: list[torch.Tensor] = []
        """What the pieces gave: leaves, which collect gradients."""
        with torch.no_grad():
            for piece in pieces:
                self._states.append(self._random_state())
                self.found.append(piece())
        for each in self.found:
            each.requires_grad_(torch.is_grad_enabled())

    def backward(self) -> None:
        """To be called after the backward pass of what was computed from `found`."""
        after = self._random_state()
        for piece, state, leaf in zip(self._pieces, self._states, self.found, strict=True):
            if leaf.grad is not None:
                self._set_random_state(state)
                torch.autograd.backward(piece(), leaf.grad)
                leaf.grad = None
        self._set_random_state(after)

    def _random_state(self) -> RandomState:
        is_other = self._device.type != "cpu"
        return torch.get_rng_state(), torch.get_device_module(self._device).get_rng_state() if is_other else None

    def _set_random_state(self, state: RandomState) -> None:
        torch.set_rng_state(state[0])
        if state[1] is not None:
            torch.get_device_module(self._device).set_rng_state(state[1])
