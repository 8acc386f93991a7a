"""Metrics that need a model, beside those that need none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from awesum.cli import main
from awesum.errors import AwesumError
from awesum.metrics import Sample, load
from tests.evaluation.samples import NUMBER, document, error, prediction, reference, rows, score
from tests.metrics.test_summac import saved, tiny, words_tokenizer


@pytest.fixture
def nli(tmp_path: Path) -> str:
    tokenizer = words_tokenizer()
    return saved(tmp_path / "nli", tiny("bert", tokenizer), tokenizer)


def test_metrics_with_and_without_a_model_together(
    tmp_path: Path, ours: Path, theirs: Path, references: Path, nli: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["evaluate", ours, references, "--compare", theirs, "--metrics", "summac", "rouge", "--nli-model", nli]
    arguments += ["--premises", "all", "--scores", tmp_path / "scores.jsonl", "--json", "--processes", "2", "--quiet"]
    assert main([*map(str, arguments)]) == 0
    parsed = json.loads(capsys.readouterr().out)
    assert list(parsed["scores"]) == ["rouge-1", "rouge-2", "rouge-l", "summac-zs", "summac-conv"]
    assert nli in parsed["scores"]["summac-zs"]["settings"]
    metric = load("summac", model=nli, premises=None)
    for number, name in enumerate(("ours", "theirs")):
        samples = [Sample(prediction(n, number), (reference(n),), document(n)) for n in range(NUMBER)]
        expected = np.mean([metric.measure(sample)["summac-zs"] for sample in samples])
        assert parsed["systems"][name]["scores"]["summac-zs"]["mean"] == pytest.approx(expected)


def test_pruned_and_exact_scores_are_not_mixed_up(tmp_path: Path, ours: Path, references: Path, nli: str) -> None:
    file = tmp_path / "scores.jsonl"
    options = {"metrics": ["summac"], "scores": file}
    score(ours, references, options={"summac": {"model": nli, "premises": None}}, **options)
    with pytest.raises(AwesumError, match="contains something other"):
        score(ours, references, options={"summac": {"model": nli, "premises": 3}}, **options)


def test_scores_of_another_model_of_the_same_name_are_not_reused(
    tmp_path: Path, ours: Path, references: Path, nli: str
) -> None:
    file = tmp_path / "scores.jsonl"
    options = {"metrics": ["summac"], "scores": file, "options": {"summac": {"model": nli, "premises": None}}}
    score(ours, references, **options)
    tokenizer = words_tokenizer()
    saved(Path(nli), tiny("bert", tokenizer, hidden_size=8), tokenizer)
    with pytest.raises(AwesumError, match="contains something other"):
        score(ours, references, **options)


def test_truncated_sentences_are_reported(tmp_path: Path, references: Path, nli: str) -> None:
    endless = rows(tmp_path / "endless.jsonl", [{"id": f"d{n}", "summary": "word " * 900} for n in range(NUMBER)])
    options = {"summac": {"model": nli, "premises": None}}
    notes = score(endless, references, metrics=["summac"], options=options).notes
    assert any("too long for the model, truncated to its window" in note for note in notes)


def test_model_that_is_not_an_nli_model(
    ours: Path, references: Path, tiny_bart_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = error(capsys, ours, references, "--metrics", "summac", "--nli-model", tiny_bart_folder)
    assert str(tiny_bart_folder) in line
    assert "give an NLI model" in line
