"""The oracle, fast against slow: the same sentences in the same order, and invariants for any document."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from awesum.analysis.sentences import sentence_spans
from awesum.scoring.oracle import greedy
from tests.conftest import OTHER_SCRIPTS, topical_text
from tests.reference import oracle as reference

SAMPLE = Path(__file__).parents[2] / "samples" / "commercial-crew.txt"

# Very few words, so that pairs repeat, within and across sentences, and many sentences are equally good.
SENTENCES = st.lists(st.sampled_from(["tax", "bond", "the", "Taxes", "—"]), max_size=6).map(" ".join)
SHORT_SENTENCES = st.lists(st.sampled_from(["tax", "bond"]), min_size=1, max_size=2).map(" ".join)
DOCUMENTS = st.lists(SENTENCES, max_size=10) | st.lists(SHORT_SENTENCES, max_size=10)
SUMMARIES = st.lists(st.sampled_from(["tax", "bond", "the", "tide"]), max_size=20).map(" ".join)

WRITTEN = """NASA's Commercial Crew Program has awarded contracts to Boeing and SpaceX to develop crew transportation
systems that can carry astronauts to and from the International Space Station. Both contractors have delayed their test
flights several times. Before the first missions, the program must certify that each contractor meets its requirements
for human spaceflight, and it has not said how it will do so if delays continue. Since the Space Shuttle was retired,
NASA has bought seats on the Russian Soyuz; further delays could leave the station without access."""


@given(sentences=DOCUMENTS, summary=SUMMARIES)
@example(sentences=["the tax", "tide", "bond the", "tax bond"], summary="the tax bond the tide")
@example(sentences=["the", "—", "", "tax", "..."], summary="the tax")
@example(sentences=["the the", "tax the", "the tax bond"], summary="the tax tide the")  # one pair fewer than words
@example(sentences=["tax", "tax", "tax tax", "tax tax"], summary="tax tax tax")  # a pair inside and between
@example(sentences=["tax", "tax", "tax", "tax tax"], summary="tax tax tax")  # the same pair on both sides
@example(
    sentences=["the", "the", "the", "the tax", "bond"], summary="the the tide the tide tax"
)  # split, then rejoined
@example(sentences=["tax", "tax", "tax", "bond tax", "bond"], summary="tax tax tax bond")
@example(sentences=["bond tax", "tax", "bond", "bond", "bond", "the"], summary="tax bond tax the")
def test_random_documents_match_the_slow_version(sentences: list[str], summary: str) -> None:
    assert greedy(sentences, summary) == reference.greedy(sentences, summary)


@pytest.mark.parametrize("words", [["tax"], ["tax", "bond"], ["tax", "bond", "the"]], ids=len)
def test_many_small_documents_match_the_slow_version(words: list[str]) -> None:
    """The same pair within, across and split: one document in fifty would reveal a bug there."""
    chance = random.Random(0)
    for _ in range(400):
        longest = chance.choice([1, 2, 5])
        sentences = [" ".join(chance.choices(words, k=chance.randint(1, longest))) for _ in range(chance.randint(1, 8))]
        summary = " ".join(chance.choices([*words, "tide"], k=chance.randint(1, 18)))
        assert greedy(sentences, summary) == reference.greedy(sentences, summary), (sentences, summary)


@given(sentences=st.lists(st.text(max_size=20), max_size=6), summary=st.text(max_size=40))
def test_any_text_matches_the_slow_version(sentences: list[str], summary: str) -> None:
    assert greedy(sentences, summary) == reference.greedy(sentences, summary)


def real_sentences(count: int) -> list[str]:
    text = SAMPLE.read_text(encoding="utf-8")
    return [text[start:end] for start, end in sentence_spans(text)[:count]]


def shortened(sentences: list[str]) -> str:
    """Every ninth sentence without every fifth of its words."""
    return " ".join(word for text in sentences[::9] for at, word in enumerate(text.split()) if at % 5 != 2)


def test_real_report_matches_the_slow_version() -> None:
    sentences = real_sentences(80)
    chosen = greedy(sentences, WRITTEN)
    assert chosen == reference.greedy(sentences, WRITTEN)
    assert len(chosen) > 3  # otherwise the test would prove little


def test_summary_of_neighbouring_words_matches_the_slow_version() -> None:
    sentences = real_sentences(45)
    chosen = greedy(sentences, shortened(sentences))
    assert chosen == reference.greedy(sentences, shortened(sentences))
    assert chosen != sorted(chosen)
    assert len(chosen) > 3


@given(sentences=DOCUMENTS, summary=SUMMARIES)
@example(sentences=real_sentences(300), summary=WRITTEN)
@example(sentences=[topical_text(3, seed) for seed in range(60)], summary=topical_text(20, 99))
def test_each_choice_is_a_new_sentence_and_raises_the_score(sentences: list[str], summary: str) -> None:
    chosen = greedy(sentences, summary)
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= set(range(len(sentences)))
    scores = [reference.score(sentences, chosen[:count], summary) for count in range(len(chosen) + 1)]
    assert all(before < after for before, after in pairwise(scores))


@given(sentences=DOCUMENTS, summary=SUMMARIES)
def test_sentences_without_words_have_no_effect(sentences: list[str], summary: str) -> None:
    between = [text for sentence in sentences for text in (sentence, "— 国会 —", "")]
    assert greedy(between, summary) == [3 * number for number in greedy(sentences, summary)]


def test_summary_made_of_document_sentences_is_found_completely() -> None:
    sentences = [topical_text(1, seed) for seed in range(30)]
    summary = " ".join(sentences[number] for number in (3, 4, 17, 20))
    assert sorted(greedy(sentences, summary)) == [3, 4, 17, 20]


def test_pair_may_span_two_selected_sentences() -> None:
    assert greedy(["blue", "sky over harbours", "blue"], "blue sky over harbours") == [1, 0]
    assert greedy(["blue", "sky over harbours", "blue"], "sky over harbours blue") == [1, 2]


def test_sentence_that_splits_a_pair_of_the_summary_is_not_selected() -> None:
    assert sorted(greedy(["crane tide", "pilot", "quay berth"], "crane tide quay berth anchor pilot")) == [0, 2]
    assert sorted(greedy(["crane tide", "quay berth", "pilot"], "crane tide quay berth anchor pilot")) == [0, 1, 2]


def test_first_of_equal_sentences_is_selected() -> None:
    assert greedy(["the bond", "the tax", "the tax"], "the tax") == [1]


def test_words_count_by_their_stems() -> None:
    assert greedy(["tides", "the piloting"], "pilots") == [1]


@pytest.mark.parametrize(
    ("sentences", "summary"),
    [([], "the tax"), ([], ""), (["the tax"], ""), (["the tax"], "— 国会"), (["", "—"], "tax"), (["tide"], "tax")],
)
def test_nothing_is_selected_without_overlap(sentences: list[str], summary: str) -> None:
    assert greedy(sentences, summary) == []


def test_other_scripts_have_no_words() -> None:
    assert greedy([OTHER_SCRIPTS, "The tax."], OTHER_SCRIPTS + " tax") == [1]


def test_single_word_is_enough() -> None:
    assert greedy(["tax"], "tax") == [0]
    assert greedy(["tax", "bond"], "tax bond") == [0, 1]  # together they also share a pair


def test_importing_does_not_load_the_rouge_packages() -> None:
    code = "import sys, awesum.scoring.oracle; sys.exit('nltk' in sys.modules or 'rouge_score' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
