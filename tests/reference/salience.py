"""Plain versions of centrality, of the words of a document, and of the selection of sentences."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rouge_score.tokenizers import DefaultTokenizer

from awesum.analysis.salience.ratings import Ratings
from awesum.document import Segment, Sentence

STEMMER = DefaultTokenizer(use_stemmer=True)


def mean_cosines(vectors: np.ndarray) -> list[float]:
    """The mean cosine of each sentence with all sentences."""
    return [float(np.mean([a @ b for b in vectors])) for a in vectors]


@dataclass
class SlowWords:
    """Everything that `Words` knows, sentence by sentence."""

    stems: list[list[int]]
    pairs: list[list[int]]
    headings: list[bool]
    heading_before: list[int]


def words(texts: Sequence[str], longest_heading: int) -> SlowWords:
    """Number the stems by their CRC-32, and look back from each sentence for a heading."""
    stems = [[zlib.crc32(stem.encode()) for stem in STEMMER.tokenize(text)] for text in texts]
    pairs = [[one[at] * 2**32 + one[at + 1] for at in range(len(one) - 1)] for one in stems]
    headings = []
    for text in texts:
        bare = text.rstrip().rstrip("\"'”’)]」』》")
        headings.append(len(text.split()) <= longest_heading and bare[-1:] not in tuple(".!?…。！？｡؟۔।॥։።"))
    before = []
    for index in range(len(texts)):
        at = index - 1
        while at >= 0 and not headings[at]:
            at -= 1
        before.append(at)
    return SlowWords(stems, pairs, headings, before)


def concepts(ratings: Ratings) -> list[set[int]]:
    """The concepts of each sentence."""
    found: list[set[int]] = [set() for _ in ratings.scores]
    if ratings.coverage is not None:
        for concept, sentence in zip(ratings.coverage.concepts, ratings.coverage.sentences, strict=True):
            found[sentence].add(int(concept))
    return found


def choose(
    ratings: Ratings,
    vectors: np.ndarray,
    costs: Sequence[float],
    amount: float,
    *,
    lengths: Sequence[float] | None = None,
    in_sentences: bool = False,
    before: Sequence[int] | None = None,
    segments: Sequence[Segment] = (),
    most: float = float("inf"),
) -> list[int]:
    """Again and again the sentence worth most per word, together with the one that it needs.

    It is passed over if it repeats a selected one, if it would move away from the amount, or if a segment that has
    something already would get more than it may.
    """
    sizes = [max(float(length), 1.0) for length in (costs if lengths is None else lengths)]
    needed = [-1] * len(costs) if before is None else [int(one) for one in before]
    of_sentences = concepts(ratings)
    left = [index for index, cost in enumerate(costs) if cost and needed[index] != index]
    chosen: list[int] = []

    def group_of(index: int) -> list[int]:
        return [index] if needed[index] < 0 or needed[index] in chosen else [needed[index], index]

    def density(index: int) -> float:
        group = group_of(index)
        covered = {concept for one in chosen for concept in of_sentences[one]}
        new = {concept for one in group for concept in of_sentences[one]} - covered
        worth = sum(float(ratings.scores[one]) * sizes[one] for one in group)
        worth += sum(float(ratings.coverage.weights[concept]) for concept in new) if ratings.coverage else 0.0
        words = sum(sizes[one] for one in group)
        return worth / (words**0.5 if in_sentences else words)

    def is_too_much_for_a_segment(group: list[int]) -> bool:
        for segment in segments:
            inside = range(segment.first, segment.last)
            there = [costs[one] for one in chosen if one in inside]
            added = [costs[one] for one in group if one in inside]
            if there and added and sum(there) + sum(added) > most:
                return True
        return False

    while left and (used := sum(costs[one] for one in chosen)) < amount:
        index = max(left, key=density)  # of equal ones the first
        left.remove(index)
        group = group_of(index)
        off, short = used + sum(costs[one] for one in group) - amount, amount - used
        overshoots = off > short or (len(group) == 2 and off == short)
        if any(vectors[index] @ vectors[one] > ratings.redundant for one in chosen):
            continue
        if overshoots and (chosen or len(group) == 2):
            continue
        if is_too_much_for_a_segment(group):
            continue
        chosen += group
        left = [one for one in left if one not in group]
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
