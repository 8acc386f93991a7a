"""BART from segment to segment: as it is (Se3), or with the memory and the salient content that it was trained with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GenerationConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from awesum import Document, Settings, Summarizer
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.cli import main
from awesum.compose.plan import WholeDocument
from awesum.engine import seq2seq
from awesum.length import count_words
from awesum.models.bart import AwesomeBart
from awesum.recurrence import DocumentInputs
from awesum.systems.awesome import Awesome
from tests.conftest import topical_text
from tests.golden.flows import adapter_folder


@pytest.fixture(scope="module", params=["attentive-text", "attentive-both", "compressive-key-value", "bart"])
def folder(request: pytest.FixtureRequest, tiny_bart_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that writes short parts, with weights that make its memory matter."""
    folder = tmp_path_factory.mktemp("recurrent")
    shutil.copytree(tiny_bart_folder, folder, dirs_exist_ok=True)
    kinds: dict[str, dict[str, Any] | None] = {
        "attentive-text": {"memory": "attentive", "salient": "text"},
        "attentive-both": {"memory": "attentive", "memory_direction": "both"},
        "compressive-key-value": {"memory": "compressive", "salient": "key-value"},
        "bart": None,
    }
    equipment = kinds[request.param]
    if equipment is not None:
        torch.manual_seed(0)  # for the weights that a plain BART does not have
        model = AwesomeBart.from_pretrained(tiny_bart_folder, memory_size=8, memory_layers=2, **equipment)
        torch.manual_seed(5)
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
    return Summarizer(str(folder), encoder=tiny_encoder, extractor=Centrality())


def test_every_segment_passes_through(summarizer: Summarizer, document: Document) -> None:
    seen: list[tuple[str, int, int]] = []
    run = summarizer.start(document, Settings(), lambda stage, done, total: seen.append((stage, done, total)))
    summary = run.finish()
    assert run.session is not None
    assert isinstance(run.session.plan, WholeDocument)
    segments = len(summary.segments)
    assert segments > 3
    assert seen[-1] == ("writing", segments, segments)
    assert summary.figures.tokens_read == summary.tokens
    assert {part.segment for part in summary.parts} <= set(range(segments))
    assert summary.parts
    assert summary.complete
    for part in summary.parts:
        for sentence in part.sentences:
            source = sentence.source  # of the segment, or of another one that a memory may have carried here
            assert document.text[source.start : source.end] == source.text


def test_parts_come_as_they_are_written(summarizer: Summarizer, document: Document) -> None:
    seen: list[tuple[str, int, int]] = []
    run = summarizer.start(document, Settings(), lambda stage, done, total: seen.append((stage, done, total)))
    next(iter(run))
    stage, done, total = seen[-1]
    assert stage == "writing"
    assert done < total == len(run.summary().segments)


def test_length_removes_sentences_and_notes_it(summarizer: Summarizer, document: Document) -> None:
    free = summarizer.start(document, Settings()).finish()
    short = summarizer.start(document, Settings(length="4w")).finish()
    assert len(short.text.split()) < len(free.text.split())
    assert any("removed to keep to the length" in note for note in short.notes)
    assert not any("to keep to the length" in note for note in free.notes)


