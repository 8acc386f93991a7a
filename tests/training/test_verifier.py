"""Training the verifier: it learns, its file holds what it learned, and wrong calls are one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import BertModel

from awesum.analysis.embedding import SentenceEncoder
from awesum.cli import main
from awesum.training.corruption import Statement
from awesum.training.verifier import Training, VerifierSettings, calibrate, evaluate, wrong_tokens
from awesum.verify import Verifier
from awesum.verify.cross_encoder import CrossEncoder, TrainedScorer
from tests.conftest import TOPICS

SETTINGS = VerifierSettings(data=(), output="", epochs=6.0, learning_rate=2e-3)


def statements(count: int) -> list[Statement]:
    """The false one names something of another topic."""
    words = [word for words in TOPICS.values() for word in words.split()]
    found = []
    for number in range(count):
        one, other, third = (words[(7 * number + step) % len(words)] for step in (0, 3, 31))
        source = f"The {one} of the report is about the {other}."
        found.append(
            Statement((source,), f"The report is about the {other}.", f"The report is about the {third}.", "noun")
        )
    return found


def tiny(tiny_encoder: SentenceEncoder) -> CrossEncoder:
    torch.manual_seed(0)
    config = type(tiny_encoder.model.config)(**tiny_encoder.model.config.to_dict() | {"num_hidden_layers": 4})
    model = BertModel(config, add_pooling_layer=False)
    torch.nn.init.normal_(model.embeddings.word_embeddings.weight)
    return CrossEncoder(model, tiny_encoder.tokenizer)


def test_it_learns_to_tell_true_from_false(tiny_encoder: SentenceEncoder) -> None:
    model = tiny(tiny_encoder)
    training = Training(model, SETTINGS)
    frozen = {name: weight.clone() for name, weight in model.encoder.embeddings.named_parameters()}
    pairs = training.tokens(statements(300))
    before = training.loss(pairs[:20]).item()
    training.run(statements(300), quiet=True)
    assert training.loss(pairs[:20]).item() < 0.7 * before
    for name, weight in model.encoder.embeddings.named_parameters():
        assert torch.equal(weight, frozen[name])
    calibration = calibrate(model, statements(40))
    assert calibration.model > 0
    assert all(weight <= 0 for weight in calibration.checks), "disagreement never speaks for a statement"
    scores = evaluate(Verifier(TrainedScorer(model, "tiny"), calibration), statements(60))
    assert scores.accuracy > 0.9
    assert scores.pairs == 60


@pytest.mark.parametrize(
    ("true", "false", "wrong"),
    [
        ([1, 2, 3], [1, 2, 3], [0, 0, 0]),
        ([1, 2, 3], [1, 9, 3], [0, 1, 0]),
        ([1, 2, 3], [1, 2, 9, 3], [0, 0, 1, 0]),
        ([1, 2, 3], [1, 3], [1, 1]),
        ([1, 2, 3], [], []),
    ],
)
def test_wrong_tokens_are_where_the_two_differ(true: list[int], false: list[int], wrong: list[int]) -> None:
    assert wrong_tokens(true, false) == wrong


def test_wrong_calls_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verifier", "train", "--data", str(tmp_path), "--output", str(tmp_path / "no" / "v.safetensors")]) == 1
    assert main(["verifier", "train", "--data", "x", "--output", str(tmp_path / "v"), "--statements", "0"]) == 1
    assert main(["verifier", "check", str(tmp_path / "missing.txt"), "A sentence."]) == 1
    assert capsys.readouterr().err.count("\n") == 3


def test_check_prints_the_support_and_its_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.txt"
    report.write_text("The bank offers a loan for 15 years. The offer is valid until 30 September.")
    arguments = ["verifier", "check", str(report), "The loan is for 30 years.", "--json"]
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert not found["supported"]
    assert main(["verifier", "check", str(report), "The bank offers a loan for 15 years."]) == 0
    assert capsys.readouterr().out.startswith("1.00 supported\n  The bank offers")


def test_check_says_when_the_sentence_is_in_a_language_that_it_cannot_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.txt"
    english = "The bank has offered the city a loan, and the offer is valid until the end of the month. "
    german = "Die Bank hat der Stadt ein Darlehen für 15 Jahre angeboten."
    report.write_text(f"{english * 3}\n\n{german}\n")
    for sentence, is_noted in (
        ("Die Bank hat der Stadt 15 Jahre lang ein Darlehen angeboten.", True),
        ("The bank has offered the city a loan.", False),
        (german, False),
    ):
        assert main(["verifier", "check", str(report), sentence]) == 0
        out, err = capsys.readouterr()
        assert ("knows English only" in err) is is_noted, sentence
        assert ("not supported" in out) is is_noted, sentence


@pytest.mark.slow
def test_train_from_documents_to_a_file_that_summarize_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = Path(__file__).parents[2] / "samples" / "commercial-crew.txt"
    text = sample.read_text(encoding="utf-8")
    rows = [{"document": text[at : at + 9000], "summary": text[at : at + 1500]} for at in range(0, 45_000, 9000)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = tmp_path / "verifier.safetensors"
    arguments = ["verifier", "train", "--data", str(tmp_path), "--output", str(file), "--statements", "120"]
    assert main(arguments) == 0
    assert "in the right order" in capsys.readouterr().out
    assert 0 <= Verifier.load(file).support(["The bank offers a loan."], "A loan is offered.") <= 1
