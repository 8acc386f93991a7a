"""Figures, amounts and names that the source does not have are found."""

from __future__ import annotations

import pytest

from awesum.verify.facts import Facts

SOURCE = (
    "In 2015, NASA paid Boeing $4,200 million. The $1.5 rate rose by 12 percent, said Mr. O'Neil. "
    "In 3 decades both of the two agencies would double it."
)


@pytest.mark.parametrize(
    "sentence",
    [
        "It paid 4,200 million.",
        "The rate was 1.5.",
        "NASA paid Boeing in 2015.",
        "It rose by 12 percent.",
        "It rose.",
        "It rose by 12%.",
        "Two agencies doubled it over three decades.",
    ],
)
def test_sentence_whose_figures_and_names_are_in_the_source_is_supported(sentence: str) -> None:
    assert Facts(SOURCE).supports(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "It paid 4,300 million.",
        "It paid 200 million.",
        "The rate was 5.",
        "It rose by 1 percent.",
        "NASA paid in 2016.",
        "The agency paid Lockheed in 2015.",
        "It paid for two centuries.",
        "The rate rose by half.",
        "It paid billions.",
        "Seven agencies paid.",
    ],
)
def test_sentence_with_a_figure_or_name_of_its_own_is_not_supported(sentence: str) -> None:
    assert not Facts(SOURCE).supports(sentence)


def test_a_source_without_figures_supports_none() -> None:
    facts = Facts("The crane broke.")
    assert facts.supports("The crane broke.")
    assert not facts.supports("The crane broke in 2015.")
    assert not Facts("").supports("It paid 1.")
    assert Facts("").supports("It paid.")


GERMAN = (
    "Der Rat von Neustadt hat am Montag beschlossen, das alte Bad nicht zu sanieren. Anna Keller nannte das "
    "richtig. Die Kosten werden auf 21 Millionen Euro geschätzt, und das Land zahlt einen Teil an die EU."
)


def test_german_noun_is_no_name() -> None:
    assert Facts(GERMAN).supports("Der Rat sprach über die Finanzierung und das Gebäude.")
    assert not Facts(GERMAN).supports("Nach der Sitzung sprach Peter Roth.")
    assert not Facts(GERMAN).supports("Das Land zahlt einen Teil an die UNO.")


def test_names_in_other_alphabets_are_names() -> None:
    assert Facts("Совет города Москва решил.").supports("Вчера в город Москва приехали.")
    assert not Facts("Совет города Москва решил.").supports("Вчера в город Тверь приехали.")
