"""The budget: the parts together come to the length, and what one part took is made up for by the later ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from awesum.analysis.analysis import Analysis, Analyst
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.segmentation import Limits
from awesum.compose.budget import LEAST_PACE, MOST_PACE, Budget
from awesum.document import Document
from awesum.length import Length, count_words
from awesum.summary import Part, Quote, SummarySentence
from tests.conftest import topical_text


@pytest.fixture(scope="module")
def analysis(tiny_encoder: SentenceEncoder, tiny_tokenizer: PreTrainedTokenizerFast) -> Analysis:
    return Analyst(tiny_encoder, Centrality()).analyse(
        Document(topical_text(160, seed=4)),
        tokenizer=tiny_tokenizer,
        limits=Limits(128, 192),
        length=Length.parse("300w"),
    )


def part(number: int, *texts: str) -> Part:
    quote = Quote(0, 1, "T")
    sentences = [SummarySentence(text, quote, 1.0) for text in texts]
    return Part(" ".join(texts), number, 0, 1, [], [], sentences)


def of_words(number: int, words: int) -> Part:
    return part(number, " ".join(["word"] * words)) if words else part(number)


def with_length(analysis: Analysis, length: str) -> Budget:
    return Budget(analysis.with_length(Length.parse(length), spread=True))


@pytest.mark.parametrize("length", ["300w", "12s", "10%"])
def test_budgets_come_to_the_selection(length: str, analysis: Analysis) -> None:
    budget = with_length(analysis, length)
    selection = budget.analysis.selection
    numbers = range(len(analysis.segments))
    assert [budget.of(number) for number in numbers] == [selection.budget(number) for number in numbers]
    assert budget.up_to(numbers[-1]) == sum(budget.of(number) for number in numbers)
    assert budget.up_to(numbers[-1]) == pytest.approx(selection.amount, abs=20)
    assert [budget.up_to(number) - budget.up_to(number - 1) for number in numbers[1:]] == [
        budget.of(number) for number in numbers[1:]
    ]


def test_cost_is_in_the_unit_of_the_length(analysis: Analysis) -> None:
    words, sentences = with_length(analysis, "300w"), with_length(analysis, "12s")
    assert not words.in_sentences
    assert sentences.in_sentences
    assert words.cost("The crane broke.") == 3
    assert sentences.cost("The crane broke.") == 1
    parts = [part(0, "The crane broke.", "It sank."), part(2, "All slept.")]
    assert words.used(parts) == 7
    assert sentences.used(parts) == 3
    assert words.used([]) == sentences.used([]) == 0


@given(words=st.integers(0, 400), reached=st.integers(0, 8), later=st.integers(0, 50))
def test_pace_is_what_is_left_relative_to_what_should_follow(
    analysis: Analysis, words: int, reached: int, later: int
) -> None:
    budget = with_length(analysis, "300w")
    parts = [of_words(reached, words), of_words(reached + 1, later)]
    follows = sum(budget.of(number) for number in range(reached + 1, len(analysis.segments)))
    pace = budget.pace(parts, reached)
    assert LEAST_PACE <= pace <= MOST_PACE
    exact = (300 - words) / follows
    assert pace == (exact if LEAST_PACE <= exact <= MOST_PACE else LEAST_PACE if exact < LEAST_PACE else MOST_PACE)
    assert pace == budget.pace(parts[:1], reached), "parts after the one that was reached do not count"


def test_pace_of_sentences_is_always_the_same(analysis: Analysis) -> None:
    assert with_length(analysis, "12s").pace([of_words(0, 500)], 3) == 1.0


def test_draft_is_enough_when_it_fills_the_budget_at_the_pace(analysis: Analysis) -> None:
    budget = with_length(analysis, "300w")
    number = next(number for number in range(len(analysis.segments)) if budget.of(number) > 20)
    sentence = "The crane broke and the quay sank. "

    def words_until_enough(pace: float) -> int:
        enough = budget.enough(number, pace)
        return next(7 * count for count in range(1, 100) if enough(sentence * count + "It"))

    assert count_words(sentence) == 7
    at_all_paces = [words_until_enough(pace) for pace in (0.6, 1.0, 1.4)]
    assert at_all_paces == sorted(set(at_all_paces))
    assert at_all_paces[1] == pytest.approx(0.8 * budget.of(number), abs=7)

    in_sentences = with_length(analysis, "30s")
    number = next(number for number in range(len(analysis.segments)) if in_sentences.of(number) >= 2)
    enough = in_sentences.enough(number, 1.0)
    wanted = round(in_sentences.of(number))
    assert enough(sentence * wanted + "It")
    assert not enough(sentence * (wanted - 1) + "It")


def test_limit_in_tokens_is_more_than_what_is_paraphrased_and_fits_the_window(analysis: Analysis) -> None:
    budget = with_length(analysis, "600w")
    for number, share in enumerate(budget.analysis.selection.shares):
        tokens = sum(analysis.sentences[index].tokens for index in share)
        assert budget.token_limit(number, 100_000) > tokens
        for window in (128, 512, 2048):
            assert budget.token_limit(number, window) <= window // 5
