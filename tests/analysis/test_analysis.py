"""An analysis is a value: whole, the same for the same input, and no dearer than it has to be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from awesum.analysis.analysis import Analysis, Analyst
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.segmentation import LOWER, UPPER, Limits
from awesum.document import Document
from awesum.length import Length
from tests.conftest import OTHER_SCRIPTS, topical_text

QUERY = "nurse vaccine clinic surgery fever"


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that any encoder encodes."""
    seen: list[str] = []
    encode = SentenceEncoder.encode

    def noting(self: SentenceEncoder, texts: Sequence[str], *args: Any) -> Any:
        seen.extend(texts)
        return encode(self, texts, *args)

    monkeypatch.setattr(SentenceEncoder, "encode", noting)
    return seen


@pytest.fixture
def tokenizer(tiny_tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    return tiny_tokenizer


def analyse(analyst: Analyst, document: Document, tokenizer: PreTrainedTokenizerFast, **changes: Any) -> Analysis:
    options: dict[str, Any] = {"tokenizer": tokenizer, "limits": Limits(), "length": Length.parse("100w")}
    return analyst.analyse(document, **options | changes)


def assert_same(one: Analysis, other: Analysis) -> None:
    assert one.document == other.document
    assert list(one.sentences) == list(other.sentences)
    assert list(one.segments) == list(other.segments)
    assert np.array_equal(one.vectors, other.vectors)
    assert np.array_equal(one.ratings.scores, other.ratings.scores)
    assert one.ratings.usual_words == other.ratings.usual_words
    assert one.selection == other.selection
    assert one.salient == other.salient
    assert one.query == other.query


# ------------------------------------------------------------------------------------------------------------- length


@pytest.mark.parametrize("spread", [True, False])
@pytest.mark.parametrize("query", [None, QUERY])
@pytest.mark.parametrize("length", ["30w", "7s", "12%", "auto", "5000w"])
def test_other_length_is_as_if_it_were_analysed_anew(
    length: str,
    query: str | None,
    spread: bool,
    tiny_encoder: SentenceEncoder,
    short_document: Document,
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    one = analyse(Analyst(tiny_encoder, Centrality()), short_document, tokenizer, query=query)
    wanted = Length.parse(length)
    anew = analyse(
        Analyst(tiny_encoder, Centrality()), short_document, tokenizer, length=wanted, spread=spread, query=query
    )
    assert_same(one.with_length(wanted, spread=spread), anew)
    assert one.selection.length == Length.parse("100w"), "the first is what it was"


# -------------------------------------------------------------------------------------------------------- what it costs


def test_second_query_about_a_document_encodes_the_query_alone(
    analyst: Analyst, short_document: Document, tokenizer: PreTrainedTokenizerFast, encoded: list[str]
) -> None:
    first = analyse(analyst, short_document, tokenizer, query="Who broke the crane?")
    assert len(encoded) == len(first.sentences) + 1
    encoded.clear()
    second = analyse(analyst, short_document, tokenizer, query=QUERY)
    assert encoded == [QUERY]
    assert second.vectors is first.vectors
    assert not np.array_equal(second.ratings.scores, first.ratings.scores)
    encoded.clear()
    third = analyse(analyst, short_document, tokenizer, length=Length.parse("3s"))
    assert encoded == []
    assert third.query is None


def test_same_text_under_another_name_is_not_encoded_again(
    analyst: Analyst, short_document: Document, tokenizer: PreTrainedTokenizerFast, encoded: list[str]
) -> None:
    analyse(analyst, short_document, tokenizer)
    encoded.clear()
    again = analyse(analyst, Document(short_document.text, path="other.txt"), tokenizer)
    assert encoded == []
    assert again.document.path == "other.txt"


def test_another_document_or_other_limits_are_read_anew(
    analyst: Analyst, short_document: Document, tokenizer: PreTrainedTokenizerFast, tiny_encoder: SentenceEncoder
) -> None:
    other = Document(topical_text(40, seed=9))
    analyse(analyst, short_document, tokenizer)
    for document, limits in [(other, Limits()), (other, Limits(64, 96)), (short_document, Limits(64, 96))]:
        found = analyse(analyst, document, tokenizer, limits=limits)
        assert_same(found, analyse(Analyst(tiny_encoder, Centrality()), document, tokenizer, limits=limits))


def test_known_vectors_are_used_and_only_the_others_encoded(
    analyst: Analyst, short_document: Document, tokenizer: PreTrainedTokenizerFast, tiny_encoder: SentenceEncoder
) -> None:
    whole = analyse(Analyst(tiny_encoder, Centrality()), short_document, tokenizer)
    marked = np.zeros_like(whole.vectors[0])
    marked[0] = 1.0
    known = {whole.texts[3]: marked, "a sentence of another document": marked}
    found = analyse(analyst, short_document, tokenizer, known=known)
    assert np.array_equal(found.vectors[3], marked)
    others = [index for index in range(len(whole.texts)) if index != 3]
    assert np.allclose(found.vectors[others], whole.vectors[others], atol=1e-5)


def test_models_are_loaded_when_they_are_first_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(SentenceEncoder, "load", lambda folder: loaded.append("encoder"))
    monkeypatch.setattr("awesum.weights.minilm_folder", lambda: None)
    monkeypatch.setattr("awesum.analysis.salience.plain.PlainSalience.load", lambda: loaded.append("extractor"))
    analyst = Analyst()
    assert loaded == []
    analyst.load()
    analyst.load()
    assert loaded == ["encoder", "extractor"]


def test_progress_ends_at_all_tokens(
    analyst: Analyst, short_document: Document, tokenizer: PreTrainedTokenizerFast
) -> None:
    seen: list[tuple[str, int, int]] = []
    found = analyse(analyst, short_document, tokenizer, progress=lambda *step: seen.append(step))
    assert seen[0] == ("reading", 0, found.tokens)
    assert seen[-1] == ("reading", found.tokens, found.tokens)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


# ------------------------------------------------------------------------------------------------------ what it holds


@given(
    text=st.lists(
        st.sampled_from([*OTHER_SCRIPTS.split(), *topical_text(8).split(" "), "\n\n", "x" * 80, ". ", "<|im_end|>"]),
        min_size=1,
        max_size=120,
    ).map(" ".join),
    upper=st.integers(8, 96),
)
def test_sentences_and_segments_tile_the_text(
    text: str, upper: int, tiny_encoder: SentenceEncoder, tokenizer: PreTrainedTokenizerFast
) -> None:
    limits = Limits.up_to(upper)
    found = analyse(Analyst(tiny_encoder, Centrality()), Document(text), tokenizer, limits=limits)
    assert "".join(found.texts) == text
    assert "".join(text[segment.start : segment.end] for segment in found.segments) == text
    at = 0
    for segment in found.segments:
        assert segment.first == at < segment.last
        at = segment.last
        assert segment.tokens == sum(each.tokens for each in found.sentences[segment.first : segment.last])
        assert segment.tokens <= upper or segment.last - segment.first == 1
    assert at == len(found.sentences) == len(found.vectors) == len(found.ratings.scores)
    assert found.tokens == sum(segment.tokens for segment in found.segments)


def test_quotes_are_spans_of_the_text(
    analyst: Analyst, short_document: Document, tokenizer: PreTrainedTokenizerFast
) -> None:
    found = analyse(analyst, short_document, tokenizer)
    for index, text in enumerate(found.texts):
        quote = found.quote(index)
        assert quote.text == text.strip() == short_document.text[quote.start : quote.end]
        assert found.plain(index) == " ".join(text.split())
    for number, segment in enumerate(found.segments):
        assert found.segment_text(number) == short_document.text[segment.start : segment.end].strip()


def test_fingerprint_is_another_with_other_weights_or_another_extractor(
    analyst: Analyst, tiny_encoder: SentenceEncoder
) -> None:
    class Other(Centrality):
        name = "other"

    assert analyst.fingerprint() == Analyst(tiny_encoder, Centrality()).fingerprint()
    assert analyst.fingerprint() != Analyst(tiny_encoder, Other()).fingerprint()
    weight = next(tiny_encoder.model.parameters())
    before = analyst.fingerprint()
    weight.data.view(-1)[0] += 1
    try:
        assert analyst.fingerprint() != before
    finally:
        weight.data.view(-1)[0] -= 1
    assert analyst.fingerprint() == before


# ------------------------------------------------------------------------------------------------------------- limits


@given(st.integers(1, 5000))
def test_limits_are_the_paper_s_or_proportionally_less(longest: int) -> None:
    limits = Limits.up_to(longest)
    assert limits.upper == min(UPPER, longest)
    assert limits.lower <= limits.upper
    assert limits.lower == int(limits.upper * LOWER / UPPER)
    if longest >= UPPER:
        assert limits == Limits() == (LOWER, UPPER)
