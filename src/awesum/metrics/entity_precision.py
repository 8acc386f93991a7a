"""Entity precision: which part of the names in a summary are in its document (Nan et al., EACL 2021).

Says nothing of whether what is said about them is true. A name counts as found if a part of it is: "President Obama"
in a document that has "Obama", but also "US" in one that has "house", for parts are sought as substrings. The published
numbers are of a larger pipeline, en_core_web_lg, which finds somewhat other names.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import nan

from awesum.metrics import english
from awesum.metrics.metric import Need, Sample, Score


class EntityPrecision:
    """The source precision of the paper, by its second and most lenient way to match."""

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
                "if two of its words in a row, or one that is no stop word, occur in the document as a substring; "
                "mean of the ratios of documents, without those whose summary has no names"
            ),
        ),
    )

    def measure(self, sample: Sample) -> dict[str, float]:
        """The part of the mentions that the document has; NaN if there are none."""
        mentioned = entities(sample.prediction)
        document = sample.document.lower()
        found = sum(matches(entity, document) for entity in mentioned)
        return {"entity-precision": found / len(mentioned) if mentioned else nan}


def entities(text: str) -> list[tuple[str, ...]]:
    """The names in a text, in order, each as often as it is mentioned; each as its words, parted at white space."""
    return [tuple(name.split()) for name in english.names(text)]


def matches(entity: Sequence[str], lowered: str) -> bool:
    """Whether a text, which is in lower case, has a part of the entity: words in a row, or one that tells something.

    The paper begins with all words in a row and goes down to two, then to one. Words that occur in a row occur in pairs
    too, so that pairs and single words decide.
    """
    stop_words = english.stop_words()
    words = [word.lower() for word in entity]
    return any(
        word in lowered
        for word, written in zip(words, entity, strict=True)
        if word not in stop_words or written == "US"  # the country, not the pronoun
    ) or any(f"{one} {other}" in lowered for one, other in pairwise(words))
