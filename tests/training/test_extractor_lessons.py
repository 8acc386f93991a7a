"""What an extractor is taught and calibrated on, against slow versions."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from rouge_score.rouge_scorer import RougeScorer

from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.choice import word_costs
from awesum.analysis.salience.extractor import Inputs, Outputs
from awesum.analysis.salience.ratings import REDUNDANT, Ratings
from awesum.analysis.salience.trained import Calibration, Mixture, TrainedSalience
from awesum.analysis.salience.words import stem_ids
from awesum.analysis.sentences import sentence_spans
from awesum.datasets import Example
from awesum.length import count_words
from awesum.training import extractor as training
from awesum.training.extractor import SCORE_WEIGHTS, Item, Lesson, _learn_length, calibrate, fit_line, to_item
from tests.reference import oracle as reference_oracle
from tests.reference import salience as reference
from tests.training.extracting import example, quality, untrained

# ------------------------------------------------------------------------------------------------------------- lessons

MIXED = Example(
    "1",
    "Fees of the port\n\nThe crane of the port was sold to the town. They sold it for a small sum of money. "
    "The fees of the port are in table 3. 国会は予算案を可決した。\n\nNobody saw the tide at the quay that day.",
    "The crane was sold to the town for money. Nobody saw the tide.",
    "Which crane was sold?",
)


@pytest.mark.parametrize("one", [MIXED, *(example(number) for number in range(3))], ids=lambda one: one.id)
def test_labels_match_a_slow_version(one: Example) -> None:
    lesson = Lesson.of(one)
    texts = [one.document[start:end] for start, end in sentence_spans(one.document)]
    costs = word_costs(texts)
    assert lesson.selectable.tolist() == [cost > 0 for cost in costs]
    assert lesson.length == count_words(one.summary)
    slow, (summary,) = reference.words(texts, 12), reference.words([one.summary], 12).stems
    assert lesson.summary.tolist() == summary
    chosen = reference_oracle.greedy(
        [text if cost else "" for text, cost in zip(texts, costs, strict=True)], one.summary
    )
    assert chosen
    in_pairs = [first * 2**32 + second for first, second in pairwise(summary)]
    for index, (stems, pairs) in enumerate(zip(slow.stems, slow.pairs, strict=True)):
        selected = float(index in chosen)
        of_stems = sum(stem in summary for stem in stems) / max(len(stems), 1)
        of_pairs = sum(pair in in_pairs for pair in pairs) / max(len(pairs), 1)
        worth = selected / 2 + min(1, of_stems / 2 + of_pairs) / 2
        np.testing.assert_allclose(lesson.labels[index], [selected, of_stems, of_pairs, worth], atol=1e-3)


def test_query_of_a_lesson_is_its_stems() -> None:
    assert Lesson.of(MIXED).query.tolist() == stem_ids("which crane was sold").tolist()
    assert Lesson.of(replace(MIXED, query=None)).query is None


def cross_entropy(logit: float, label: float) -> float:
    chance = 1 / (1 + np.exp(-logit))
    return float(-label * np.log(chance) - (1 - label) * np.log(1 - chance))


def test_loss_matches_a_slow_version() -> None:
    lesson, network = Lesson.of(MIXED), untrained().extractor
    inputs = Inputs.of(lesson.words, lesson.selectable, network.rarity.numpy(), lesson.query)
    with torch.inference_mode():
        outputs = network(inputs)
    texts = [MIXED.document[start:end] for start, end in sentence_spans(MIXED.document)]
    fit = np.flatnonzero(lesson.selectable).tolist()
    slow, (summary,) = reference.words(texts, 12), reference.words([MIXED.summary], 12).stems
    of_summary = [first * 2**32 + second for first, second in pairwise(summary)]
    expected = sum(
        weight * np.mean([cross_entropy(outputs.scores[at, number].item(), lesson.labels[at, number]) for at in fit])
        for number, weight in enumerate(SCORE_WEIGHTS)
    )
    kinds = ((slow.stems, summary, outputs.stems, 1.0), (slow.pairs, of_summary, outputs.pairs, 3.0))
    for own, known, logits, weight in kinds:
        concepts = sorted({concept for at in fit for concept in own[at]})
        labels = [float(concept in known) for concept in concepts]
        assert 0 < sum(labels) < len(labels)
        expected += weight * np.mean([cross_entropy(*one) for one in zip(logits.tolist(), labels, strict=True)])
    assert lesson.loss(outputs).item() == pytest.approx(expected, rel=1e-4)


def test_right_estimates_have_a_lower_loss() -> None:
    lesson = Lesson.of(MIXED)
    texts = [MIXED.document[start:end] for start, end in sentence_spans(MIXED.document)]
    slow, (summary,) = reference.words(texts, 12), reference.words([MIXED.summary], 12).stems
    of_summary = [first * 2**32 + second for first, second in pairwise(summary)]

    def estimates(own: list[list[int]], known: list[int]) -> torch.Tensor:
        concepts = sorted({concept for at in np.flatnonzero(lesson.selectable) for concept in own[at]})
        return torch.tensor([9.0 if concept in known else -9.0 for concept in concepts])

    right = Outputs(
        torch.logit(torch.from_numpy(lesson.labels).float(), 1e-4),
        estimates(slow.stems, summary),
        estimates(slow.pairs, of_summary),
        torch.zeros(1),
        torch.tensor(float(np.log(lesson.length))),
    )
    least = lesson.loss(right).item()
    for part in ("scores", "stems", "pairs"):
        assert lesson.loss(replace(right, **{part: -getattr(right, part)})).item() > least + 0.5
    assert lesson.loss(replace(right, length=right.length + 1)).item() == least, "the length is fitted afterwards"


def test_line_through_lengths_is_not_led_astray_by_outliers() -> None:
    chance = np.random.default_rng(0)
    inputs = chance.normal(size=(400, 3)) * [1, 5, 0.1]
    targets = inputs @ [0.5, -0.1, 2.0] + 6
    targets[::20] += 8
    weights, bias = fit_line(inputs, targets, ridge=1e-3)
    np.testing.assert_allclose(weights, [0.5, -0.1, 2.0], atol=0.1)
    assert bias == pytest.approx(6, abs=0.1)
    plain = np.linalg.lstsq(np.column_stack([inputs, np.ones(400)]), targets, rcond=None)[0]
    assert abs(plain[3] - 6) > 0.3, "least squares would be"


# --------------------------------------------------------------------------------------------------------------- items


@pytest.fixture(scope="module")
def items(tiny_encoder: SentenceEncoder) -> list[Item]:
    return [to_item(example(number), tiny_encoder) for number in range(100, 106)]


def test_item_is_the_document_with_its_white_space(tiny_encoder: SentenceEncoder) -> None:
    item = to_item(MIXED, tiny_encoder)
    assert "".join(item.texts) == MIXED.document
    np.testing.assert_array_equal(item.vectors, tiny_encoder.encode(item.texts))
    assert item.query.text == MIXED.query
    np.testing.assert_allclose(item.query.vector, tiny_encoder.encode([MIXED.query])[0], atol=1e-6)
    assert item.costs == word_costs(item.texts)
    assert item.length == 13
    assert to_item(replace(MIXED, query=None), tiny_encoder).query is None


def test_rouge_matches_the_package(items: list[Item], tiny_encoder: SentenceEncoder) -> None:
    scorer = RougeScorer(["rouge1", "rouge2"], use_stemmer=True)
    for number, item in enumerate([*items, to_item(MIXED, tiny_encoder)]):
        for chosen in ([], item.oracle, [0, 1 + number % 3, 4]):
            scores = scorer.score(item.summary, " ".join(item.texts[index] for index in chosen))
            assert item.rouge(chosen) == pytest.approx(scores["rouge1"].fmeasure + scores["rouge2"].fmeasure)


def test_choice_of_an_item_brings_what_a_sentence_needs(tiny_encoder: SentenceEncoder) -> None:
    item = to_item(MIXED, tiny_encoder)
    (needy,) = [index for index, text in enumerate(item.texts) if text.startswith("They")]
    scores = np.zeros(len(item.texts), dtype=np.float32)
    scores[needy] = 9
    assert item.choose(Ratings(scores, 10.0), 19) == [needy - 1, needy]


# --------------------------------------------------------------------------------------------------------- calibration


@pytest.fixture
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, values in {
        "WORTH": (0.0, 0.4),
        "STEMS": (0.0, 0.4),
        "PAIRS": (0.5,),
        "CENTRAL": (0.0, 0.2),
        "FACTORS": (0.05, 0.1, 0.3),
        "REDUNDANCIES": (0.2, 0.85, 1.0),
    }.items():
        monkeypatch.setattr(training, name, values)


def test_length_with_a_query_is_learned_apart(tiny_encoder: SentenceEncoder) -> None:
    """A longer document has a longer summary, but no longer answer: no single line could tell both."""
    extractor, question = untrained().extractor, "What of tax and pension?"
    plain = [replace(Lesson.of(example(number)), length=(20, 60, 180)[number % 3]) for number in range(60)]
    asked = [replace(Lesson.of(example(number, question)), length=9) for number in range(60)]

    def usual(number: int, query: str | None) -> float:
        item = to_item(example(number, query), tiny_encoder)
        return TrainedSalience(extractor).rate(item.texts, item.vectors, item.query).usual_words

    _learn_length(extractor, [*plain, *asked])
    assert usual(99, None) < 40 < 90 < usual(101, None)
    assert [usual(number, question) for number in (99, 100, 101)] == pytest.approx([9] * 3, rel=0.05)
    _learn_length(extractor, plain)
    assert usual(101, question) > 60, "without questions to learn from, they are like the rest"


@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("seed", [0, 1])
def test_calibration_is_the_best_of_the_candidates(items: list[Item], tiny_encoder: SentenceEncoder, seed: int) -> None:
    extractor = untrained(seed).extractor
    torch.nn.init.constant_(extractor.length.bias, 6.0)  # some hundred words: the candidates have to differ
    asked = [to_item(example(number, "What of tax and pension?"), tiny_encoder) for number in range(110, 113)]
    plain_items, folders = [items[:2], items[2:4]], [items[:2], [*items[2:4], *asked]]
    found = calibrate(extractor, folders)
    mixtures = [Mixture(*values) for values in product((0.0, 0.4), (0.0, 0.4), (0.5,), (0.0, 0.2))]
    assert found.plain in mixtures
    assert found.asked in mixtures

    def of(calibration: Calibration, some: list[list[Item]] = folders, *, own_length: bool = False) -> float:
        return quality(extractor, calibration, some, own_length=own_length)

    start = replace(found, redundant=REDUNDANT, length=1.0)
    assert of(start, plain_items) >= max(of(replace(start, plain=one), plain_items) for one in mixtures) - 1e-9
    assert of(start, [asked]) >= max(of(replace(start, asked=one), [asked]) for one in mixtures) - 1e-9
    start = replace(found, length=1.0)
    assert of(start) >= max(of(replace(start, redundant=cosine)) for cosine in (0.2, 0.85, 1.0)) - 1e-9
    lengths = [of(replace(found, length=factor), own_length=True) for factor in (0.05, 0.1, 0.3)]
    assert of(found, own_length=True) >= max(lengths) - 1e-9
    assert len({round(one, 9) for one in lengths}) > 1, "the candidates differ"


@pytest.mark.usefixtures("few_candidates")
def test_mixture_of_queries_stays_if_there_are_none(items: list[Item]) -> None:
    found = calibrate(untrained().extractor, [items[:2]])
    assert found.asked == Calibration().asked


@pytest.mark.usefixtures("few_candidates")
def test_each_folder_counts_equally(items: list[Item]) -> None:
    extractor = untrained().extractor
    first, second = items[:1], items[1:3]
    assert calibrate(extractor, [first * 5, second]) == calibrate(extractor, [first, second])
