"""The state of one layer's memory, as a value that goes in and comes out.

The update is lazy. The hidden states that a segment writes are kept as they are, detached from the graph, and become
part of the memory only when the next segment begins, inside that segment's graph. So the weights of the update learn
from the next segment's loss, and yet nothing older than that is held: training takes constant memory.

With a `depth` of K, the hidden states of the last K segments are kept, and the memory from before them. Each segment
begins by writing all of them again, so that its loss also reaches the update's weights through K updates in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import nn


@dataclass(frozen=True)
class Written:
    """The hidden states that one segment writes."""

    states: torch.Tensor
    """(B, N, d)."""
    mask: torch.Tensor
    """Which of them are tokens, not padding: (B, N)."""
    salience: torch.Tensor | None = None
    """How salient each token's sentence is, 0 if it is not selected: (B, N). None: all alike."""

    def padded(self, length: int) -> Written:
        """With masked states at its end, up to `length`."""
        room = (0, length - self.states.shape[1])
        pad = nn.functional.pad
        salience = None if self.salience is None else pad(self.salience, room)
        return Written(pad(self.states, (0, 0, *room)), pad(self.mask, room), salience)

    def joined(self, other: Written) -> Written:
        """The documents of this one followed by those of another."""
        length = max(each.states.shape[1] for each in (self, other))
        first, second = self.padded(length), other.padded(length)
        salience = None
        if first.salience is not None or second.salience is not None:
            salience = torch.cat(
                [_all_alike(each) if each.salience is None else each.salience for each in (first, second)]
            )
        return Written(torch.cat([first.states, second.states]), torch.cat([first.mask, second.mask]), salience)


def _all_alike(written: Written) -> torch.Tensor:
    return torch.ones(written.mask.shape, device=written.mask.device)


@dataclass(frozen=True)
class MemoryState:
    """The state between two segments: a memory, and what the segments after it will add to it."""

    memory: torch.Tensor
    """M: (B, m, d). A memory that fills up has only the slots that are filled in some document."""
    mask: torch.Tensor
    """Which slots are filled: (B, m)."""
    salience: torch.Tensor | None = None
    """How salient each slot is, for a kind of memory that keeps the most salient: (B, m)."""
    pending: tuple[Written, ...] = ()
    """What the last segments wrote, the oldest first. Empty before the first segment."""
    depth: int | None = 1
    """For training: how many segments may be pending, or through how many updates a loss goes back; None: all, and
    through the layers that wrote as well."""

    def detach(self) -> Self:
        """The same values without a graph."""
        return self._map(lambda tensor: tensor.detach())

    def cut(self) -> Self:
        """The same values without a graph, unless gradients go back through all segments."""
        return self if self.depth is None else self.detach()

    def then(self, written: torch.Tensor, mask: torch.Tensor, salience: torch.Tensor | None = None) -> MemoryState:
        """The state after the segment that wrote these hidden states. This is SG(.): the graph ends here."""
        if not written.shape[1]:
            return self.cut()
        return replace(self, pending=(*self.pending, Written(written, mask, salience))).cut()

    def select(self, rows: torch.Tensor) -> Self:
        """The state of some documents of the batch, in that order."""
        return self._map(lambda tensor: tensor.index_select(0, rows.to(tensor.device)))

    def to(self, device: torch.device | str) -> Self:
        """The state on another device."""
        return self._map(lambda tensor: tensor.to(device))

    def joined(self, other: MemoryState) -> MemoryState:
        """The documents of this state followed by those of another. Missing pending states become padding."""
        slots = max(state.memory.shape[1] for state in (self, other))
        pad = nn.functional.pad
        missing = [(slots - state.memory.shape[1], 0) for state in (self, other)]
        both = list(zip((self, other), missing, strict=True))
        salience = None
        if self.salience is not None and other.salience is not None:
            salience = torch.cat([pad(state.salience, before) for state, before in both if state.salience is not None])
        count = max(len(state.pending) for state in (self, other))
        return MemoryState(
            torch.cat([pad(state.memory, (0, 0, *before)) for state, before in both]),
            torch.cat([pad(state.mask, before) for state, before in both]),
            salience,
            tuple(first.joined(second) for first, second in zip(self._last(count), other._last(count), strict=True)),
            self.depth,
        )

    def _last(self, count: int) -> list[Written]:
        """The last `count` pending segments; where there are fewer, the first of them are empty."""
        documents, _, size = self.memory.shape
        nothing = Written(self.memory.new_zeros(documents, 0, size), self.mask[:, :0])
        return [*[nothing] * (count - len(self.pending)), *self.pending]

    def tensors(self) -> dict[str, torch.Tensor]:
        """All tensors by name, as `of_tensors` takes them."""
        found = {name: getattr(self, name) for name in ("memory", "mask", "salience")}
        for number, written in enumerate(self.pending):
            found |= {f"{number}:{name}": tensor for name, tensor in vars(written).items()}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    @classmethod
    def of_tensors(cls, tensors: Mapping[str, torch.Tensor], depth: int | None = 1) -> Self:
        """The inverse of `tensors`."""
        pending: dict[int, dict[str, torch.Tensor]] = {}
        for name, tensor in tensors.items():
            number, _, part = name.partition(":")
            if part:
                pending.setdefault(int(number), {})[part] = tensor
        written = tuple(Written(**pending[number]) for number in sorted(pending))
        return cls(tensors["memory"], tensors["mask"], tensors.get("salience"), written, depth)

    def _map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        return self.of_tensors({name: change(tensor) for name, tensor in self.tensors().items()}, self.depth)


@dataclass(frozen=True)
class Recollection:
    """What one layer reads during a segment: constant until the segment ends, and shared by all beams."""

    memory: torch.Tensor
    """M^{t-1}, in the graph of the segment: (B, m, d)."""
    mask: torch.Tensor
    """(B, m)."""
    keys: torch.Tensor
    """(B, heads, m, d / heads): computed once a segment, not once a decoding step."""
    values: torch.Tensor
    before: MemoryState | None = None
    """The state that the segment's own hidden states will be added to."""

    @property
    def stops_gradient(self) -> bool:
        """Whether what the segment writes is detached from the layers that compute it, as SG(.) says."""
        return self.before is None or self.before.depth is not None

    def then(self, written: torch.Tensor, mask: torch.Tensor, salience: torch.Tensor | None = None) -> MemoryState:
        """The state after the segment that wrote these hidden states."""
        before = MemoryState(self.memory, self.mask) if self.before is None else self.before
        return before.then(written, mask, salience)

    @classmethod
    def stacked(cls, recollections: Sequence[Recollection]) -> Recollection:
        """The recollections of several documents as one batch. Shorter memories get masked slots at their start."""
        slots = max(each.mask.shape[1] for each in recollections)

        def rows(name: str, *after: int) -> torch.Tensor:
            """`after`: the padding of the dimensions after the slots."""
            tensors = [getattr(each, name) for each in recollections]
            missing = [slots - each.mask.shape[1] for each in recollections]
            pad = nn.functional.pad
            return torch.cat([pad(t, (*after, n, 0)) if n else t for t, n in zip(tensors, missing, strict=True)])

        return cls(rows("memory", 0, 0), rows("mask"), rows("keys", 0, 0), rows("values", 0, 0))
