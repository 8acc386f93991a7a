"""Select sentences by score, without repetition, up to a length; and pick the outermost of them for a segment."""

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
"""A sentence whose cosine with a selected one is above this repeats it. Tuned on GovReport."""
LONGEST_SHARE = 90
"""Words of the summary that one segment may take: its largest budget. Parts of similar length batch well."""
FEWEST_WORDS, MOST_WORDS = 6, 100
"""A sentence with fewer words (a heading) or more (a table, a list) is never selected; nor is one without a full
stop."""


@dataclass(frozen=True)
class Calibration:
    """The default length of a selection, and the cosine above which two sentences count as repetition.

    For a document of N words, `factor` * N ** `power` words are selected; from N = `longest` on, no more. Fitted to
    validation documents; the defaults are GovReport's.
    """

    factor: float = 4.68
    power: float = 0.574
    longest: float = 4000.0
    redundant: float = REDUNDANT
    """The cosine above which a sentence repeats a selected one."""

    def words(self, words: int) -> float:
        """The number of words to select from a document of `words` words."""
        return min(self.factor * min(words, self.longest) ** self.power, words) if words else 0.0


def word_costs(texts: Sequence[str]) -> list[float]:
    """The length of each sentence in words; zero if it must not be selected."""
    words = [count_words(text) for text in texts]
    fit = [
        FEWEST_WORDS <= count <= MOST_WORDS and ends_sentence(text) for text, count in zip(texts, words, strict=True)
    ]
    if not any(fit):  # nothing but headings, tables and stray lines: better those than nothing
        fit = [count > 0 for count in words]
    return [float(ok * count) for ok, count in zip(fit, words, strict=True)]


def longest_share(words: float, segments: int) -> float:
    """The largest budget of one segment in words: `LONGEST_SHARE`, or more if the summary needs more from each."""
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
    """Select the most salient sentences that together cost about `amount`, in document order.

    `costs` is the length of each sentence (in words, or 1 when counting sentences); zero marks a sentence that must not
    be selected. The sentence that would overshoot is taken if that comes closer to the amount than leaving it out. No
    segment takes more than `most`, unless it takes a single sentence. The best sentence is always taken, so the
    selection is never empty.
    """
    chosen: list[int] = []
    used = 0.0
    segment_of = np.repeat(np.arange(len(segments)), [segment.last - segment.first for segment in segments])
    taken = np.zeros(len(segments))
    closest = np.full(len(scores), -1.0, dtype=np.float32)  # cosine with the nearest selected sentence
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
    """The selected sentences before and after `segment` that fit into `room` tokens, outermost first as in the paper.

    Alternates: the earliest of the past, the latest of the future, the second earliest, and so on until the next one
    does not fit. Both lists are in document order.
    """
    past = [index for index in chosen if index < segment.first]
    future = [index for index in reversed(chosen) if index >= segment.last]
    before: list[int] = []
    after: list[int] = []
    for turn in range(max(len(past), len(future))):
        for side, taken in ((past, before), (future, after)):
            if turn < len(side):
                room -= sentences[side[turn]].tokens
                if room < 0:
                    return before, after[::-1]
                taken.append(side[turn])
    return before, after[::-1]
