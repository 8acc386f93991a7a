"""The memories of several documents that one adapter answers together."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from awesum.memory import MemoryState, Recollection, Source
from awesum.models.adapter import AwesomeCausal, after, salience_row
from awesum.models.adapter_layers import Passage, Recollections

GRAIN = 512
"""Memories are allocated in multiples of this many slots."""


class MemorySlots:
    """The memories of several documents that are answered together, each document in a slot of its own.

    What a document reads is constant while a segment is answered. What it writes is recorded at the position of each
    token, so that the next step overwrites the states of a wrong guess, as it does its keys and values.
    """

    def __init__(self, model: AwesomeCausal, count: int) -> None:
        self.model, self.count = model, count
        self.recalled: list[Recollections] = [{} for _ in range(count)]
        self.read: list[dict[int, torch.Tensor]] = [{} for _ in range(count)]
        self.written: list[dict[int, torch.Tensor]] = [{} for _ in range(count)]
        self.salience: list[torch.Tensor | None] = [None] * count
        self._extra = {index: _Rows(count) for index in model.roles.remembering}
        self._stacked: tuple[int, Recollections] | None = None

    @torch.inference_mode()
    def fill(
        self,
        slot: int,
        recalled: Recollections,
        passage: Passage,
        segment: slice,
        limit: int,
        salience: Sequence[float] | None = None,
    ) -> None:
        """Put a segment that was read into a slot, with what is recalled of the segments before it.

        `salience` says how salient each of the segment's tokens is, for a memory that keeps the most salient.
        """
        self.salience[slot] = salience_row(salience, self.model.device)
        self.recalled[slot] = recalled
        # Copies: a view would keep the states of the whole prompt alive.
        self.read[slot] = {layer: states[:, segment].clone() for layer, states in passage.written.items()}
        self.written[slot] = {
            layer: states.new_zeros(1, limit + 1, states.shape[2]) for layer, states in self.read[slot].items()
        }
        self._join(slot)

    @torch.inference_mode()
    def move(self, source: int, target: int) -> None:
        """Move a document to another slot."""
        if source == target:
            return
        self.recalled[target], self.read[target] = self.recalled[source], self.read[source]
        self.written[target], self.salience[target] = self.written[source], self.salience[source]
        self._join(target)

    def _join(self, slot: int) -> None:
        """Join what a slot reads with what the others read."""
        extra = self.model.with_memory(self.recalled[slot]).extra
        for index, rows in self._extra.items():
            rows.fill(slot, extra.get(index))
        self._stacked = None

    def passage(self, rows: int) -> Passage:
        """What the documents in the first `rows` slots read."""
        if self._stacked is None or self._stacked[0] != rows:
            self._stacked = (rows, self._stack(rows))
        extra = {index: source for index, of in self._extra.items() if (source := of.first(rows))}
        return Passage(adapted=True, memory=self._stacked[1], extra=extra)

    def _stack(self, rows: int) -> Recollections:
        """The recollections that are read after the self-attention, as one batch."""
        return {
            layer: {kind: Recollection.stacked([each[layer][kind] for each in self.recalled[:rows]]) for kind in of}
            for layer, of in self.recalled[0].items()
            if self.model.can_read(layer)
        }

    @torch.inference_mode()
    def note(self, passage: Passage, positions: torch.Tensor, starts: Sequence[int]) -> None:
        """Record hidden states, (rows, N, d) at `positions`, for the memories. The answers begin at `starts`."""
        for layer, states in passage.written.items():
            for slot, (row, at, start) in enumerate(zip(states, positions, starts, strict=True)):
                self.written[slot][layer][0, at - start] = row

    def after(self, slot: int, answered: int) -> dict[int, dict[str, MemoryState]]:
        """The states of a document after its segment, of whose answer the model has processed `answered` tokens."""
        return after(
            self.recalled[slot], self.read[slot], slice(None), self.written[slot], answered, self.salience[slot]
        )


class _Rows:
    """The extra keys and values of one layer, a row for each document. Only rows that change are copied."""

    def __init__(self, count: int) -> None:
        self.lengths = [0] * count
        self.held: Source | None = None

    def fill(self, row: int, source: Source | None) -> None:
        """Set the row of one document."""
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
        """Room for a longer memory, with the old content. Zeros elsewhere: no mask hides what is not a number."""
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
        """The first `rows` rows; None if all of them are empty."""
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
