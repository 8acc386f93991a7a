"""Global salient content: which sentences of the whole document matter, and how the summarizer is told.

`Salience` is the interface: a score a sentence. `centrality` fills it without training; `choice` picks sentences by
score; `text` injects them into a segment as the paper does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Salience(Protocol):
    """Whatever can say how much each sentence matters to the document as a whole."""

    def score(self, embeddings: NDArray[np.float32], query: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """One score a sentence, higher is more salient, from unit vectors (N, d) in document order.

        With a `query` (a unit vector), salient means salient for it.
        """
        ...
