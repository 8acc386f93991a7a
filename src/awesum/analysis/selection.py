"""The selection: which sentences of a document its summary is made of, and each segment's share of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from awesum.analysis.salience.choice import choose, longest_share, predecessors, word_costs
from awesum.analysis.salience.ratings import Ratings
from awesum.document import Segment, Sentence
from awesum.length import Length, count_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEW_SENTENCES, FEW_WORDS = 4, 80
"""Below this, a summary has room for little but the conclusion, ..."""
CONCLUSION = 0.5
"""... and each word of one is worth this much more."""
SHORT_DOCUMENT, STATED = 2_000, 0.6
"""In a document of at most so many words, a sentence that is this surely a conclusion is worth as much in a summary of
any length: a reader of half of a proposal expects what it proposes."""
SALIENT_SHARE = 0.1
"""The share of a document's tokens that counts as salient. Of these, each segment is shown the outermost."""
REMEMBERED_SHARE = 0.25
"""The share that a salient memory may keep: more than is shown as text, since its slots decide in the end."""


@dataclass(frozen=True)
class Selection:
    """The selected sentences, and what they cost."""

    length: Length
    amount: float
    """The words (or sentences) that the summary should have."""
    costs: Sequence[float]
    """What each sentence of the document takes of that amount; zero for one that cannot be selected."""
    selected: Sequence[int]
    """In document order."""
    shares: Sequence[Sequence[int]]
    """The selected sentences of each segment."""
    is_whole: bool = False
    """Whether the document is no longer than its summary should be: then all of it is selected."""

    def budget(self, number: int) -> float:
        """The words (or sentences) of the summary that a segment should take."""
        return sum(self.costs[index] for index in self.shares[number])


def select(
    texts: Sequence[str],
    vectors: NDArray[np.float32],
    segments: Sequence[Segment],
    ratings: Ratings,
    length: Length,
    *,
    spread: bool,
    concluding: Sequence[float] | None = None,
) -> Selection:
    """The most salient sentences, as many as the length allows; with `spread`, no segment takes too much of it.

    `concluding` says how surely each sentence is a conclusion, which a very short summary prefers, as does any summary
    of a short document.
    """
    words = [count_words(text) for text in texts]
    amount = length.amount(sum(words), ratings.usual_words)
    costs = word_costs(texts)
    if length.in_sentences:
        costs = [float(cost > 0) for cost in costs]
    is_whole = sum(count > 0 if length.in_sentences else count for count in words) <= amount
    if is_whole:
        selected = [index for index, count in enumerate(words) if count]
    else:
        if concluding is not None:
            sure = np.array(concluding, np.float32)
            if amount >= (FEW_SENTENCES if length.in_sentences else FEW_WORDS):
                sure = np.where((sure > STATED) & (sum(words) <= SHORT_DOCUMENT), sure, 0)
            ratings = replace(ratings, scores=ratings.scores + np.float32(CONCLUSION) * sure)
        most = float("inf")
        if spread:
            in_sentences = max(3.0, 1.5 * amount / len(segments))
            most = in_sentences if length.in_sentences else longest_share(amount, len(segments))
        selected = choose(
            ratings,
            vectors,
            costs,
            amount,
            lengths=words,
            in_sentences=length.in_sentences,
            before=predecessors(texts, costs),
            segments=segments,
            most=most,
        )
    return Selection(length, amount, costs, selected, [within(selected, segment) for segment in segments], is_whole)


def salient(
    texts: Sequence[str],
    sentences: Sequence[Sentence],
    vectors: NDArray[np.float32],
    ratings: Ratings,
    share: float = SALIENT_SHARE,
) -> list[int]:
    """The most salient sentences, up to a share of the document: a tenth is what the paper's model is shown."""
    costs = [float(sentence.tokens) * (cost > 0) for sentence, cost in zip(sentences, word_costs(texts), strict=True)]
    if not any(costs):
        return []
    amount = share * sum(sentence.tokens for sentence in sentences)
    return choose(ratings, vectors, costs, amount, lengths=[count_words(text) for text in texts])


def within(selected: Sequence[int], segment: Segment) -> list[int]:
    """The selected sentences of one segment."""
    return [index for index in selected if segment.first <= index < segment.last]
