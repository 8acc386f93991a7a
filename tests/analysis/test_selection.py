"""The selection: as much as was asked for, each sentence once, and every selected one in its segment's share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from awesum.analysis.analysis import Analysis, Analyst
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.choice import longest_share
from awesum.analysis.salience.ratings import Query, Ratings, usual_words
from awesum.analysis.segmentation import Limits
from awesum.analysis.selection import SALIENT_SHARE, within
from awesum.document import Document
from awesum.length import Length, count_words
from tests.conftest import topical_text


class First:
    """The first sentences are the most salient, and none repeats another."""

    name = "first"

    def own_vectors(self, texts: Sequence[str]) -> None:
        return None

    def rate(self, texts: Sequence[str], vectors: NDArray[np.float32], query: Query | None = None) -> Ratings:
        usual = usual_words(sum(map(count_words, texts)))
        return Ratings(-np.arange(len(texts), dtype=np.float32), usual, redundant=1.1)


@pytest.fixture(scope="module")
def analysis(tiny_encoder: SentenceEncoder, tiny_tokenizer: PreTrainedTokenizerFast) -> Analysis:
    text = "A heading\n\n" + topical_text(160, seed=4)
    analyst = Analyst(tiny_encoder, First())
    return analyst.analyse(
        Document(text), tokenizer=tiny_tokenizer, limits=Limits(128, 192), length=Length.parse("200w")
    )


@given(st.integers(1, 40), st.booleans())
def test_as_many_sentences_as_were_asked_for(analysis: Analysis, count: int, spread: bool) -> None:
    found = analysis.with_length(Length.parse(f"{count}s"), spread=spread).selection
    assert len(found.selected) == count == found.amount
    assert set(found.costs) == {0.0, 1.0}


@given(st.integers(10, 900), st.booleans())
def test_about_as_many_words_as_were_asked_for(analysis: Analysis, words: int, spread: bool) -> None:
    found = analysis.with_length(Length.parse(f"{words}w"), spread=spread).selection
    assert found.amount == words
    taken = sum(count_words(analysis.texts[index]) for index in found.selected)
    assert taken == sum(found.costs[index] for index in found.selected)
    longest = max(map(count_words, analysis.texts))
    assert abs(taken - words) <= longest


@given(st.sampled_from(["40w", "300w", "900w", "5s", "30s", "10%", "auto", "9999w"]), st.booleans())
def test_shares_are_the_selection_divided(analysis: Analysis, length: str, spread: bool) -> None:
    found = analysis.with_length(Length.parse(length), spread=spread).selection
    assert list(found.selected) == sorted(set(found.selected))
    assert [index for share in found.shares for index in share] == list(found.selected)
    assert len(found.shares) == len(analysis.segments)
    for number, (share, segment) in enumerate(zip(found.shares, analysis.segments, strict=True)):
        assert list(share) == within(found.selected, segment)
        assert all(segment.first <= index < segment.last for index in share)
        assert found.budget(number) == sum(found.costs[index] for index in share)
    if not found.is_whole:
        assert 0 not in found.selected, "a heading is not a sentence of a summary"


def test_spread_selection_gives_no_segment_too_much(analysis: Analysis) -> None:
    for words in (150, 400, 900):
        length = Length.parse(f"{words}w")
        spread = analysis.with_length(length, spread=True).selection
        most = longest_share(words, len(analysis.segments))
        for number, share in enumerate(spread.shares):
            assert spread.budget(number) <= most or len(share) == 1
    free = analysis.with_length(Length.parse("400w"), spread=False).selection
    spread = analysis.with_length(Length.parse("400w"), spread=True).selection
    assert free.selected != spread.selected, "a limit that changes nothing would test nothing"


def test_document_that_is_no_longer_than_its_summary_is_selected_whole(analysis: Analysis) -> None:
    words = count_words(analysis.document.text)
    whole = analysis.with_length(Length.parse(f"{words}w"), spread=True).selection
    assert whole.is_whole
    assert list(whole.selected) == list(range(len(analysis.sentences)))
    assert not analysis.with_length(Length.parse(f"{words - 1}w"), spread=True).selection.is_whole


def test_salient_tenth_does_not_depend_on_the_length(analysis: Analysis) -> None:
    short, long = (analysis.with_length(Length.parse(length), spread=True) for length in ("20w", "800w"))
    assert short.salient == long.salient == analysis.salient
    tokens = sum(analysis.sentences[index].tokens for index in analysis.salient)
    longest = max(sentence.tokens for sentence in analysis.sentences)
    assert abs(tokens - SALIENT_SHARE * analysis.tokens) <= longest


def test_query_changes_what_is_salient(tiny_encoder: SentenceEncoder, tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    analyst = Analyst(tiny_encoder, Centrality())
    document = Document(topical_text(70))
    found = [
        analyst.analyse(document, tokenizer=tiny_tokenizer, limits=Limits(), length=Length.parse("4s"), query=query)
        for query in (None, "nurse vaccine clinic surgery fever")
    ]
    clinic = [sum("clinic" in each.texts[index] for index in each.selection.selected) for each in found]
    assert clinic[1] > clinic[0]
