"""The planned peak of a run, before its first step: one line, and on a GPU that is too small a refusal."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from awesum.errors import AwesumError
from awesum.footprint import READING, RUNTIME, format_size

if TYPE_CHECKING:
    from awesum.planning.plan import Request
    from awesum.systems.system import System
    from awesum.training.run import Coming

Report = Callable[[str], object]

WORTHWHILE = 20_000_000
"""Parameters. On the CPU a smaller model is not planned: the trace would take longer than its first steps."""


def before_training(coming: Coming, say: Report, *, force: bool = False) -> int | None:
    """The planned peak in bytes, which is reported; None if there is no plan. Raises if a GPU has too little memory.

    A plan that fails is reported, and stops nothing.
    """
    limit = free_gpu_memory()
    is_information = limit is None  # which one process prints; a refusal is every process's
    if is_information and (coming.parameters < WORTHWHILE or os.environ.get("RANK", "0") != "0"):
        return None
    try:
        request = _request(coming, on_gpu=limit is not None)
        from awesum.planning.plan import make

        plan = make(request)
        if plan.is_estimate:
            say(plan.notes[0])
        else:
            say(_reported(plan.peak_bytes, plan.place, request, limit))
        if limit is None or plan.peak_bytes <= limit or plan.is_estimate or force:
            return plan.peak_bytes
        advice = _in_words(replace(request, gpu_memory=limit))
    except Exception as error:  # a plan is information: whatever goes wrong with it, the run may go well
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        say(f"the peak memory could not be planned ({reason})")
        return None
    raise AwesumError(
        f"training would take {format_size(plan.peak_bytes)} at its peak, and the GPU has {format_size(limit)} free: "
        f"{advice}, shorter documents (--max-tokens), or --force to try it anyway"
    )


def _request(coming: Coming, *, on_gpu: bool) -> Request:
    from awesum.planning.plan import Request
    from awesum.training.settings import as_dict

    given = as_dict(coming.settings, coming.options) | {"precision": coming.precision}
    for name in ("data", "output"):
        del given[name]
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    is_sharded = on_gpu and os.environ.get("ACCELERATE_USE_FSDP", "").lower() in ("1", "true", "yes")
    return Request(
        coming.settings.system,
        given,
        input_tokens=coming.input_tokens,
        target_tokens=coming.target_tokens,
        segment_tokens=coming.segment_tokens,
        attention="fused" if on_gpu else "own",
        gpus=processes,
        strategy="fsdp" if is_sharded else "ddp",
    )


def _reported(peak: int, place: str, request: Request, limit: int | None) -> str:
    free = "" if limit is None else f" of {format_size(limit)} free on the GPU"
    of = "" if limit is not None else " of tensors"
    return (
        f"planned peak: {format_size(peak)}{of}{free}, in {place} ({request.input_tokens:,} tokens in, "
        f"{request.target_tokens:,} out)"
    )


def _in_words(request: Request) -> str:
    from awesum.planning.plan import advice

    found = [each for each in advice(request) if each.fits]
    if not found:
        return "no setting makes it fit; take LoRA (--lora-rank 16), a smaller --base"
    least = found[0]
    return f"say {least.flags} ({format_size(least.peak_bytes)})"


def free_gpu_memory() -> int | None:
    """Bytes that are free on the GPU that this process would take; None without one."""
    import torch

    if not torch.cuda.is_available():
        return None
    free, _ = torch.cuda.mem_get_info(int(os.environ.get("LOCAL_RANK", "0")))
    return int(free)


def before_writing(system: System, say: Report, *, force: bool = False) -> int | None:
    """The same for a trained encoder-decoder that is about to write, by a closed form, without loading its weights."""
    from awesum.systems.encoder_decoder import EncoderDecoder

    if not isinstance(system, EncoderDecoder) or not Path(system.model).is_dir():
        return None
    try:
        limit = free_gpu_memory()
        peak = writing_bytes(system) + (RUNTIME if limit is None else 0)
    except Exception:  # a folder that is not what it seems: loading it will say so
        return None
    where = "of RAM" if limit is None else f"of {format_size(limit)} free on the GPU"
    say(f"planned peak: {format_size(peak)} {where} (by a formula; `awesum plan {system.name} --generate` traces)")
    if limit is not None and peak > limit and not force:
        raise AwesumError(
            f"writing would take {format_size(peak)}, and the GPU has {format_size(limit)} free: free some of it, use "
            "a smaller model, or say --force to try it anyway"
        )
    return peak


def writing_bytes(system: Any) -> int:
    """Weights, the keys and values of one document, and what reading a segment takes for a while."""
    from transformers import GenerationConfig

    from awesum.loading import choose_device
    from awesum.models.long_input import bytes_per_document

    folder, config = Path(system.model), system.config
    dtype = choose_device()[1]
    saved = getattr(config, "dtype", None)
    saved_size = saved.itemsize if saved is not None else 4
    weights = sum(file.stat().st_size for file in folder.glob("*.safetensors")) * dtype.itemsize // saved_size
    is_whole = hasattr(system, "model_kind")
    model = SimpleNamespace(
        config=config,
        generation_config=GenerationConfig.from_pretrained(folder, local_files_only=True),
        dtype=dtype,
        undivided_inputs=getattr(system.model_kind(), "undivided_inputs", ()) if is_whole else (),
    )
    tokens = getattr(config, "max_tokens", None) if is_whole else config.max_position_embeddings
    return int(weights + bytes_per_document(model, tokens) + READING)
