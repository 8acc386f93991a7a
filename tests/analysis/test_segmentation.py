"""Algorithm 1, fast against slow, and an invariant for any text: every character is in exactly one segment."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from awesum.analysis.segmentation import measure, segment
from awesum.analysis.sentences import sentence_spans
from awesum.document import Sentence
from tests.reference import segmentation as reference

ANY_TEXT = st.text(max_size=400) | st.text(
    alphabet="ab .!?\n\t0123456789é。？国会予算👩‍👩‍👧‍👦🇫🇷قرار<|im_start|>", max_size=800
)


def sentences_of(lengths: list[int]) -> list[Sentence]:
    """Sentences that tile a text, with ten characters per token."""
    ends = np.cumsum([length * 10 for length in lengths]).tolist()
    return [Sentence(end - length * 10, end, length) for end, length in zip(ends, lengths, strict=True)]


def unit_vectors(count: int, seed: int, size: int = 6) -> np.ndarray:
    """Clustered around a few topics, so that similarity matters."""
    chance = np.random.default_rng(seed)
    topics = chance.normal(size=(3, size))
    vectors = topics[np.arange(count) // 4 % 3] + chance.normal(size=(count, size))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


LENGTHS = st.lists(st.integers(0, 30) | st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=60)


@given(lengths=LENGTHS, seed=st.integers(0, 2**32 - 1))
@example(lengths=[5] * 60, seed=1)
@example(lengths=[4] * 60, seed=2)  # four sentences are exactly the lower limit, six the upper
@example(lengths=[2, 4, 2] * 20, seed=3)
def test_sliding_sums_give_the_segments_of_algorithm_1(lengths: list[int], seed: int) -> None:
    vectors = unit_vectors(len(lengths), seed)
    fast = segment(sentences_of(lengths), vectors, lower=16, upper=24)
    slow = reference.segment(lengths, vectors, lower=16, upper=24)
    assert [list(range(s.first, s.last)) for s in fast] == slow


@given(lengths=LENGTHS, seed=st.integers(0, 2**32 - 1))
def test_every_sentence_is_in_one_segment_and_none_is_too_long(lengths: list[int], seed: int) -> None:
    sentences = sentences_of(lengths)
    segments = segment(sentences, unit_vectors(len(lengths), seed), lower=16, upper=24)
    assert [index for s in segments for index in range(s.first, s.last)] == list(range(len(lengths)))
    for s in segments:
        assert (s.start, s.end) == (sentences[s.first].start, sentences[s.last - 1].end)
        assert s.tokens == sum(lengths[s.first : s.last])
        counting = [length for length in lengths[s.first : s.last] if length]
        assert s.tokens <= 24 or len(counting) == 1


def test_segments_change_where_the_topic_changes() -> None:
    first, second = np.eye(2, dtype=np.float32)
    vectors = np.array([first] * 7 + [second] * 7)
    assert [(s.first, s.last) for s in segment(sentences_of([3] * 14), vectors, lower=15, upper=30)] == [
        (0, 7),
        (7, 14),
    ]


def test_segment_keeps_growing_to_the_upper_limit_without_a_change_of_topic() -> None:
    vectors = np.array([[1, 0]] * 20, dtype=np.float32)
    segments = segment(sentences_of([3] * 20), vectors, lower=15, upper=30)
    assert [s.tokens for s in segments] == [30, 30]


def test_no_sentences_make_no_segments() -> None:
    assert segment([], np.zeros((0, 4), dtype=np.float32)) == []


OVERLONG = {
    "words": "budget ledger " * 40,
    "one word": "x" * 300,
    "emoji": "👩‍👩‍👧‍👦🇫🇷" * 30,
    "chinese": "国会予算" * 50,
    "combining": "é́̀" * 60,
    "mixed": "国a👍 b" * 40,
    "spaces": " " * 200 + "end" + " " * 200,
}


@pytest.mark.parametrize("text", OVERLONG.values(), ids=OVERLONG)
@pytest.mark.parametrize("longest", [8, 16, 37])
def test_overlong_sentence_is_split_into_pieces_that_fit(
    text: str, longest: int, tiny_tokenizer: PreTrainedTokenizerFast
) -> None:
    pieces = measure(text, [(0, len(text))], tiny_tokenizer, longest)
    assert len(pieces) > 1
    assert "".join(text[piece.start : piece.end] for piece in pieces) == text
    assert all(piece.start < piece.end for piece in pieces)
    assert all(piece.tokens <= longest for piece in pieces)
    assert [piece.tokens for piece in pieces] == [len(tiny_tokenizer.tokenize(text[p.start : p.end])) for p in pieces]


def test_sentences_that_fit_keep_their_spans_and_get_their_own_count(tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    text = "One tax. Two bonds and a ledger. Three."
    spans = sentence_spans(text)
    for batch in (1, 2, 100):
        measured = measure(text, spans, tiny_tokenizer, batch=batch)
        assert [(s.start, s.end) for s in measured] == spans
        assert [s.tokens for s in measured] == [len(tiny_tokenizer.tokenize(text[a:b])) for a, b in spans]


def test_chat_template_tokens_in_a_document_are_measured_as_text(
    tiny_tokenizer: PreTrainedTokenizerFast,
) -> None:
    text = "<|im_end|>" * 20
    (measured,) = measure(text, [(0, len(text))], tiny_tokenizer, longest=10_000)
    as_text = tiny_tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert measured.tokens == len(as_text)


@given(text=ANY_TEXT, seed=st.integers(0, 99))
def test_every_character_of_any_text_is_in_exactly_one_segment(
    text: str, seed: int, tiny_tokenizer: PreTrainedTokenizerFast
) -> None:
    sentences = measure(text, sentence_spans(text), tiny_tokenizer, longest=24)
    segments = segment(sentences, unit_vectors(len(sentences), seed), lower=16, upper=24)
    assert "".join(text[s.start : s.end] for s in segments) == text
    assert all(a.end == b.start for a, b in pairwise(segments))
    assert all(s.start < s.end for s in segments)
    assert all(s.tokens <= 24 for s in segments)


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["a", "word ", "国"])
def test_line_of_ten_million_characters_is_split_into_segments(
    piece: str, tiny_tokenizer: PreTrainedTokenizerFast
) -> None:
    text = piece * (10_000_000 // len(piece))
    sentences = measure(text, sentence_spans(text), tiny_tokenizer, 768)
    segments = segment(sentences, unit_vectors(len(sentences), seed=0))
    assert [s.start for s in segments] == [0, *(s.end for s in segments[:-1])]
    assert segments[-1].end == len(text)
    assert max(s.tokens for s in segments) <= 768
