"""SummaC against its definition with a tiny random NLI model, and its behaviour with an idealized one."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from awesum.analysis.embedding import SentenceEncoder
from awesum.errors import AwesumError
from awesum.metrics import summac
from awesum.metrics.metric import Sample
from awesum.metrics.summac import VITC, Summac
from tests.conftest import TOPICS, topical_text
from tests.reference import summac as reference

NLI = {0: "contradiction", 1: "neutral", 2: "entailment"}
WINDOW = 48
"""Positions of the tiny models; they read two fewer."""

LONG_SENTENCE = f"The harbour report {' '.join(TOPICS['harbour'].split() * 5)} cost 7 dollars."
CASES = {
    "one sentence": (topical_text(1), topical_text(1, seed=3)),
    "short": (topical_text(7), topical_text(3, seed=3)),
    "long document, long summary": (topical_text(102), topical_text(11, seed=3)),
    "long sentences": (
        f"{topical_text(3)} {LONG_SENTENCE} {topical_text(2, seed=9)}",
        f"Apple. {topical_text(2, seed=3)}",
    ),
    "longer summary sentence": (f"{topical_text(3)} {LONG_SENTENCE}", f"{LONG_SENTENCE} {topical_text(2)}"),
}


def words_tokenizer(kind: str = "bert") -> PreTrainedTokenizerFast:
    """One token per word; pairs are joined as in BERT or RoBERTa."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words = {word for topic, words in TOPICS.items() for word in [topic, *words.split()]}
    words |= {str(1000 + 7 * number) for number in range(150)} | {"the", "report", "cost", "dollars", "not", "7", "."}
    tokenizer = Tokenizer(models.WordLevel({w: n for n, w in enumerate([*special, *sorted(words)])}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pair = "[CLS] $A [SEP] $B:1 [SEP]:1" if kind == "bert" else "[CLS] $A [SEP] [SEP] $B [SEP]"
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair=pair, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(["pad_token", "unk_token", "cls_token", "sep_token"], special, strict=True))
    inputs = ["input_ids", "attention_mask"] + ["token_type_ids"] * (kind == "bert")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=inputs, **names)


def tiny(kind: str, tokenizer: PreTrainedTokenizerFast, **changes: object):
    """A random model that is confident now and then, so that all bins of Conv are used."""
    config, model = {
        "bert": (BertConfig, BertForSequenceClassification),
        "albert": (AlbertConfig, AlbertForSequenceClassification),
        "roberta": (RobertaConfig, RobertaForSequenceClassification),
    }[kind]
    options: dict[str, object] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 16,
        "embedding_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": WINDOW,
        "type_vocab_size": 2 if kind != "roberta" else 1,
        "pad_token_id": 0 if kind != "roberta" else 1,
        "initializer_range": 0.6,
        "id2label": NLI,
    }
    torch.manual_seed(4)
    built = model(config(**options | changes)).eval()
    head = built.classifier.out_proj if kind == "roberta" else built.classifier
    torch.nn.init.normal_(head.weight, std=2.0)
    return built


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return words_tokenizer()


@pytest.fixture(scope="module")
def bert(tokenizer: PreTrainedTokenizerFast) -> BertForSequenceClassification:
    return tiny("bert", tokenizer)


@pytest.fixture
def exact(bert: BertForSequenceClassification, tokenizer: PreTrainedTokenizerFast) -> Summac:
    return Summac(bert, tokenizer, "tiny", premises=None)


@cache
def images(model: object, tokenizer: PreTrainedTokenizerFast, document: str, summary: str):
    """Cached, because it is slow and used by several tests."""
    return reference.images(model, tokenizer, document, summary, 2, 0, WINDOW - 2)


def expected(metric: Summac, document: str, summary: str) -> dict[str, float]:
    e, c = images(metric.model, metric.tokenizer, document, summary)
    return {"summac-zs": reference.zero_shot(e, c), "summac-conv": reference.conv(e)}


