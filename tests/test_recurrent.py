"""`awesum summarize --model FOLDER` with a model that goes from segment to segment: a BART, or what was trained."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import GenerationConfig

from awesum import Document, Settings, Summarizer
from awesum.analysis.embedding import SentenceEncoder
from awesum.cli import main
from awesum.models.bart import AwesomeBart
from awesum.recurrent import RecurrentRun
from tests.conftest import topical_text


@pytest.fixture(scope="module", params=["attentive-text", "attentive-both", "compressive-key-value", "bart"])
def folder(request: pytest.FixtureRequest, tiny_bart_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that writes short parts, with weights that make its memory matter."""
    folder = tmp_path_factory.mktemp("recurrent")
    shutil.copytree(tiny_bart_folder, folder, dirs_exist_ok=True)
    kinds = {
        "attentive-text": {"memory": "attentive", "salient": "text"},
        "attentive-both": {"memory": "attentive", "memory_direction": "both"},
        "compressive-key-value": {"memory": "compressive", "salient": "key-value"},
        "bart": None,
    }
    equipment = kinds[request.param]
    if equipment is not None:
        model = AwesomeBart.from_pretrained(tiny_bart_folder, memory_size=8, memory_layers=2, **equipment)
        torch.manual_seed(1)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        model.save_pretrained(folder)
    short = GenerationConfig.from_pretrained(folder)
    short.update(num_beams=2, max_length=24, no_repeat_ngram_size=3, early_stopping=True)
    short.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def document() -> Document:
    return Document(topical_text(24), path="short.txt")


@pytest.fixture
def summarizer(folder: Path, tiny_encoder: SentenceEncoder) -> Summarizer:
    return Summarizer(str(folder), encoder=tiny_encoder)


def test_every_segment_passes_through(summarizer: Summarizer, document: Document) -> None:
    run = summarizer.start(document, Settings())
    assert isinstance(run, RecurrentRun)
    seen: list[tuple[str, int, int]] = []
    run.progress = lambda stage, done, total: seen.append((stage, done, total))
    summary = run.finish()
    segments = len(summary.segments)
    assert segments > 3
    assert seen[-1] == ("writing", segments, segments)
    assert summary.figures.tokens_read == summary.tokens
    assert {part.segment for part in summary.parts} <= set(range(segments))
    assert summary.parts
    assert summary.complete
    for part in summary.parts:
        for sentence in part.sentences:
            assert part.start <= sentence.source.start < sentence.source.end <= part.end


def test_parts_come_as_they_are_written(summarizer: Summarizer, document: Document) -> None:
    run = summarizer.start(document, Settings())
    next(iter(run))
    assert run._reached < len(run.segments) - 1


def test_length_leaves_sentences_out_and_says_so(summarizer: Summarizer, document: Document) -> None:
    free = summarizer.start(document, Settings()).finish()
    short = summarizer.start(document, Settings(length="10w")).finish()
    assert len(short.text.split()) < len(free.text.split())
    assert any("left out to keep to the length" in note for note in short.notes)
    assert not any("left out" in note for note in free.notes)


def test_empty_summary_is_said_to_be_empty(
    summarizer: Summarizer, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = summarizer.start(document, Settings())
    monkeypatch.setattr(run, "_answers", lambda inputs, known: enumerate("" for _ in inputs.segments))
    assert not run.summary().notes
    empty = run.finish()
    assert empty.complete
    assert not empty.text
    assert any("empty" in note for note in empty.notes)
    assert not any("empty" in note for note in summarizer.start(document, Settings()).finish().notes)


def test_interrupted_run_goes_on_behind_its_parts(summarizer: Summarizer, document: Document) -> None:
    whole = summarizer.start(document, Settings()).finish()
    first = whole.parts[:2]
    again = summarizer.start(document, Settings(), written=first).finish()
    assert again.parts[:2] == first
    assert [part.segment for part in again.parts[2:]] == sorted({part.segment for part in again.parts[2:]})
    assert all(part.segment > first[-1].segment for part in again.parts[2:])


def test_extract_needs_no_weights(summarizer: Summarizer, document: Document) -> None:
    summary = summarizer.start(document, Settings(style="extract", length="3s")).finish()
    assert len([sentence for part in summary.parts for sentence in part.sentences]) == 3
    assert "recurrent" not in vars(summarizer)


def test_command_line(folder: Path, document: Document, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.txt"
    report.write_text(document.text, encoding="utf-8")
    assert main(["summarize", str(report), "--model", str(folder), "--json", "--quiet"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["parts"]
    assert result["settings"]["length"] is None
    assert result["settings"]["dtype"]
    assert main(["summarize", str(report), "--model", str(folder), "--max-memory", "10MB"]) == 1
    error = capsys.readouterr().err.strip().splitlines()
    assert len(error) == 1
    assert "too little" in error[0]


def test_folder_that_is_no_model(document: Document, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.txt"
    report.write_text(document.text, encoding="utf-8")
    (tmp_path / "empty").mkdir()
    assert main(["summarize", str(report), "--model", str(tmp_path / "empty")]) == 1
    error = capsys.readouterr().err.strip().splitlines()
    assert len(error) == 1
    assert "config.json" in error[0]
