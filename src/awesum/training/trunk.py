"""The trunk cache: what the frozen layers compute, on disk, so that a further epoch costs only the answers.

For a prompt it holds the keys and values above the trunk and the hidden states that a memory may take; for an answer,
the trunk's output. Of a prompt that passes through the adapter, too, it holds the trunk's output alone. A file has
half-precision numbers, and its name is a hash of the tokens and the weights that they come from: runs that differ in
their adapter share what they have in common, and so do several requests after one segment.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from transformers import DynamicCache

from awesum.errors import AwesumError
from awesum.footprint import format_size, peak_memory
from awesum.models.adapter_layers import Passage
from awesum.models.arrays import Arrays
from awesum.recurrence import causal
from awesum.recurrence.causal import Reading
from awesum.recurrence.teacher import in_view, teach

if TYPE_CHECKING:
    from awesum.models.adapter import AwesomeCausal
    from awesum.recurrence import DocumentInputs
    from awesum.training.trainable import Report

TRIALS = 2
"""Documents on which the time of training is measured."""
SAMPLED = 64
"""Documents from whose lengths it is estimated, evenly spread; of fewer, all."""
UNREADABLE = "cannot read back what was cached in {}: free some space there, or delete that folder"
LARGEST = 65504.0
"""The largest number in half precision."""


def read_now(model: AwesomeCausal, segment: Sequence[int], request: Sequence[int], target: Sequence[int]) -> Reading:
    """What the frozen layers compute for a segment, a request and a target, without a cache."""
    if model.adapts_prompt:
        with torch.no_grad():
            return _all_adapted(model, model.trunk(_ids(model, [*segment, *request, *target[:-1]]))[0])
    cache = DynamicCache()
    with torch.no_grad():
        read = _read(model, [*segment, *request[:-1]], cache)
        states = [states[0, : len(segment)] for states in read.written.values()]
        answer = model.trunk(_ids(model, [request[-1], *target[:-1]]), cache)[0]
    keys, values = _above(model, cache, slice(0, len(segment) + len(request) - 1))
    nothing = answer.new_zeros(0, len(segment), answer.shape[1])
    return Reading(keys, values, torch.stack(states) if states else nothing, answer)


def _all_adapted(model: AwesomeCausal, trunk: torch.Tensor) -> Reading:
    """The reading of tokens that all pass through the adapter, from the trunk's output."""
    above = model.roles.layers - model.first
    heads, size = _heads(model)
    nothing = trunk.new_zeros(above, 0, heads, size)
    return Reading(nothing, nothing, trunk.new_zeros(0, 0, trunk.shape[1]), trunk)


def _heads(model: AwesomeCausal) -> tuple[int, int]:
    """The number of key and value heads, and their size."""
    attention = model.base.get_decoder().layers[model.first].self_attn
    return model.base.config.get_text_config().num_key_value_heads, attention.head_dim


def _read(model: AwesomeCausal, tokens: Sequence[int], cache: DynamicCache) -> Passage:
    """Pass tokens through all pretrained layers."""
    passage = Passage()
    if tokens:
        model.base.get_decoder()(input_ids=_ids(model, tokens), past_key_values=cache, use_cache=True, passage=passage)
    return passage


def _above(model: AwesomeCausal, cache: DynamicCache, place: slice) -> tuple[torch.Tensor, torch.Tensor]:
    """The keys and values of some tokens in the layers above the trunk: (layers, N, heads, size) each."""
    layers = cache.layers[model.first :]
    keys, values = (
        torch.stack([getattr(layer, name)[0, :, place].transpose(0, 1) for layer in layers])
        for name in ("keys", "values")
    )
    return keys, values


def _crop(cache: DynamicCache, length: int) -> None:
    """Forget all tokens after the first `length`."""
    for layer in cache.layers:
        if (further := layer.get_seq_length() - length) > 0:
            layer.crop(-further)


def _ids(model: AwesomeCausal, tokens: Sequence[int]) -> torch.Tensor:
    return torch.tensor([[*tokens]], device=model.device)


