"""Coverage, repetition and length against values worked out by hand."""

from __future__ import annotations

from math import isnan

import pytest

from awesum.errors import AwesumError
from awesum.metrics import METRICS, Sample, load, needs
from awesum.metrics.coverage import STRETCHES, Coverage, attributions
from awesum.metrics.length import LengthRatio
from awesum.metrics.repetition import Repetition
from tests.conftest import topical_text

DOCUMENT = topical_text(40)
MODEL_FREE = [name for name in METRICS if "model" not in needs(name)]
SENTENCES = DOCUMENT.replace("\n\n", " ").strip().split(". ")


# ------------------------------------------------------------------------------------------------------------- coverage


def test_a_sentence_of_the_document_is_found_where_it_stands() -> None:
    for place in (0, 13, 39):
        ((sentence, position),) = attributions(SENTENCES[place].rstrip(".") + ".", DOCUMENT)
        assert sentence.startswith(SENTENCES[place][:30])
        assert position == pytest.approx((place + 0.5) / 40, abs=0.02)


def test_a_sentence_of_elsewhere_draws_on_nothing() -> None:
    assert attributions("Whales sing beneath cold northern waves every winter.", DOCUMENT) == [
        ("Whales sing beneath cold northern waves every winter.", None)
    ]


def test_the_whole_document_covers_all_of_it_and_its_beginning_only_that() -> None:
    assert Coverage().measure(Sample(DOCUMENT, (), DOCUMENT)) == {"coverage": 1.0, "attributed": 1.0}
    lead = ". ".join(SENTENCES[:10]) + "."
    found = Coverage().measure(Sample(lead, (), DOCUMENT))
    assert found["attributed"] == 1
    assert found["coverage"] == pytest.approx(0.25, abs=1 / STRETCHES)


def test_half_of_a_summary_is_made_up() -> None:
    summary = f"{SENTENCES[3]}. Whales sing beneath cold northern waves every winter."
    assert Coverage().measure(Sample(summary, (), DOCUMENT)) == {"coverage": 1 / STRETCHES, "attributed": 0.5}


def test_a_document_of_few_sentences_has_as_many_stretches() -> None:
    document = "The crew docked at noon. The budget was cut by half. Apples were sold."
    assert Coverage().measure(Sample("The budget was cut by half.", (), document))["coverage"] == pytest.approx(1 / 3)


def test_a_short_document_is_covered_by_itself_whatever_its_sentences_are() -> None:
    document = "Yes. No. " + " ".join(f"word{number}" for number in range(60)) + "."
    assert Coverage().measure(Sample(document, (), document))["coverage"] == 1


def test_what_is_shared_is_averaged_over_words_and_pairs() -> None:
    """Four of six words are there but only one of five pairs: (4/6 + 1/5) / 2 is enough; two and none are not."""
    document = "The crew docked late. Noon was the hour when budgets shrank."
    ((_, near),) = attributions("The crew hour budgets xylophone zebra.", "The crew hour went budgets up.")
    ((_, far),) = attributions("Zebra the xylophone crew quartz vortex.", document)
    assert near is not None
    assert far is None


@pytest.mark.parametrize("document", ["", "国会は予算案を可決した。", "...", "1"])
def test_documents_without_words_are_drawn_on_by_nothing(document: str) -> None:
    assert Coverage().measure(Sample("The crew docked.", (), document)) == {"coverage": 0.0, "attributed": 0.0}


# ----------------------------------------------------------------------------------------------------------- repetition


def test_repetition_by_hand() -> None:
    # a b c d a b c: runs abc bcd cda dab abc: one of five was there before.
    assert Repetition().measure(Sample("alpha beta gamma delta alpha beta gamma"))["repetition"] == pytest.approx(0.2)


def test_repetition_is_of_stems_and_none_in_a_plain_text() -> None:
    assert Repetition().measure(Sample("The reports cost money. The report costs money."))["repetition"] > 0
    assert Repetition().measure(Sample("alpha beta gamma delta epsilon zeta"))["repetition"] == 0
    text = topical_text(5)
    assert Repetition().measure(Sample(text + text))["repetition"] >= 0.49


def test_a_summary_of_two_words_cannot_repeat() -> None:
    assert isnan(Repetition().measure(Sample("Two words."))["repetition"])


# --------------------------------------------------------------------------------------------------------------- length


def test_length_by_hand() -> None:
    assert LengthRatio().measure(Sample("one two three", ("one two", "one two three four five six")))[
        "length-ratio"
    ] == pytest.approx((1.5 + 0.5) / 2)


# --------------------------------------------------------------------------------------------------------- all measures


@pytest.mark.parametrize("name", MODEL_FREE)
def test_every_measure_keeps_to_its_protocol(name: str) -> None:
    metric = load(name)
    assert metric.name == name
    for prediction in (topical_text(8), "One.", "国会は予算案を可決した。"):
        found = metric.measure(Sample(prediction, (topical_text(9, 1),), DOCUMENT))
        assert list(found) == [score.name for score in metric.scores]
        for score in metric.scores:
            assert isnan(found[score.name]) or score.low <= found[score.name] <= score.high
            assert score.settings
            assert score.better in ("higher", "lower", "neither")


def test_names_of_scores_are_their_own() -> None:
    names = [score.name for name in MODEL_FREE for score in load(name).scores]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("wrong", "meant"), [("rogue", "rouge"), ("entity_graph", "entity-graph"), ("SummaC", "summac")]
)
def test_an_unknown_measure_is_refused_with_the_near_miss(wrong: str, meant: str) -> None:
    with pytest.raises(AwesumError, match=f"there is no measure '{wrong}': did you mean '{meant}'"):
        load(wrong)


def test_an_unknown_measure_that_is_near_nothing_is_told_what_there_is() -> None:
    with pytest.raises(AwesumError, match=r"^there is no measure 'xyzzy': There are rouge, entity-precision"):
        load("xyzzy")
