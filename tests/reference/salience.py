"""Plain versions of centrality and of the selection of sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from awesum.document import Segment, Sentence


def mean_cosines(vectors: np.ndarray) -> list[float]:
    """The mean cosine of each sentence with all sentences."""
    return [float(np.mean([a @ b for b in vectors])) for a in vectors]


def choose(
    scores: Sequence[float], vectors: np.ndarray, costs: Sequence[float], amount: float, redundant: float
) -> list[int]:
    """The best sentence, then the next best, skipping repetitions and any that would move away from the amount."""
    chosen: list[int] = []
    for index in sorted(range(len(scores)), key=lambda i: -scores[i]):
        used = sum(costs[i] for i in chosen)
        if used >= amount:
            break
        repeats = any(vectors[index] @ vectors[i] > redundant for i in chosen)
        overshoots = bool(chosen) and abs(used + costs[index] - amount) > abs(amount - used)
        if costs[index] and not repeats and not overshoots:
            chosen.append(index)
    return sorted(chosen)


def outermost(
    chosen: Sequence[int], segment: Segment, sentences: Sequence[Sentence], room: int
) -> tuple[list[int], list[int]]:
    """List all candidates in the paper's order, and take them until the room is used up."""
    past = [i for i in chosen if i < segment.first]
    future = [i for i in chosen if i >= segment.last][::-1]
    line: list[int] = []
    while past or future:
        if past:
            line.append(past.pop(0))
        if future:
            line.append(future.pop(0))
    fitting = [i for n, i in enumerate(line) if sum(sentences[j].tokens for j in line[: n + 1]) <= room]
    taken = line[: len(fitting)] if fitting == line[: len(fitting)] else []
    return sorted(i for i in taken if i < segment.first), sorted(i for i in taken if i >= segment.last)
