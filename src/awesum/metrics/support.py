"""Support: how well the document supports each sentence of a summary, by awesum's own verifier. Nothing is fetched."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from awesum.analysis.sentences import sentence_spans
from awesum.metrics.metric import Need, Option, Sample, Score
from awesum.verify import Verifier

SHIPPED = "awesum"
"""The name of the shipped verifier."""


class Support:
    """The mean support of a summary's sentences, and the share that is supported well enough to be kept."""

    name = "support"
    needs: frozenset[Need] = frozenset({"document", "model"})
    scores = (
        Score(
            "support",
            "Support",
            "higher",
            0,
            1,
            100,
            settings="mean over the sentences, each against the document's nearest",
        ),
        Score("supported", "Supported", "higher", 0, 1, 100, settings="share of sentences at or above the threshold"),
    )
    options = (
        Option(
            "model",
            "--support-model",
            "NAME_OR_PATH",
            "the verifier: an NLI model, a file of `awesum verifier train`, or exact (default: the shipped one)",
            default=SHIPPED,
            is_model=True,
        ),
    )

    def __init__(self, verifier: Verifier) -> None:
        self.verifier = verifier

    @classmethod
    def load(cls, model: str = SHIPPED, **options: Any) -> Support:
        """With the shipped verifier, or any other."""
        return cls(Verifier.load(None if model == SHIPPED else model))

    def measure(self, sample: Sample) -> dict[str, float]:
        """Both scores of one summary."""
        written = _sentences(sample.prediction)
        verdicts = self.verifier.judge(_sentences(sample.document), written)
        count = max(len(verdicts), 1)
        return {
            "support": sum(verdict.support for verdict in verdicts) / count,
            "supported": sum(map(self.verifier.supports, verdicts)) / count,
        }


@lru_cache(4)  # several systems summarize one document
def _sentences(text: str) -> list[str]:
    return [" ".join(text[start:end].split()) for start, end in sentence_spans(text)]
