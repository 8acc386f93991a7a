"""Global salient content: which sentences of the whole document matter, and how the summarizer is told.

`Salience` is the interface: a score a sentence. `trained` fills it with an extractor that has learned from real
summaries, `centrality` without training; `choice` picks sentences by score; `text` injects them into a segment as the
paper does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from awesum.analysis.salience.choice import Calibration


class Salience(Protocol):
    """Whatever can say how much each sentence matters to the document as a whole."""

    @property
    def name(self) -> str:
        """Another for whatever gives other scores."""
        ...

    @property
    def calibration(self) -> Calibration:
        """How its scores become a choice."""
        ...

    def score(
        self, texts: Sequence[str], embeddings: NDArray[np.float32], query: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """One score a sentence, higher is more salient, from texts and unit vectors (N, d) in document order.

        The texts are the sentences with the white space behind each. With a `query` (a unit vector), salient means
        salient for it.
        """
        ...
