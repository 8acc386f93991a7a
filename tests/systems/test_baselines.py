"""Systems without weights: the beginning of the document, and the upper bound of every extract."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awesum import Document, Settings, Summarizer, systems
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.trained import TrainedSalience
from awesum.analysis.sentences import sentence_spans
from awesum.errors import AwesumError
from awesum.length import count_words
from awesum.scoring.oracle import greedy
from awesum.summary import Summary
from awesum.systems.system import open_session
from tests.conftest import topical_text


@pytest.fixture(autouse=True)
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be loaded here."""

    def load(*args: object, **options: object) -> None:
        raise AssertionError("weights were loaded")

    monkeypatch.setattr(SentenceEncoder, "load", load)
    monkeypatch.setattr(TrainedSalience, "load", load)
    monkeypatch.setattr("awesum.loading.load_tokenizer", load)


def sentences_of(document: Document) -> list[str]:
    return [document.text[start:end].strip() for start, end in sentence_spans(document.text)]


def texts(summary: Summary) -> list[str]:
    return [sentence.text for part in summary.parts for sentence in part.sentences]


def lead(document: Document, length: str | int | None = None) -> Summary:
    return Summarizer(system="lead").summarize(document, length=length)


# --------------------------------------------------------------------------------------------------------------- lead


@pytest.mark.parametrize("count", [1, 2, 12])
def test_lead_is_the_first_sentences(count: int, short_document: Document) -> None:
    assert texts(lead(short_document, f"{count}s")) == sentences_of(short_document)[:count]


@given(st.integers(1, 900))
def test_lead_in_words_stops_where_it_comes_closest(words: int) -> None:
    document = Document(topical_text(70))
    taken = texts(lead(document, words))
    sentences = sentences_of(document)
    assert taken == sentences[: len(taken)]
    totals = list(accumulate(map(count_words, sentences)))
    assert abs(totals[len(taken) - 1] - words) == min(abs(total - words) for total in totals)


def test_lead_of_a_share_of_the_document(long_document: Document) -> None:
    summary = lead(long_document, "5%")
    assert count_words(summary.text) == pytest.approx(0.05 * count_words(long_document.text), abs=10)


def test_lead_has_two_hundred_words_unless_it_is_told(long_document: Document) -> None:
    assert lead(long_document).parts == lead(long_document, "200w").parts
    assert count_words(lead(long_document).text) == pytest.approx(200, abs=10)


def test_lead_holds_together(long_document: Document) -> None:
    summary = lead(long_document, "10%")
    text = long_document.text
    assert summary.complete
    assert summary.figures.tokens_read == summary.tokens == count_words(text), "its tokens are words"
    assert "".join(text[segment.start : segment.end] for segment in summary.segments) == text
    for part in summary.parts:
        for sentence in part.sentences:
            assert text[sentence.source.start : sentence.source.end] == sentence.text
            assert part.start <= sentence.source.start < sentence.source.end <= part.end


def test_lead_of_a_document_shorter_than_its_summary_is_all_of_it() -> None:
    document = Document(topical_text(4))
    assert texts(lead(document)) == sentences_of(document)
    assert lead(Document("Hello")).text == "Hello"


# ------------------------------------------------------------------------------------------------------------- oracle


def oracle(document: Document, reference: str | None, **settings: Any) -> Summary:
    system = systems.load("oracle")
    chosen = Settings(**settings)
    session = open_session(system, document, chosen, reference=reference)
    list(system.engine(chosen).run(session))
    return session.summary()


@pytest.mark.parametrize("seed", range(3))
def test_oracle_is_the_greedy_one(seed: int, long_document: Document) -> None:
    sentences = sentences_of(long_document)
    reference = " ".join(sentences[at] for at in (300 + seed, 7 * seed, 120)) + f" {topical_text(3, seed=seed)}"
    whole = [long_document.text[start:end] for start, end in sentence_spans(long_document.text)]
    chosen = sorted(greedy(whole, reference))
    assert len(chosen) > 1
    assert texts(oracle(long_document, reference)) == [sentences[index] for index in chosen]
    assert texts(oracle(long_document, reference, length="1s")) == [sentences[index] for index in chosen]


@pytest.mark.parametrize("reference", [None, ""])
def test_oracle_without_a_reference_says_so_in_one_line(reference: str | None, short_document: Document) -> None:
    with pytest.raises(AwesumError, match="reference") as error:
        oracle(short_document, reference)
    assert "\n" not in str(error.value)
    with pytest.raises(AwesumError, match="predict"):
        Summarizer(system="oracle").summarize(short_document)


def test_fingerprints_of_systems_without_weights_differ() -> None:
    assert systems.load("lead").fingerprint() == systems.load("lead").fingerprint()
    assert systems.load("lead").fingerprint() != systems.load("oracle").fingerprint()
