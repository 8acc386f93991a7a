"""Surface features of sentences: position, length, how common their words are, how like the document they are.

The words of a sentence say what it is about; whether the document returns to it, and whether it opens a section, has to
be counted. All features are of the order of one, for documents of any length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from awesum.analysis.salience.words import Words, stem_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAMES = (
    "words", "is_heading", "ends", "digits", "capitals", "place", "words_before", "from_start", "from_end",
    "in_paragraph", "paragraph_left", "since_heading", "section_left", "section", "sections", "common_words",
    "common_rare_words", "rare_words", "new_words", "common_pairs", "repeated_pairs", "like_document", "like_opening",
    "like_ending", "like_headings", "sentences", "length", "asked", "like_query",
)  # fmt: skip
"""The columns of `features`, in this order."""
DOCUMENT_NAMES = ("words", "first_words", "sentences", "sections", "paragraphs", "digits", "asked")
"""The values of `document_features`, in this order."""
EDGE = 0.05
"""The share of a document that counts as its opening, and as its ending."""


def features(words: Words, rarity: NDArray[np.float32], query: NDArray[np.uint32] | None = None) -> NDArray[np.float32]:
    """One row per sentence, one column per name in `NAMES`.

    `rarity` is the inverse document frequency of each row of the table of stems; `query` the stems of the query.
    """
    count = len(words)
    if not count:
        return np.zeros((0, len(NAMES)), dtype=np.float32)
    places = np.arange(count)
    in_paragraph, paragraph_left = _in_runs(words.breaks)
    since_heading, section_left = _in_runs(words.headings)
    sections = int(words.headings.sum())
    before = np.cumsum(words.lengths) - words.lengths
    total = max(int(words.lengths.sum()), 1)
    asked = query is not None and len(query) > 0
    columns = [
        np.log1p(words.lengths) / 3,
        words.headings,
        words.ends,
        words.digits / words.characters,
        words.capitals / words.characters,
        places / count,
        before / total,
        np.log1p(places) / 6,
        np.log1p(count - 1 - places) / 6,
        np.log1p(in_paragraph),
        np.log1p(paragraph_left),
        np.log1p(since_heading) / 3,
        np.log1p(section_left) / 3,
        np.cumsum(words.headings) / max(sections, 1),
        np.full(count, np.log1p(sections) / 4),
        *_stems(words, rarity),
        np.full(count, np.log1p(count) / 6),
        np.full(count, np.log1p(total) / 9),
        np.full(count, float(asked)),
        _like_query(words, rarity, query) if asked and query is not None else np.zeros(count),
    ]
    return np.stack([np.asarray(column, dtype=np.float32) for column in columns], axis=1)


def mentioned(words: Words, rarity: NDArray[np.float32], query: NDArray[np.uint32]) -> NDArray[np.float32]:
    """The share of the query's stems that each sentence has; a rare stem counts for more than a common one."""
    shares = np.zeros(len(words), dtype=np.float32)
    asked = np.unique(query)
    weights = rarity[stem_rows(asked)]
    for stem, weight in zip(asked, weights, strict=True):
        shares[np.unique(words.owners[words.ids == stem])] += weight / weights.sum()
    return shares


def document_features(words: Words, *, asked: bool = False) -> NDArray[np.float32]:
    """What a document as a whole is like: one value per name in `DOCUMENT_NAMES`."""
    total = np.log1p(words.lengths.sum())
    values = [
        total / 9,
        min(total, 8.0) / 8,
        np.log1p(len(words)) / 6,
        np.log1p(words.headings.sum()) / 4,
        np.log1p(words.breaks.sum()) / 6,
        10 * words.digits.sum() / max(int(words.characters.sum()), 1),
        float(asked),
    ]
    return np.array(values, dtype=np.float32)


def _in_runs(is_last: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distance of each sentence from the first and from the last of its run; `is_last` marks the ends of runs."""
    places = np.arange(len(is_last))
    ends = np.flatnonzero(is_last)
    starts = np.concatenate([[0], ends + 1])
    from_first = places - starts[np.searchsorted(starts, places, side="right") - 1]
    stops = np.concatenate([ends, [len(is_last) - 1]])
    return from_first, stops[np.searchsorted(stops, places)] - places


def _stems(words: Words, rarity: NDArray[np.float32]) -> list[NDArray[np.float64]]:
    """From `common_words` to `like_headings`: how common a sentence's stems and pairs are, how rare in general, and its
    cosine with the document, its opening, its ending and its headings (square roots of counts times rarity)."""
    of_pairs = _pairs(words)  # first, because it takes the most memory
    count, owners = len(words), words.owners
    known, first, place, counts = np.unique(words.ids, return_index=True, return_inverse=True, return_counts=True)
    rare = rarity[stem_rows(known)]
    totals = np.maximum(words.counts, 1)

    def mean(of_stems: NDArray[np.floating]) -> NDArray[np.float64]:
        return np.bincount(owners, of_stems[place], minlength=count) / totals

    lengths = np.sqrt(np.maximum(np.bincount(owners, (rare**2)[place], minlength=count), 1e-6))

    def like(among: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Four times the cosine with the stems that are `among` these."""
        vector = np.sqrt(np.bincount(place[among], minlength=len(known))) * rare
        products = np.bincount(owners, (rare * vector)[place], minlength=count)
        return 4 * products / lengths / (np.linalg.norm(vector) + 1e-6)

    edge = max(1, round(EDGE * count))
    return [
        mean(np.log(counts)) / 3,
        mean(np.log(counts) * rare) / 3,
        mean(rare) / 8,
        np.bincount(owners[first], minlength=count) / totals,
        *of_pairs,
        like(np.ones(len(owners), dtype=bool)),
        like(owners < edge),
        like(owners >= count - edge),
        like(words.headings[owners]),
    ]


def _pairs(words: Words) -> list[NDArray[np.float64]]:
    """How common a sentence's pairs are, and the share of them that occur again."""
    pairs, owners = words.pairs
    _, place, counts = np.unique(pairs, return_inverse=True, return_counts=True)
    totals = np.maximum(np.bincount(owners, minlength=len(words)), 1)
    return [
        np.bincount(owners, of_pairs[place], minlength=len(words)) / totals for of_pairs in (np.log(counts), counts > 1)
    ]


def _like_query(words: Words, rarity: NDArray[np.float32], query: NDArray[np.uint32]) -> NDArray[np.float64]:
    """The rarity of the query's stems in each sentence, relative to the sentence's own."""
    weights = rarity[stem_rows(words.ids)]
    shared = np.bincount(words.owners, np.isin(words.ids, query) * weights, minlength=len(words))
    return shared / np.sqrt(np.maximum(np.bincount(words.owners, weights**2, minlength=len(words)), 1e-6)) / 3