class TrunkCache:
    """`read_now` with a cache on disk."""

    def __init__(self, model: AwesomeCausal, folder: Path) -> None:
        self.model = model
        form = str(model.base.dtype).removeprefix("torch.")
        known = model.fingerprint()
        self.folder = folder / f"{known[:16]}-{model.first}-{form}"
        self.arrays = Arrays(self.folder, np.float16, f"model {known[:16]}, {model.first} layers below, {form}")
        text = model.base.config.get_text_config()
        self.size: int = text.hidden_size
        self.heads = _heads(model)
        self.above = model.roles.layers - model.first
        remembering = model.roles.remembering
        self.states = f"{model.adapter_config.memory} {list(remembering)}" if remembering else ""
        """Names the states of a segment that a file holds: those that this memory takes."""

    def __call__(self, segment: Sequence[int], request: Sequence[int], target: Sequence[int]) -> Reading:
        """What the frozen layers compute for a segment, a request and a target."""
        for attempt in range(2):
            found = [self.arrays.load(*part) for part in self._parts(segment, request, target)]
            if all(array is not None for array in found):
                break
            if attempt:
                raise AwesumError(UNREADABLE.format(self.folder))
            self.fill(segment, [(request, target)])
        tensors = [
            torch.from_numpy(array.astype(np.float32)).to(self.model.base.dtype) for array in found if array is not None
        ]
        if self.model.adapts_prompt:
            return _all_adapted(self.model, torch.cat(tensors))
        prompt = torch.cat(tensors[:2])
        keys, values = prompt.view(len(prompt), 2, self.above, *self.heads).permute(1, 2, 0, 3, 4)
        layers = len(self.model.roles.remembering)
        return Reading(keys, values, tensors[2].view(len(segment), layers, self.size).transpose(0, 1), tensors[3])

    def has(self, segment: Sequence[int], request: Sequence[int], target: Sequence[int]) -> bool:
        """Whether these tokens are cached."""
        return all(path.exists() for path, shape in self._parts(segment, request, target) if all(shape))

    @torch.inference_mode()
    def fill(self, segment: Sequence[int], following: Iterable[tuple[Sequence[int], Sequence[int]]]) -> None:
        """Compute and cache; the segment is read once for all requests and targets that follow it."""
        cache = DynamicCache()
        if self.model.adapts_prompt:
            self._fill_trunk(segment, following, cache)
            return
        read = _read(self.model, segment, cache)
        start = len(segment)
        for request, target in following:
            prompt = start + len(request) - 1
            _read(self.model, request[:-1], cache)
            answer = self.model.trunk(_ids(self.model, [request[-1], *target[:-1]]), cache)[0]
            states = [states[0] for states in read.written.values()]
            computed = [
                self._joined(cache, slice(0, start)),
                self._joined(cache, slice(start, prompt)),
                torch.cat(states, 1) if states else answer[:, :0],
                answer,
            ]
            self._keep_parts(segment, request, target, computed)
            _crop(cache, start)

    def _fill_trunk(
        self,
        segment: Sequence[int],
        following: Iterable[tuple[Sequence[int], Sequence[int]]],
        cache: DynamicCache,
    ) -> None:
        """The same for a prompt that passes through the adapter: nothing above the trunk is computed."""
        own = self.model.trunk(_ids(self.model, segment), cache)[0]
        for request, target in following:
            rest = self.model.trunk(_ids(self.model, [*request, *target[:-1]]), cache)[0]
            before = len(request) - 1
            self._keep_parts(segment, request, target, [own, rest[:before], rest[before:]])
            _crop(cache, len(segment))

    def _keep_parts(
        self, segment: Sequence[int], request: Sequence[int], target: Sequence[int], computed: Sequence[torch.Tensor]
    ) -> None:
        """Write those files that are missing."""
        for (path, shape), numbers in zip(self._parts(segment, request, target), computed, strict=True):
            if self.arrays.load(path, shape) is None:
                self.keep(path, numbers)

    def _joined(self, cache: DynamicCache, place: slice) -> torch.Tensor:
        """Keys and values of some tokens, (N, numbers per token)."""
        return torch.stack(_above(self.model, cache, place)).permute(2, 0, 1, 3, 4).flatten(1)

    def files(self, segment: Sequence[int], request: Sequence[int], target: Sequence[int]) -> list[tuple[Path, int]]:
        """The files of these tokens, and their sizes in bytes."""
        return [(path, 2 * rows * width) for path, (rows, width) in self._parts(segment, request, target)]

    def _parts(
        self, segment: Sequence[int], request: Sequence[int], target: Sequence[int]
    ) -> list[tuple[Path, tuple[int, int]]]:
        """The files of the segment, the request without its last token, the states for the memory, and the answer.

        Of a prompt that passes through the adapter, there are no states.
        """
        before, whole = [*segment, *request[:-1]], [*segment, *request, *target[:-1]]
        kind, width = "prompt", 2 * self.above * self.heads[0] * self.heads[1]
        states = [(self._path(self.states, 0, segment), (len(segment), len(self.model.roles.remembering) * self.size))]
        if self.model.adapts_prompt:
            kind, width, states = "trunk", self.size, []
        return [
            (self._path(kind, 0, segment), (len(segment), width)),
            (self._path(kind, len(segment), before), (len(request) - 1, width)),
            *states,
            (self._path("answer", len(before), whole), (len(target), self.size)),
        ]

    def _path(self, kind: str, start: int, tokens: Sequence[int]) -> Path:
        return self.arrays.path(kind, start, [*tokens])

    def keep(self, path: Path, numbers: torch.Tensor) -> None:
        """Write numbers of the frozen layers to their file."""
        largest = float(numbers.abs().max())
        if not largest < LARGEST:
            raise AwesumError(
                f"a number of the frozen layers is {largest:g}, more than half precision can hold: train without "
                "--freeze-trunk"
            )
        self.arrays.keep(path, numbers.float().cpu().numpy())


