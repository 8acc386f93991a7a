"""ROUGE-1 and ROUGE-2 on integers, to compare one text with thousands; and ROUGE-L without a table of lengths.

The scores equal those of Google's `rouge_score` with its stemmer to the last bit: same tokens, same order of
arithmetic. The counting is faster: each word becomes a number once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Literal

import numpy as np

from awesum.stems import stems

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class Vocabulary:
    """Numbers words in order of appearance. Only n-grams of the same vocabulary can be compared.

    Use one per document and summary, not one per dataset: it only grows.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def words(self, text: str) -> NDArray[np.int64]:
        """The tokens of `text` as numbers, in order."""
        numbers = self._numbers
        return np.array([numbers.setdefault(token, len(numbers)) for token in stems(text)], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class NGrams:
    """The n-grams of a text, unordered, with their counts."""

    ids: NDArray[np.int64]
    """The distinct n-grams, ascending."""
    counts: NDArray[np.int64]
    total: int

    @classmethod
    def of(cls, words: NDArray[np.int64], n: Literal[1, 2]) -> NGrams:
        """Count words or word pairs. A pair is one number, with the first word in the upper half."""
        grams = words if n == 1 else (words[:-1] << 32) | words[1:]
        ids, counts = np.unique(grams, return_counts=True)
        return cls(ids, counts.astype(np.int64), len(grams))


def overlap(one: NGrams, other: NGrams) -> int:
    """The number of n-grams shared by two texts, with multiplicity."""
    _, own, its = np.intersect1d(one.ids, other.ids, assume_unique=True, return_indices=True)
    return int(np.minimum(one.counts[own], other.counts[its]).sum())


class Index:
    """The n-grams of many texts, sorted, to compare one text with all of them at once."""

    def __init__(self, texts: Sequence[NGrams]) -> None:
        ids = np.concatenate([text.ids for text in texts]) if texts else np.zeros(0, dtype=np.int64)
        order = np.argsort(ids, kind="stable")
        self._ids = ids[order]
        self._counts = np.concatenate([text.counts for text in texts])[order] if texts else ids
        self._texts = np.repeat(np.arange(len(texts)), [len(text.ids) for text in texts])[order]
        self._totals = np.array([text.total for text in texts], dtype=np.int64)

    def overlaps(self, ngrams: NGrams) -> NDArray[np.int64]:
        """The number of n-grams that each text shares with `ngrams`, with multiplicity."""
        first, last = np.searchsorted(self._ids, ngrams.ids), np.searchsorted(self._ids, ngrams.ids, side="right")
        found = last - first  # number of texts with each n-gram
        rows = np.arange(found.sum()) + np.repeat(last - np.cumsum(found), found)
        shared = np.minimum(self._counts[rows], np.repeat(ngrams.counts, found))
        return np.bincount(self._texts[rows], shared, minlength=len(self._totals)).astype(np.int64)

    def scores(self, ngrams: NGrams) -> NDArray[np.float64]:
        """The ROUGE F-measure of `ngrams` with each text."""
        return f_measure(self.overlaps(ngrams), ngrams.total, self._totals)


def common_subsequences(reference: Sequence[Sequence[str]], prediction: Sequence[Sequence[str]]) -> int:
    """The number of words that summary-level ROUGE-L counts as shared by two texts, given as sentences of tokens.

    Each reference sentence is compared with all predicted ones: a word counts once if it is in a longest common
    subsequence with any of them, and at most as often as both texts have it. If several subsequences are the longest,
    the one of `rouge_score` is used.
    """
    left, taken = Counter(chain.from_iterable(reference)), Counter(chain.from_iterable(prediction))
    places = [_places(sentence) for sentence in prediction]
    hits = 0
    for sentence in reference:
        union: set[int] = set()
        for other, its in zip(prediction, places, strict=True):
            union.update(_common(sentence, other, its))
        for token in (sentence[place] for place in sorted(union)):
            if left[token] > 0 and taken[token] > 0:
                hits += 1
                left[token] -= 1
                taken[token] -= 1
    return hits


def _places(sentence: Sequence[str]) -> dict[str, int]:
    """The positions of each token, as a bit mask."""
    places: dict[str, int] = {}
    for place, token in enumerate(sentence):
        places[token] = places.get(token, 0) | 1 << place
    return places


def _common(sentence: Sequence[str], other: Sequence[str], places: dict[str, int]) -> list[int]:
    """The positions in `sentence` of a longest common subsequence with `other`.

    Each row of the usual table is one integer: bit j is 0 where the length grows from j to j + 1, so the length up to j
    is the number of zeros below it (Hyyrö 2004). All columns of a row are computed at once.
    """
    if places.keys().isdisjoint(sentence):
        return []
    all_ones = (1 << len(other)) - 1
    rows = [all_ones]
    for token in sentence:
        row = rows[-1]
        shared = row & places.get(token, 0)
        rows.append(((row + shared) | (row - shared)) & all_ones)
    found = []
    i, j = len(sentence), len(other)
    while i and j:
        if sentence[i - 1] == other[j - 1]:
            i, j = i - 1, j - 1
            found.append(i)
            continue
        longer = (j - 1) - (rows[i] & (1 << j - 1) - 1).bit_count()  # without the last word of `other`
        if longer > j - (rows[i - 1] & (1 << j) - 1).bit_count():
            j -= 1
        else:
            i -= 1
    return found


def f_measure(overlap: ArrayLike, predicted: ArrayLike, reference: ArrayLike) -> NDArray[np.float64]:
    """The F-measure from the shared n-grams and the totals of the two texts: numbers or arrays; 0 without overlap.

    Twice the overlap over the sum of the totals would be the same up to rounding; this rounds like `rouge_score`.
    """
    precision = np.asarray(overlap) / np.maximum(predicted, 1)
    recall = np.asarray(overlap) / np.maximum(reference, 1)
    total = np.asarray(precision + recall)
    return np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)
