"""What is kept of an answer. The request may be worded anew; it must go on carrying the query and the points."""

from __future__ import annotations

import pytest

from awesum.prompting import Said, ask, enough_sentences, enough_words, is_borne_out, tidy


def test_request_carries_the_points_and_the_query() -> None:
    request = ask(" Who paid? ", ["The crane\nbroke.", "The quay sank."])
    assert "The crane broke." in request
    assert "The quay sank." in request
    assert "Who paid?" in request
    assert "None" not in ask(None, ["The crane broke."])


def test_words_are_enough_near_the_number_and_when_another_sentence_has_begun() -> None:
    enough = enough_words(10)
    assert not enough("The crane broke. It")
    assert not enough("The crane broke and the quay sank into the harbour with")
    assert not enough("The crane broke and the quay sank into the harbour of 1.")
    assert enough("The crane broke and the quay sank into the harbour. It")


@pytest.mark.parametrize("abbreviation", ["Mr.", "Dr.", "No.", "version 1."])
def test_full_stop_of_an_abbreviation_ends_no_sentence(abbreviation: str) -> None:
    assert not enough_words(5)(f"The crane broke and the quay was sold to {abbreviation}")


def test_sentences_are_enough_when_there_are_so_many_whole_ones() -> None:
    enough = enough_sentences(2)
    assert not enough("The crane broke.")
    assert not enough("The crane broke. The quay")
    assert enough("The crane broke. The quay sank. So")


@pytest.mark.parametrize(
    ("answer", "sentences"),
    [
        ("The crane broke. The quay sank.", ["The crane broke.", "The quay sank."]),
        ("  The crane\n broke. ", ["The crane broke."]),
        ("- The crane broke.\n- The quay sank.", ["The crane broke.", "The quay sank."]),
        ("1. The crane broke.\n2) The quay sank.", ["The crane broke.", "The quay sank."]),
        ("**The crane** broke.", ["The crane broke."]),
        ("Here is a summary of the text: The crane broke.", ["The crane broke."]),
        ("Summary: The crane broke.", ["The crane broke."]),
        ("Key points: The crane broke.", ["The crane broke."]),
        ("The crane broke. The quay was never", ["The crane broke."]),
        ("予算案を可決した。首相は会見で説明した。", ["予算案を可決した。", "首相は会見で説明した。"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_answer_is_tidied_into_its_whole_sentences(answer: str, sentences: list[str]) -> None:
    assert tidy(answer) == sentences


def test_sentence_that_repeats_the_request_goes() -> None:
    request = ask("what was decided", ["The crane broke."])
    assert tidy(f"The crane broke. Grad B: So {request} The quay held.") == ["The crane broke.", "The quay held."]


def test_unfinished_sentence_stays_where_it_is_the_only_one_and_says_so() -> None:
    (only,) = tidy("The crane broke and the quay was never")
    assert only.startswith("The crane broke and the quay was never")
    assert only.endswith("…")


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
def test_sentence_whose_figures_and_names_stand_in_the_source_is_borne_out(sentence: str) -> None:
    assert is_borne_out(sentence, SOURCE)


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
def test_sentence_with_a_figure_or_name_of_its_own_is_not_borne_out(sentence: str) -> None:
    assert not is_borne_out(sentence, SOURCE)


def test_what_was_said_is_known_again() -> None:
    said = Said()
    sentence = "The department spent 12 million dollars on new cranes in the port."
    assert not said.repeats(sentence)
    said.add(sentence)
    assert said.repeats(sentence)
    assert said.repeats("In 2012, the department spent 12 Million dollars on new cranes.")
    assert not said.repeats("The department spent little, and the nurses of the old ward on the hill said so.")
    assert not said.repeats("Yes.")
    assert not said.repeats("")
