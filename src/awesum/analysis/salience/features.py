"""Surface features of sentences: position, length, how common their words are.

A sentence vector captures the topic of a sentence; whether the document returns to it, and whether it opens a
paragraph, has to be counted. All features are of the order of one, for documents of any length.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np

from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.sentences import ends_sentence

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAMES = (
    "words", "is_heading", "ends", "digits", "capitals", "place", "from_start", "from_end", "in_paragraph",
    "paragraph_left", "since_heading", "common_words", "most_common_word", "new_words", "common_pairs",
    "in_opening", "like_document", "like_opening", "like_heading", "like_last", "like_next", "sentences", "length",
    "asked", "like_query", "central",
)  # fmt: skip
"""The columns, in this order."""
OPENING = 0.05
"""The share of a document that counts as its opening."""
LONGEST_HEADING = 12
"""Words in the longest heading."""
_WORD = re.compile(r"[^\W\d_]{4,}")


def features(
    texts: Sequence[str], embeddings: NDArray[np.float32], query: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """One row per sentence, one column per name in `NAMES`; `texts` include the white space after each sentence."""
    count = len(texts)
    if not count:
        return np.zeros((0, len(NAMES)), dtype=np.float32)
    lengths = np.array([len(text.split()) for text in texts])
    ends = np.array([ends_sentence(text) for text in texts])
    headings = (lengths <= LONGEST_HEADING) & ~ends
    places = np.arange(count)
    in_paragraph, paragraph_left = _in_runs(["\n" in text[len(text.rstrip()) :] for text in texts])
    since_heading, _ = _in_runs(headings)
    mean = _unit(embeddings.mean(axis=0))
    opening_end = max(1, round(OPENING * count))
    opening = _unit(embeddings[:opening_end].mean(axis=0))
    beside = (embeddings[1:] * embeddings[:-1]).sum(axis=1)
    characters = np.array([max(len(text.strip()), 1) for text in texts])
    columns = [
        np.log1p(lengths) / 3,
        headings,
        ends,
        np.array([sum(map(str.isdigit, text)) for text in texts]) / characters,
        np.array([sum(map(str.isupper, text)) for text in texts]) / characters,
        places / count,
        np.log1p(places) / 6,
        np.log1p(count - 1 - places) / 6,
        np.log1p(in_paragraph),
        np.log1p(paragraph_left),
        np.log1p(since_heading) / 3,
        *_words(texts, opening_end),
        embeddings @ mean,
        embeddings @ opening,
        (embeddings * embeddings[np.maximum(places - since_heading - 1, 0)]).sum(axis=1),
        np.concatenate([[0.0], beside]),
        np.concatenate([beside, [0.0]]),
        np.full(count, np.log1p(count) / 6),
        np.full(count, np.log1p(lengths.sum()) / 9),
        np.full(count, float(query is not None)),
        embeddings @ query if query is not None else np.zeros(count),
        Centrality().score(texts, embeddings, query),
    ]
    return np.stack([np.asarray(column, dtype=np.float32) for column in columns], axis=1)


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    return vector / max(float(np.linalg.norm(vector)), 1e-12)


def _in_runs(is_last: Sequence[bool] | NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distance of each sentence from the first and from the last of its run; `is_last` marks the ends of runs."""
    places = np.arange(len(is_last))
    ends = np.flatnonzero(is_last)
    starts = np.concatenate([[0], ends + 1])
    from_first = places - starts[np.searchsorted(starts, places, side="right") - 1]
    stops = np.concatenate([ends, [len(is_last) - 1]])
    return from_first, stops[np.searchsorted(stops, places)] - places


def _words(texts: Sequence[str], opening: int) -> list[NDArray[np.float64]]:
    """How common a sentence's words are in the document: log counts (mean and maximum), the share of words not seen
    before, the mean log count of its word pairs, and the share of words that also occur in the opening."""
    words = [_WORD.findall(text.lower()) for text in texts]
    pairs = [list(pairwise(sentence)) for sentence in words]
    counts = Counter(chain.from_iterable(words))
    pair_counts = Counter(chain.from_iterable(pairs))
    early = set(chain.from_iterable(words[:opening]))
    seen: set[str] = set()
    common, most, new, common_pairs, in_opening = (np.zeros(len(texts)) for _ in range(5))
    for number, sentence in enumerate(words):
        if sentence:
            logs = np.log([counts[word] for word in sentence])
            common[number], most[number] = logs.mean() / 3, logs.max() / 3
            new[number] = sum(word not in seen for word in sentence) / len(sentence)
            in_opening[number] = sum(word in early for word in sentence) / len(sentence)
            seen.update(sentence)
        if pairs[number]:
            common_pairs[number] = np.log([pair_counts[pair] for pair in pairs[number]]).mean()
    return [common, most, new, common_pairs, in_opening]
