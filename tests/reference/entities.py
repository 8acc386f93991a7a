"""Entity precision and the entity graph as defined, word by word."""

from __future__ import annotations

import re
from collections.abc import Sequence

from spacy.lang.en.stop_words import STOP_WORDS


def matches(entity: Sequence[str], text: str) -> bool:
    """All consecutive words, then one fewer, down to two; then each word that is not a stop word."""
    for length in range(len(entity), 1, -1):
        for start in range(len(entity) - length + 1):
            if re.search(re.escape(" ".join(entity[start : start + length])), text, re.IGNORECASE):
                return True
    for word in entity:
        if (word.lower() not in STOP_WORDS or word == "US") and re.search(re.escape(word), text, re.IGNORECASE):
            return True
    return False


def links(sentences: Sequence[Sequence[str]]) -> list[list[float]]:
    """One pair of sentences at a time."""
    matrix = [[0.0] * len(sentences) for _ in sentences]
    for i in range(len(sentences)):
        for j in range(i + 1, len(sentences)):
            for noun in sentences[i]:
                if noun in sentences[j]:
                    matrix[i][j] = 1 / (j - i)
    return matrix


def coherence(sentences: Sequence[Sequence[str]]) -> float:
    return sum(sum(row) for row in links(sentences)) / len(sentences)
