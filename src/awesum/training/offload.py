"""Activation offloading: what the backward pass needs waits in the machine's memory, not on the GPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class Offload(saved_tensors_hooks):
    """As torch's `save_on_cpu`, but weights stay where they are: they would be copied for every layer that uses them.

    On a CPU everything is there already, and nothing is moved.
    """

    def __init__(self) -> None:
        super().__init__(_pack, _unpack)


def _pack(tensor: torch.Tensor) -> Any:
    if tensor.device.type == "cpu" or isinstance(tensor, nn.Parameter):
        return None, tensor
    kept = torch.empty(tensor.size(), dtype=tensor.dtype, pin_memory=True)
    kept.copy_(tensor, non_blocking=False)
    return tensor.device, kept


def _unpack(packed: Any) -> torch.Tensor:
    device, kept = packed
    return kept if device is None else kept.to(device, non_blocking=True)
