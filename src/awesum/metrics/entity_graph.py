"""The entity graph: coherence by how much sentences are about the same things (Guinaudeau and Strube, ACL 2013).

Two sentences that share a noun are linked, more weakly the farther apart they are. The score is that of the package
DiscoScore, with spaCy's tags and lemmas instead of UDPipe's and with awesum's sentences, so values differ slightly from
the published package. Texts are tagged as written, and lemmas compared in lower case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import isnan, nan
from typing import TYPE_CHECKING

import numpy as np

from awesum.metrics.english import REQUIREMENT, nouns
from awesum.metrics.metric import Need, Sample, Score

if TYPE_CHECKING:
    from numpy.typing import NDArray

CELLS = 2**20
"""Pairs of sentences in RAM at once: those of a thousand sentences, more than nearly all summaries have."""

_NOUNS = f"nouns by spaCy with {REQUIREMENT}, lemmas in lower case, unweighted links 1/distance, sum over sentences"


class EntityGraph:
    """Coherence by shared nouns: of the summary alone, and relative to the reference at the same length."""

    name = "entity-graph"
    needs: frozenset[Need] = frozenset({"reference", "english"})
    scores = (
        Score(
            "entity-graph",
            "EntGraph",
            "higher",
            settings=f"{_NOUNS}; grows with the number of sentences: compare only summaries of about the same length",
        ),
        Score(
            "entity-graph-matched",
            "EntGraph=",
            "higher",
            settings=(
                f"{_NOUNS}; the summary's over the reference's, both cut to as many sentences as the shorter has; "
                "1 is as coherent as the reference; mean over references, without those that have no links"
            ),
        ),
    )

    def measure(self, sample: Sample) -> dict[str, float]:
        """Both scores; the second one is NaN if no reference has two linked sentences."""
        prediction = nouns(sample.prediction)
        matched = mean(_matched(prediction, nouns(reference)) for reference in sample.references)
        return {"entity-graph": coherence(prediction), "entity-graph-matched": matched}


def coherence(sentences: Sequence[Sequence[str]]) -> float:
    """The sum of all links over the number of sentences, given as lists of nouns; NaN without sentences."""
    if not sentences:
        return nan
    return float(sum(rows.sum() for rows in link_rows(sentences))) / len(sentences)


def links(sentences: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """The matrix A of the graph: 1/(j - i) for sentences i < j that share a noun, else 0."""
    return np.concatenate([np.zeros((0, len(sentences))), *link_rows(sentences)])


def link_rows(sentences: Sequence[Sequence[str]], cells: int = CELLS) -> Iterator[NDArray[np.float64]]:
    """The matrix of `links`, a block of rows at a time."""
    where = defaultdict(list)
    for number, sentence in enumerate(sentences):
        for noun in set(sentence):
            where[noun].append(number)
    mentions = {noun: np.array(numbers) for noun, numbers in where.items()}
    count = len(sentences)
    rows = max(cells // max(count, 1), 1)
    for first in range(0, count, rows):
        some = range(first, min(first + rows, count))
        shares = np.zeros((len(some), count), dtype=bool)
        for row, number in enumerate(some):
            for noun in set(sentences[number]):
                shares[row, mentions[noun]] = True
        distance = np.arange(count) - np.array(some)[:, None]  # (rows, n)
        yield np.where(shares & (distance > 0), 1 / np.maximum(distance, 1), 0.0)


def mean(values: Iterable[float]) -> float:
    """The mean without NaN; NaN if there is nothing else."""
    numbers = [value for value in values if not isnan(value)]
    return sum(numbers) / len(numbers) if numbers else nan


def _matched(prediction: Sequence[Sequence[str]], reference: Sequence[Sequence[str]]) -> float:
    """The coherence of the prediction over that of the reference, both cut to the same number of sentences."""
    length = min(len(prediction), len(reference))
    whole = coherence(reference[:length])
    return coherence(prediction[:length]) / whole if whole else nan
