"""Coverage, repetition and length against values computed by hand; and what all metrics have in common."""

from __future__ import annotations

import subprocess
import sys
from math import isnan
from types import ModuleType

import pytest

from awesum.errors import AwesumError
from awesum.metrics import METRICS, Option, Sample, load, needs, options, parse_options
from awesum.metrics.coverage import STRETCHES, Coverage, attributions
from awesum.metrics.length import LengthRatio
from awesum.metrics.repetition import Repetition
from tests.conftest import topical_text

DOCUMENT = topical_text(40)
MODEL_FREE = [name for name in METRICS if "model" not in needs(name)]
SENTENCES = DOCUMENT.replace("\n\n", " ").strip().split(". ")


# ------------------------------------------------------------------------------------------------------------- coverage


def test_sentence_of_the_document_is_attributed_to_itself() -> None:
    for place in (0, 13, 39):
        ((sentence, position),) = attributions(SENTENCES[place].rstrip(".") + ".", DOCUMENT)
        assert sentence.startswith(SENTENCES[place][:30])
        assert position == pytest.approx((place + 0.5) / 40, abs=0.02)


def test_unrelated_sentence_has_no_source() -> None:
    assert attributions("Whales sing beneath cold northern waves every winter.", DOCUMENT) == [
        ("Whales sing beneath cold northern waves every winter.", None)
    ]


def test_whole_document_covers_everything_and_its_beginning_only_that() -> None:
    assert Coverage().measure(Sample(DOCUMENT, (), DOCUMENT)) == {"coverage": 1.0, "attributed": 1.0}
    lead = ". ".join(SENTENCES[:10]) + "."
    found = Coverage().measure(Sample(lead, (), DOCUMENT))
    assert found["attributed"] == 1
    assert found["coverage"] == pytest.approx(0.25, abs=1 / STRETCHES)


def test_half_of_the_summary_has_no_source() -> None:
    summary = f"{SENTENCES[3]}. Whales sing beneath cold northern waves every winter."
    assert Coverage().measure(Sample(summary, (), DOCUMENT)) == {"coverage": 1 / STRETCHES, "attributed": 0.5}


def test_short_document_has_one_stretch_per_sentence() -> None:
    document = "The crew docked at noon. The budget was cut by half. Apples were sold."
    assert Coverage().measure(Sample("The budget was cut by half.", (), document))["coverage"] == pytest.approx(1 / 3)


def test_short_document_covers_itself_whatever_its_sentences() -> None:
    document = "Yes. No. " + " ".join(f"word{number}" for number in range(60)) + "."
    assert Coverage().measure(Sample(document, (), document))["coverage"] == 1


def test_shares_of_words_and_pairs_are_averaged() -> None:
    """Four of six words but only one of five pairs are shared: (4/6 + 1/5) / 2 is enough; two and none are not."""
    document = "The crew docked late. Noon was the hour when budgets shrank."
    ((_, near),) = attributions("The crew hour budgets xylophone zebra.", "The crew hour went budgets up.")
    ((_, far),) = attributions("Zebra the xylophone crew quartz vortex.", document)
    assert near is not None
    assert far is None


@pytest.mark.parametrize("document", ["", "国会は予算案を可決した。", "...", "1"])
def test_document_without_words_has_no_coverage(document: str) -> None:
    assert Coverage().measure(Sample("The crew docked.", (), document)) == {"coverage": 0.0, "attributed": 0.0}


# ----------------------------------------------------------------------------------------------------------- repetition


def test_repetition_by_hand() -> None:
    # a b c d a b c: runs abc bcd cda dab abc: one of five occurs earlier.
    assert Repetition().measure(Sample("alpha beta gamma delta alpha beta gamma"))["repetition"] == pytest.approx(0.2)


def test_repetition_compares_stems_and_is_zero_without_repeats() -> None:
    assert Repetition().measure(Sample("The reports cost money. The report costs money."))["repetition"] > 0
    assert Repetition().measure(Sample("alpha beta gamma delta epsilon zeta"))["repetition"] == 0
    text = topical_text(5)
    assert Repetition().measure(Sample(text + text))["repetition"] >= 0.49


def test_summary_of_two_words_cannot_repeat_itself() -> None:
    assert isnan(Repetition().measure(Sample("Two words."))["repetition"])


# --------------------------------------------------------------------------------------------------------------- length


def test_length_by_hand() -> None:
    assert LengthRatio().measure(Sample("one two three", ("one two", "one two three four five six")))[
        "length-ratio"
    ] == pytest.approx((1.5 + 0.5) / 2)


