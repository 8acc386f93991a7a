"""The oracle: which sentences of a document come nearest to its reference summary, by ROUGE-1 F + ROUGE-2 F.

They are found greedily, one at a time, which is not always the best set but the usual one. Each round asks about every
sentence that is left; what makes that cheap is that only n-grams of the summary are counted, and each sentence's once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from awesum.scoring.rouge import NGrams, Vocabulary, f_measure

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_WORD = 2**31 - 1
"""What stands before the first chosen sentence and behind the last: the number of no word, so in no pair."""


def greedy(sentences: Sequence[str], summary: str) -> list[int]:
    """The sentences to choose, in the order of choosing: always the one that raises the score most, while any does.

    The score is that of the chosen sentences joined in the order of the document, so that a pair of words can reach
    from one of them to the next. Of equal sentences the first is taken; one without a word of ROUGE never is.
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
    """The sentences of a document, none of them empty: which are chosen, and what each other one would make of it."""

    def __init__(self, texts: Sequence[NDArray[np.int64]], reference: NDArray[np.int64]) -> None:
        self._lengths = np.array([len(text) for text in texts])
        ends = np.cumsum(self._lengths)
        words = np.concatenate(texts)
        places = np.repeat(np.arange(len(texts)), self._lengths)
        self._first, self._last = words[ends - self._lengths], words[ends - 1]
        inside = places[:-1] == places[1:]  # pairs from one sentence to the next one are none of either
        pairs = _pair(words[:-1], words[1:])[inside]
        self._words = _Shared(NGrams.of(reference, 1), words, places, len(texts))
        self._pairs = _Shared(NGrams.of(reference, 2), pairs, places[:-1][inside], len(texts))
        self._chosen = np.zeros(len(texts), dtype=bool)
        self._length = 0
        # The neighbours that each sentence has or would have: the last word before it and the first one behind it.
        self._before = np.full(len(texts), NO_WORD)
        self._behind = np.full(len(texts), NO_WORD)
        # Pairs that it would make with these, and the one of these two that it would part, as places in the summary.
        self._left, self._right, self._parted = np.full((3, len(texts)), -1)

    def scores(self) -> NDArray[np.float64]:
        """The score of what is chosen together with each sentence; -1 for those that already are."""
        words, pairs = self._words, self._pairs
        length = self._length + self._lengths
        shared = pairs.gains() + pairs.overlap()
        seams = np.flatnonzero((self._left >= 0) | (self._right >= 0) | (self._parted >= 0))
        shared[seams] += self._gains_at_seams(seams)
        scores = f_measure(words.gains() + words.overlap(), length, words.total)
        scores += f_measure(shared, length - 1, pairs.total)
        scores[self._chosen] = -1
        return scores

    def _gains_at_seams(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """What sentences gain or lose by pairs with their neighbours, after all pairs inside them are counted.

        One pair after the other, because two may be the same: the old one is parted, then the new ones come.
        """
        parted, left, right = self._parted[places], self._left[places], self._right[places]
        room = self._pairs.room
        lost = (parted >= 0) & (room(places, parted) >= 0)
        won_left = (left >= 0) & (room(places, left) + (left == parted) > 0)
        won_right = (right >= 0) & (room(places, right) + (right == parted) - (right == left) > 0)
        return won_left.astype(np.int64) + won_right - lost

    def choose(self, place: int) -> None:
        """Add a sentence to those that are chosen."""
        self._words.take(place)
        self._pairs.take(place)
        for pair, count in ((self._left, 1), (self._right, 1), (self._parted, -1)):
            if pair[place] >= 0:
                self._pairs.missing[pair[place]] -= count
        self._chosen[place] = True
        self._length += int(self._lengths[place])
        earlier = np.flatnonzero(self._chosen[:place])
        later = np.flatnonzero(self._chosen[place + 1 :])
        gap = slice(earlier[-1] + 1 if len(earlier) else 0, place + 1 + later[0] if len(later) else len(self._chosen))
        self._behind[gap.start : place] = self._first[place]
        self._before[place + 1 : gap.stop] = self._last[place]
        before, behind = self._before[gap], self._behind[gap]
        self._left[gap] = self._pairs.find(_pair(before, self._first[gap]))
        self._right[gap] = self._pairs.find(_pair(self._last[gap], behind))
        self._parted[gap] = self._pairs.find(_pair(before, behind))


class _Shared:
    """The n-grams of the summary: how many of each are in each sentence, and how many nobody chosen has yet."""

    def __init__(self, summary: NGrams, grams: NDArray[np.int64], places: NDArray[np.int64], sentences: int) -> None:
        self._ids = np.append(summary.ids, -1)  # what is greater than all the others is compared with the -1
        self._sentences = sentences
        self.total = summary.total
        self.missing = summary.counts.copy()
        """How many more of each the summary has than the chosen sentences; negative if these have more."""
        found = self.find(grams)
        known = found >= 0
        # A row is an n-gram in a sentence. Its number, the sentence's and then the n-gram's, is in ascending order.
        self._rows, self._counts = np.unique(places[known] * len(self._ids) + found[known], return_counts=True)
        self._places, self._grams = np.divmod(self._rows, len(self._ids))
        self._before = np.append(0, np.cumsum(self._counts))  # how many n-grams are in all rows before each

    def find(self, grams: NDArray[np.int64]) -> NDArray[np.int64]:
        """The place of each n-gram among those of the summary, -1 where it is none of them."""
        at = np.searchsorted(self._ids[:-1], grams)
        return np.where(self._ids[at] == grams, at, -1)

    def overlap(self) -> int:
        """How many n-grams the chosen sentences share with the summary."""
        return self.total - int(np.maximum(self.missing, 0).sum())

    def gains(self) -> NDArray[np.int64]:
        """How many more it would be with each sentence."""
        shared = np.minimum(self._counts, np.maximum(self.missing, 0)[self._grams])
        return np.bincount(self._places, shared, minlength=self._sentences).astype(np.int64)

    def room(self, places: NDArray[np.int64], grams: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many of one n-gram are missing with one sentence added, for each pair of these."""
        rows = places * len(self._ids) + grams
        first, last = np.searchsorted(self._rows, rows), np.searchsorted(self._rows, rows, side="right")
        return self.missing[grams] - (self._before[last] - self._before[first])

    def take(self, place: int) -> None:
        """Count the n-grams of a sentence as chosen."""
        own = slice(*np.searchsorted(self._rows, [place * len(self._ids), (place + 1) * len(self._ids)]))
        self.missing[self._grams[own]] -= self._counts[own]


def _pair(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Two words as one number, as `NGrams` has them."""
    return (first << 32) | second
