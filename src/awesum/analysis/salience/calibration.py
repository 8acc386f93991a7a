"""How an extractor's estimates become ratings: the same for the extractor in torch, which learns, and in numpy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.features import DOCUMENT_NAMES, NAMES
from awesum.analysis.salience.ratings import REDUNDANT, Coverage, Query, Ratings
from awesum.analysis.salience.words import BUCKETS, Words

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHIPPED = Path(__file__).with_name("extractor.safetensors")
TOGETHER = 2048
"""Sentences that attend to each other. A longer document is read in chunks of at most this many sentences, with
features and concepts over the whole: time and RAM grow linearly with the document, not quadratically."""
ABOUT = 0.5
"""The cosine from which a sentence is about the query. Lower ones say little: a request to summarize the whole meeting
is like whatever mentions the meeting."""
LEAST_MENTIONED, NEARLY_MOST = 0.4, 0.75
"""A sentence speaks of what was asked if it has this share of the query's words, by rarity, and this much of the
largest share that any sentence has."""
LENGTHS = 2
"""Lines that estimate the length: one for documents without a query, and one with. The answer to a question has another
length than a summary, in whatever words the document is written."""
FEWEST_STEMS = 2
"""Stems per sentence, on average. With fewer, the text is in a script that the extractor cannot read, and centrality
decides alone."""


@dataclass(frozen=True)
class Mixture:
    """What a word of a sentence is worth: weights of the extractor's estimates, and of centrality."""

    worth: float = 0.3
    """Of the estimate for the sentence as a whole."""
    stems: float = 0.3
    """Of each stem that the summary is expected to have."""
    pairs: float = 0.7
    """Of each word pair that it is expected to have."""
    central: float = 0.0
    """Of the standardized centrality, which knows the sentence encoder and the query."""
    query: float = 0.3
    """Of a sentence's cosine with the query beyond `ABOUT`."""
    mentioned: float = 3.0
    """Of the share of the query's words that a sentence has, if that is nearly the most that any has."""


@dataclass(frozen=True)
class Calibration:
    """How an extractor's estimates become ratings. Fitted to documents that it was not trained on."""

    plain: Mixture = Mixture()
    """Without a query."""
    asked: Mixture = Mixture(central=0.1)
    """With a query."""
    length: float = 1.0
    """The factor of the estimated length that gives the highest ROUGE."""
    redundant: float = REDUNDANT

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Calibration:
        """As stored in the file."""
        return cls(Mixture(**found["plain"]), Mixture(**found["asked"]), found["length"], found["redundant"])


class Estimates(NamedTuple):
    """What an extractor says about a document, as arrays."""

    worth: NDArray[np.float32]
    """Of each sentence, as a logit, (N,)."""
    stems: NDArray[np.float32]
    """Whether the summary has each stem, as a logit, (C,)."""
    pairs: NDArray[np.float32]
    length: float
    """The logarithm of the summary's words."""
    mentioned: NDArray[np.float32]
    """The share of the query's stems that each sentence has, by rarity, (N,)."""
    places: NDArray[np.int64]
    """The concept of each occurrence, the pairs after the stems, (O,)."""
    owners: NDArray[np.int64]
    """The sentence of each occurrence, (O,)."""


def rate(
    estimates: Estimates, calibration: Calibration, vectors: NDArray[np.float32], query: Query | None = None
) -> Ratings:
    """Ratings from an extractor's estimates and the sentences' vectors."""
    mixture = calibration.plain if query is None else calibration.asked
    scores = mixture.worth * sigmoid(estimates.worth)
    if mixture.central:
        scores = scores + mixture.central * _standardized(Centrality().scores(vectors, query))
    if query is not None:
        scores = scores + mixture.query * np.maximum(vectors @ query.vector - ABOUT, 0)
        shares = estimates.mentioned
        enough = max(LEAST_MENTIONED, NEARLY_MOST * float(shares.max()))
        scores = scores + mixture.mentioned * np.maximum(shares - enough, 0)
    weights = np.concatenate([mixture.stems * sigmoid(estimates.stems), mixture.pairs * sigmoid(estimates.pairs)])
    many = max(len(scores), 1)
    each = estimates.places * many + estimates.owners
    each.sort()
    each = each[np.diff(each, prepend=-1) > 0]  # a sentence may have a concept twice
    coverage = Coverage(weights, each // many, each % many)
    length = calibration.length * float(np.exp(np.float32(estimates.length)))
    return Ratings(scores.astype(np.float32), length, calibration.redundant, coverage)


def sigmoid(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """In float32, without overflow."""
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1, small) / (1 + small)


def _standardized(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    return (scores - scores.mean()) / max(float(scores.std()), 1e-6)


def is_foreign(words: Words) -> bool:
    """Whether a text is in a script that the extractor cannot read."""
    return len(words.ids) < FEWEST_STEMS * len(words)


def inputs_key() -> list[Any]:
    """What a file must have been trained with to be read by this version."""
    return [BUCKETS, list(NAMES), list(DOCUMENT_NAMES), LENGTHS]
