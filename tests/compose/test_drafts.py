"""What becomes of a draft: its sentences, when it is long enough, and whether it repeats what was said."""

from __future__ import annotations

import pytest

from awesum.compose.drafts import RepetitionFilter, enough_sentences, enough_words, finished, tidy
from awesum.compose.requests import paraphrase_request


def test_words_are_enough_near_the_number_and_when_another_sentence_has_begun() -> None:
    enough = enough_words(10)
    assert not enough("The crane broke. It")
    assert not enough("The crane broke and the quay sank into the harbour with")
    assert not enough("The crane broke and the quay sank into the harbour of 1.")
    assert enough("The crane broke and the quay sank into the harbour. It")


@pytest.mark.parametrize("abbreviation", ["Mr.", "Dr.", "No.", "version 1."])
def test_full_stop_of_an_abbreviation_ends_no_sentence(abbreviation: str) -> None:
    assert not enough_words(5)(f"The crane broke and the quay was sold to {abbreviation}")


def test_sentences_are_enough_when_that_many_are_finished() -> None:
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
    request = paraphrase_request("what was decided", ["The crane broke."])
    assert tidy(f"The crane broke. Grad B: So {request} The quay held.") == ["The crane broke.", "The quay held."]


def test_unfinished_sentence_stays_where_it_is_the_only_one_and_says_so() -> None:
    (only,) = tidy("The crane broke and the quay was never")
    assert only.startswith("The crane broke and the quay was never")
    assert only.endswith("…")


def test_what_was_said_is_known_again() -> None:
    said = RepetitionFilter()
    sentence = "The department spent 12 million dollars on new cranes in the port."
    assert not said.repeats(sentence)
    said.add(sentence)
    assert said.repeats(sentence)
    assert said.repeats("In 2012, the department spent 12 Million dollars on new cranes.")
    assert not said.repeats("The department spent little, and the nurses of the old ward on the hill said so.")
    assert not said.repeats("Yes.")
    assert not said.repeats("")


def test_sentence_is_finished_once_another_has_begun() -> None:
    assert finished("") == []
    assert finished("The crane broke.") == []
    assert [each.strip() for each in finished("The crane broke. The quay sank. It")] == [
        "The crane broke.",
        "The quay sank.",
    ]