# ---------------------------------------------------------------------------------------------------------- all metrics


@pytest.mark.parametrize("name", MODEL_FREE)
def test_every_metric_follows_the_protocol(name: str) -> None:
    metric = load(name)
    assert metric.name == name
    for prediction in (topical_text(8), "One.", "国会は予算案を可決した。"):
        found = metric.measure(Sample(prediction, (topical_text(9, 1),), DOCUMENT))
        assert list(found) == [score.name for score in metric.scores]
        for score in metric.scores:
            assert isnan(found[score.name]) or score.low <= found[score.name] <= score.high
            assert score.settings
            assert score.better in ("higher", "lower", "neither")


def test_names_of_scores_are_unique() -> None:
    names = [score.name for name in MODEL_FREE for score in load(name).scores]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("wrong", "meant"), [("rogue", "rouge"), ("entity_graph", "entity-graph"), ("SummaC", "summac")]
)
def test_unknown_metric_is_refused_with_the_near_miss(wrong: str, meant: str) -> None:
    with pytest.raises(AwesumError, match=f"there is no metric '{wrong}': did you mean '{meant}'"):
        load(wrong)


def test_unknown_metric_without_a_near_miss_is_refused_listing_all() -> None:
    with pytest.raises(AwesumError, match=r"^there is no metric 'xyzzy': choose from rouge, entity-precision"):
        load("xyzzy")


# -------------------------------------------------------------------------------------------------------------- options


def test_options_are_declared_by_the_metrics_with_a_model() -> None:
    declared = options()
    assert set(declared) == {name for name in METRICS if "model" in needs(name)}
    assert [option.flag for found in declared.values() for option in found] == [
        "--nli-model",
        "--premises",
        "--support-model",
        "--bert-model",
    ]
    for found in declared.values():
        assert [option.name for option in found if option.is_model] == ["model"]
        assert all(option.help and option.metavar for option in found)


def test_options_are_read_without_torch() -> None:
    heavy = ["torch", "transformers", "spacy", "rouge_score"]
    code = f"import sys; from awesum.metrics import options; options(); print(set({heavy}) & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


def test_flags_are_parsed_into_the_options_of_the_chosen_metrics() -> None:
    values = {"--nli-model": "some/nli", "--premises": None, "--bert-model": None}
    assert parse_options(values, ["rouge", "summac"]) == {"summac": {"model": "some/nli", "premises": 40}}
    assert parse_options(values | {"--premises": "all"}, ["summac"])["summac"]["premises"] is None
    assert parse_options(values | {"--premises": "7"}, ["summac"])["summac"]["premises"] == 7
    assert parse_options({"--bert-model": "some/bert"}, ["discoscore"]) == {"discoscore": {"model": "some/bert"}}
    assert parse_options({}, ["rouge"]) == {}


@pytest.mark.parametrize(
    ("values", "metrics", "message"),
    [
        ({}, ["summac"], "summac needs a model: name one with --nli-model (see --help)"),
        ({"--bert-model": None}, ["discoscore"], "discoscore needs a model: name one with --bert-model (see --help)"),
        ({"--nli-model": "x"}, [], "--nli-model is for summac, which was not chosen: add summac to --metrics"),
        ({"--premises": "5"}, ["rouge"], "--premises is for summac, which was not chosen: add summac to --metrics"),
        (
            {"--nli-model": "x", "--premises": "none"},
            ["summac"],
            "--premises must be a number of sentences or 'all', not 'none'",
        ),
        (
            {"--nli-model": "x", "--premises": "0"},
            ["summac"],
            "--premises must be a number of sentences or 'all', not '0'",
        ),
    ],
)
def test_missing_superfluous_and_invalid_options_are_refused(
    values: dict[str, str | None], metrics: list[str], message: str
) -> None:
    with pytest.raises(AwesumError) as error:
        parse_options(values, metrics)
    assert str(error.value) == message


def test_new_metric_is_one_module_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Judge:
        name = "judge"
        needs = frozenset({"document", "model"})
        options = (Option("model", "--judge-model", metavar="NAME", help="model for judge", is_model=True),)

        @classmethod
        def load(cls, model: str) -> str:
            return f"judge with {model}"

    module = ModuleType("awesum.metrics.judge")
    module.Judge = Judge  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(METRICS, "judge", "judge:Judge")
    assert options()["judge"] == Judge.options
    assert load("judge", **parse_options({"--judge-model": "x"}, ["judge"])["judge"]) == "judge with x"
