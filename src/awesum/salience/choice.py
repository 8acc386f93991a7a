"""Choosing sentences by score: as many as the length allows, none twice; and of the chosen, the outermost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from awesum.document import Segment, Sentence

if TYPE_CHECKING:
    from numpy.typing import NDArray

REDUNDANT = 0.85
"""A sentence whose cosine with a chosen one is above this says the same thing again. Chosen on GovReport."""


def choose(
    scores: NDArray[np.float32],
    embeddings: NDArray[np.float32],
    costs: Sequence[float],
    amount: float,
    *,
    segments: Sequence[Segment] = (),
    most: float = float("inf"),
    redundant: float = REDUNDANT,
) -> list[int]:
    """The most salient sentences that together cost about `amount`, in document order.

    `costs` is what each sentence takes of the amount (its words; or one, when sentences are counted); zero marks a
    sentence that cannot be chosen. The sentence that would overshoot is taken if that comes closer to the amount than
    leaving it out. No segment takes more than `most`, or more than one sentence where that one alone is more. The best
    sentence is always taken: there is no empty summary.
    """
    chosen: list[int] = []
    used = 0.0
    segment_of = np.repeat(np.arange(len(segments)), [segment.last - segment.first for segment in segments])
    taken = np.zeros(len(segments))
    closest = np.full(len(scores), -1.0, dtype=np.float32)  # cosine with the nearest chosen sentence
    for index in np.argsort(-scores, kind="stable"):
        cost = costs[index]
        if used >= amount:
            break
        if not cost or closest[index] > redundant or (chosen and used + cost - amount > amount - used):
            continue
        if len(segments):
            here = segment_of[index]
            if taken[here] and taken[here] + cost > most:
                continue
            taken[here] += cost
        chosen.append(int(index))
        used += cost
        np.maximum(closest, embeddings @ embeddings[index], out=closest)
    return sorted(chosen)


def outermost(
    chosen: Sequence[int], segment: Segment, sentences: Sequence[Sentence], room: int
) -> tuple[list[int], list[int]]:
    """The chosen sentences before and behind `segment` that fit into `room` tokens, outermost first as in the paper.

    Taken in turn: the earliest of the past, the latest of the future, the second earliest, and so on until the next one
    does not fit. Returned in document order.
    """
    past = [index for index in chosen if index < segment.first]
    future = [index for index in reversed(chosen) if index >= segment.last]
    before: list[int] = []
    behind: list[int] = []
    for turn in range(max(len(past), len(future))):
        for side, taken in ((past, before), (future, behind)):
            if turn < len(side):
                room -= sentences[side[turn]].tokens
                if room < 0:
                    return before, behind[::-1]
                taken.append(side[turn])
    return before, behind[::-1]
