from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

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


def test_batching_and_sorting_do_not_change_vectors(
    tiny_encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = np.concatenate([tiny_encoder.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(tiny_encoder.encode(TEXTS), alone, atol=1e-5)
    monkeypatch.setattr(embedding, "SORTED_TOGETHER", 2)
    monkeypatch.setattr(embedding, "BATCH_TOKENS", 64)
    np.testing.assert_allclose(tiny_encoder.encode(TEXTS), alone, atol=1e-5)


def test_vectors_are_in_the_order_of_the_texts(tiny_encoder: SentenceEncoder) -> None:
    np.testing.assert_allclose(tiny_encoder.encode(TEXTS[::-1]), tiny_encoder.encode(TEXTS)[::-1], atol=1e-5)
    vectors = tiny_encoder.encode(TEXTS)
    assert vectors[0] @ vectors[6] > 0.999
    assert vectors[0] @ vectors[3] < 0.99


def test_vectors_have_length_one_even_for_empty_text(tiny_encoder: SentenceEncoder) -> None:
    np.testing.assert_allclose(np.linalg.norm(tiny_encoder.encode(TEXTS), axis=1), 1, atol=1e-5)


def test_text_longer_than_the_window_is_read_to_its_end(tiny_encoder: SentenceEncoder) -> None:
    assert len(tiny_encoder.tokenizer.encode(LONG)) > 3 * embedding.WINDOW
    changed, same = tiny_encoder.encode([LONG, LONG + " nurse fever ward surgery", LONG])[1:]
    assert np.abs(changed - same).max() > 1e-4


def test_progress_counts_every_text(tiny_encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "SORTED_TOGETHER", 4)
    finished: list[int] = []
    tiny_encoder.encode(TEXTS, finished.append)
    assert finished == [4, 4, 1]


def test_no_texts_give_no_vectors(tiny_encoder: SentenceEncoder) -> None:
    assert tiny_encoder.encode([]).shape == (0, tiny_encoder.size)


def test_encoder_is_loaded_onto_the_device_of_the_machine(
    tiny_encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_encoder.model.save_pretrained(tmp_path)
    tiny_encoder.tokenizer.save_pretrained(tmp_path)
    monkeypatch.setattr("awesum.loading.choose_device", lambda: (torch.device("meta"), torch.bfloat16, "a stand-in"))
    model = SentenceEncoder.load(tmp_path).model
    assert model.device.type == "meta"
    assert model.dtype == torch.bfloat16


def test_inputs_are_sent_to_the_device_of_the_model(tiny_encoder: SentenceEncoder) -> None:
    class Reached(Exception):
        """The forward pass, which the meta device cannot complete."""

    class Elsewhere:
        config = tiny_encoder.model.config
        device = torch.device("meta")

        def eval(self) -> Elsewhere:
            return self

        def __call__(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> None:
            raise Reached(input_ids.device.type, attention_mask.device.type)

    encoder = SentenceEncoder(Elsewhere(), tiny_encoder.tokenizer)  # type: ignore[arg-type]
    with pytest.raises(Reached) as reached:
        encoder.encode(["An audit."])
    assert reached.value.args == ("meta", "meta")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_vectors_of_a_gpu_are_float32_on_the_cpu_and_the_same(tiny_encoder: SentenceEncoder) -> None:
    expected = tiny_encoder.encode(TEXTS)
    tiny_encoder.model.to("cuda")
    try:
        vectors = tiny_encoder.encode(TEXTS)
    finally:
        tiny_encoder.model.to("cpu")
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-3)


def test_encoder_is_the_same_after_saving_and_loading(tiny_encoder: SentenceEncoder, tmp_path: Path) -> None:
    tiny_encoder.model.save_pretrained(tmp_path)
    tiny_encoder.tokenizer.save_pretrained(tmp_path)
    loaded = SentenceEncoder.load(tmp_path)
    np.testing.assert_allclose(loaded.encode(TEXTS[:4]), tiny_encoder.encode(TEXTS[:4]), atol=1e-5)
