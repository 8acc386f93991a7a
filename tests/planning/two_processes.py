"""What each of two processes does: a step with whole weights and one with shards, measured by torch's profiler."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.profiler import ProfilerActivity, profile

from awesum.planning.step import Lengths, document_of
from awesum.training.sharding import gathered
from awesum.training.trainer import average_gradients
from tests.planning.profiling import highest_sum
from tests.planning.test_tracing import TINY, prepared

LENGTHS = {"short": Lengths(24, 6, 8), "long": Lengths(250, 200, 64)}
"""Where weights and gradients decide, and where activations do; both have segments enough to use all weights."""
SYSTEMS = ("truncated", "awesome")


def measured(system: str, way: str, lengths: Lengths) -> int:
    """The peak of one process in one step, from what it holds before it."""
    torch.manual_seed(0)
    trainable, _ = prepared(system, accumulation=1)
    trainable.make_blank(TINY, lengths.input_tokens)
    model: Any = trainable.model.train()
    if way == "fsdp":
        for half in (model.model.encoder, model.model.decoder):
            for layer in half.layers:
                fully_shard(layer)
        fully_shard(model)
    document = document_of(model.config, lengths)
    held = {id(each): _bytes(each) for each in (*model.parameters(), *model.buffers())}
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        with gathered(model, exchange=True):
            trainable.loss([document], torch.Tensor.backward)
        if way == "ddp":
            average_gradients(model, partial(Accelerator(cpu=True).reduce, reduction="mean"))
    return sum(held.values()) + highest_sum(profiler)


def _bytes(tensor: Any) -> int:
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return int(local.untyped_storage().nbytes())


def main(folder: Path) -> None:
    """Write what was measured."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    found = {
        f"{system} {way} {name}": measured(system, way, lengths)
        for system in SYSTEMS
        for way in ("ddp", "fsdp")
        for name, lengths in LENGTHS.items()
    }
    (folder / f"{torch.distributed.get_rank()}.json").write_text(json.dumps(found))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)
