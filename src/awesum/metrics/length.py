"""Length: how long a summary is against its reference. ROUGE, coverage and the entity graph all depend on it."""

from __future__ import annotations

from awesum.length import count_words
from awesum.metrics.metric import Need, Sample, Score


class LengthRatio:
    """Words of the summary for each word of the reference."""

    name = "length"
    needs: frozenset[Need] = frozenset({"reference"})
    scores = (
        Score(
            "length-ratio",
            "Length",
            "neither",
            settings="words of the summary over words of the reference, on average if there are several; 1 is as long",
        ),
    )

    def measure(self, sample: Sample) -> dict[str, float]:
        """The mean over the references."""
        words = count_words(sample.prediction)
        ratios = [words / max(count_words(reference), 1) for reference in sample.references]
        return {"length-ratio": sum(ratios) / len(ratios)}
