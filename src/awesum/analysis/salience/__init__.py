"""Global salient content: rate the sentences of the whole document, select some, and add them to a segment.

`Salience` is the interface: a document's sentences go in, its `Ratings` come out. `trained` implements it with the
extractor, trained on real summaries, `centrality` without training; `choice` selects sentences by their ratings; `text`
adds them to a segment as in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from awesum.analysis.salience.ratings import Query, Ratings


class Salience(Protocol):
    """Rates how much each sentence matters to the document as a whole."""

    @property
    def name(self) -> str:
        """Cache key: changes whenever the ratings would."""
        ...

    def own_vectors(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """Unit vectors of sentences (N, d) that serve where there is no query, instead of an encoder's; perhaps none.

        An encoder takes most of the time of reading. What knows the words already can do without it.
        """
        ...

    def rate(self, texts: Sequence[str], vectors: NDArray[np.float32], query: Query | None = None) -> Ratings:
        """Rate sentences, given as texts and unit vectors (N, d) in document order.

        The texts are the sentences including the white space after each. With a `query`, the ratings say how much each
        sentence matters to it.
        """
        ...
