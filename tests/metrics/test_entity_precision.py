"""Entity precision: values computed by hand, and fast matching against the definition."""

from __future__ import annotations

from math import isnan

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from awesum.metrics.entity_precision import EntityPrecision, entities, matches
from awesum.metrics.metric import Sample
from tests.reference import entities as reference

WORDS = st.sampled_from(["US", "us", "The", "Who", "who", "Ohio", "of", "Ohioan", "and", "(NASA)"])


def precision(prediction: str, document: str) -> float:
    return EntityPrecision().measure(Sample(prediction, document=document))["entity-precision"]


def test_entities_are_the_words_of_each_mention() -> None:
    text = "John Smith met Mary Jones in Ohio on Monday. John Smith paid $5 to the European Union."
    assert entities(text) == [
        ("John", "Smith"),
        ("Mary", "Jones"),
        ("Ohio",),
        ("John", "Smith"),
        ("the", "European", "Union"),
    ]


@pytest.mark.parametrize(
    ("entity", "text", "expected"),
    [
        ("John Smith", "here john smith spoke", True),
        ("John Smith", "only smith spoke", True),  # a part of the name
        ("John Smith", "nobody spoke", False),
        ("the European Union", "the union of europeans", True),
        ("the European Union", "the end of the matter", False),  # a single stop word does not count
        ("The Who", "a concert of the who in ohio", True),  # two consecutive stop words do
        ("The Who", "who was the singer", False),
        ("The Who", "the\nwho", False),
        ("US", "in the house", True),  # in capitals not a stop word, and matched as a substring
        ("us", "in the house", False),
        ("the US", "in the house", True),
        ("Us", "in the house", False),
        ("Ohio", "ohioans voted", True),  # a substring
        ("Ohioans", "ohio voted", False),
        ("A. B. (Inc.)", "c. (inc.) d.", True),  # punctuation is matched literally
        ("", "text", False),
        ("Ohio", "", False),
    ],
)
def test_matching_by_hand(entity: str, text: str, expected: bool) -> None:
    assert matches(entity.split(), text) is expected
    assert reference.matches(entity.split(), text) is expected


@given(entity=st.lists(WORDS, max_size=5), text=st.lists(WORDS, max_size=8).map(" ".join))
@example(entity=["The", "Who", "of"], text="Ohio the who and")
@example(entity=["of", "The", "Who"], text="and of the Ohio")
def test_pairs_and_words_are_enough_for_matching(entity: list[str], text: str) -> None:
    assert matches(entity, text.lower()) == reference.matches(entity, text.lower())


def test_precision_is_the_share_of_mentions_found_in_the_document() -> None:
    prediction = "John Smith met Mary Jones in Ohio. John Smith left Paris."
    assert entities(prediction) == [("John", "Smith"), ("Mary", "Jones"), ("Ohio",), ("John", "Smith"), ("Paris",)]
    assert precision(prediction, "Mr. SMITH went to OHIO.") == pytest.approx(3 / 5)  # Smith counts twice
    assert precision(prediction, "Nothing of the kind.") == 0.0
    assert precision(prediction, prediction) == 1.0
    assert precision(prediction, "") == 0.0


def test_summary_without_names_has_no_precision() -> None:
    assert isnan(precision("It rained for three days, and nobody came.", "It rained."))


def test_dates_and_amounts_are_ignored() -> None:
    assert precision("Ohio paid $5 million on Monday.", "Ohio paid.") == 1.0


def test_declared_score_is_the_one_computed() -> None:
    metric = EntityPrecision()
    assert [score.name for score in metric.scores] == list(metric.measure(Sample("Ohio won.", document="Ohio")))
    assert "mean of the ratios" in metric.scores[0].settings
