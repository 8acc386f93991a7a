"""Ratings: what an extractor says about the sentences of one document, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

REDUNDANT = 0.85
"""A sentence whose cosine with a selected one is above this repeats it. Tuned on GovReport."""


@dataclass(frozen=True)
class Query:
    """What the user asked for: the text, and its unit vector by the encoder of the sentences."""

    text: str
    vector: NDArray[np.float32]


@dataclass(frozen=True)
class Coverage:
    """The concepts (stems, word pairs) that the summary is expected to have, and the sentences that have them.

    A concept counts once, so of two sentences that say the same only one is worth its words.
    """

    weights: NDArray[np.float32]
    """How much each concept is worth, in words, (C,)."""
    concepts: NDArray[np.int64]
    """With `sentences`: which sentence has which concept, each pair once, in order of concepts, then of sentences."""
    sentences: NDArray[np.int64]


@dataclass(frozen=True)
class Ratings:
    """How much each sentence of a document matters, and how long its summary usually is."""

    scores: NDArray[np.float32]
    """What each word of a sentence is worth, (N,)."""
    usual_words: float
    """The words that a summary of this document usually has."""
    redundant: float = REDUNDANT
    """The cosine above which a sentence repeats a selected one."""
    coverage: Coverage | None = None


def usual_words(words: int) -> float:
    """The usual length of a summary of a document of `words` words, where nothing else is known: GovReport's."""
    return min(4.68 * min(words, 4000) ** 0.574, words) if words else 0.0
