"""Salience without training: a sentence matters if it is close to the topic of the whole document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from awesum.analysis.salience.ratings import Query, Ratings, usual_words
from awesum.length import count_words

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Centrality:
    """Cosine with the document's mean vector, plus a bonus for the opening and the similarity to a query, if given.

    The mean cosine with all sentences is the dot product with their mean: linear in the document, not quadratic.
    """

    opening: float = 0.2
    """Bonus of the first sentence, decaying with distance: documents state their topic early."""
    opening_reach: float = 0.05
    """The share of the document over which the bonus falls to a third."""
    query_weight: float = 0.7
    """Weight of the similarity to the query in the score, if there is a query."""

    @property
    def name(self) -> str:
        """Cache key: changes with the settings."""
        return repr(self)

    def own_vectors(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """None: it is the cosine of an encoder's vectors."""
        return None

    def rate(self, texts: Sequence[str], vectors: NDArray[np.float32], query: Query | None = None) -> Ratings:
        """See `Salience.rate`. Scores depend on the vectors alone, not on the texts."""
        return Ratings(self.scores(vectors, query), usual_words(sum(map(count_words, texts))))

    def scores(self, vectors: NDArray[np.float32], query: Query | None = None) -> NDArray[np.float32]:
        """One score per vector."""
        if not len(vectors):
            return np.zeros(0, dtype=np.float32)
        mean = vectors.mean(axis=0)
        centrality = vectors @ (mean / max(float(np.linalg.norm(mean)), 1e-12))
        positions = np.arange(len(vectors)) / len(vectors)
        scores = centrality + self.opening * np.exp(-positions / self.opening_reach)
        if query is not None:
            scores = (1 - self.query_weight) * scores + self.query_weight * (vectors @ query.vector)
        return scores.astype(np.float32)
