"""Choosing sentences by score: as many as the length allows, none twice; and of the chosen, the outermost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from awesum.analysis.sentences import ends_sentence
from awesum.document import Segment, Sentence
from awesum.length import count_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

REDUNDANT = 0.85
"""A sentence whose cosine with a chosen one is above this says the same thing again. Chosen on GovReport."""
LONGEST_SHARE = 90
"""Words of the summary that one segment may take. Parts of like length are written together without waiting."""
FEWEST_WORDS, MOST_WORDS = 6, 100
"""A sentence with fewer words (a heading) or more (a table, a list) is not chosen for a summary; nor is one without a
full stop."""


@dataclass(frozen=True)
class Calibration:
    """How long a choice of sentences is if nobody says so, and when one says again what another says.

    Out of a document of N words it has `factor` * N ** `power` words; beyond `longest` words it gets no longer. Fitted
    to validation documents; the values here are GovReport's.
    """

    factor: float = 4.68
    power: float = 0.574
    longest: float = 4000.0
    redundant: float = REDUNDANT
    """The cosine above which a sentence says again what a chosen one says."""

    def words(self, words: int) -> float:
        """How many are chosen out of so many."""
        return min(self.factor * min(words, self.longest) ** self.power, words) if words else 0.0


def word_costs(texts: Sequence[str]) -> list[float]:
    """What each sentence takes of a summary's words; zero where it cannot be chosen."""
    words = [count_words(text) for text in texts]
    fit = [
        FEWEST_WORDS <= count <= MOST_WORDS and ends_sentence(text) for text, count in zip(texts, words, strict=True)
    ]
    if not any(fit):  # a document of headings, tables and stray lines: better those than nothing
        fit = [count > 0 for count in words]
    return [float(ok * count) for ok, count in zip(fit, words, strict=True)]


def longest_share(words: float, segments: int) -> float:
    """The words that one segment may take: more than usual where the summary is so long that each must take more."""
    return max(LONGEST_SHARE, 1.5 * words / segments)


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
