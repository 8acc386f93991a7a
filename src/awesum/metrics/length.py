"""The length of a summary relative to its reference. ROUGE, coverage and the entity graph all depend on it."""

from __future__ import annotations

from awesum.length import count_words
from awesum.metrics.metric import Need, Sample, Score


class LengthRatio:
    """Words of the summary per word of the reference."""

    name = "length"
    needs: frozenset[Need] = frozenset({"reference"})
    scores = (
        Score(
            "length-ratio",
            "Length",
            "neither",
            settings="words of the summary over words of the reference, mean over references; 1 is the same length",
        ),
    )

    def measure(self, sample: Sample) -> dict[str, float]:
        """The mean over the references."""
        words = count_words(sample.prediction)
        ratios = [words / max(count_words(reference), 1) for reference in sample.references]
        return {"length-ratio": sum(ratios) / len(ratios)}
