"""Algorithm 1 as published: every similarity is recomputed, as a mean of single cosines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def similarity(sentence: int, segment: Sequence[int], vectors: np.ndarray) -> float:
    return sum(cosine(vectors[sentence], vectors[other]) for other in segment) / len(segment)


def pseudo_segment(after: int, lengths: Sequence[int], lower: int) -> list[int]:
    """The sentences after one, until they reach `lower` tokens."""
    pseudo: list[int] = []
    for index in range(after + 1, len(lengths)):
        if sum(lengths[i] for i in pseudo) >= lower:
            break
        pseudo.append(index)
    return pseudo


def segment(lengths: Sequence[int], vectors: np.ndarray, lower: int, upper: int) -> list[list[int]]:
    """The sentences of each segment, of at most `upper` tokens: as in the paper's text, not its pseudocode."""
    segments: list[list[int]] = []
    current: list[int] = []
    for index, length in enumerate(lengths):
        tokens = sum(lengths[i] for i in current)
        following = pseudo_segment(index, lengths, lower)
        if not current:
            opens = False
        elif tokens + length > upper:
            opens = True
        elif tokens < lower or not following:
            opens = False
        else:
            opens = similarity(index, following, vectors) > similarity(index, current, vectors)
        if opens:
            segments.append(current)
            current = []
        current.append(index)
    return [*segments, current] if current else segments
