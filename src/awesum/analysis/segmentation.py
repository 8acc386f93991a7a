"""Segmentation: the paper's Algorithm 1, over sentences measured in tokens.

A segment grows to `lower` tokens; from then on each sentence joins the current segment or opens the next one,
whichever it is more similar to; at `upper` tokens the segment is closed. In the paper's text a segment has at most
`upper` tokens, while its pseudocode admits the sentence that crosses the limit; we follow the text, because this limit
bounds the peak memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from awesum.document import Segment, Sentence

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerBase

    from awesum.analysis.tokens import PlainTokenizer

LOWER, UPPER = 512, 768
"""Tokens, as in the paper."""


class Limits(NamedTuple):
    """The shortest and the longest segment, in tokens."""

    lower: int = LOWER
    upper: int = UPPER

    @classmethod
    def up_to(cls, longest: int) -> Limits:
        """The paper's limits, or proportionally less for a model that has room for only `longest` tokens."""
        upper = min(UPPER, longest)
        return cls(LOWER * upper // UPPER, upper)


def measure(
    text: str,
    spans: Iterable[tuple[int, int]],
    tokenizer: PreTrainedTokenizerBase | PlainTokenizer,
    longest: int = UPPER,
    batch: int = 512,
) -> list[Sentence]:
    """Count the tokens of each sentence; split sentences of more than `longest` tokens at token boundaries."""
    spans = list(spans)
    return [
        piece
        for at in range(0, len(spans), batch)
        for span, offsets in zip(spans[at : at + batch], _offsets(text, spans[at : at + batch], tokenizer), strict=True)
        for piece in _pieces(span, offsets, longest)
    ]


def _offsets(
    text: str, spans: Sequence[tuple[int, int]], tokenizer: PreTrainedTokenizerBase | PlainTokenizer
) -> list[list[tuple[int, int]]]:
    encoded = tokenizer(
        [text[start:end] for start, end in spans],
        add_special_tokens=False,
        return_offsets_mapping=True,
        split_special_tokens=True,  # chat template tokens in a document are plain text
        return_attention_mask=False,
        verbose=False,  # a sentence may be longer than the tokenizer's model could take
    )
    return encoded["offset_mapping"]


def _pieces(span: tuple[int, int], offsets: list[tuple[int, int]], longest: int) -> Iterator[Sentence]:
    start, end = span
    at, first = start, 0
    while len(offsets) - first > longest:
        cut = first + longest
        # A character may be several tokens: do not cut inside it. If all the tokens belong to one character, there is
        # no boundary, and they stay together.
        while cut > first + 1 and offsets[cut][0] < offsets[cut - 1][1]:
            cut -= 1
        if start + offsets[cut][0] <= at:
            break
        yield Sentence(at, start + offsets[cut][0], cut - first)
        at, first = start + offsets[cut][0], cut
    yield Sentence(at, end, len(offsets) - first)


def segment(
    sentences: Sequence[Sentence], embeddings: NDArray[np.float32], lower: int = LOWER, upper: int = UPPER
) -> list[Segment]:
    """Algorithm 1. `embeddings` are unit vectors, one per sentence, so the mean cosine is a dot product with the mean.

    The vector sums of the current segment and of the next pseudo segment slide along with the sentence: each vector is
    added once and subtracted once, so time is linear in the document.
    """
    if not sentences:
        return []
    segments: list[Segment] = []
    current = np.zeros(embeddings.shape[1])
    following = np.zeros(embeddings.shape[1])
    first, tokens = 0, 0  # the current segment: its first sentence, its length
    begin = end = following_tokens = 0  # the next pseudo segment: sentences begin to end
    for index, sentence in enumerate(sentences):
        # The next pseudo segment: the sentences after this one, until they reach `lower` tokens.
        if end <= index:
            begin = end = index + 1
            following[:], following_tokens = 0.0, 0
        while begin <= index:
            following -= embeddings[begin]
            following_tokens -= sentences[begin].tokens
            begin += 1
        while following_tokens < lower and end < len(sentences):
            following += embeddings[end]
            following_tokens += sentences[end].tokens
            end += 1

        if tokens and tokens + sentence.tokens > upper:
            close = True
        elif tokens < lower or begin == end:
            close = False
        else:
            to_current = embeddings[index] @ current / (index - first)
            to_following = embeddings[index] @ following / (end - begin)
            close = bool(to_following > to_current)
        if close:
            segments.append(_close(sentences, first, index, tokens))
            current[:], first, tokens = 0.0, index, 0
        current += embeddings[index]
        tokens += sentence.tokens
    segments.append(_close(sentences, first, len(sentences), tokens))
    return segments


def _close(sentences: Sequence[Sentence], first: int, last: int, tokens: int) -> Segment:
    return Segment(first, last, sentences[first].start, sentences[last - 1].end, tokens)
