"""What several documents remember that are answered side by side with one adapter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import torch

from awesum.memory import MemoryState, Recollection, Source
from awesum.models.adapter import AwesomeCausal, Passage, Recollections, States, after

GRAIN = 512
"""Slots. The room for a memory is a multiple of this."""


class Remembered:
    """The memories of several documents that are answered side by side, each in a slot of its own.

    What a document reads stays as it is while a segment is answered. What is written behind each of its tokens is noted
    at that token's place: a guess that was wrong is overwritten by the next step, as its keys and values are.
    """

    def __init__(self, model: AwesomeCausal, count: int) -> None:
        self.model, self.count = model, count
        self.recalled: list[dict[int, dict[str, Recollection]]] = [{} for _ in range(count)]
        self.read: list[dict[int, torch.Tensor]] = [{} for _ in range(count)]
        self.written: list[dict[int, torch.Tensor]] = [{} for _ in range(count)]
        self._further = {index: _Rows(count) for index in model.roles.remembering}
        self._together: tuple[int, Recollections] | None = None

    @torch.inference_mode()
    def fill(self, slot: int, states: States | None, passage: Passage, segment: slice, limit: int) -> None:
        """Let a segment that was read be answered with the memories of those before it."""
        self.recalled[slot] = self.model.recall(states or self.model.start(1))
        # Copies: a view would keep the whole of what was computed.
        self.read[slot] = {layer: states[:, segment].clone() for layer, states in passage.written.items()}
        self.written[slot] = {
            layer: states.new_zeros(1, limit + 1, states.shape[2]) for layer, states in self.read[slot].items()
        }
        self._join(slot)

    @torch.inference_mode()
    def move(self, source: int, target: int) -> None:
        """Let a document go on in another slot."""
        if source == target:
            return
        self.recalled[target], self.read[target] = self.recalled[source], self.read[source]
        self.written[target] = self.written[source]
        self._join(target)

    def _join(self, slot: int) -> None:
        """Put what a slot reads beside what the others read."""
        further = self.model.with_memory(self.recalled[slot]).further
        for index, rows in self._further.items():
            rows.fill(slot, further.get(index))
        self._together = None

    def passage(self, rows: int) -> Passage:
        """What the first documents read."""
        if self.model.adapter.memory == "compressive":
            further = {index: source for index, of in self._further.items() if (source := of.first(rows))}
            return Passage(answering=True, further=further)
        if self._together is None or self._together[0] != rows:
            self._together = (
                rows,
                {
                    layer: {kind: _stacked([self.recalled[slot][layer][kind] for slot in range(rows)]) for kind in of}
                    for layer, of in self.recalled[0].items()
                },
            )
        return Passage(answering=True, memory=self._together[1])

    @torch.inference_mode()
    def note(self, passage: Passage, positions: torch.Tensor, starts: Sequence[int]) -> None:
        """Keep what may be written to memory: (rows, N, d) at `positions`, of which the answers begin at `starts`."""
        for layer, states in passage.written.items():
            for slot, (row, at, start) in enumerate(zip(states, positions, starts, strict=True)):
                self.written[slot][layer][0, at - start] = row

    def after(self, slot: int, answered: int) -> dict[int, dict[str, MemoryState]]:
        """The memories of a document once its segment is answered, with so many tokens looked at."""
        return after(self.recalled[slot], self.read[slot], slice(None), self.written[slot], answered)


class _Rows:
    """The keys and values of one layer's memories, a row for each document; only what changes is copied."""

    def __init__(self, count: int) -> None:
        self.lengths = [0] * count
        self.held: Source | None = None

    def fill(self, row: int, source: Source | None) -> None:
        """What one document reads, from now on."""
        self.lengths[row] = length = 0 if source is None else source.keys.shape[2]
        if source is None:
            return
        if self.held is None or self.held.keys.shape[2] < length:
            self.held = self._larger(source)
        for held, new in ((self.held.keys, source.keys), (self.held.values, source.values)):
            held[row, :, :length] = new[0]
        assert self.held.mask is not None
        self.held.mask[row, :length] = True if source.mask is None else source.mask[0]

    def _larger(self, source: Source) -> Source:
        """Room for a longer memory; what is there stays. Zeros elsewhere, because no mask hides what is no number."""
        rows, length = len(self.lengths), -(-source.keys.shape[2] // GRAIN) * GRAIN
        keys, values = (
            tensor.new_zeros(rows, tensor.shape[1], length, tensor.shape[3]) for tensor in (source.keys, source.values)
        )
        mask = torch.zeros(rows, length, dtype=torch.bool, device=keys.device)
        if self.held is not None and self.held.mask is not None:
            for larger, old in ((keys, self.held.keys), (values, self.held.values)):
                larger[:, :, : old.shape[2]] = old
            mask[:, : self.held.mask.shape[1]] = self.held.mask
        return Source(keys, values, mask)

    def first(self, rows: int) -> Source | None:
        """What the first documents read; nothing if none has anything."""
        length = max(self.lengths[:rows])
        if not length or self.held is None or self.held.mask is None:
            return None
        there = (
            torch.arange(length, device=self.held.mask.device)
            < self.held.mask.new_tensor(self.lengths[:rows], dtype=torch.long)[:, None]
        )
        return Source(
            self.held.keys[:rows, :, :length],
            self.held.values[:rows, :, :length],
            self.held.mask[:rows, :length] & there,
        )


def _stacked(recollections: Sequence[Recollection]) -> Recollection:
    names = [each.name for each in fields(Recollection)]
    return Recollection(*(torch.cat([getattr(each, name) for each in recollections]) for name in names))
