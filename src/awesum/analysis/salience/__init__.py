"""Global salient content: score the sentences of the whole document, select some, and add them to a segment.

`Salience` is the interface: one score per sentence. `trained` implements it with the extractor, trained on real
summaries, `centrality` without training; `choice` selects sentences by score; `text` adds them to a segment as in the
paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from awesum.analysis.salience.choice import Calibration


class Salience(Protocol):
    """Scores how much each sentence matters to the document as a whole."""

    @property
    def name(self) -> str:
        """Cache key: changes whenever the scores would."""
        ...

    @property
    def calibration(self) -> Calibration:
        """The length and redundancy limit for selecting sentences by these scores."""
        ...

    def score(
        self, texts: Sequence[str], embeddings: NDArray[np.float32], query: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """One score per sentence (N,), higher is more salient, from texts and unit vectors (N, d) in document order.

        The texts are the sentences including the white space after each. With a `query` (a unit vector), the scores
        are for that query.
        """
        ...
