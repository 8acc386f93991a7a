"""Select sentences by their ratings, without repetition, up to a length; and pick the outermost for a segment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from awesum.analysis.salience.ratings import Coverage, Ratings
from awesum.analysis.sentences import ends_sentence
from awesum.analysis.standalone import needs_previous, points_elsewhere
from awesum.analysis.turns import Turns
from awesum.document import Segment, Sentence
from awesum.length import count_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

LONGEST_SHARE = 90
"""Words of the summary that one segment may take: its largest budget. Parts of similar length batch well."""
FEWEST_WORDS, MOST_WORDS = 6, 100
"""A sentence with fewer words (a heading) or more (a table, a list) is never selected; nor is one without a full
stop."""
MOST_FRAGMENTS = 0.3
"""The share of sentences that may begin in lower case, for these to be the rest of something that was cut."""
_BEFORE_WORDS = "\"'“‘(*•-–—[ \n\t"


def word_costs(texts: Sequence[str]) -> list[float]:
    """The length of each sentence in words, as a summary quotes it; zero if it must not be selected."""
    turns = Turns.of("".join(texts))
    starts = accumulate(map(len, texts), initial=0)
    words = [count_words(turns.said(start, text)) for start, text in zip(starts, texts, strict=False)]
    whole = [
        FEWEST_WORDS <= count <= MOST_WORDS
        and (bool(turns) or ends_sentence(text))  # chats have no full stops
        and 2 * sum(map(str.isalpha, text)) > len(text)  # rows of figures are no sentences
        for text, count in zip(texts, words, strict=True)
    ]
    fragments = [text.lstrip(_BEFORE_WORDS)[:1].islower() for text in texts]
    if turns or sum(fragments) > MOST_FRAGMENTS * len(texts):  # somebody who writes without capitals
        fragments = [False] * len(texts)
    fit = [
        ok and not is_fragment and not points_elsewhere(text)
        for text, ok, is_fragment in zip(texts, whole, fragments, strict=True)
    ]
    if not any(fit):  # nothing but headings, tables and stray lines: better those than nothing
        fit = whole if any(whole) else [count > 0 for count in words]
    return [float(ok * count) for ok, count in zip(fit, words, strict=True)]


def predecessors(texts: Sequence[str], costs: Sequence[float]) -> NDArray[np.int64]:
    """For each sentence, the one before it, if it needs that one and may have it; -1 if it can stand alone.

    A sentence that needs the one before it but cannot have it points to itself and cannot be selected, unless nothing
    else can: that one is in another paragraph, must not be selected, or needs a sentence before it too.
    """
    found = np.full(len(texts), -1, dtype=np.int64)
    for index, text in enumerate(texts):
        if costs[index] and needs_previous(text):
            before = index - 1
            stands = index > 0 and costs[before] > 0 and found[before] < 0
            joined = stands and "\n" not in texts[before][len(texts[before].rstrip()) :]
            found[index] = before if joined else index
    if all(cost == 0 or found[index] == index for index, cost in enumerate(costs)):
        found[:] = -1
    return found


def longest_share(words: float, segments: int) -> float:
    """The largest budget of one segment in words: `LONGEST_SHARE`, or more if the summary needs more from each."""
    return max(LONGEST_SHARE, 1.5 * words / segments)


class _Worth:
    """What each sentence would add to the selection, per word: its score, and the concepts that are not covered yet."""

    def __init__(
        self,
        ratings: Ratings,
        lengths: NDArray[np.float64],
        partner: NDArray[np.int64],
        has_partner: NDArray[np.bool_],
    ) -> None:
        self.scores = ratings.scores.astype(np.float64)
        self.lengths = np.maximum(lengths, 1.0)
        # The weight of each sentence's concepts that no selected sentence has yet.
        self.uncovered: NDArray[np.float64] = np.zeros(len(self.scores))
        self._coverage = ratings.coverage
        if (coverage := ratings.coverage) is not None:
            self._weights = coverage.weights.astype(np.float64)
            self._index(coverage)
            np.add.at(self.uncovered, coverage.sentences, self._weights[coverage.concepts])
            self._shared = self._in_common(coverage, partner, has_partner)

    def _index(self, coverage: Coverage) -> None:
        """Where in `coverage` each concept begins, and the concepts of each sentence."""
        self._starts = np.searchsorted(coverage.concepts, np.arange(len(coverage.weights) + 1))
        order = np.argsort(coverage.sentences, kind="stable")
        self._of_sentences = coverage.concepts[order]
        self._sentence_starts = np.searchsorted(coverage.sentences[order], np.arange(len(self.scores) + 1))

    def _in_common(
        self, coverage: Coverage, partner: NDArray[np.int64], has_partner: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The concepts that sentences share with their predecessors, and these sentences."""
        several = has_partner[coverage.sentences]
        concepts, sentences = coverage.concepts[several], coverage.sentences[several]
        pairs = coverage.concepts * len(self.scores) + coverage.sentences  # in ascending order
        theirs = concepts * len(self.scores) + partner[sentences]
        both = np.take(pairs, np.searchsorted(pairs, theirs), mode="clip") == theirs
        return concepts[both], sentences[both]

    def total(self) -> NDArray[np.float64]:
        """Of all words of each sentence, (N,)."""
        return self.scores * self.lengths + self.uncovered

    def shared(self) -> NDArray[np.float64]:
        """The uncovered concepts that each sentence has in common with its predecessor: they count once, (N,)."""
        if self._coverage is None:
            return np.zeros(len(self.scores))
        concepts, sentences = self._shared
        return np.bincount(sentences, self._weights[concepts], minlength=len(self.scores)).astype(np.float64)

    def cover(self, sentence: int) -> None:
        """Take a sentence: its concepts are worth nothing any more."""
        if self._coverage is None:
            return
        concepts = self._of_sentences[self._sentence_starts[sentence] : self._sentence_starts[sentence + 1]]
        for concept in concepts[self._weights[concepts] > 0]:
            sharing = self._coverage.sentences[self._starts[concept] : self._starts[concept + 1]]
            self.uncovered[sharing] -= self._weights[concept]
            self._weights[concept] = 0.0


