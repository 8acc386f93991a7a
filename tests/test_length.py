from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awesum.errors import AwesumError
from awesum.length import Length, count_words


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("200w", Length(200, "w")),
        ("200", Length(200, "w")),
        ("200 words", Length(200, "w")),
        ("1 WORD", Length(1, "w")),
        ("12s", Length(12, "s")),
        ("1 sentence", Length(1, "s")),
        (" 5% ", Length(5, "%")),
        ("0.5%", Length(0.5, "%")),
        (" Auto", Length(0, "auto")),
        ("100%", Length(100, "%")),
    ],
)
def test_length_is_parsed(text: str, length: Length) -> None:
    assert Length.parse(text) == length


@pytest.mark.parametrize("text", ["0", "0w", "0%", "0s", "9999%", "100.1%", "abc", "", "w", "-5w", "5x", "1.5s", "5%w"])
def test_invalid_length_is_refused_in_one_line_with_an_example(text: str) -> None:
    with pytest.raises(AwesumError, match="for example") as error:
        Length.parse(text)
    assert "\n" not in str(error.value)


@given(st.integers(1, 10_000), st.sampled_from("ws"))
def test_length_prints_as_it_was_written(value: int, unit: str) -> None:
    assert str(Length.parse(f"{value}{unit}")) == f"{value}{unit}"
    assert str(Length.parse("auto")) == "auto"


@pytest.mark.parametrize(
    ("length", "amount"), [("200w", 200), ("12s", 12), ("5%", 50), ("100%", 1000), ("0.01%", 1), ("auto", 125)]
)
def test_amount_is_absolute_or_a_share_or_the_usual_length(length: str, amount: float) -> None:
    assert Length.parse(length).amount(1000, usual=125) == amount


def test_usual_length_is_at_least_a_word() -> None:
    assert Length.parse("auto").amount(0, usual=0.0) == 1


def test_only_sentences_are_counted_in_sentences() -> None:
    assert [Length.parse(text).in_sentences for text in ("12s", "12w", "12%", "auto")] == [True, False, False, False]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        (" \n\t ", 0),
        ("one", 1),
        ("One, two;  three\nfour.", 4),
        ("国会は予算案", 6),
        ("the 国会 sat", 4),
        ("한국어", 3),
        ("قررت اللجنة تأجيل", 3),
    ],
)
def test_words_are_separated_by_white_space_and_cjk_counts_by_character(text: str, words: int) -> None:
    assert count_words(text) == words


@given(st.text(max_size=60), st.text(max_size=60))
def test_words_of_two_texts_add_up(first: str, second: str) -> None:
    assert count_words(f"{first} {second}") == count_words(first) + count_words(second)