def test_empty_summary_is_noted(summarizer: Summarizer, document: Document, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(model: object, batch: list[DocumentInputs], **options: object) -> Iterator[tuple[int, int, list[int]]]:
        for place, inputs in enumerate(batch):
            for number in range(len(inputs.segments)):
                yield place, number, []

    run = summarizer.start(document, Settings())
    assert not run.summary().notes
    with monkeypatch.context() as patch:
        patch.setattr(seq2seq, "generate", silent)
        empty = run.finish()
    assert empty.complete
    assert not empty.text
    assert any("empty" in note for note in empty.notes)
    assert not any("empty" in note for note in summarizer.start(document, Settings()).finish().notes)


def test_interrupted_run_is_resumed_after_its_parts(summarizer: Summarizer, document: Document) -> None:
    whole = summarizer.start(document, Settings()).finish()
    first = whole.parts[:2]
    again = summarizer.start(document, Settings(), done=first).finish()
    assert again.parts[:2] == first
    assert [part.segment for part in again.parts[2:]] == sorted({part.segment for part in again.parts[2:]})
    assert all(part.segment > first[-1].segment for part in again.parts[2:])


def test_extract_needs_no_weights(summarizer: Summarizer, document: Document) -> None:
    summary = summarizer.start(document, Settings(style="extract", length="3s")).finish()
    assert len([sentence for part in summary.parts for sentence in part.sentences]) == 3
    assert isinstance(summarizer.system, Awesome)
    assert "_writer" not in vars(summarizer.system)


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


def saying(text: str, tokenizer: PreTrainedTokenizerBase) -> Callable[..., Iterator[tuple[int, int, list[int]]]]:
    """A model that says the same about every segment."""

    def generate(model: object, batch: list[DocumentInputs], **options: object) -> Iterator[tuple[int, int, list[int]]]:
        for place, inputs in enumerate(batch):
            for number in range(len(inputs.segments)):
                yield place, number, tokenizer(text)["input_ids"]

    return generate


def test_what_the_source_does_not_support_is_removed_and_noted(
    summarizer: Summarizer, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not checked at all."""
    text = "The rocket cost 1000 dollars. The rocket cost 31337 dollars. The crew met Lockheed in the orbit."
    monkeypatch.setattr(seq2seq, "generate", saying(text, summarizer.system.tokenizer))
    summary = summarizer.summarize(document)
    segments = len(summary.segments)
    assert "31337" not in summary.text
    assert "Lockheed" not in summary.text
    assert "The rocket cost 1000 dollars." in summary.text
    (note,) = (note for note in summary.notes if "unsupported" in note)
    assert f"{2 * segments} sentences" in note
    assert {sentence.text for part in summary.parts for sentence in part.sentences} == {"The rocket cost 1000 dollars."}
    session = summarizer.start(document)
    session.finish()
    assert session.session is not None
    assert session.session.raw().count("31337") == segments, "as it came from the model, for benchmarking"


def test_figure_of_another_segment_is_supported(
    summarizer: Summarizer, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory carries figures from one segment to another."""
    last = 1000 + 7 * 23
    assert str(last) in document.text
    text = f"The report cost {last} dollars."
    monkeypatch.setattr(seq2seq, "generate", saying(text, summarizer.system.tokenizer))
    summary = summarizer.summarize(document)
    assert summary.parts[0].text == text
    assert not any("unsupported" in note for note in summary.notes)


def test_extract_has_two_hundred_words_unless_it_is_told(summarizer: Summarizer, long_document: Document) -> None:
    """With a model that decides its own length it was a tenth of the document."""
    summary = summarizer.summarize(long_document, style="extract")
    tenth = count_words(long_document.text) / 10
    assert tenth > 400
    assert count_words(summary.text) == pytest.approx(200, abs=15)
    assert summary.parts == summarizer.summarize(long_document, style="extract", length="200w").parts


@pytest.mark.parametrize("kind", ["adapter-attentive", "writer"])
def test_extract_has_two_hundred_words_with_an_adapter_too(
    kind: str,
    tmp_path: Path,
    tiny_tokenizer: PreTrainedTokenizerFast,
    tiny_encoder: SentenceEncoder,
    long_document: Document,
) -> None:
    folder = adapter_folder(kind, tiny_tokenizer, tmp_path)
    summarizer = Summarizer(str(folder), encoder=tiny_encoder, extractor=Centrality())
    summary = summarizer.summarize(long_document, style="extract")
    assert count_words(summary.text) == pytest.approx(200, abs=15)
    assert "_writer" not in vars(summarizer.system)
