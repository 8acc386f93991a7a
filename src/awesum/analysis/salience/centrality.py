"""Salience without training: a sentence matters if it is close to the topic of the whole document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from awesum.analysis.salience.choice import Calibration

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
    calibration: Calibration = field(default_factory=Calibration)

    @property
    def name(self) -> str:
        """Cache key: changes with the settings."""
        return repr(self)

    def score(
        self, texts: Sequence[str], embeddings: NDArray[np.float32], query: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """See `Salience.score`. Uses only the vectors, not the texts."""
        if not len(embeddings):
            return np.zeros(0, dtype=np.float32)
        mean = embeddings.mean(axis=0)
        centrality = embeddings @ (mean / max(float(np.linalg.norm(mean)), 1e-12))
        positions = np.arange(len(embeddings)) / len(embeddings)
        scores = centrality + self.opening * np.exp(-positions / self.opening_reach)
        if query is not None:
            scores = (1 - self.query_weight) * scores + self.query_weight * (embeddings @ query)
        return scores.astype(np.float32)
