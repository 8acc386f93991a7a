"""DiscoScore, fast against slow with a tiny random BERT, and invariants for any model."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForMaskedLM, BertModel, PreTrainedTokenizerFast, RobertaConfig, RobertaModel

from awesum.analysis.embedding import SentenceEncoder
from awesum.errors import AwesumError
from awesum.metrics.discoscore import LAYERS, DiscoScore
from awesum.metrics.metric import Sample
from tests.conftest import topical_text
from tests.reference import discoscore as reference

SHORT = (
    "The crew left the station with the capsule. The capsule reached orbit. The crew checked the engine of the capsule."
)
OTHER = "The capsule had an engine for the crew. A nurse met the crew in the ward. The ward had no doctor today."
NO_NOUNS = "It was so. They went on and on."
POSITIONS = 64


def bert(tokenizer: PreTrainedTokenizerFast, layers: int = 3, **changes: object) -> BertConfig:
    options: dict[str, object] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": POSITIONS,
        "initializer_range": 0.3,  # large enough for words to attend to each other
    }
    return BertConfig(**options | changes)


@pytest.fixture(scope="module")
def tokenizer(tiny_encoder: SentenceEncoder) -> PreTrainedTokenizerFast:
    return tiny_encoder.tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tokenizer: PreTrainedTokenizerFast) -> Path:
    """A checkpoint as on the hub: with a language modelling head, and without a pooler."""
    path = tmp_path_factory.mktemp("tiny-bert")
    torch.manual_seed(3)
    BertForMaskedLM(bert(tokenizer)).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def disco(folder: Path) -> DiscoScore:
    return DiscoScore.load(str(folder))


@pytest.fixture
def changed(folder: Path, tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> Callable[..., Path]:
    """The same model with other weights."""

    def change(change_weights: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Path:
        BertForMaskedLM.from_pretrained(folder).config.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        weights = change_weights(load_file(folder / "model.safetensors"))
        save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
        return tmp_path

    return change


def measured(disco: DiscoScore, prediction: str, *references: str) -> tuple[float, float]:
    scores = disco.measure(Sample(prediction, references))
    return scores["disco-focus"], scores["disco-sent"]


def slow(disco: DiscoScore, prediction: str, other: str) -> tuple[float, float]:
    texts = [reference.Text(disco.model, disco.tokenizer, text, POSITIONS) for text in (prediction, other)]
    return reference.focus(*texts), reference.sent(*texts)


@pytest.mark.parametrize(
    ("prediction", "other"),
    [
        (SHORT, OTHER),
        (OTHER, SHORT),
        (topical_text(14), topical_text(9, seed=3)),
        (topical_text(60, seed=4), SHORT),
        (topical_text(12), "The rocket report was about the capsule."),  # a single sentence
        ("The rocket report was about the capsule.", topical_text(12)),
        ("The crew saw " + "x" * 300 + " and ÄÖ 国会 near the station. The station was large.", OTHER),
    ],
    ids=["short", "the other way round", "some windows", "many windows", "one sentence", "from one", "strange words"],
)
def test_scores_match_the_slow_version(disco: DiscoScore, prediction: str, other: str) -> None:
    assert measured(disco, prediction, other) == pytest.approx(slow(disco, prediction, other), abs=1e-5)


@pytest.mark.parametrize("length", [1, 2, 31, 32, 33, 63, 64, 65, 95, 96, 97, 128, 129, 64 + 32 * 8, 64 + 32 * 19 + 5])
def test_each_token_has_the_state_of_its_window(disco: DiscoScore, length: int) -> None:
    ids = torch.randint(5, disco.model.config.vocab_size, (length,), generator=torch.Generator().manual_seed(length))
    states = torch.cat(list(disco._states(ids)))
    assert states.shape == (length, 32)
    assert torch.allclose(states.float(), torch.tensor(reference.states(disco.model, ids.tolist(), 64)), atol=1e-5)


def test_context_is_limited_to_the_window(disco: DiscoScore) -> None:
    """Token 64 is the first new one of the second window, which starts with token 32."""
    ids = torch.arange(100) % 50 + 5

    def state_64(changed: int) -> torch.Tensor:
        other = ids.clone()
        other[changed] += 1
        return torch.cat(list(disco._states(other)))[64]

    plain = torch.cat(list(disco._states(ids)))[64]
    assert torch.allclose(state_64(31), plain, atol=1e-6)
    assert not torch.allclose(state_64(32), plain, atol=1e-3)
    assert not torch.allclose(state_64(95), plain, atol=1e-3)


def test_mask_is_all_ones(disco: DiscoScore) -> None:
    """The published code passes zeros, with which every word attends to all words equally."""
    masks: list[torch.Tensor] = []

    def record(module: object, args: tuple[object, ...], kwargs: dict[str, torch.Tensor]) -> None:
        masks.append(kwargs["attention_mask"])

    def zeros(module: object, args: tuple[object, ...], kwargs: dict[str, torch.Tensor]) -> object:
        return args, {**kwargs, "attention_mask": torch.zeros_like(kwargs["attention_mask"])}

    with disco.model.register_forward_pre_hook(record, with_kwargs=True):
        right = measured(disco, SHORT, OTHER)
    assert masks
    assert all(mask.all() for mask in masks)
    with disco.model.register_forward_pre_hook(zeros, with_kwargs=True):
        wrong = measured(disco, SHORT, OTHER)
    assert abs(right[0] - wrong[0]) > 1e-2
    assert abs(right[1] - wrong[1]) > 1e-4


@pytest.mark.parametrize("text", [SHORT, topical_text(20), "The crew left the station."])
def test_text_is_most_similar_to_itself(disco: DiscoScore, text: str) -> None:
    assert measured(disco, text, text) == (0.0, pytest.approx(1.0))
    assert measured(disco, text.upper(), text)[1] > 0.5  # the model sees lower case, the tagger other nouns


def test_shuffled_sentences_are_less_similar_to_the_reference(disco: DiscoScore) -> None:
    sentences = [f"{sentence}." for sentence in SHORT.rstrip(".").split(". ")]
    shuffled = " ".join(sentences[number] for number in (1, 2, 0))
    focus, sent = measured(disco, shuffled, SHORT)
    assert sent < 1 - 1e-4
    assert focus > 1e-3


def test_links_between_sentences_matter(disco: DiscoScore, monkeypatch: pytest.MonkeyPatch) -> None:
    linked = measured(disco, SHORT, OTHER)[1]
    monkeypatch.setattr("awesum.metrics.discoscore.link_rows", lambda sentences: [np.zeros((len(sentences),) * 2)])
    assert abs(measured(disco, SHORT, OTHER)[1] - linked) > 1e-4


def test_focus_is_a_word_written_as_its_lemma(disco: DiscoScore) -> None:
    text = "The crews left the Station, and the crew saw the capsule. Orbit is where the Capsule was."
    assert list(disco.read(text).focus) == ["crew", "orbit", "capsule"]


def test_focus_distance_is_divided_by_the_nouns_of_the_prediction(disco: DiscoScore) -> None:
    one, other = disco.read(SHORT), disco.read(OTHER)
    common = one.focus.keys() & other.focus.keys()
    assert 0 < len(common) < len(one.focus) != len(other.focus)
    apart = sum(float(np.sum((one.focus[noun] - other.focus[noun]) ** 2)) for noun in common)
    assert measured(disco, SHORT, OTHER)[0] == pytest.approx(apart / len(one.focus))
    assert measured(disco, OTHER, SHORT)[0] == pytest.approx(apart / len(other.focus))


@pytest.mark.parametrize("other", [NO_NOUNS, "The nurse met a doctor in the ward."])
def test_without_a_noun_in_common_there_is_no_focus(disco: DiscoScore, other: str) -> None:
    """Not 0, which would be the best possible distance."""
    focus, sent = measured(disco, SHORT, other)
    assert isnan(focus)
    assert -1 <= sent <= 1
    assert isnan(measured(disco, other, SHORT)[0])


def test_score_is_the_mean_over_the_references_for_which_it_is_defined(disco: DiscoScore) -> None:
    focus, sent = zip(*(measured(disco, SHORT, other) for other in (OTHER, topical_text(5))), strict=True)
    assert not any(map(isnan, focus))
    assert measured(disco, SHORT, OTHER, topical_text(5)) == pytest.approx((sum(focus) / 2, sum(sent) / 2))
    assert measured(disco, SHORT, OTHER, NO_NOUNS)[0] == pytest.approx(focus[0])
    assert all(map(isnan, measured(disco, SHORT)))


@pytest.mark.parametrize(
    "text", ["", " \n ", "\x00 \u200b", "。。。", "国会は予算案を可決した。首相は会見で説明した。", "x" * 20_000]
)
def test_any_text_gets_scores(disco: DiscoScore, text: str) -> None:
    for scores in (measured(disco, text, SHORT), measured(disco, SHORT, text), measured(disco, text, text)):
        assert isnan(scores[0])
        assert isnan(scores[1]) or -1 <= scores[1] <= 1


def test_word_without_pieces_is_skipped(disco: DiscoScore) -> None:
    strange = SHORT.replace("with", "\x00 with \x00")
    assert measured(disco, strange, OTHER) == pytest.approx(measured(disco, SHORT, OTHER))


def test_only_the_first_layers_are_used(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    full = BertModel(bert(tokenizer, layers=LAYERS + 2)).eval()
    full.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    disco = DiscoScore.load(str(tmp_path))
    assert len(disco.model.encoder.layer) == LAYERS == 8
    ids = torch.arange(5, 45)
    with torch.inference_mode():
        expected = full(input_ids=ids[None], output_hidden_states=True).hidden_states[LAYERS][0]
    assert torch.allclose(torch.cat(list(disco._states(ids))).float(), expected, atol=1e-5)


def test_checkpoint_with_old_weight_names_is_loaded(changed: Callable[..., Path]) -> None:
    """bert-base-uncased still uses them."""

    def old(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {
            key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value * 2
            for key, value in weights.items()
        }

    norms = [layer.output.LayerNorm for layer in DiscoScore.load(str(changed(old))).model.encoder.layer]
    assert len(norms) == 3
    assert all(bool((norm.weight == 2).all()) for norm in norms)


def test_model_that_counts_positions_from_two_has_a_smaller_window(tokenizer: PreTrainedTokenizerFast) -> None:
    config = RobertaConfig(**bert(tokenizer).to_dict() | {"model_type": "roberta", "pad_token_id": 1})
    disco = DiscoScore(RobertaModel(config), tokenizer, "tiny")
    assert disco.window == POSITIONS - 2
    assert 0 < measured(disco, topical_text(14), topical_text(9, seed=3))[0] < 100


def test_window_is_never_larger_than_that_of_the_paper(tokenizer: PreTrainedTokenizerFast) -> None:
    assert DiscoScore(BertModel(bert(tokenizer, max_position_embeddings=600)), tokenizer, "tiny").window == 512


def test_weights_with_nan_are_refused(folder: Path) -> None:
    disco = DiscoScore.load(str(folder))
    disco.model.embeddings.word_embeddings.weight.data[:] = float("nan")
    with pytest.raises(AwesumError, match="gives NaN or infinite numbers"):
        disco.measure(Sample("The crew docked.", ("The crew docked at noon.",)))


def refusal(model: Path) -> str:
    with pytest.raises(AwesumError) as error:
        DiscoScore.load(str(model))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_models_that_are_not_encoders_are_refused(tiny_folder: Path, tiny_bart_folder: Path) -> None:
    assert "is a 'llama' model, not an encoder like BERT" in refusal(tiny_folder)
    assert "is a 'bart' model, not an encoder like BERT" in refusal(tiny_bart_folder)


def test_decoder_built_like_bert_is_refused(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    BertModel(bert(tokenizer, is_decoder=True)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert "not an encoder like BERT" in refusal(tmp_path)


def test_checkpoint_that_lacks_a_layer_is_refused(changed: Callable[..., Path]) -> None:
    path = changed(lambda weights: {key: value for key, value in weights.items() if "layer.1.output.dense" not in key})
    assert "lacks 2 weights of the 'bert' model" in (message := refusal(path))
    assert "encoder.layer.1.output.dense" in message


def test_weights_of_another_model_are_refused(changed: Callable[..., Path]) -> None:
    path = changed(lambda weights: {f"else.{key.rpartition('.')[2]}": value for key, value in weights.items()})
    assert "weights of the 'bert' model" in refusal(path)


def test_pickled_weights_are_refused(tmp_path: Path, folder: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    bert(tokenizer).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    torch.save(load_file(folder / "model.safetensors"), tmp_path / "pytorch_model.bin")
    assert "safetensors" in refusal(tmp_path)


def test_tokenizer_without_cls_is_refused(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, tiny_tokenizer: PreTrainedTokenizerFast
) -> None:
    BertModel(bert(tokenizer)).save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    assert "[CLS]" in refusal(tmp_path)


def test_missing_model_is_refused(tmp_path: Path) -> None:
    assert "there is no folder" in refusal(tmp_path / "nothing")


def test_declared_scores_are_those_computed(disco: DiscoScore, folder: Path) -> None:
    assert [score.name for score in disco.scores] == list(disco.measure(Sample(SHORT, (OTHER,))))
    assert all(str(folder) in score.settings for score in disco.scores)
