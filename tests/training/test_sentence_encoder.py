"""The paper's extractor: RoBERTa trained end to end on oracle sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.tiny_models import save_both, tiny_roberta
from transformers import BertConfig, PreTrainedTokenizerFast

from awesum import systems
from awesum.analysis.salience.loading import load_extractor
from awesum.analysis.salience.sentence_encoder import SentenceSalience, SentenceScorer, load_roberta, sentence_ids
from awesum.analysis.salience.trained import TrainedSalience
from awesum.cli import main
from awesum.datasets import Example
from awesum.errors import AwesumError
from awesum.recurrence import DocumentInputs
from awesum.scoring import oracle
from awesum.training.sentence_encoder import SentenceInputs
from awesum.training.trainable import make
from tests.conftest import topical_text
from tests.training.runs import record, write


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory, tiny_bart_tokenizer: PreTrainedTokenizerFast) -> Path:
    model = tiny_roberta(tiny_bart_tokenizer, max_position_embeddings=140)
    return save_both(model, tiny_bart_tokenizer, tmp_path_factory.mktemp("roberta"))


def settings(**changes: Any) -> Any:
    return systems.find("extractor").settings_class(**changes)  # type: ignore[misc]


def test_score_is_its_definition(roberta: Path) -> None:
    """One sentence after the other: the mean of the last layer, attention over all, a perceptron."""
    scorer = SentenceScorer(load_roberta(str(roberta)), 4).eval()
    sentences = [[0, 7, 8, 2], [0, 9, 2], [0, 10, 11, 12, 13, 2]]
    means = [scorer.encoder(torch.tensor([each])).last_hidden_state[0].mean(0) for each in sentences]
    together = scorer.encode(sentences)
    torch.testing.assert_close(together, torch.stack(means), rtol=1e-4, atol=1e-5)
    weights = scorer.attention
    query, key, value = (torch.stack(means) @ weights.in_proj_weight.T + weights.in_proj_bias).split(32, 1)
    heads = []
    for head in range(4):
        part = slice(8 * head, 8 * head + 8)
        heads.append((query[:, part] @ key[:, part].T / 8**0.5).softmax(1) @ value[:, part])
    attended = weights.out_proj(torch.cat(heads, 1))
    expected = scorer.perceptron(scorer.norm(torch.stack(means) + attended))[:, 0]
    torch.testing.assert_close(scorer(together), expected, rtol=1e-4, atol=1e-5)


def test_gradients_are_those_of_one_graph(roberta: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("awesum.training.sentence_encoder.TOGETHER", 3)
    training: Any = make("extractor", str(roberta), settings(heads=4))
    model = training.model.double().train()
    sentences = [torch.randint(4, 400, (length,)).tolist() for length in (5, 9, 4, 7, 3, 8, 6)]
    document = DocumentInputs("a", sentences, [[1, 4]])
    found = []
    for way in ("cached", "full"):
        model.zero_grad()
        torch.manual_seed(1)
        if way == "cached":
            training.loss([document], lambda loss: loss.backward())
        else:
            vectors = torch.cat([model.encode(sentences[at : at + 3]) for at in (0, 3, 6)])
            labels = torch.tensor([0, 1, 0, 0, 1, 0, 0]).float()
            torch.nn.functional.binary_cross_entropy_with_logits(model(vectors).float(), labels).backward()
        found.append({name: weight.grad.clone() for name, weight in model.named_parameters()})
    for name, gradient in found[1].items():
        torch.testing.assert_close(found[0][name], gradient, rtol=1e-6, atol=1e-9)


def test_inputs_are_sentences_and_the_oracle(tiny_bart_tokenizer: PreTrainedTokenizerFast) -> None:
    text = topical_text(12)
    lines = [f"{each}." for each in text.split(".")][:-1]
    summary = f"{lines[3]} {lines[7]}"
    notes: list[str] = []
    inputs = SentenceInputs(tiny_bart_tokenizer, None, notes.append)(Example("a", text, summary))
    assert len(inputs.segments) == 12
    assert inputs.targets == [[3, 7]] == [sorted(oracle.greedy(lines, summary))]
    shown = tiny_bart_tokenizer.decode(inputs.segments[3], skip_special_tokens=True)
    assert shown == " ".join(lines[3].split())
    cut = SentenceInputs(tiny_bart_tokenizer, 150, notes.append)(Example("a", text, summary, "why"))
    assert sum(map(len, cut.segments)) <= 150
    assert cut.targets == [[3]]
    assert "trained on" in notes[0]
    assert tiny_bart_tokenizer.decode(cut.segments[0], skip_special_tokens=True).startswith("why The")


@pytest.fixture(scope="module")
def trained(roberta: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It learns that sentences about rockets matter."""
    folder = tmp_path_factory.mktemp("extractor")
    rows = []
    for number in range(4):
        text = topical_text(30, seed=number)
        about = [each.strip() + "." for each in text.split(".") if "rocket" in each]
        rows.append({"id": f"report {number}", "document": text, "summary": " ".join(about)})
    for split in ("train", "test"):
        write(folder / "data" / f"{split}.jsonl", rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWESUM_CACHE", str(folder / "cache"))
        arguments = ["train", "--system", "extractor", "--base", roberta, "--data", folder / "data", "--heads", "4"]
        arguments += ["--output", folder / "out", "--learning-rate", "2e-3", "--epochs", "12", "--accumulation", "1"]
        assert main([*map(str, arguments), "--warmup-steps", "2", "--save-steps", "100", "--quiet"]) == 0
    return folder / "out"


def test_it_learns_what_matters(trained: Path) -> None:
    assert record(trained)["state"] == "finished"
    assert systems.kind_of(str(trained)).name == "extractor"
    salience = load_extractor(trained)
    assert isinstance(salience, SentenceSalience)
    text = topical_text(30, seed=9)
    lines = [f"{each}." for each in text.split(".")][:-1]
    scores = salience.rate(lines, np.zeros((len(lines), 1), np.float32)).scores
    about = np.array(["rocket" in line for line in lines])
    assert scores[about].min() > scores[~about].max()


def test_it_summarizes(trained: Path, tmp_path: Path) -> None:
    output = tmp_path / "predicted.jsonl"
    assert (
        main(
            [
                "predict",
                str(trained),
                "--data",
                str(trained.parent / "data"),
                "--length",
                "3s",
                "-o",
                str(output),
                "--quiet",
            ]
        )
        == 0
    )
    for line in output.read_text().splitlines():
        assert json.loads(line)["summary"].count("rocket report") == 3


def test_queries_stand_before_sentences(tiny_bart_tokenizer: PreTrainedTokenizerFast) -> None:
    ids = sentence_ids(tiny_bart_tokenizer, ["A b.\n", "word " * 500], " who ")
    assert tiny_bart_tokenizer.decode(ids[0], skip_special_tokens=True) == "who A b."
    assert len(ids[1]) == 128


def test_what_is_no_extractor_is_refused(roberta: Path, tmp_path: Path) -> None:
    def refused(call: Any) -> str:
        with pytest.raises(AwesumError) as error:
            call()
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "extractor_head.safetensors" in refused(lambda: load_extractor(roberta))
    assert "needs --model" in refused(lambda: systems.load("extractor"))
    assert "does not divide" in refused(lambda: make("extractor", str(roberta), settings(heads=5)).model)
    BertConfig().save_pretrained(tmp_path)
    assert "extractor takes roberta" in refused(lambda: make("extractor", str(tmp_path), settings()).model)
    assert isinstance(load_extractor(Path(TrainedSalience.load.__func__.__defaults__[0])), TrainedSalience)  # type: ignore[attr-defined]