class CachedTeacher:
    """The pretrained model with the earlier segments in its window, as a `Teacher`; with a trunk cache, beside it."""

    def __init__(self, model: AwesomeCausal, window: int, cache: TrunkCache | None = None) -> None:
        self.model, self.window, self.cache = model, window, cache

    def __call__(self, document: DocumentInputs) -> list[torch.Tensor]:
        """The last hidden states at the tokens that predict each target of the document."""
        if self.cache is None:
            return list(teach(self.model.base, document, self.window))
        files = self._files(document)
        found = [self.cache.arrays.load(path, shape) for path, shape in files]
        if any(array is None for array in found):
            computed = list(teach(self.model.base, document, self.window))
            for (path, _), numbers in zip(files, computed, strict=True):
                self.cache.keep(path, numbers)
            found = [self.cache.arrays.load(path, shape) for path, shape in files]
        tensors = [torch.from_numpy(array.astype(np.float32)) for array in found if array is not None]
        if len(tensors) < len(files):
            raise AwesumError(UNREADABLE.format(self.cache.folder))
        return [numbers.to(self.model.device, self.model.base.dtype) for numbers in tensors]

    def files(self, document: DocumentInputs) -> list[tuple[Path, int]]:
        """The files of a document, and their sizes in bytes."""
        return [(path, 2 * rows * width) for path, (rows, width) in self._files(document)]

    def _files(self, document: DocumentInputs) -> list[tuple[Path, tuple[int, int]]]:
        """The file of each target, named after everything that the teacher had in view."""
        assert self.cache is not None
        own = zip(document.segments, document.requests, document.targets, strict=True)
        return [
            (
                self.cache.arrays.path(
                    "teacher", len(target), [*chain(*before), *segment[document.frame :], *request, *target[:-1]]
                ),
                (len(target), self.cache.size),
            )
            for before, (segment, request, target) in zip(in_view(document, self.window), own, strict=True)
        ]


