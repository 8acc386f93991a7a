from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from awesum.analysis import embedding
from awesum.analysis.embedding import SentenceEncoder
from tests.conftest import topical_text
from tests.reference import embedding as reference

LONG = topical_text(120, seed=4)
TEXTS = [
    "An audit.",
    LONG,
    "",
    "The nurse found a fever in the ward.",
    topical_text(3, seed=5),
    "国会は予算案を可決した。",
    "An audit.",
    LONG[:3000],
    " \n\t ",
]


def test_vectors_are_means_over_the_tokens_of_all_windows(tiny_encoder: SentenceEncoder) -> None:
    slow = np.array([reference.encode(tiny_encoder, text) for text in TEXTS])
    np.testing.assert_allclose(tiny_encoder.encode(TEXTS), slow, atol=1e-5)


def test_batches_and_sorting_change_nothing(tiny_encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = np.concatenate([tiny_encoder.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(tiny_encoder.encode(TEXTS), alone, atol=1e-5)
    monkeypatch.setattr(embedding, "SORTED_TOGETHER", 2)
    monkeypatch.setattr(embedding, "BATCH_TOKENS", 64)
    np.testing.assert_allclose(tiny_encoder.encode(TEXTS), alone, atol=1e-5)


def test_order_is_that_of_the_texts(tiny_encoder: SentenceEncoder) -> None:
    np.testing.assert_allclose(tiny_encoder.encode(TEXTS[::-1]), tiny_encoder.encode(TEXTS)[::-1], atol=1e-5)
    vectors = tiny_encoder.encode(TEXTS)
    assert vectors[0] @ vectors[6] > 0.999
    assert vectors[0] @ vectors[3] < 0.99


def test_vectors_have_length_one_also_for_empty_text(tiny_encoder: SentenceEncoder) -> None:
    np.testing.assert_allclose(np.linalg.norm(tiny_encoder.encode(TEXTS), axis=1), 1, atol=1e-5)


def test_text_longer_than_the_window_is_read_to_its_end(tiny_encoder: SentenceEncoder) -> None:
    assert len(tiny_encoder.tokenizer.encode(LONG)) > 3 * embedding.WINDOW
    changed, same = tiny_encoder.encode([LONG, LONG + " nurse fever ward surgery", LONG])[1:]
    assert np.abs(changed - same).max() > 1e-4


def test_progress_is_told_of_every_text(tiny_encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "SORTED_TOGETHER", 4)
    told: list[int] = []
    tiny_encoder.encode(TEXTS, told.append)
    assert told == [4, 4, 1]


def test_no_texts_give_no_vectors(tiny_encoder: SentenceEncoder) -> None:
    assert tiny_encoder.encode([]).shape == (0, tiny_encoder.size)


def test_encoder_is_the_same_after_saving_and_loading(tiny_encoder: SentenceEncoder, tmp_path: Path) -> None:
    tiny_encoder.model.save_pretrained(tmp_path)
    tiny_encoder.tokenizer.save_pretrained(tmp_path)
    loaded = SentenceEncoder.load(tmp_path)
    np.testing.assert_allclose(loaded.encode(TEXTS[:4]), tiny_encoder.encode(TEXTS[:4]), atol=1e-5)
