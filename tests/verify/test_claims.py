"""Exact checks: each claim of a statement is compared with the same claim of the source, not with the whole text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awesum.verify.claims import Agreement, agreement, has_all, nearest, tokens
from tests.conftest import topical_text

LOAN = (
    "The municipal bank has offered a loan of 10 million euros at 3.2 percent for 15 years.",
    "The offer is valid until 30 September.",
    "The board should approve Option B.",
    "Costs have increased since 2015, but Northwind did not raise its prices.",
    "Questions go to www.lindau.example.org or to Anna Weber.",
)


def agreed(statement: str, sources: tuple[str, ...] = LOAN) -> Agreement:
    return agreement([sources[index] for index in nearest(sources, statement)], statement)


@pytest.mark.parametrize(
    ("statement", "point"),
    [
        ("The bank offered a loan of 10 million euros for 30 years.", "figures"),
        ("The loan is for 12 years.", "figures"),
        ("The bank offered a loan of 10 billion euros.", "figures"),
        ("The bank offered 15 percent.", "figures"),
        ("Prices of Southwind did not rise.", "names"),
        ("Anna Huber answers questions.", "names"),
        ("Questions go to www.python.com.", "addresses"),
        ("Northwind did raise its prices since 2015.", "negation"),
        ("The bank has not offered a loan.", "negation"),
        ("The board has approved Option B.", "modality"),
        ("The bank may have offered a loan.", "modality"),
        ("Costs have decreased since 2015.", "direction"),
    ],
)
def test_claim_that_the_source_does_not_make_is_found(statement: str, point: str) -> None:
    assert getattr(agreed(statement), point) <= 0.5


@pytest.mark.parametrize(
    "statement",
    [
        "The bank offered a loan of 10 million euros for fifteen years.",
        "A loan of 10 million euros was offered at 3.2%.",
        "The offer is valid until 30 September.",
        "The board should approve Option B.",
        "Northwind didn't raise its prices.",
        "Costs increased.",
        "Anna Weber answers questions.",
        "Write to WWW.Lindau.example.org.",
    ],
)
def test_claim_that_the_source_makes_agrees(statement: str) -> None:
    found = agreed(statement)
    assert found.exact >= 0.6
    assert min(found.negation, found.modality, found.direction) >= 0.5


@given(st.integers(0, 10_000))
def test_sentence_agrees_with_itself_whatever_stands_around_it(seed: int) -> None:
    sentences = [f"{line.strip()}." for line in topical_text(6, seed=seed).split(".") if line.strip()]
    statement = sentences[seed % len(sentences)]
    assert sentences[nearest(sentences, statement)[0]] == statement
    assert agreement([statement], statement) == Agreement()
    assert has_all(sentences, statement)


@pytest.mark.parametrize(
    ("statement", "agrees"),
    [
        ("From 2013 to 2016, employment increased.", True),
        ("Employment increased from 23,344 to 29,215.", True),
        ("Employment fell from 2012 through 2018.", True),
        ("From 2013 to 2002, employment increased.", False),
        ("Employment increased from 29,215 to 23,344.", False),
    ],
)
def test_both_ends_of_a_range_belong_to_one_sentence_in_order(statement: str, agrees: bool) -> None:
    sources = [
        "From 2013 to 2016, employment increased by 25 percent, from 23,344 to 29,215.",
        "Since 2002, employment has fluctuated, but it increased from 2013 on.",
        "In fiscal years 2012-2018 employment fell.",
    ]
    assert (agreement(sources, statement).figures >= 0.6) is agrees


def test_nearest_adds_what_the_first_lacks_and_no_more() -> None:
    assert nearest(LOAN, "The bank offered a loan of 10 million euros until 30 September.") == [0, 1]
    assert nearest(LOAN, "The board should approve Option B.") == [2]
    assert nearest(LOAN, "Completely unrelated words.") == []
    assert nearest([], "Anything.") == []


def test_name_anywhere_in_the_source_counts_as_there() -> None:
    assert has_all(LOAN, "The bank of Anna Weber has offered 10 million euros.")
    assert not has_all(LOAN, "The bank of Anna Huber has offered 10 million euros.")
    assert not has_all([], "In 2015.")


@pytest.mark.parametrize(
    ("source", "statement"),
    [
        ("In Phase Two, 25 staff of the U.S. office left in May 2018.", "In phase two, twenty-five US staff left."),
        ("Congress passed it.", "Although Congress passed it, it failed."),
        ("See https://www.python.org/ and docs.python.org/3/ for more.", "See python.org and www.docs.python.org."),
        ("The 5 Republican senators left.", "Five Republican senators left."),
        ("It can’t be done.", "It cannot be done."),
    ],
)
def test_other_spellings_are_the_same(source: str, statement: str) -> None:
    assert has_all([source], statement)


@pytest.mark.parametrize(
    "statement", ["It rose by half.", "It rose twice in a decade.", "It cost billions.", "35 left."]
)
def test_invented_amount_is_missing(statement: str) -> None:
    assert not has_all(["It rose, and thirty-six left."], statement)


def test_month_is_no_modality() -> None:
    assert agreement(["It began in May 2018."], "It began in 2018.").modality == 1.0


def test_figures_are_one_whether_in_words_or_digits_with_or_without_commas() -> None:
    assert tokens("twelve thousand, 1,200 and 3.50").words == ("12", "thousand", "1200", "and", "3.50")


@pytest.mark.parametrize("text", ["", "   ", "...", "\x00", "🙂", "国会は予算案を可決した。", "a" * 10_000])
def test_any_text_has_an_agreement(text: str) -> None:
    assert all(0 <= value <= 1 for value in agreement([text], text).values())
    assert all(0 <= value <= 1 for value in agreement(["A source."], text).values())
    assert all(0 <= value <= 1 for value in agreement([], text).values())


def test_german_noun_is_no_name() -> None:
    source = ["Der Rat von Neustadt hat am Montag beschlossen, das Bad nicht zu sanieren, und Anna Keller ist dafür."]
    assert agreement(source, "Der Rat hat eine Entscheidung über das Bad getroffen.").names == 1
    assert agreement(source, "Der Rat und Peter Roth sind sich über das Bad einig.").names == 0
    assert has_all(source, "Der Rat hat eine Entscheidung über das Bad getroffen.")
    assert agreement(["The council of Newtown met."], "The council met in Oldtown.").names == 0
