"""Statements that the verifier learns from: the true ones are true, the false ones differ in one thing."""

from __future__ import annotations

import pytest

from awesum.metrics.english import parser
from awesum.training.corruption import Corruptor, is_usable, text_of

TEXT = (
    "Anna Weber told the council on Monday that the plant should close in 2024 because repairs cost 3 million euros. "
    "The council, which met in Lindau, rejected the plan and approved a loan from the bank. "
    "However, prices have increased since 2015, and the bank did not lower its rates."
)


@pytest.fixture(scope="module")
def sentences() -> list:
    return [*parser()(TEXT).sents]


def made(sentences: list, seeds: int = 150) -> list:
    return [found for seed in range(seeds) for found in Corruptor(seed).statements(sentences)]


def test_every_kind_is_made_and_none_is_true_by_accident(sentences: list) -> None:
    found = made(sentences)
    kinds = {statement.kind for statement in found}
    assert kinds >= {"name or figure", "noun", "negation", "modality", "opposite", "figure", "fused clauses"}
    for statement in found:
        assert statement.false != statement.true
        assert statement.false.rstrip(".").lower() not in TEXT.lower()
        assert statement.true.endswith(".")
        assert statement.sources == tuple(sentence.text for sentence in sentences)


def test_true_statements_use_only_words_of_their_source_in_its_order(sentences: list) -> None:
    for statement in made(sentences):
        words = iter(TEXT.lower().replace(",", " ").replace(".", " ").split())
        said = statement.true.lower().replace(",", " ").replace(".", " ").split()
        assert all(word in words for word in said), statement.true  # `in` consumes: the order counts


def test_conditions_and_negations_are_never_left_out() -> None:
    text = "The council will not pay for the plant unless the bank lowers its rates before the end of the year."
    sentences = [*parser()(text).sents]
    for statement in made(sentences, 60):
        assert " not " in statement.true
        assert "unless the bank lowers" in statement.true


def test_a_predicate_is_taken_with_its_own_subject() -> None:
    text = "The council, which met in Lindau, rejected the plan and approved a loan from the bank."
    found = {statement.true for statement in made([*parser()(text).sents], 200)}
    assert any(
        true.startswith("The council") and "approved a loan" in true and "rejected" not in true for true in found
    )
    assert not any("bank approved" in true or "Lindau approved" in true for true in found)


def test_one_seed_gives_the_same_statements(sentences: list) -> None:
    assert [*Corruptor(5).statements(sentences, 3)] == [*Corruptor(5).statements(sentences, 3)]
    assert made(sentences, 5) != [found for seed in range(5, 10) for found in Corruptor(seed).statements(sentences)]


def test_summary_sentence_is_true_as_it_stands() -> None:
    text = "The bank lends 3 million euros to the city for ten years. The city borrows 3 million euros from the bank."
    source, told = parser()(text).sents
    for seed in range(20):
        for statement in Corruptor(seed).statements([source], summary=[told]):
            assert statement.sources == (source.text,)
            assert statement.true == told.text


@pytest.mark.parametrize("text", ["Table 3.", "12 34 56 78 90 12 34 56.", "A heading without a verb and a stop"])
def test_what_says_nothing_is_not_used(text: str) -> None:
    [sentence] = [*parser()(text).sents][:1]
    assert not is_usable(sentence)
    assert [*Corruptor().statements([sentence])] == []


def test_text_of_dropped_words_keeps_spaces_and_stops() -> None:
    [sentence] = parser()('She said "no" (twice), and left.').sents
    tokens = [token for token in sentence if token.text not in ('"', "no")]
    assert text_of(tokens) == "She said (twice), and left."
