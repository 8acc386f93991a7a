"""Entity precision: the share of the names in a summary that occur in its document (Nan et al., EACL 2021).

It does not check statements about these names. A name counts as found if part of it is: "President Obama" in a document
with "Obama", but also "US" in one with "house", because parts are matched as substrings. The published numbers are from
a larger pipeline, en_core_web_lg, which finds slightly different names.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import nan

from awesum.metrics import english
from awesum.metrics.metric import Need, Sample, Score


class EntityPrecision:
    """The source precision of the paper, with its second and most lenient way of matching."""

    name = "entity-precision"
    needs: frozenset[Need] = frozenset({"document", "english"})
    scores = (
        Score(
            "entity-precision",
            "EntPrec",
            "higher",
            high=1.0,
            scale=100,
            settings=(
                f"names ({', '.join(sorted(english.NAMES))}) by spaCy with {english.REQUIREMENT}, each mention; found "
                "if two consecutive words, or one that is not a stop word, occur in the document as a substring; "
                "mean of the ratios of documents, without those whose summary has no names"
            ),
        ),
    )

    def measure(self, sample: Sample) -> dict[str, float]:
        """The share of the mentions found in the document; NaN without mentions."""
        mentioned = entities(sample.prediction)
        document = sample.document.lower()
        found = sum(matches(entity, document) for entity in mentioned)
        return {"entity-precision": found / len(mentioned) if mentioned else nan}


def entities(text: str) -> list[tuple[str, ...]]:
    """The names in a text, in order, each as often as it is mentioned, as tuples of words."""
    return [tuple(name.split()) for name in english.names(text)]


def matches(entity: Sequence[str], lowered: str) -> bool:
    """Whether a lower-case text contains part of the entity: consecutive words, or one that is not a stop word.

    The paper tries all consecutive words, then fewer, down to two, then one. Consecutive words also occur as pairs, so
    pairs and single words are enough.
    """
    stop_words = english.stop_words()
    words = [word.lower() for word in entity]
    return any(
        word in lowered
        for word, written in zip(words, entity, strict=True)
        if word not in stop_words or written == "US"  # the country, not the pronoun
    ) or any(f"{one} {other}" in lowered for one, other in pairwise(words))
