"""Training a model whose weights are divided among processes (FSDP2).

FSDP gathers the weights of a layer whenever that layer runs, and expects every process to run the same layers equally
often. Ours do not: a document has as many passes as it has segments, memories are recalled outside a layer's
`forward`, and a step without loss has no backward pass. So the weights are gathered once per step, and the gradients
are exchanged once, at its end, however many segments each process had. Between steps each process holds its share of
weights, gradients and optimizer states. These are what takes most memory in training; see docs/training.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch
from torch import nn

TOUCH = "touch"
"""The name of the method that stands for a forward pass through the whole model."""


def is_sharded(model: nn.Module) -> bool:
    """Whether the weights are divided among processes by `fully_shard`."""
    if not torch.distributed.is_available():
        return False
    from torch.distributed.fsdp import FSDPModule

    return isinstance(model, FSDPModule)


@contextmanager
def gathered(model: nn.Module, *, exchange: bool) -> Iterator[None]:
    """All weights of a model while a step runs; with `exchange`, the gradients are exchanged afterwards, once.

    Without it they wait for the next step, and are added to that one's. A model that is not sharded stays as it is.
    """
    if not is_sharded(model):
        yield
        return
    root: Any = model
    root.set_requires_gradient_sync(False)
    root.set_reshard_after_forward(False)
    root.set_reshard_after_backward(False)
    root.set_is_last_backward(False)
    # A weight that a process did not use (a document of one segment updates no memory) counts as zero.
    root.set_reduce_scatter_unused_params(True)
    _touch(root)  # FSDP takes the first module that runs for the root
    for module in _sharded_modules(root):
        module.unshard()
    yield
    if exchange:
        root.set_requires_gradient_sync(True)
        root.set_reshard_after_backward(True)
        root.set_is_last_backward(True)
        _touch(root).backward()  # type: ignore[no-untyped-call]


def release(model: nn.Module) -> None:
    """Let go of what was gathered, where no gradients were exchanged: after an evaluation."""
    if is_sharded(model):
        for module in _sharded_modules(model):
            module.reshard()


@contextmanager
def whole(model: nn.Module) -> Iterator[None]:
    """A model with its whole weights in the place of the shards, to be saved or loaded as if there were one process.

    All processes have to take part. What is in the weights at the end is divided again. The model cannot run meanwhile,
    and is loaded with `copy_weights`: FSDP forbids `load_state_dict`.
    """
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not is_sharded(model):
        yield
        return
    release(model)
    places: list[tuple[nn.Module, str, Any, nn.Parameter]] = []
    gathered: dict[int, nn.Parameter] = {}  # weights that are shared stay shared
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False, remove_duplicate=False):
            if isinstance(weight, DTensor):
                if id(weight) not in gathered:
                    gathered[id(weight)] = nn.Parameter(weight.full_tensor(), weight.requires_grad)
                places.append((module, name, weight, gathered[id(weight)]))
    for module, name, _, full in places:
        setattr(module, name, full)
    try:
        yield
    finally:
        with torch.no_grad():
            for module, name, weight, full in places:
                weight.copy_(distribute_tensor(full.detach(), weight.device_mesh, weight.placements))
                setattr(module, name, weight)


@torch.no_grad()
def copy_weights(model: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Load the weights and buffers of a model of the same kind; within `whole` if the model is sharded."""
    for name, tensor in model.state_dict(keep_vars=True).items():
        tensor.copy_(weights[name])


def _sharded_modules(model: nn.Module) -> list[Any]:
    return [module for module in model.modules() if is_sharded(module)]


def _touch(root: Any) -> torch.Tensor:
    """An empty forward pass through the whole model, as FSDP sees it; going back from its result is an empty backward
    pass, at the end of which FSDP exchanges what there is to exchange."""
    if not hasattr(root, TOUCH):
        from torch.distributed.fsdp import register_fsdp_forward_method

        setattr(root, TOUCH, MethodType(_nothing, root))
        register_fsdp_forward_method(root, TOUCH)
    nothing: torch.Tensor = getattr(root, TOUCH)()
    return nothing


def _nothing(model: nn.Module) -> torch.Tensor:
    return torch.zeros((), device=next(model.buffers(), torch.zeros(())).device, requires_grad=True) * 1.0
