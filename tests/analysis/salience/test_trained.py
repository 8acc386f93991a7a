"""An extractor in its file: saved, loaded, and refused if invalid; and the shipped one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience import trained
from awesum.analysis.salience.calibration import LENGTHS
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.choice import choose, predecessors, word_costs
from awesum.analysis.salience.extractor import Extractor, Inputs, Shape
from awesum.analysis.salience.features import DOCUMENT_NAMES, NAMES
from awesum.analysis.salience.ratings import Query, Ratings
from awesum.analysis.salience.trained import (
    ABOUT,
    SHIPPED,
    TOGETHER,
    Calibration,
    Mixture,
    TrainedSalience,
    to_ratings,
)
from awesum.analysis.salience.words import BUCKETS, Words, stem_ids
from awesum.analysis.sentences import sentence_spans
from awesum.errors import AwesumError
from awesum.weights import minilm_folder
from tests.analysis.salience.test_centrality import unit_vectors
from tests.conftest import topical_text

SAMPLE = Path(__file__).parents[3] / "samples" / "commercial-crew.txt"
TINY = Shape(stem=6, pair=4, size=8, heads=2, layers=1, inner=8, concept=3)
LEARNED = Calibration(Mixture(0.2, 0.4, 0.6, 0.1), Mixture(0.1, 0.2, 0.3, 0.4), length=0.9, redundant=0.7)


def salience(seed: int = 0) -> TrainedSalience:
    torch.manual_seed(seed)
    return TrainedSalience(Extractor(TINY), LEARNED)


def document(sentences: int) -> tuple[list[str], np.ndarray]:
    text = topical_text(sentences)
    texts = [text[start:end] for start, end in sentence_spans(text)]
    assert len(texts) == sentences
    return texts, unit_vectors(sentences, seed=1)


# ------------------------------------------------------------------------------------------------------------ the file


def test_saved_extractor_is_loaded_unchanged(tmp_path: Path) -> None:
    saved = salience()
    saved.save(tmp_path / "a.safetensors")
    read = TrainedSalience.load(tmp_path / "a.safetensors")
    assert (read.calibration, read.extractor.shape) == (LEARNED, TINY)
    texts, vectors = document(30)
    for query in (None, Query("Which crane?", vectors[3])):
        expected, found = saved.rate(texts, vectors, query), read.rate(texts, vectors, query)
        np.testing.assert_allclose(found.scores, expected.scores, atol=2e-3)  # weights in half precision
        np.testing.assert_allclose(found.coverage.weights, expected.coverage.weights, atol=2e-3)
        assert found.usual_words == pytest.approx(expected.usual_words, rel=0.01)
        assert expected.scores.std() > 0.05, "the tolerance is far below the differences between sentences"
    stored = load((tmp_path / "a.safetensors").read_bytes())
    assert {weight.dtype for weight in stored.values()} == {torch.float16}
    for name, weight in read.extractor.state_dict().items():
        assert weight.dtype == torch.float32
        assert torch.equal(weight, saved.extractor.state_dict()[name].half().float())
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"], "no temporary files are left"
    saved.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").stat().st_size == (tmp_path / "a.safetensors").stat().st_size


def test_same_extractor_is_the_same_file_each_time(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    files = set()
    for _ in range(12):  # safetensors writes its metadata in random order
        salience().save(path)
        files.add(path.read_bytes())
    assert len(files) == 1
    assert set(load(path.read_bytes())) == set(salience().extractor.state_dict())


def test_name_changes_with_weights_and_calibration(tmp_path: Path) -> None:
    others = [salience(), salience(), salience(seed=1), TrainedSalience(salience().extractor, Calibration())]
    names = []
    for number, one in enumerate(others):
        path = tmp_path / f"{number}.safetensors"
        one.save(path)
        names.append(TrainedSalience.load(path).name)
    assert names[0] == names[1], "not with the name of the file"
    assert len(set(names)) == 3


def changed(name: str, change: Callable[[dict[str, str]], object]) -> Callable[[bytes], bytes]:
    """A function that changes one entry of the metadata of a file."""

    def with_change(content: bytes) -> bytes:
        size = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + size])["__metadata__"]
        metadata[name] = json.dumps(change(json.loads(metadata[name])))
        return save(load(content), metadata)

    return with_change


OTHER_FEATURES = "trained with other features"
HARMS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda content: b"", "is not an extractor"),
    "text": (lambda content: b"The rocket report.", "is not an extractor"),
    "truncated": (lambda content: content[: len(content) // 2], "is not an extractor"),
    "truncated in its header": (lambda content: content[:100], "is not an extractor"),
    "weights of something else": (lambda content: save({"a": torch.zeros(2)}), "is not an extractor"),
    "weights of a library": (lambda content: save({"a": torch.zeros(2)}, {"format": "pt"}), "is not an extractor"),
    "other features": (changed("inputs", lambda inputs: [inputs[0], inputs[1][:-1], inputs[2]]), OTHER_FEATURES),
    "features in another order": (
        changed("inputs", lambda inputs: [*inputs[:1], inputs[1][::-1], inputs[2]]),
        OTHER_FEATURES,
    ),
    "other features of the document": (changed("inputs", lambda inputs: [*inputs[:2], inputs[2][1:]]), OTHER_FEATURES),
    "a smaller table": (changed("inputs", lambda inputs: [inputs[0] // 2, *inputs[1:]]), OTHER_FEATURES),
    "the format before": (
        lambda content: save(
            {"embed.weight": torch.zeros(8, 40)},
            {
                "shape": json.dumps(
                    {"vector": 384, "size": 192, "heads": 4, "layers": 1, "inner": 576, "dropout": 0.2}
                ),
                "calibration": json.dumps({"factor": 4.7, "power": 0.6, "longest": 4000.0, "redundant": 0.85}),
                "features": json.dumps(["words", "is_heading"]),
            },
        ),
        OTHER_FEATURES,
    ),
    "another shape": (changed("shape", lambda shape: shape | {"size": 16}), "is not an extractor"),
    "impossible shape": (changed("shape", lambda shape: shape | {"heads": 3}), "is not an extractor"),
    "shape in words": (changed("shape", lambda shape: shape | {"size": "eight"}), "is not an extractor"),
    "no mixture": (changed("calibration", lambda values: values | {"plain": None}), "is not an extractor"),
    "unknown mixture": (changed("calibration", lambda values: values | {"asked": {"moon": 1}}), "is not an extractor"),
    "calibration without a length": (
        changed("calibration", lambda values: {key: values[key] for key in values if key != "length"}),
        "is not an extractor",
    ),
    "unknown shape": (changed("shape", lambda shape: shape | {"rings": 16}), "is not an extractor"),
    "no shape": (changed("shape", lambda shape: None), "is not an extractor"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_invalid_extractor_file_is_refused_in_one_line(tmp_path: Path, harm: str) -> None:
    path = tmp_path / "a.safetensors"
    salience().save(path)
    change, reason = HARMS[harm]
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(AwesumError, match=reason) as error:
        TrainedSalience.load(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["nowhere.safetensors", "nowhere/a.safetensors", "."])
def test_missing_extractor_file_is_reported_in_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(AwesumError, match="is not an extractor") as error:
        TrainedSalience.load(tmp_path / name)
    assert "\n" not in str(error.value)


# -------------------------------------------------------------------------------------------------------------- scores


def test_query_changes_scores() -> None:
    texts, vectors = document(10)
    scorer = salience()
    plain, asked = scorer.rate(texts, vectors), scorer.rate(texts, vectors, Query("Which crane?", vectors[3]))
    assert not np.allclose(plain.scores, asked.scores, atol=1e-3)
    assert not np.allclose(plain.coverage.weights, asked.coverage.weights, atol=1e-3)


def test_vectors_of_any_encoder_will_do() -> None:
    texts, _ = document(8)
    for size in (3, 384):
        assert np.isfinite(salience().rate(texts, unit_vectors(8, 0, size=size)).scores).all()


def test_no_sentences_have_no_scores() -> None:
    assert salience().rate([], np.zeros((0, 5), dtype=np.float32)).scores.shape == (0,)


@pytest.mark.parametrize("count", [TOGETHER, TOGETHER + 1, 2 * TOGETHER + 3])
def test_long_document_is_read_in_chunks(count: int) -> None:
    scorer = salience()
    chunks = []
    scorer.extractor.context.register_forward_pre_hook(lambda _, inputs: chunks.append(inputs[0].shape[1]))
    ratings = scorer.rate([f"Sentence {number} is here. " for number in range(count)], unit_vectors(count, 0))
    assert ratings.scores.shape == (count,)
    assert np.isfinite(ratings.scores).all()
    assert sum(chunks) == count
    assert len(chunks) == -(-count // TOGETHER)
    assert max(chunks) <= TOGETHER


def test_features_of_a_chunk_are_computed_over_the_whole_document(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, vectors = document(40)
    scorer, seen = salience(), []
    scorer.extractor.register_forward_pre_hook(lambda _, inputs: seen.append(inputs))
    whole = scorer.rate(texts, vectors)
    monkeypatch.setattr(trained, "TOGETHER", 15)
    chunked = scorer.rate(texts, vectors)
    assert [together for _, together in seen] == [TOGETHER, 15]
    torch.testing.assert_close(seen[0][0].features, seen[1][0].features, rtol=0, atol=0)
    assert not np.allclose(whole.scores, chunked.scores)


FOREIGN = ["国会は予算案を可決した。", "Комитет принял решение о бюджете страны. ", "قررت اللجنة تأجيل الاجتماع. "]


def test_text_in_a_script_without_stems_is_rated_by_centrality() -> None:
    vectors = unit_vectors(3, 0)
    for query in (None, Query("Why?", vectors[1])):
        found, expected = salience().rate(FOREIGN, vectors, query), Centrality().rate(FOREIGN, vectors, query)
        np.testing.assert_array_equal(found.scores, expected.scores)
        assert (found.usual_words, found.coverage) == (expected.usual_words, None)
    mixed = [*FOREIGN, "The crane and the tide of the harbour were in the report of the pilot."]
    assert salience().rate(mixed, unit_vectors(4, 0)).coverage is not None


@pytest.mark.parametrize("text", ["word", "国会は予算案を可決した。", "\x00\x1b[31m", "1 2 3", "", "A b. C d.", "See."])
def test_any_sentence_is_rated_and_can_be_selected(text: str) -> None:
    vectors = unit_vectors(3, 0)
    for query in (None, Query("Which word?", vectors[0]), Query("国会？", vectors[0])):
        for count in (1, 3):
            ratings = salience().rate([text] * count, vectors[:count], query)
            assert ratings.scores.shape == (count,)
            assert np.isfinite(ratings.scores).all()
            assert np.isfinite(ratings.usual_words)
            chosen = choose(ratings, vectors[:count], [1.0] * count, 1)
            assert len(chosen) == 1


# ------------------------------------------------------------------------------------------- from estimates to ratings


def ratings_of(calibration: Calibration, texts: list[str], *, asked: bool = False) -> tuple[Ratings, Inputs, object]:
    network = salience().extractor
    question = "crane quay harbour"
    inputs = Inputs.of(
        Words.of(texts),
        np.array(word_costs(texts)) > 0,
        network.rarity.numpy(),
        stem_ids(question) if asked else None,
    )
    with torch.inference_mode():
        outputs = network(inputs)
    vectors = unit_vectors(len(texts), seed=2)
    query = Query(question, unit_vectors(1, seed=3)[0]) if asked else None
    return to_ratings(inputs, outputs, calibration, vectors, query), inputs, outputs


@pytest.mark.parametrize("asked", [False, True])
def test_ratings_are_the_mixture_of_the_estimates(asked: bool) -> None:
    texts, _ = document(30)
    ratings, inputs, outputs = ratings_of(LEARNED, texts, asked=asked)
    mixture = LEARNED.asked if asked else LEARNED.plain
    vectors, query = unit_vectors(30, seed=2), unit_vectors(1, seed=3)[0]
    central = Centrality().scores(vectors, Query("", query) if asked else None)
    expected = mixture.worth / (1 + np.exp(-outputs.scores[:, 3].double().numpy()))
    expected += mixture.central * (central - central.mean()) / central.std()
    if asked:
        shares = inputs.mentioned.numpy()
        assert (vectors @ query > ABOUT).any()
        assert len(set(shares)) > 1
        expected += mixture.query * (vectors @ query - ABOUT).clip(0)
        expected += mixture.mentioned * (shares - max(0.4, 0.75 * shares.max())).clip(0)
    np.testing.assert_allclose(ratings.scores, expected, atol=1e-5)
    weights = [
        *(mixture.stems / (1 + np.exp(-outputs.stems.double().numpy()))),
        *(mixture.pairs / (1 + np.exp(-outputs.pairs.double().numpy()))),
    ]
    np.testing.assert_allclose(ratings.coverage.weights, weights, atol=1e-5)
    assert ratings.redundant == LEARNED.redundant
    assert ratings.usual_words == pytest.approx(LEARNED.length * np.exp(outputs.length.item()), rel=1e-5)


def test_coverage_has_each_pair_of_concept_and_sentence_once() -> None:
    texts = ["The crane saw the crane at the quay. ", "The tide. ", "The crane and the tide and the quay. "]
    ratings, inputs, _ = ratings_of(LEARNED, texts)
    stems, pairs = inputs.concepts
    expected = {(place, owner) for place, owner in zip(stems.place.tolist(), stems.owner.tolist(), strict=True)}
    expected |= {
        (place + len(stems.rows), owner)
        for place, owner in zip(pairs.place.tolist(), pairs.owner.tolist(), strict=True)
    }
    found = [*zip(ratings.coverage.concepts.tolist(), ratings.coverage.sentences.tolist(), strict=True)]
    assert found == sorted(expected), "in order of concepts"
    assert len(stems.place) > len({*zip(stems.place.tolist(), stems.owner.tolist(), strict=True)}), "one has some twice"
    assert 1 not in ratings.coverage.sentences, "a sentence that may not be selected has no concepts"


def test_centrality_that_is_the_same_for_all_changes_nothing() -> None:
    texts, _ = document(3)
    network = salience().extractor
    inputs = Inputs.of(Words.of(texts), np.ones(3, dtype=bool), network.rarity.numpy())
    with torch.inference_mode():
        outputs = network(inputs)
    level = Calibration(plain=Mixture(central=5.0)), Calibration(plain=Mixture(central=0.0))
    # Of opposite vectors, and without the bonus of the opening, all are as central.
    vectors = np.zeros((3, 5), dtype=np.float32)
    one, other = (to_ratings(inputs, outputs, each, vectors) for each in level)
    spread = one.scores - other.scores
    assert np.isfinite(one.scores).all()
    np.testing.assert_allclose(spread.mean(), 0, atol=1e-4)


# --------------------------------------------------------------------------------------------------------- the shipped


@pytest.fixture(scope="module")
def shipped() -> TrainedSalience:
    return TrainedSalience.load()


@pytest.fixture(scope="module")
def sample() -> tuple[list[str], np.ndarray]:
    text = SAMPLE.read_text(encoding="utf-8")
    texts = [text[start:end] for start, end in sentence_spans(text)]
    return texts, SentenceEncoder.load(minilm_folder()).encode(texts)


def test_shipped_extractor_is_small_and_valid(shipped: TrainedSalience) -> None:
    assert SHIPPED.stat().st_size <= 8 * 2**20
    assert all(torch.isfinite(weight).all() for weight in shipped.extractor.state_dict().values())
    assert shipped.extractor.rarity.std() > 0.1, "it has counted words"
    assert 0 < shipped.calibration.redundant <= 1
    assert 0.5 <= shipped.calibration.length <= 1.5


def test_shipped_extractor_estimates_a_usual_length(
    shipped: TrainedSalience, sample: tuple[list[str], np.ndarray]
) -> None:
    texts, vectors = sample
    assert 200 < shipped.rate(texts, vectors).usual_words < 1000
    asked = shipped.rate(texts, vectors, Query("Why did the milestones slip?", vectors[0]))
    assert 20 < asked.usual_words < shipped.rate(texts, vectors).usual_words, "an answer is shorter than a summary"


def test_shipped_extractor_prefers_findings_to_boilerplate(
    shipped: TrainedSalience, sample: tuple[list[str], np.ndarray]
) -> None:
    """By what a word of each is worth if it is the first to be selected."""
    texts, vectors = sample
    ratings = shipped.rate(texts, vectors)
    assert np.isfinite(ratings.scores).all()
    assert ratings.coverage is not None
    costs = np.array(word_costs(texts))
    covered = np.bincount(ratings.coverage.sentences, ratings.coverage.weights[ratings.coverage.concepts], len(texts))
    worth = ratings.scores + covered / np.maximum(costs, 1)
    fit = [(text, own) for text, cost, own in zip(texts, costs, worth, strict=True) if cost]

    def rank(words: str) -> float:
        """The rank of the one sentence with these words: 0 for the lowest worth, 1 for the highest."""
        (own,) = [own for text, own in fit if words in text]
        return float(np.mean([other < own for _, other in fit]))

    for boilerplate in (
        "available at no charge",
        "If you or your staff have any questions",
        "We conducted this performance",
    ):
        assert rank(boilerplate) < 0.2
    for finding in ("milestones have slipped to January 2019", "has not fully shared with Congress"):
        assert rank(finding) > 0.9


def test_summary_by_the_shipped_extractor_stands_alone(
    shipped: TrainedSalience, sample: tuple[list[str], np.ndarray]
) -> None:
    texts, vectors = sample
    costs = word_costs(texts)
    before = predecessors(texts, costs)
    ratings = shipped.rate(texts, vectors)
    chosen = choose(ratings, vectors, costs, 200, before=before)
    assert abs(sum(costs[index] for index in chosen) - 200) <= 50
    assert all(before[index] < 0 or before[index] in chosen for index in chosen)
    longer = choose(ratings, vectors, costs, 2000, before=before)
    assert any(before[index] >= 0 for index in longer), "some bring another"


@pytest.mark.parametrize(
    "text", ["word", "国会は予算案を可決した。", "\x00\x1b[31m", "1 2 3", "The crane and the tide."]
)
def test_shipped_extractor_rates_any_sentence(shipped: TrainedSalience, text: str) -> None:
    vectors = unit_vectors(3, 0, size=384)
    for query in (None, Query("Which crane?", vectors[0])):
        for count in (1, 3):
            ratings = shipped.rate([text] * count, vectors[:count], query)
            assert np.isfinite(ratings.scores).all()
            assert np.isfinite(ratings.usual_words)


def test_ratings_are_the_same_while_another_thread_loads_a_model_in_another_dtype(shipped: TrainedSalience) -> None:
    """The library sets torch's default dtype for all threads while it loads a model."""
    texts, vectors = document(40)
    for query in (None, Query("Which crane?", vectors[0])):
        expected = shipped.rate(texts, vectors, query)
        before = torch.get_default_dtype()
        try:
            torch.set_default_dtype(torch.bfloat16)
            found = [shipped.rate(texts, vectors, query), TrainedSalience.load().rate(texts, vectors, query)]
        finally:
            torch.set_default_dtype(before)
        for ratings in found:
            np.testing.assert_array_equal(ratings.scores, expected.scores)
            np.testing.assert_array_equal(ratings.coverage.weights, expected.coverage.weights)
            assert ratings.usual_words == expected.usual_words


def test_shipped_extractor_has_the_current_features() -> None:
    from safetensors import safe_open

    with safe_open(SHIPPED, framework="pt") as file:
        assert json.loads(file.metadata()["inputs"]) == [BUCKETS, list(NAMES), list(DOCUMENT_NAMES), LENGTHS]
