"""What each of two processes does: the same training steps, with sharded weights and with whole ones."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from safetensors.torch import save_file
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from awesum.models.bart import AwesomeBart
from awesum.models.bart_layers import AwesomeDecoderLayer, AwesomeEncoderLayer
from awesum.recurrence import DocumentInputs, train
from awesum.training.sharding import copy_weights, gathered, whole
from awesum.training.trainer import average_gradients
from tests.training.test_trainer import document, tiny

KINDS: dict[str, dict[str, Any]] = {
    "se3": {"memory": "none"},
    "attentive": {"memory": "attentive"},
    "compressive": {"memory": "compressive", "compression_ratio": 2},
    "key-value": {"memory": "attentive", "salient": "key-value"},
}
STEPS, SAVED = 3, 2
"""Steps in all, and those before the checkpoint."""
FULL = StateDictOptions(full_state_dict=True)
GATHER: Counted
REDUCE: Counted


def model_of(kind: str) -> AwesomeBart:
    return tiny(**KINDS[kind])


def batches(kind: str) -> list[list[DocumentInputs]]:
    """The documents of each step, two for each process. They have unequal numbers of segments."""
    made = []
    for step in range(STEPS):
        counts = (3, 1, 1, 2) if step % 2 else (1, 1, 4, 2)
        made.append([with_salient(document(count, 10 * step + at), kind) for at, count in enumerate(counts)])
    return made


def with_salient(made: DocumentInputs, kind: str) -> DocumentInputs:
    """For key-value: the second to third token of each segment are salient for all others."""
    if kind != "key-value":
        return made
    from dataclasses import replace

    numbers = range(len(made.segments))
    return replace(
        made,
        spans=[(number, 1, 3) for number in numbers],
        salient=[[other for other in numbers if other != number] for number in numbers],
    )


def shard(model: AwesomeBart) -> AwesomeBart:
    """As Accelerate does: each layer, and the rest."""
    for module in model.modules():
        if isinstance(module, (AwesomeEncoderLayer, AwesomeDecoderLayer)):
            fully_shard(module)
    fully_shard(model)
    return model


def mean_of_all(tensor: torch.Tensor) -> torch.Tensor:
    torch.distributed.all_reduce(tensor)
    return tensor / torch.distributed.get_world_size()


def full(tensor: torch.Tensor | None) -> torch.Tensor:
    assert tensor is not None
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


def take_step(model: AwesomeBart, documents: list[DocumentInputs], optimizer: torch.optim.Optimizer) -> float:
    """One step over some documents, each a micro-step; the mean loss over all processes."""
    model.train()
    total = torch.zeros(())
    for at, each in enumerate(documents):
        with gathered(model, exchange=at == len(documents) - 1):
            total += train(model, [each], lambda loss: (loss / len(documents)).backward()) / len(documents)
    if not any(isinstance(weight, DTensor) for weight in model.parameters()) and torch.distributed.is_initialized():
        average_gradients(model, mean_of_all)
    if torch.distributed.is_initialized():
        torch.distributed.all_reduce(total)
        total /= torch.distributed.get_world_size()
    return float(total.detach())


class Counted:
    """Counts how often a function of `torch.distributed` is called."""

    def __init__(self, name: str) -> None:
        self.number, self._call = 0, getattr(torch.distributed, name)
        setattr(torch.distributed, name, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.number += 1
        return self._call(*args, **kwargs)


def run(kind: str, way: str, folder: Path, rank: int, world: int) -> dict[str, Any]:
    """Some steps, a checkpoint, the others; then the others again from the checkpoint, in a new model."""
    mine = [documents[rank * len(documents) // world :][: len(documents) // world] for documents in batches(kind)]
    sharded = way == "fsdp"
    model = shard(model_of(kind)) if sharded else model_of(kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    found: dict[str, Any] = {"losses": [], "shares": [], "gathered": [], "exchanged": []}
    for step, documents in enumerate(mine):
        before = GATHER.number, REDUCE.number
        found["losses"].append(take_step(model, documents, optimizer))
        found["gathered"].append(GATHER.number - before[0])
        found["exchanged"].append(REDUCE.number - before[1])
        if step == 0:
            gradients = {name: full(weight.grad) for name, weight in model.named_parameters() if weight.requires_grad}
            save_file(gradients, folder / f"{kind}.{way}.{rank}.gradients")
        optimizer.step()
        optimizer.zero_grad()
        weights = list(model.parameters())
        found["all_sharded"] = all(isinstance(weight, DTensor) for weight in weights)
        states = [value for state in optimizer.state.values() for value in state.values() if value.dim()]
        for tensors in (weights, states):
            own = sum((each.to_local() if isinstance(each, DTensor) else each).numel() for each in tensors)
            found["shares"].append(own / sum(each.numel() for each in tensors))
        if step == SAVED - 1:
            with whole(model):
                if rank == 0:
                    model.save_pretrained(folder / f"{kind}.{way}")
            state = get_optimizer_state_dict(model, optimizer, options=FULL)
    if world > 1:
        torch.distributed.barrier()
    again = shard(model_of(kind)) if sharded else model_of(kind)
    with whole(again):
        copy_weights(again, AwesomeBart.from_pretrained(folder / f"{kind}.{way}").state_dict())
    optimizer = torch.optim.AdamW(again.parameters(), lr=1e-2)
    set_optimizer_state_dict(again, optimizer, state, options=FULL)
    found["resumed"] = [take_step(again, documents, optimizer) for documents in mine[SAVED:]]
    return found


def main(folder: Path) -> None:
    global GATHER, REDUCE
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    GATHER, REDUCE = Counted("all_gather_single"), Counted("reduce_scatter_single")
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    found = {f"{kind} {way}": run(kind, way, folder, rank, world) for kind in KINDS for way in ("fsdp", "ddp")}
    (folder / f"{rank}.json").write_text(json.dumps(found))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)