def plan(
    cache: TrunkCache,
    documents: Sequence[DocumentInputs],
    measured: Sequence[DocumentInputs] | None,
    epochs: float,
    report: Report,
    teacher: CachedTeacher | None = None,
) -> None:
    """Report how long training will take and what it needs, judging by some documents and a trial of a few segments.

    Raises if the disk has no room for the cache.
    """
    tokens = missing = segments = untaught = 0.0
    total = needed = 0.0
    counted: set[Path] = set()
    trial: list[DocumentInputs] = []
    for those, is_trained_on in ((documents, True), (measured or (), False)):
        step = -(-len(those) // SAMPLED)
        sampled = range(0, len(those), max(step, 1))
        for number in sampled:
            document, weight = those[number], len(those) / len(sampled)
            trial += [document] if len(trial) < TRIALS else []
            segments += weight * len(document.segments) * is_trained_on
            taught = teacher.files(document) if teacher and is_trained_on else []
            if not all(path.exists() for path, _ in taught):
                untaught += weight * document.tokens
            for each in _passes(document):
                tokens += weight * sum(map(len, each))
                missing += 0 if cache.has(*each) else weight * sum(map(len, each))
            for path, room in chain(taught, *(cache.files(*each) for each in _passes(document))):
                if path not in counted:
                    counted.add(path)
                    total += weight * room
                    needed += 0 if path.exists() else weight * room
    reading, learning = _trial(cache, trial)
    first, further = missing * reading, segments * learning
    if teacher:
        teaching = _teaching(teacher, trial) * untaught
        first += teaching
        report(f"the teacher reads {untaught:,.0f} tokens once: about {duration(teaching)}, which the total includes")
    free = shutil.disk_usage(existing(cache.folder)).free
    report(
        f"the frozen layers read {tokens:,.0f} tokens once ({tokens - missing:,.0f} are cached already): about "
        f"{duration(first)}; then {epochs:g} epochs of about {duration(further)} each: about "
        f"{duration(first + epochs * further)} in total"
    )
    report(
        f"disk: {format_size(round(total))} in {cache.folder}, {format_size(round(needed))} of it new, "
        f"{format_size(free)} free; peak memory: about {format_size(peak_memory())}"
    )
    if needed > free:
        raise AwesumError(
            f"{cache.folder} has {format_size(free)} free and {format_size(round(needed))} are needed: free some space "
            "there, set AWESUM_CACHE to another folder, or train on fewer --documents"
        )


def _trial(cache: TrunkCache, documents: Sequence[DocumentInputs]) -> tuple[float, float]:
    """Seconds per token for the frozen layers, and seconds per segment for training."""
    started = time.perf_counter()
    read = 0
    for document in documents:
        each = _passes(document)[0]
        read_now(cache.model, *each)
        read += sum(map(len, each))
    reading = (time.perf_counter() - started) / max(read, 1)
    trained, taken = 0, 0.0
    for document in documents:
        some = sorted({0, len(document.segments) // 2, len(document.segments) - 1})  # the first has the longest target
        head = _some(document, some)
        for each in _passes(head):
            cache(*each)
        started = time.perf_counter()
        with mixed_precision(cache.model):
            causal.train(cache.model, [head], torch.Tensor.backward, read=cache)
        taken += time.perf_counter() - started
        trained += len(some)
    cache.model.zero_grad(set_to_none=True)
    return reading, taken / max(trained, 1)


def _teaching(teacher: CachedTeacher, documents: Sequence[DocumentInputs]) -> float:
    """Seconds per token for the teacher: less than it will take, because here it has one earlier segment in view."""
    started, read = time.perf_counter(), 0
    for document in documents:
        head = _some(document, range(min(2, len(document.segments))))
        for _ in teach(teacher.model.base, head, teacher.window):
            pass
        read += head.tokens
    return (time.perf_counter() - started) / max(read, 1)


def _some(document: DocumentInputs, numbers: Sequence[int]) -> DocumentInputs:
    """Some segments of a document."""
    return replace(
        document,
        segments=[document.segments[number] for number in numbers],
        requests=[document.requests[number] for number in numbers],
        targets=[document.targets[number] for number in numbers],
        salience=[document.salience[number] for number in numbers] if document.salience else [],
    )


def mixed_precision(model: AwesomeCausal) -> torch.autocast:
    """Mixed precision as in the trainer: single-precision weights of an adapter in a base of another number format."""
    form = model.base.dtype
    return torch.autocast(model.device.type, form, enabled=form != torch.float32)


def _passes(document: DocumentInputs) -> list[tuple[Sequence[int], Sequence[int], Sequence[int]]]:
    """The segments, requests and targets of a document, as `TrunkCache` takes them."""
    return list(zip(document.segments, document.requests, document.targets, strict=True))


def existing(folder: Path) -> Path:
    """The nearest folder above that exists."""
    return folder if folder.exists() else existing(folder.parent)


def duration(seconds: float) -> str:
    """A time in a unit that suits its length."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
