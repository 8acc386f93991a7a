"""The trunk's output, computed once and kept on disk: each further epoch costs only the layers above it.

A file holds half-precision numbers, is named after the tokens and the weights that they come from, is written aside and
moved into place, and is mapped into memory when it is read. So an interrupted run goes on where it stopped, and runs
that differ in their adapter share what they have in common. Several answers behind one segment share its file, too.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from transformers import DynamicCache

from awesum.errors import AwesumError
from awesum.footprint import format_size, peak_memory
from awesum.recurrence import causal

if TYPE_CHECKING:
    from awesum.models.adapter import AwesomeCausal
    from awesum.recurrence import DocumentInputs

TRIALS = 2
"""Documents on which it is measured how long training will take."""
LOOKED_AT = 64
"""Documents by whose lengths it is reckoned, evenly spread; of fewer, all."""
LARGEST = 65504.0
"""The largest number in half precision."""


def run_trunk(model: AwesomeCausal, segment: Sequence[int], behind: Sequence[int]) -> torch.Tensor:
    """The trunk's output of a segment's tokens and of those behind them, computed now: (N, d)."""
    with torch.no_grad():
        return model.trunk(torch.tensor([[*segment, *behind]], device=model.device))[0]


class TrunkCache:
    """What `run_trunk` gives, from disk where it is there."""

    def __init__(self, model: AwesomeCausal, folder: Path) -> None:
        self.model = model
        form = str(model.base.dtype).removeprefix("torch.")
        self.folder = folder / f"{model.fingerprint()[:16]}-{model.first}-{form}"

    def __call__(self, segment: Sequence[int], behind: Sequence[int]) -> torch.Tensor:
        """The output of a segment's tokens and of those behind them, (N, d)."""
        paths = self._path(segment), self._path(segment, behind)
        for attempt in range(2):
            try:
                halves = [np.load(path, mmap_mode="r", allow_pickle=False) for path in paths]
                if [len(half) for half in halves] == [len(segment), len(behind)]:
                    return torch.from_numpy(np.concatenate(halves).astype(np.float32)).to(self.model.base.dtype)
            except (OSError, ValueError, EOFError):  # not there, or not whole
                pass
            if not attempt:
                self.fill(segment, [behind])
        raise AwesumError(f"cannot read back what was kept in {self.folder}: make room there, or remove that folder")

    def has(self, segment: Sequence[int], behind: Sequence[int]) -> bool:
        """Whether there are files for these tokens."""
        return self._path(segment).exists() and self._path(segment, behind).exists()

    @torch.inference_mode()
    def fill(self, segment: Sequence[int], all_behind: Iterable[Sequence[int]]) -> None:
        """Compute and keep; the segment is read once, whatever stands behind it."""
        cache = DynamicCache()
        device = self.model.device
        self._keep(self._path(segment), self.model.trunk(torch.tensor([[*segment]], device=device), cache))
        for behind in all_behind:
            hidden = self.model.trunk(torch.tensor([[*behind]], device=device), cache)
            self._keep(self._path(segment, behind), hidden)
            cache.crop(-len(behind))

    def bytes_for(self, tokens: float) -> int:
        """What so many tokens take on disk."""
        return int(2 * self.model.base.config.get_text_config().hidden_size * tokens)

    def _path(self, segment: Sequence[int], behind: Sequence[int] = ()) -> Path:
        known = json.dumps([len(segment) if behind else 0, [*segment, *behind]])
        key = sha256(known.encode()).hexdigest()[:32]
        return self.folder / key[:2] / f"{key}.npy"

    def _keep(self, path: Path, hidden: torch.Tensor) -> None:
        largest = float(hidden.abs().max())
        if not largest < LARGEST:
            raise AwesumError(
                f"the trunk's output reaches {largest:g}, which half precision cannot hold: train without freeze_trunk"
            )
        aside = path.with_suffix(f".{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with aside.open("wb") as file:
                np.save(file, hidden[0].float().cpu().numpy().astype(np.float16), allow_pickle=False)
            os.replace(aside, path)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise AwesumError(
                f"cannot keep the trunk's output in {self.folder} ({error.strerror or error}): make room there, or set "
                "AWESUM_CACHE to another folder; the same command then goes on where it stopped"
            ) from error


def plan(
    cache: TrunkCache,
    documents: Sequence[DocumentInputs],
    measured: Sequence[DocumentInputs] | None,
    epochs: float,
    say: Callable[[str], object],
) -> None:
    """Say how long training will take and what it needs, by a look at some documents and a trial of a few segments."""
    tokens = missing = segments = 0.0
    trial: list[DocumentInputs] = []
    for those, is_trained_on in ((documents, True), (measured or (), False)):
        step = -(-len(those) // LOOKED_AT)
        looked_at = range(0, len(those), max(step, 1))
        for number in looked_at:
            document, weight = those[number], len(those) / len(looked_at)
            trial += [document] if len(trial) < TRIALS else []
            segments += weight * len(document.segments) * is_trained_on
            for each in _passes(document):
                size = weight * sum(map(len, each))
                tokens += size
                missing += 0 if cache.has(*each) else size
    reading, learning = _trial(cache, trial)
    first, further = missing * reading, segments * learning
    needed, free = cache.bytes_for(missing), shutil.disk_usage(existing(cache.folder)).free
    say(
        f"the trunk (the first {cache.model.first} layers) reads {tokens:,.0f} tokens once, {tokens - missing:,.0f} of "
        f"them are there: about {duration(first)}; then about {duration(further)} an epoch, {epochs:g} of them: "
        f"about {duration(first + epochs * further)} in all"
    )
    say(
        f"disk: {format_size(cache.bytes_for(tokens))} in {cache.folder}, {format_size(needed)} of it new, "
        f"{format_size(free)} free; memory: about {format_size(peak_memory())}"
    )
    if needed > free:
        raise AwesumError(
            f"{cache.folder} has {format_size(free)} free and {format_size(needed)} are needed: make room there, set "
            "AWESUM_CACHE to another folder, or train on fewer --documents"
        )


def _trial(cache: TrunkCache, documents: Sequence[DocumentInputs]) -> tuple[float, float]:
    """Seconds for a token of the trunk, and for a segment of what is above it."""
    started = time.perf_counter()
    read = 0
    for document in documents:
        each = _passes(document)[0]
        run_trunk(cache.model, *each)
        read += sum(map(len, each))
    reading = (time.perf_counter() - started) / max(read, 1)
    learned = 0
    taken = 0.0
    for document in documents:
        some = sorted({0, len(document.segments) // 2, len(document.segments) - 1})  # the first has most to say
        head = replace(
            document,
            segments=[document.segments[number] for number in some],
            requests=[document.requests[number] for number in some],
            targets=[document.targets[number] for number in some],
        )
        for each in _passes(head):
            cache(*each)
        started = time.perf_counter()
        causal.train(cache.model, [head], torch.Tensor.backward, trunk=cache)
        taken += time.perf_counter() - started
        learned += len(some)
    cache.model.zero_grad(set_to_none=True)
    return reading, taken / max(learned, 1)


def _passes(document: DocumentInputs) -> list[tuple[Sequence[int], Sequence[int]]]:
    """What `TrunkCache` is asked for while a document is trained on."""
    return [
        (segment, [*request, *target])
        for segment, request, target in zip(document.segments, document.requests, document.targets, strict=True)
    ]


def existing(folder: Path) -> Path:
    """The nearest folder above that is there."""
    return folder if folder.exists() else existing(folder.parent)


def duration(seconds: float) -> str:
    """As people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