def choose(
    ratings: Ratings,
    vectors: NDArray[np.float32],
    costs: Sequence[float],
    amount: float,
    *,
    lengths: Sequence[float] | NDArray[np.int32] | None = None,
    in_sentences: bool = False,
    before: NDArray[np.int64] | None = None,
    segments: Sequence[Segment] = (),
    most: float = float("inf"),
) -> list[int]:
    """Select the most salient sentences that together cost about `amount`, in document order.

    `costs` is the length of each sentence in the unit of `amount` (words, tokens, or 1 when counting sentences); zero
    marks a sentence that must not be selected. `lengths` is its words, if that differs. What counts is the worth of
    each word; `in_sentences`, where words cost nothing, of each square root of words. A sentence with a predecessor
    (see `predecessors`) brings it along. The sentence that would overshoot is taken if that comes closer to the amount
    than leaving it out. No segment takes more than `most`, unless it takes a single sentence. The best sentence that
    needs no other is taken even if it alone is too long, so the selection is never empty.
    """
    count = len(ratings.scores)
    price = np.asarray(costs, dtype=np.float64)
    partner = np.full(count, -1, dtype=np.int64) if before is None else before
    alone = partner < 0
    partner = np.where(alone, 0, partner)
    open_ = (price > 0) & (alone | (partner != np.arange(count)))
    worth = _Worth(ratings, price if lengths is None else np.asarray(lengths, dtype=np.float64), partner, ~alone)
    segment_of = np.repeat(np.arange(len(segments)), [segment.last - segment.first for segment in segments])
    taken = np.zeros(len(segments))
    closest = np.full(count, -1.0, dtype=np.float32)  # cosine with the nearest selected sentence
    is_chosen = np.zeros(count, dtype=bool)
    used = 0.0
    while used < amount and open_.any():
        total, size = worth.total(), worth.lengths
        brings = ~alone & ~is_chosen[partner]
        total = np.where(brings, total + total[partner] - worth.shared(), total)
        words = np.where(brings, size + size[partner], size)
        density = total / (np.sqrt(words) if in_sentences else words)
        index = int(np.where(open_, density, -np.inf).argmax())
        open_[index] = False
        group = [int(partner[index]), index] if brings[index] else [index]
        cost = float(price[group].sum())
        surplus, shortage = used + cost - amount, amount - used
        too_much = surplus > shortage if len(group) == 1 else surplus >= shortage
        if closest[index] > ratings.redundant or (too_much and (is_chosen.any() or len(group) > 1)):
            continue
        if len(segments):
            added = np.bincount(segment_of[group], price[group], minlength=len(segments))
            if np.any((added > 0) & (taken > 0) & (taken + added > most)):
                continue
            taken += added
        used += cost
        for member in group:
            is_chosen[member], open_[member] = True, False
            worth.cover(member)
            np.maximum(closest, vectors @ vectors[member], out=closest)
    return [int(index) for index in np.flatnonzero(is_chosen)]


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
