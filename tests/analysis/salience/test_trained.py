"""An extractor in its file: saved, loaded, and refused if invalid; and the shipped one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save

from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience import trained
from awesum.analysis.salience.choice import word_costs
from awesum.analysis.salience.extractor import Extractor, Shape
from awesum.analysis.salience.features import NAMES
from awesum.analysis.salience.trained import SHIPPED, TOGETHER, Calibration, TrainedSalience
from awesum.analysis.sentences import sentence_spans
from awesum.errors import AwesumError
from awesum.weights import minilm_folder
from tests.analysis.salience.test_centrality import unit_vectors
from tests.conftest import topical_text

SAMPLE = Path(__file__).parents[3] / "samples" / "commercial-crew.txt"
TINY = Shape(vector=5, size=8, heads=2, layers=1, inner=8)
LEARNED = Calibration(factor=3.0, power=0.5, longest=900.0, redundant=0.7)


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
    expected, found = saved.score(texts, vectors), read.score(texts, vectors)
    np.testing.assert_allclose(found, expected, atol=0.01)  # weights in half precision
    assert expected.std() > 0.05, "the tolerance is far below the differences between sentences"
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


HARMS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda content: b"", "is not an extractor"),
    "text": (lambda content: b"The rocket report.", "is not an extractor"),
    "truncated": (lambda content: content[: len(content) // 2], "is not an extractor"),
    "truncated in its header": (lambda content: content[:100], "is not an extractor"),
    "weights of something else": (lambda content: save({"a": torch.zeros(2)}), "is not an extractor"),
    "weights of a library": (lambda content: save({"a": torch.zeros(2)}, {"format": "pt"}), "is not an extractor"),
    "other features": (changed("features", lambda names: names[:-1]), "trained with other features"),
    "features in another order": (changed("features", lambda names: names[::-1]), "trained with other features"),
    "another shape": (changed("shape", lambda shape: shape | {"size": 16}), "is not an extractor"),
    "unknown shape": (changed("shape", lambda shape: shape | {"rings": 16}), "is not an extractor"),
    "no shape": (changed("shape", lambda shape: None), "is not an extractor"),
    "unknown calibration": (changed("calibration", lambda values: values | {"moon": 1}), "is not an extractor"),
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


def test_no_sentences_have_no_scores() -> None:
    assert salience().score([], np.zeros((0, 5), dtype=np.float32)).shape == (0,)


def test_query_changes_scores() -> None:
    texts, vectors = document(10)
    scorer = salience()
    assert not np.allclose(scorer.score(texts, vectors), scorer.score(texts, vectors, vectors[3]), atol=1e-3)


def test_vectors_of_another_encoder_are_refused_in_one_line() -> None:
    with pytest.raises(AwesumError, match="vectors of 5 numbers, these have 7") as error:
        salience().score(["One."], unit_vectors(1, 0, size=7))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("count", [TOGETHER, TOGETHER + 1, 2 * TOGETHER + 3])
def test_long_document_is_scored_in_chunks(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = salience()
    chunks = []
    scorer.extractor.register_forward_pre_hook(lambda _, inputs: chunks.append(inputs[0].shape[1]))
    scores = scorer.score([f"Sentence {number} is here. " for number in range(count)], unit_vectors(count, 0))
    assert scores.shape == (count,)
    assert np.isfinite(scores).all()
    assert sum(chunks) == count
    assert len(chunks) == -(-count // TOGETHER)
    assert max(chunks) <= TOGETHER
    assert max(chunks) - min(chunks) <= len(chunks), "the chunks are of equal size"


def test_features_of_a_chunk_are_computed_over_the_whole_document(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, vectors = document(40)
    scorer, seen = salience(), []
    scorer.extractor.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[1][0]))
    scorer.score(texts, vectors)
    monkeypatch.setattr(trained, "TOGETHER", 15)
    scorer.score(texts, vectors)
    assert len(seen) == 4
    torch.testing.assert_close(torch.cat(seen[1:]), seen[0])


# --------------------------------------------------------------------------------------------------------- calibration


@given(words=st.integers(1, 10**6), factor=st.floats(0.1, 500), power=st.floats(0.05, 1), longest=st.floats(100, 1e5))
def test_length_is_never_more_than_the_document_and_grows_up_to_the_longest(
    words: int, factor: float, power: float, longest: float
) -> None:
    calibration = Calibration(factor, power, longest)
    length = calibration.words(words)
    assert 0 < length <= words
    assert length <= calibration.words(words + 1)
    if words + 1 <= longest:
        assert length < calibration.words(words + 1)
    if words >= longest:
        assert calibration.words(2 * words) == max(length, min(factor * longest**power, 2 * words))


def test_length_for_an_empty_document_is_zero() -> None:
    assert Calibration().words(0) == 0


def test_length_is_constant_beyond_the_longest() -> None:
    assert Calibration(2, 0.5, 400).words(10_000) == Calibration(2, 0.5, 400).words(400) == 40


# --------------------------------------------------------------------------------------------------------- the shipped


@pytest.fixture(scope="module")
def shipped() -> TrainedSalience:
    return TrainedSalience.load()


def test_shipped_extractor_is_small_and_valid(shipped: TrainedSalience) -> None:
    assert SHIPPED.stat().st_size <= 8 * 2**20
    assert all(torch.isfinite(weight).all() for weight in shipped.extractor.parameters())
    assert 100 < shipped.calibration.words(9_000) < 1500
    assert 0 < shipped.calibration.redundant <= 1


def test_shipped_extractor_prefers_findings_to_boilerplate(shipped: TrainedSalience) -> None:
    text = SAMPLE.read_text(encoding="utf-8")
    texts = [text[start:end] for start, end in sentence_spans(text)]
    scores = shipped.score(texts, SentenceEncoder.load(minilm_folder()).encode(texts))
    assert np.isfinite(scores).all()
    fit = [(text, score) for text, cost, score in zip(texts, word_costs(texts), scores, strict=True) if cost]

    def rank(words: str) -> float:
        """The rank of the one sentence with these words: 0 for the lowest score, 1 for the highest."""
        (own,) = [score for text, score in fit if words in text]
        return float(np.mean([score < own for _, score in fit]))

    for boilerplate in (
        "available at no charge",
        "If you or your staff have any questions",
        "We conducted this performance",
    ):
        assert rank(boilerplate) < 0.1
    for finding in ("milestones have slipped to January 2019", "has not fully shared with Congress"):
        assert rank(finding) > 0.9


@pytest.mark.parametrize("text", ["word", "国会は予算案を可決した。", "\x00\x1b[31m", "1 2 3"])
def test_shipped_extractor_scores_any_sentence(shipped: TrainedSalience, text: str) -> None:
    vectors = unit_vectors(3, 0, size=384)
    for query in (None, vectors[0]):
        assert np.isfinite(shipped.score([text], vectors[:1], query)).all()
        assert np.isfinite(shipped.score([text] * 3, vectors, query)).all()


def test_scores_are_the_same_while_another_thread_loads_a_model_in_another_dtype(shipped: TrainedSalience) -> None:
    """The library sets torch's default dtype for all threads while it loads a model."""
    text = topical_text(40)
    texts = [text[start:end] for start, end in sentence_spans(text)]
    encoder = SentenceEncoder.load(minilm_folder())
    vectors = encoder.encode(texts)
    expected = shipped.score(texts, vectors)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.bfloat16)
        assert (encoder.encode(texts) == vectors).all()
        assert (TrainedSalience.load().score(texts, vectors) == expected).all()
    finally:
        torch.set_default_dtype(before)


def test_shipped_extractor_has_the_current_features() -> None:
    from safetensors import safe_open

    with safe_open(SHIPPED, framework="pt") as file:
        assert tuple(json.loads(file.metadata()["features"])) == NAMES
