"""Targets, fast against slow, and an invariant for any summary: every sentence is assigned exactly once."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from awesum.analysis.sentences import sentence_spans
from awesum.document import Segment
from awesum.scoring.targets import assign, nearest
from tests.conftest import OTHER_SCRIPTS, topical_text
from tests.reference import targets as reference

WORDS = st.lists(st.sampled_from(["tax", "taxes", "bond", "bonds", "the", "tide", "国会", "—", "1999"]), max_size=12)
TEXTS = WORDS.map(" ".join) | st.text(max_size=40)
PIECES = ["The tax rose. ", "A bond!\n", "— ", "国会は予算案を可決した。", "No\n\n", " "]
SUMMARIES = st.lists(st.sampled_from(PIECES)).map("".join) | st.text(max_size=300)


def segments_of(text: str, sentences: int) -> list[Segment]:
    """Segments of `sentences` sentences each; their tokens do not matter here."""
    spans = sentence_spans(text)
    runs = [spans[at : at + sentences] for at in range(0, len(spans), sentences)]
    return [Segment(at * sentences, at * sentences + len(run), run[0][0], run[-1][1], 0) for at, run in enumerate(runs)]


def summary_of(text: str, seed: int, sentences: int = 12) -> str:
    """Sentences of the text in random order, each without some of its words."""
    chance = random.Random(seed)
    picked = chance.sample(sentence_spans(text), sentences)
    written = []
    for start, end in picked:
        words = [word for word in text[start:end].rstrip(" .\n").split() if chance.random() < 0.6]
        written.append(" ".join(["Then", *words]) + ".")
    return " ".join(written)


@given(sentences=st.lists(TEXTS, max_size=8), texts=st.lists(TEXTS, min_size=1, max_size=8))
@example(sentences=["tax bond", "tide"], texts=["bond tax", "the tax bond", "tax bond tax"])
@example(sentences=["tax"] * 3, texts=["tax", "tax"])
@example(sentences=["tax"] * 3, texts=[""] * 5)
def test_every_sentence_is_assigned_as_by_the_slow_version(sentences: list[str], texts: list[str]) -> None:
    assert nearest(sentences, texts) == reference.nearest(sentences, texts)


@pytest.mark.parametrize("seed", range(3))
def test_realistic_text_matches_the_slow_version(seed: int) -> None:
    text = topical_text(150, seed)
    segments = segments_of(text, 11)
    summary = summary_of(text, seed)
    sentences = [summary[start:end].strip() for start, end in sentence_spans(summary)]
    places = reference.nearest(sentences, [text[s.start : s.end] for s in segments])
    expected = [
        " ".join(sentence for sentence, place in zip(sentences, places, strict=True) if place == number)
        for number in range(len(segments))
    ]
    assert assign(summary, text, segments) == expected
    assert len(set(places)) > 3  # otherwise the test would prove little


@given(summary=SUMMARIES, document=st.text(min_size=1, max_size=200), sentences=st.integers(1, 3))
@example(summary="", document="One tax.", sentences=1)
@example(summary=" \n ", document="One tax.", sentences=1)
@example(summary=OTHER_SCRIPTS, document=OTHER_SCRIPTS, sentences=1)
@example(summary=topical_text(20), document=topical_text(90), sentences=7)
def test_every_sentence_is_assigned_exactly_once(summary: str, document: str, sentences: int) -> None:
    segments = segments_of(document, sentences)
    targets = assign(summary, document, segments)
    assert len(targets) == len(segments)
    whole = [summary[start:end].strip() for start, end in sentence_spans(summary)]
    # As multisets of words: the order within a target is tested elsewhere, and a sentence may be inside another.
    assert Counter(" ".join(targets).split()) == Counter(" ".join(whole).split())


@given(summary=SUMMARIES, document=st.text(max_size=100))
def test_single_segment_gets_the_whole_summary(summary: str, document: str) -> None:
    (target,) = assign(summary, document, [Segment(0, 1, 0, len(document), 0)])
    assert "".join(target.split()) == "".join(summary.split())  # scripts without spaces get one between sentences


def test_target_is_its_sentences_in_the_order_of_the_summary() -> None:
    document = "Taxes rose sharply. The pilot left the quay. Apples were pruned."
    summary = "Apples got pruned.\n\nThe tax rose.  A pilot left. It rose sharply."
    assert assign(summary, document, segments_of(document, 1)) == [
        "The tax rose. It rose sharply.",
        "A pilot left.",
        "Apples got pruned.",
    ]


def test_segment_without_summary_sentences_has_an_empty_target() -> None:
    document = "Taxes rose. The pilot left the quay. Apples were pruned."
    assert assign("The pilot left.", document, segments_of(document, 1)) == ["", "The pilot left.", ""]


def test_first_of_equal_segments_gets_the_sentence() -> None:
    assert nearest(["the tax"], ["the bond", "the tax", "the tax"]) == [1]


def test_words_count_by_their_stems() -> None:
    assert nearest(["pilots"], ["tides", "the piloting of vessels"]) == [1]


def test_word_pairs_count_in_addition_to_words() -> None:
    assert nearest(["blue sky over"], ["sky blue the over", "the blue sky over"]) == [1]


def test_sentences_without_a_shared_word_are_assigned_by_position() -> None:
    document = "国会は予算案を可決した。首相は会見で説明した。議会は休会した。"
    summary = "予算が通った。首相が話した。議会が終わった。"
    assert assign(summary, document, segments_of(document, 1)) == [
        "予算が通った。",
        "首相が話した。",
        "議会が終わった。",
    ]
    assert nearest(["予"] * 6, ["国"] * 3) == [0, 0, 1, 1, 2, 2]
    assert nearest(["予"] * 2, ["国"] * 5) == [0, 2]
    assert nearest(["tax", "予", "tax", "予"], ["tax", "the bond"]) == [0, 0, 0, 1]


def test_empty_summary_leaves_all_targets_empty() -> None:
    document = "Taxes rose. The pilot left."
    assert assign("", document, segments_of(document, 1)) == ["", ""]
    assert assign("", "", []) == []


def test_sentences_without_any_segment_are_refused() -> None:
    with pytest.raises(ValueError, match="no text"):
        assign("The tax rose.", "", [])