@pytest.mark.parametrize("case", CASES)
def test_equals_the_definition(exact: Summac, case: str) -> None:
    document, summary = CASES[case]
    scores = exact.measure(Sample(summary, document=document))
    assert scores == pytest.approx(expected(exact, document, summary), abs=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_conv_sees_the_beginning_of_both(exact: Summac, case: str) -> None:
    document, summary = CASES[case]
    entailment = np.array(images(exact.model, exact.tokenizer, document, summary)[0])
    np.testing.assert_allclose(exact.support(document, summary).image, entailment[:100, :10], atol=1e-5)


def test_random_model_uses_many_bins(exact: Summac) -> None:
    image = exact.support(*CASES["long document, long summary"]).image
    assert image.shape == (100, 10)
    assert (summac.histograms(image).sum(axis=0) > 0).sum() > 15


@pytest.mark.parametrize("kind", ["albert", "roberta"])
def test_other_model_families(kind: str) -> None:
    tokenizer = words_tokenizer("roberta" if kind == "roberta" else "bert")
    if kind == "roberta":
        tokenizer.pad_token = "[UNK]"  # token 1, as in RoBERTa
    metric = Summac(tiny(kind, tokenizer), tokenizer, "tiny", premises=None)
    document, summary = CASES["long sentences"]
    scores = metric.measure(Sample(summary, document=document))
    assert scores == pytest.approx(expected(metric, document, summary), abs=1e-5)


def test_batching_does_not_change_scores(exact: Summac, monkeypatch: pytest.MonkeyPatch) -> None:
    document, summary = CASES["long sentences"]
    sample = Sample(summary, document=f"{document} {topical_text(20)}")
    scores = exact.measure(sample)
    for batch_tokens, together in [(1, 1024), (300, 7), (100_000, 100_000)]:
        monkeypatch.setattr(summac, "BATCH_TOKENS", batch_tokens)
        monkeypatch.setattr(summac, "TOGETHER", together)
        assert exact.measure(sample) == pytest.approx(scores, abs=1e-5)


def test_batches_stay_within_the_budget(exact: Summac, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []
    monkeypatch.setattr(summac, "BATCH_TOKENS", 200)
    forward = exact.model.forward
    monkeypatch.setattr(
        exact.model,
        "forward",
        lambda input_ids, **rest: (shapes.append(tuple(input_ids.shape)), forward(input_ids, **rest))[1],
    )
    exact.support(*CASES["short"])
    assert sum(rows for rows, _ in shapes) == 7 * 3
    assert 1 < len(shapes) < 21
    assert all(rows * tokens <= 200 for rows, tokens in shapes)


# Selecting the nearest premises.


def pruned(exact: Summac, premises: int, encoder: SentenceEncoder) -> Summac:
    return Summac(exact.model, exact.tokenizer, "tiny", premises, encoder)


def test_as_many_premises_as_sentences_is_exact_and_needs_no_encoder(exact: Summac) -> None:
    document, summary = CASES["short"]
    metric = Summac(exact.model, exact.tokenizer, "tiny", premises=7)
    metric._minilm = None  # type: ignore[assignment]
    sample = Sample(summary, document=document)
    assert metric.measure(sample) == exact.measure(sample)


@pytest.mark.parametrize("together", [1024, 40])
def test_premises_are_the_nearest(
    exact: Summac, tiny_encoder: SentenceEncoder, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, summary = CASES["long document, long summary"]
    e, c = map(np.array, images(exact.model, exact.tokenizer, document, summary))
    vectors = tiny_encoder.encode(reference.sentences(document))
    monkeypatch.setattr(summac, "TOGETHER", together)
    support = pruned(exact, 3, tiny_encoder).support(document, summary)
    assert support.entailment.shape == support.contradiction.shape == (11,)
    for j, claim in enumerate(tiny_encoder.encode(reference.sentences(summary))):
        nearest = sorted(range(102), key=lambda i: -float(vectors[i] @ claim))[:3]
        assert support.entailment[j] == pytest.approx(e[nearest, j].max(), abs=1e-5)
        assert support.contradiction[j] == pytest.approx(c[nearest, j].max(), abs=1e-5)


def test_more_premises_find_more_and_do_not_change_conv(exact: Summac, tiny_encoder: SentenceEncoder) -> None:
    document, summary = CASES["long document, long summary"]
    supports = [pruned(exact, premises, tiny_encoder).support(document, summary) for premises in (1, 10, 101)]
    supports.append(exact.support(document, summary))
    for fewer, more in pairwise(supports):
        assert (fewer.entailment <= more.entailment + 1e-6).all()
        assert (fewer.contradiction <= more.contradiction + 1e-6).all()
        np.testing.assert_allclose(fewer.image, more.image, atol=1e-5)
    assert (supports[0].entailment < supports[-1].entailment - 0.01).any()


def test_no_pair_is_evaluated_twice(
    exact: Summac, tiny_encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, summary = CASES["long document, long summary"]
    asked: list[tuple[int, int]] = []
    metric = pruned(exact, 5, tiny_encoder)
    probabilities = metric._probabilities
    monkeypatch.setattr(
        metric,
        "_probabilities",
        lambda batch: (asked.extend((pair.premise, pair.hypothesis) for pair in batch), probabilities(batch))[1],
    )
    metric.support(document, summary)
    assert len(asked) == len(set(asked))
    of_conv = {(i, j) for i in range(100) for j in range(10)}
    assert of_conv < set(asked)
    assert len(set(asked) - of_conv) <= 5 * 11


def test_zero_premises_are_refused(exact: Summac) -> None:
    with pytest.raises(AwesumError, match="0 document sentences: give 1 or more"):
        Summac(exact.model, exact.tokenizer, premises=0)


# Conv, as a function of the probabilities.


@pytest.mark.parametrize(("value", "place"), [(0.0, 0), (0.01, 1), (0.0099, 0), (0.36999, 6), (0.37, 7), (0.9, 8),
                                              (0.955, 14), (0.995, 22), (0.99499, 21), (1.0, 22)])  # fmt: skip
def test_bin_edges(value: float, place: int) -> None:
    counts = summac.histograms(np.array([[value]]))[0]
    assert counts[place] == counts.sum() == 1
    assert counts.tolist() == reference.histogram([value]) == np.histogram([value], summac.EDGES)[0].tolist()


def test_histograms_count_every_premise() -> None:
    image = np.random.default_rng(0).beta(0.3, 0.3, (60, 9))
    counts = summac.histograms(image)
    assert counts.tolist() == [reference.histogram(column.tolist()) for column in image.T]
    assert (counts.sum(axis=1) == 60).all()


def test_conv_matches_the_definition() -> None:
    # One or two premises per bin: with more, the score would be 1 whatever the weights.
    middles = (summac.EDGES[1:] + summac.EDGES[:-1]) / 2
    for place, middle in enumerate(middles):
        image = np.array([[middle, 0.5], [0.005, middles[place - 1]]])
        assert summac.conv(image) == pytest.approx(reference.conv(image.tolist()), abs=1e-12)


@pytest.mark.parametrize(("sentences", "floor"), [(1, 0.20), (100, 0.34), (500, 0.91)])
def test_conv_has_a_floor_that_grows_with_the_document(sentences: int, floor: float) -> None:
    assert summac.conv(np.zeros((sentences, 3))) == pytest.approx(floor, abs=0.006)


def test_conv_grows_with_entailment_and_never_exceeds_one() -> None:
    image = np.zeros((100, 1))
    floor = summac.conv(image)
    image[0] = 0.999
    assert floor + 0.3 < summac.conv(image) <= 1
    assert summac.conv(np.ones((100, 10))) <= 1


# Behaviour with an idealized model.


class Judge:
    """Entailed: every word is in the premise. Contradicted: the same, but only one of the two has a "not"."""

    device = torch.device("cpu")
    dtype = torch.float32

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.config = BertConfig(id2label=NLI)
        self.denial = tokenizer.convert_tokens_to_ids("not")

    def __call__(self, input_ids, attention_mask, token_type_ids) -> SimpleNamespace:
        rows = []
        for ids, mask, types in zip(input_ids, attention_mask, token_type_ids, strict=True):
            premise, claim = (set(ids[(mask == 1) & (types == side) & (ids > 3)].tolist()) for side in (0, 1))
            denied = self.denial in premise ^ claim
            covered = claim - {self.denial} <= premise
            rows.append([6.0 * (covered and denied), 3.0, 6.0 * (covered and not denied)])
        return SimpleNamespace(logits=torch.tensor(rows))


@pytest.fixture
def judge(tokenizer: PreTrainedTokenizerFast, tiny_encoder: SentenceEncoder) -> Summac:
    return Summac(Judge(tokenizer), tokenizer, "judge", premises=4, encoder=tiny_encoder)


def test_text_is_supported_best_by_itself(judge: Summac) -> None:
    document = topical_text(60)
    sentences = reference.sentences(document)
    same = judge.measure(Sample(" ".join(sentences[20:25]), document=document))
    mixed = judge.measure(
        Sample(" ".join([*sentences[20:23], *reference.sentences(topical_text(2, seed=8))]), document=document)
    )
    strange = judge.measure(Sample(topical_text(5, seed=8), document=document))
    assert same["summac-zs"] > 0.9 > mixed["summac-zs"] > 0.5 > abs(strange["summac-zs"])
    assert same["summac-conv"] > mixed["summac-conv"] > strange["summac-conv"]


def test_contradiction_lowers_the_score_wherever_it_is_in_the_document(judge: Summac) -> None:
    sentences = reference.sentences(topical_text(140))
    for place in (3, 135):
        denied = sentences[place].replace(" cost", " not cost")
        faithful, denying, unknown = (
            judge.measure(Sample(f"{sentences[5]} {second}", document=" ".join(sentences)))["summac-zs"]
            for second in (sentences[place], denied, topical_text(1, seed=8))
        )
        assert faithful > unknown + 0.3 > denying + 0.6


def test_sentences_after_the_first_hundred_count_for_zs_only(judge: Summac) -> None:
    sentences = reference.sentences(topical_text(140))
    scores = judge.measure(Sample(sentences[130], document=" ".join(sentences)))
    assert scores["summac-zs"] > 0.8
    nothing = judge.measure(Sample(topical_text(1, seed=8), document=" ".join(sentences)))
    assert scores["summac-conv"] == pytest.approx(nothing["summac-conv"])


@pytest.mark.parametrize(("document", "summary"), [("", topical_text(2)), (topical_text(2), "Yes. No."),
                                                   ("An audit. Tax.", "Soil. Bees.\n\nTen chars.")])  # fmt: skip
def test_without_sentences_scores_are_neutral(judge: Summac, document: str, summary: str) -> None:
    scores = judge.measure(Sample(summary, document=document))
    assert scores["summac-zs"] == 0
    assert scores["summac-conv"] == pytest.approx(summac.conv(np.zeros((1, 1))))


def test_short_sentences_are_left_out() -> None:
    assert summac.chunks("Ten chars. Eleven cha. An audit found a deficit.") == [
        "Eleven cha.",
        "An audit found a deficit.",
    ]


def test_declared_scores(judge: Summac) -> None:
    zs, conv = judge.scores
    assert (zs.name, zs.title, zs.better, zs.low, zs.high, zs.scale, zs.decimals) == (
        "summac-zs", "SummaC-ZS", "higher", -1, 1, 100, 2)  # fmt: skip
    assert (conv.name, conv.title, conv.low, conv.high, conv.scale) == ("summac-conv", "SummaC-Conv", 0, 1, 100)
    assert "4 nearest" in zs.settings
    assert "official settings: the first 100 document and 10 summary" in conv.settings
    assert Summac.needs == {"document", "model"}
    assert judge.measure(Sample("An audit found a deficit.", document="Tax and pension.")).keys() == {
        zs.name,
        conv.name,
    }


# Errors and notes.


def test_truncated_sentences_are_counted_once_each(exact: Summac) -> None:
    exact.support(*CASES["short"])
    assert (exact.cut, exact.cut_summary) == (0, 0)
    assert exact.notes() == []
    exact.support(*CASES["long sentences"])
    assert (exact.cut, exact.cut_summary) == (1, 0)
    exact.support(*CASES["longer summary sentence"])
    assert (exact.cut, exact.cut_summary) == (2, 1)
    assert exact.notes() == ["summac: 3 sentences too long for the model, truncated to its window"]


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_model_that_gives_nan_is_refused(tokenizer: PreTrainedTokenizerFast, broken: float) -> None:
    model = tiny("bert", tokenizer)
    with torch.no_grad():
        model.classifier.bias[1] = broken
    with pytest.raises(AwesumError, match=r"the model tiny gives NaN or infinite numbers, .*: its weights are broken"):
        Summac(model, tokenizer, "tiny").measure(Sample(topical_text(1), document=topical_text(1)))


@pytest.mark.parametrize(
    ("names", "model", "places"),
    [
        (["entailment", "neutral", "contradiction"], "org/model", (0, 2)),
        (["CONTRADICTION", "NEUTRAL", "ENTAILMENT"], "org/model", (2, 0)),
        (["Entails", "Contradicts", "Neither"], "org/model", (0, 1)),
        (["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"], "some/folder", (0, 1)),
        (["LABEL_0", "LABEL_1", "LABEL_2"], VITC, (0, 1)),
        (["LABEL_0", "LABEL_1", "LABEL_2"], "/models/albert-xlarge-vitaminc", (0, 1)),
        (["contradiction", "entailment", "neutral"], VITC, (1, 0)),
    ],
)
def test_indices_of_the_labels(names: list[str], model: str, places: tuple[int, int]) -> None:
    assert summac.nli_labels(dict(enumerate(names)), model) == places


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["LABEL_0", "LABEL_1", "LABEL_2"],
        ["entailment", "not_entailment"],
        ["entailment", "contradiction"],
        ["positive", "neutral", "negative"],
        ["entailment", "neutral", "other"],
        ["entailment", "neutral", "contradiction", "strong contradiction"],
        [f"n{number}" for number in range(1000)],
    ],
)
def test_models_without_the_labels_are_refused(names: list[str]) -> None:
    with pytest.raises(AwesumError, match=rf"^org/other is not an NLI model: its labels .*; give .* {VITC}") as refusal:
        summac.nli_labels(dict(enumerate(names)), "org/other")
    assert len(str(refusal.value)) < 300
    assert "\n" not in str(refusal.value)


def saved(folder: Path, model: object, tokenizer: PreTrainedTokenizerFast) -> str:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_saved_model_is_loaded_unchanged(exact: Summac, tmp_path: Path) -> None:
    loaded = Summac.load(saved(tmp_path, exact.model, exact.tokenizer), premises=None)
    document, summary = CASES["short"]
    sample = Sample(summary, document=document)
    assert loaded.measure(sample) == pytest.approx(exact.measure(sample), abs=1e-5)
    assert str(tmp_path) in loaded.scores[0].settings


def test_missing_folder_and_folder_without_a_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AwesumError, match="there is no folder /no/such/model"):
        Summac.load("/no/such/model")
    with pytest.raises(AwesumError, match=r"cannot load the model .* give an NLI model's folder"):
        Summac.load(str(tmp_path))


def test_model_without_a_head_is_refused(tokenizer: PreTrainedTokenizerFast, bert, tmp_path: Path) -> None:
    model = BertModel(bert.config)
    with pytest.raises(
        AwesumError, match=r"is not an NLI model: weights are missing \(classifier.bias, .*; give an NLI model"
    ):
        Summac.load(saved(tmp_path, model, tokenizer))


def test_classifier_for_another_task_is_refused(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    model = tiny("bert", tokenizer, id2label={0: "negative", 1: "positive"})
    with pytest.raises(AwesumError, match=r"is not an NLI model: its labels \(negative, positive\)"):
        Summac.load(saved(tmp_path, model, tokenizer))


def test_generating_model_is_refused(tiny_folder: Path) -> None:
    with pytest.raises(AwesumError, match=r"is not an NLI model: its labels \(LABEL_0, LABEL_1\)"):
        Summac.load(str(tiny_folder))


def test_pickled_weights_are_not_read(bert, tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    folder = saved(tmp_path, bert, tokenizer)
    (tmp_path / "model.safetensors").unlink()
    torch.save(bert.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(AwesumError, match="safetensors"):
        Summac.load(folder)


def test_tokenizer_without_padding_is_refused(bert, tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    bare = PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer)
    with pytest.raises(AwesumError, match="has no tokenizer for batches of pairs"):
        Summac.load(saved(tmp_path, bert, bare))
