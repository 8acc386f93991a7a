"""Validation by writing: ROUGE of what a model in training writes for the validation documents.

The documents pass through the system that the model belongs to, as in `awesum predict --raw`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from awesum.document import Document
from awesum.metrics.metric import Sample
from awesum.metrics.rouge import Rouge
from awesum.settings import Settings
from awesum.systems.system import open_session, write_documents

if TYPE_CHECKING:
    from awesum.compose.session import Session
    from awesum.datasets import Example
    from awesum.prepared.shards import PreparedDocument
    from awesum.systems import System

BEST = "rouge"
"""The score by which the best checkpoint is chosen: the geometric mean of ROUGE-1, -2 and -L."""

Scores = Mapping[str, float]


def written(system: System, examples: Iterable[Example | PreparedDocument]) -> Iterator[tuple[str, str]]:
    """The id of each document with the system's text for it, untouched; in the order in which they are finished."""
    settings = Settings()

    def opening() -> Iterator[Session]:
        for example in examples:
            document = Document(example.document, path=example.id)
            yield open_session(system, document, Settings(query=example.query))

    for session, _ in write_documents(system, settings, opening()):
        if session.error is not None:
            raise session.error
        if session.complete:
            yield session.summary().document.path, session.raw()


def rouge(system: System, examples: Sequence[Example | PreparedDocument]) -> list[Scores]:
    """The ROUGE scores of each document's summary, by name. A summary without text scores 0."""
    measure = Rouge()
    references = {example.id: example.summary for example in examples}
    nothing = {score.name: 0.0 for score in measure.scores}
    return [
        measure.measure(Sample(text, (references[name],))) if text.strip() else nothing
        for name, text in written(system, examples)
    ]


def mean(scores: Sequence[Scores]) -> dict[str, float]:
    """The mean of each score over the documents, and `BEST` of the means."""
    means = {name: float(np.mean([each[name] for each in scores])) for name in scores[0]}
    return means | {BEST: prod(means.values()) ** (1 / len(means))}
