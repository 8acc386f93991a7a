"""Coverage of the source: where in the document each sentence of a summary comes from, and which parts are unused.

A summary sentence is attributed to the document sentence that shares most of its words and word pairs, if they are
enough. No model is needed. This does not check whether a sentence is true, only what the summary leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from awesum.analysis.sentences import sentence_spans
from awesum.metrics.metric import Need, Sample, Score
from awesum.scoring.rouge import Index, NGrams, Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

STRETCHES = 20
"""Parts of a document with equally many words, each covered or not. With fewer sentences, each sentence is one."""
SHARED = 0.3
"""The share of a sentence's words and word pairs, averaged, that its source must contain. Of the sentences in 25
references of GovReport, 88 in 100 find such a source in their own document, and 4 in 100 in another one."""


class Coverage:
    """The share of the document that a summary covers, and the share of the summary that has a source in it."""

    name = "coverage"
    needs: frozenset[Need] = frozenset({"document"})
    scores = (
        Score(
            "coverage",
            "Coverage",
            "higher",
            0,
            1,
            100,
            settings=f"share of the document's {STRETCHES} equal stretches that are the source of a summary sentence",
        ),
        Score(
            "attributed",
            "Attrib",
            "higher",
            0,
            1,
            100,
            settings="share of the summary's sentences that have a source in the document: a sentence with at least "
            f"{SHARED:.0%} of their words and word pairs, averaged",
        ),
    )

    def measure(self, sample: Sample) -> dict[str, float]:
        """Both shares."""
        positions = [position for _, position in attributions(sample.prediction, sample.document)]
        found = [position for position in positions if position is not None]
        places = _source(sample.document).positions
        if len(places) <= STRETCHES:  # each sentence is a stretch
            covered, stretches = set(found), max(len(places), 1)
        else:
            covered, stretches = {int(position * STRETCHES) for position in found}, STRETCHES
        return {
            "coverage": len(covered) / stretches,
            "attributed": len(found) / len(positions) if positions else 0.0,
        }


def attributions(prediction: str, document: str) -> list[tuple[str, float | None]]:
    """Each sentence of a summary, and the position of its source in the document, in [0, 1); None without a source."""
    source = _source(document)
    found: list[tuple[str, float | None]] = []
    for start, end in sentence_spans(prediction):
        sentence = " ".join(prediction[start:end].split())
        shares = source.shares(sentence)
        best = int(shares.argmax()) if len(shares) else 0
        found.append((sentence, float(source.positions[best]) if len(shares) and shares[best] >= SHARED else None))
    return found


@dataclass(frozen=True)
class _Source:
    """The n-grams of a document's sentences, and the relative position of the middle of each sentence."""

    vocabulary: Vocabulary
    words: Index
    pairs: Index
    positions: NDArray[np.float64]

    def shares(self, sentence: str) -> NDArray[np.float64]:
        """The share of this sentence's words and word pairs, averaged, in each sentence of the document."""
        numbers = self.vocabulary.words(sentence)
        words, pairs = NGrams.of(numbers, 1), NGrams.of(numbers, 2)
        found = self.words.overlaps(words) / max(words.total, 1)
        return (found + self.pairs.overlaps(pairs) / pairs.total) / 2 if pairs.total else found


@lru_cache(2)  # the summaries of one document by several systems are scored in succession
def _source(document: str) -> _Source:
    vocabulary = Vocabulary()
    numbers = [vocabulary.words(document[start:end]) for start, end in sentence_spans(document)]
    numbers = [words for words in numbers if len(words)]
    ends = np.cumsum([len(words) for words in numbers])
    middles = ends - np.array([len(words) for words in numbers]) / 2
    return _Source(
        vocabulary,
        Index([NGrams.of(words, 1) for words in numbers]),
        Index([NGrams.of(words, 2) for words in numbers]),
        middles / ends[-1] if len(ends) else np.zeros(0),
    )
