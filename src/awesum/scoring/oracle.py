"""The oracle: the sentences of a document closest to its reference summary, by ROUGE-1 F + ROUGE-2 F.

They are selected greedily, one at a time: not always the best set, but the usual method. Each round scores every
remaining sentence; this is cheap because only n-grams of the summary matter, and those of each sentence are counted
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from awesum.scoring.rouge import NGrams, Vocabulary, f_measure

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_WORD = 2**31 - 1
"""Padding before the first and after the last selected sentence: not the number of any word, so in no pair."""


def greedy(sentences: Sequence[str], summary: str) -> list[int]:
    """Select the sentence that raises the score most, until none does; returns them in order of selection.

    The score is that of the selected sentences joined in document order, so a word pair may span two of them. Of equal
    sentences the first is taken; a sentence without ROUGE tokens never is.
    """
    vocabulary = Vocabulary()
    reference = vocabulary.words(summary)
    texts = [vocabulary.words(sentence) for sentence in sentences]
    numbers = [number for number, text in enumerate(texts) if len(text)]
    if not len(reference) or not numbers:
        return []
    candidates = _Candidates([texts[number] for number in numbers], reference)
    chosen: list[int] = []
    score = 0.0
    while True:
        scores = candidates.scores()
        best = int(np.argmax(scores))
        if scores[best] <= score:
            return chosen
        score = float(scores[best])
        candidates.choose(best)
        chosen.append(numbers[best])


class _Candidates:
    """The non-empty sentences of a document: which are selected, and the score with each of the others added."""

    def __init__(self, texts: Sequence[NDArray[np.int64]], reference: NDArray[np.int64]) -> None:
        self._lengths = np.array([len(text) for text in texts])
        ends = np.cumsum(self._lengths)
        words = np.concatenate(texts)
        places = np.repeat(np.arange(len(texts)), self._lengths)
        self._first, self._last = words[ends - self._lengths], words[ends - 1]
        inside = places[:-1] == places[1:]  # pairs that span two sentences belong to neither
        pairs = _pair(words[:-1], words[1:])[inside]
        self._words = _Shared(NGrams.of(reference, 1), words, places, len(texts))
        self._pairs = _Shared(NGrams.of(reference, 2), pairs, places[:-1][inside], len(texts))
        self._chosen = np.zeros(len(texts), dtype=bool)
        self._length = 0
        # The words next to each sentence if it is selected: the last one before it and the first one after it.
        self._before = np.full(len(texts), NO_WORD)
        self._after = np.full(len(texts), NO_WORD)
        # The pairs it would form with them, and the pair of the two that it would split, as indices in the summary.
        self._left, self._right, self._split = np.full((3, len(texts)), -1)

    def scores(self) -> NDArray[np.float64]:
        """The score of the selection with each sentence added; -1 for those already selected."""
        words, pairs = self._words, self._pairs
        length = self._length + self._lengths
        shared = pairs.gains() + pairs.overlap()
        seams = np.flatnonzero((self._left >= 0) | (self._right >= 0) | (self._split >= 0))
        shared[seams] += self._gains_at_seams(seams)
        scores = f_measure(words.gains() + words.overlap(), length, words.total)
        scores += f_measure(shared, length - 1, pairs.total)
        scores[self._chosen] = -1
        return scores

    def _gains_at_seams(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The pairs that sentences gain or lose with their neighbours, after the pairs inside them are counted.

        One pair at a time, because two may be the same: first the old pair is split, then the new ones are added.
        """
        split, left, right = self._split[places], self._left[places], self._right[places]
        room = self._pairs.room
        lost = (split >= 0) & (room(places, split) >= 0)
        gained_left = (left >= 0) & (room(places, left) + (left == split) > 0)
        gained_right = (right >= 0) & (room(places, right) + (right == split) - (right == left) > 0)
        return gained_left.astype(np.int64) + gained_right - lost

    def choose(self, place: int) -> None:
        """Select a sentence."""
        self._words.take(place)
        self._pairs.take(place)
        for pair, count in ((self._left, 1), (self._right, 1), (self._split, -1)):
            if pair[place] >= 0:
                self._pairs.missing[pair[place]] -= count
        self._chosen[place] = True
        self._length += int(self._lengths[place])
        earlier = np.flatnonzero(self._chosen[:place])
        later = np.flatnonzero(self._chosen[place + 1 :])
        gap = slice(earlier[-1] + 1 if len(earlier) else 0, place + 1 + later[0] if len(later) else len(self._chosen))
        self._after[gap.start : place] = self._first[place]
        self._before[place + 1 : gap.stop] = self._last[place]
        before, after = self._before[gap], self._after[gap]
        self._left[gap] = self._pairs.find(_pair(before, self._first[gap]))
        self._right[gap] = self._pairs.find(_pair(self._last[gap], after))
        self._split[gap] = self._pairs.find(_pair(before, after))


class _Shared:
    """The n-grams of the summary: their counts in each sentence, and how many the selection still lacks."""

    def __init__(self, summary: NGrams, grams: NDArray[np.int64], places: NDArray[np.int64], sentences: int) -> None:
        self._ids = np.append(summary.ids, -1)  # sentinel: an n-gram greater than all others is compared with -1
        self._sentences = sentences
        self.total = summary.total
        self.missing = summary.counts.copy()
        """How many more of each the summary has than the selection; negative if the selection has more."""
        found = self.find(grams)
        known = found >= 0
        # A row is an n-gram in a sentence, numbered by sentence, then n-gram, in ascending order.
        self._rows, self._counts = np.unique(places[known] * len(self._ids) + found[known], return_counts=True)
        self._places, self._grams = np.divmod(self._rows, len(self._ids))
        self._before = np.append(0, np.cumsum(self._counts))  # cumulative counts: the n-grams in all earlier rows

    def find(self, grams: NDArray[np.int64]) -> NDArray[np.int64]:
        """The index of each n-gram among those of the summary, or -1."""
        at = np.searchsorted(self._ids[:-1], grams)
        return np.where(self._ids[at] == grams, at, -1)

    def overlap(self) -> int:
        """The number of n-grams shared by the selection and the summary."""
        return self.total - int(np.maximum(self.missing, 0).sum())

    def gains(self) -> NDArray[np.int64]:
        """How much each sentence would add to the overlap."""
        shared = np.minimum(self._counts, np.maximum(self.missing, 0)[self._grams])
        return np.bincount(self._places, shared, minlength=self._sentences).astype(np.int64)

    def room(self, places: NDArray[np.int64], grams: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many of each n-gram would still be missing with the corresponding sentence added."""
        rows = places * len(self._ids) + grams
        first, last = np.searchsorted(self._rows, rows), np.searchsorted(self._rows, rows, side="right")
        return self.missing[grams] - (self._before[last] - self._before[first])

    def take(self, place: int) -> None:
        """Count the n-grams of a sentence as selected."""
        own = slice(*np.searchsorted(self._rows, [place * len(self._ids), (place + 1) * len(self._ids)]))
        self.missing[self._grams[own]] -= self._counts[own]


def _pair(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Two words as one number, as in `NGrams`."""
    return (first << 32) | second
