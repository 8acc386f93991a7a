"""How long the rows will take, roughly: from the speed of a run that has begun, or else from the arithmetic.

The arithmetic: six operations for each parameter and token in training and two in reading, at the speed of this
machine's matrix products; a summary is written one token at a time, at a small part of it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from math import ceil
from typing import Any

from awesum.datasets import PUBLIC, examples, is_public, load
from awesum.errors import AwesumError
from awesum.reproduce.plan import Plan
from awesum.reproduce.weights import look
from awesum.training import record
from awesum.training.settings import TrainingSettings

LARGE = 400_000_000
"""Parameters of a model that is not on this machine: about those of BART-large."""
LOOKED_AT = 20
"""Documents whose length stands for that of all."""
TOKENS_PER_WORD = 1.3
USED = 0.4
"""The part of the speed of large matrix products that training reaches."""
WRITING = 0.05
"""The part of it that writing token by token reaches."""


@dataclass(frozen=True)
class Size:
    """The documents of a split: how many, and the mean length in tokens."""

    documents: int
    tokens: float
    summary: float


@dataclass(frozen=True)
class Estimate:
    """What a row has before it."""

    state: str
    """Finished, begun or new."""
    steps: int
    batches: int
    seconds: float


def size(plan: Plan, split: str) -> Size:
    """Look at the first documents of a split."""
    some = list(islice(examples(plan.data, split, say=lambda note: None), LOOKED_AT))
    if not some:
        raise AwesumError(f"the split {split!r} of {plan.data} has no documents: give another --data")
    if is_public(plan.data):
        figures = PUBLIC[plan.data].paper
        count = getattr(figures, split, len(some)) if figures else len(some)
    else:
        count = len(load(plan.data, split))
    return Size(
        min(count, plan.documents or count),
        TOKENS_PER_WORD * sum(len(each.document.split()) for each in some) / len(some),
        TOKENS_PER_WORD * sum(len(each.summary.split()) for each in some) / len(some),
    )


def machine_speed() -> float:
    """Operations a second in large matrix products, on the device and in the number format that training uses."""
    import torch

    from awesum.loading import choose_device

    device, dtype, _ = choose_device()
    matrix = torch.ones(1024, 1024, device=device, dtype=dtype)
    best = float("inf")
    for _ in range(4):
        started = time.perf_counter()
        float((matrix @ matrix)[0, 0])
        best = min(best, time.perf_counter() - started)
    return 2 * 1024**3 / best


def estimate(plan: Plan, row: str, train: Size, test: Size, speed: float) -> Estimate:
    """What is left to do for a row, and how long it takes."""
    settings, options = plan.settings(row)
    batches_per_epoch = ceil(train.documents / settings.batch_size)
    steps = ceil(ceil(batches_per_epoch / settings.accumulation) * settings.epochs)
    batches = ceil(batches_per_epoch * settings.epochs)
    known = record.read(plan.model(row)) if plan.model(row).is_dir() else None
    done = _steps_done(plan, row)
    parameters = look(settings.base).parameters or LARGE
    if known and known.get("batches_per_second"):
        training = batches / known["batches_per_second"]
    else:
        training = batches * settings.batch_size * _read(settings, train) * 6 * parameters / (USED * speed)
    predicting = test.documents * _predicting(settings, options, test, parameters, speed)
    if plan.predictions(row).with_suffix(".run.json").exists():
        predicting /= 2
    is_trained = known is not None and record.is_finished(known)
    state = "trained" if is_trained else f"resumes at step {done:,}" if done else "new"
    left = 0.0 if is_trained else training * max(0.0, 1 - done / max(steps, 1))
    return Estimate(state, steps, batches, left + predicting)


def _steps_done(plan: Plan, row: str) -> int:
    steps = [
        int(path.name.rpartition("-")[2])
        for path in plan.model(row).glob("checkpoint-*")
        if path.name.rpartition("-")[2].isdecimal()
    ]
    return max(steps, default=0)


def _read(settings: TrainingSettings, size: Size) -> float:
    return min(size.tokens, settings.max_tokens or size.tokens) + size.summary


def _predicting(settings: TrainingSettings, options: Any, size: Size, parameters: int, speed: float) -> float:
    writing = size.summary * getattr(options, "num_beams", 1) * 2 * parameters / (WRITING * speed)
    return _read(settings, size) * 2 * parameters / (USED * speed) + writing


def shown_time(seconds: float) -> str:
    """`40 s`, `12 min`, `5 h`, `3 days`: no more digits than an estimate has."""
    for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{max(seconds, 1):.0f} s"
