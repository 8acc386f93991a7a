"""What a short training leaves, in use: with and without a memory, deciding by itself or paraphrasing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from awesum import Document, Settings, Summarizer
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.cli import main
from awesum.compose.plan import OwnWords, Paraphrase
from awesum.compose.session import Session
from awesum.length import count_words
from awesum.models.prompt import Prompt
from awesum.summary import Summary
from awesum.systems.adapter import Adapter
from awesum.systems.system import open_session
from tests.conftest import topical_text
from tests.training.runs import causal_rows, go_with, short_run

pytestmark = pytest.mark.usefixtures("quiet_library", "float32")


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory, causal_base: Path, tiny_encoder: SentenceEncoder
) -> Callable[[str], Path]:
    """Trains an adapter such as `attentive-text`, once."""
    there = tmp_path_factory.mktemp("trained")

    def train(kind: str) -> Path:
        memory, _, salient = kind.partition("-")
        if (there / kind).is_dir():
            return there / kind
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWESUM_CACHE", str(there / "cache"))
            case = short_run(
                there, causal_rows(2), causal_base, output=str(there / kind), memory=memory, salient=salient or "none",
                salient_size=40, memory_layers=2, memory_size=8, learning_rate=3e-3, save_steps=100,
            )  # fmt: skip
            return go_with(tiny_encoder)(case)

    return train


@pytest.fixture(params=["attentive", "compressive-text", "none"])
def folder(request: pytest.FixtureRequest, trained: Callable[[str], Path]) -> Path:
    return trained(request.param)


def loaded(folder: Path, encoder: SentenceEncoder) -> Summarizer:
    return Summarizer(str(folder), encoder=encoder, extractor=Centrality())


@pytest.fixture
def summarizer(folder: Path, tiny_encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> Summarizer:
    """It writes nonsense, which no source supports: here it may."""
    monkeypatch.setattr("awesum.compose.plan.Facts.supports", lambda facts, sentence: True)
    monkeypatch.setattr("awesum.compose.plan.LONGEST_PART", 20)
    return loaded(folder, tiny_encoder)


@pytest.fixture(scope="module")
def document() -> Document:
    return Document(topical_text(50), path="short.txt")


def opened(summarizer: Summarizer, document: Document, **settings: Any) -> Session:
    return open_session(summarizer.system, document, Settings(**settings))


@pytest.fixture
def prompts(monkeypatch: pytest.MonkeyPatch) -> list[Prompt]:
    """Will hold what the model is asked."""
    asked: list[Prompt] = []
    following = Session.next_prompt

    def noting(self: Session) -> Any:
        prompt = following(self)
        if prompt is not None:
            asked.append(prompt)
        return prompt

    monkeypatch.setattr(Session, "next_prompt", noting)
    return asked


# --------------------------------------------------------------------------------------------- the model decides


def test_every_segment_passes_through(summarizer: Summarizer, document: Document) -> None:
    seen: list[tuple[str, int, int]] = []
    run = summarizer.start(document, Settings(), lambda stage, done, total: seen.append((stage, done, total)))
    summary = run.finish()
    assert run.session is not None
    assert isinstance(run.session.plan, OwnWords)
    segments = len(summary.segments)
    assert segments > 2
    assert seen[-1] == ("writing", segments, segments)
    assert summary.complete
    assert summary.parts
    for part in summary.parts:
        for sentence in part.sentences:
            source = sentence.source  # of the segment, or of another one that a memory may have carried here
            assert document.text[source.start : source.end] == source.text


def test_parts_come_as_they_are_written(summarizer: Summarizer, document: Document, prompts: list[Prompt]) -> None:
    run = summarizer.start(document, Settings())
    next(run)
    assert len(prompts) < len(run.summary().segments)


def test_segments_without_a_share_of_the_length_are_only_remembered(
    summarizer: Summarizer, document: Document, prompts: list[Prompt]
) -> None:
    short = summarizer.summarize(document, length="1s")
    assert [prompt.number for prompt in prompts] == list(range(len(short.segments)))
    written = [prompt for prompt in prompts if prompt.known is None]
    assert all(prompt.known == () for prompt in prompts if prompt not in written)
    assert 0 < len(written) < len(prompts)
    assert sum(len(part.sentences) for part in short.parts) <= 2


def test_length_is_filled_by_a_model_that_would_end_sooner(
    summarizer: Summarizer, document: Document, prompts: list[Prompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("awesum.compose.plan.LONGEST_PART", 200)
    assert isinstance(summarizer.system, Adapter)
    model = summarizer.system.writer.adapter
    assert model is not None
    monkeypatch.setattr(model, "adapter_config", replace(model.adapter_config, ending=1e-9))
    assert not summarizer.summarize(document).text
    prompts.clear()
    answers: dict[int, int] = {}
    accept = Session.accept
    monkeypatch.setattr(
        Session,
        "accept",
        lambda self, number, answer: (answers.update({number: len(answer.tokens)}), accept(self, number, answer))[1],
    )
    summarizer.summarize(document, length="60w")
    for prompt in prompts:
        assert answers[prompt.number] >= prompt.least if prompt.known is None else not answers[prompt.number]
    assert max(prompt.least for prompt in prompts) > 10


@pytest.mark.parametrize("length", ["1w", "5w", "1s", "4s", "30w", "500w"])
def test_remaining_length_is_the_budget_of_a_part(
    summarizer: Summarizer, document: Document, length: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("awesum.compose.plan.LONGEST_PART", 60)
    session = opened(summarizer, document, length=length)
    asked = [session.plan.prompt(number, [], number - 1) for number in session.plan.order]  # nothing is written yet
    assert len(asked) == len(session.analysis.segments)
    written = [prompt for prompt in asked if prompt.known is None]
    assert written, "a short summary is not an empty one"
    assert all(prompt.least > 9 for prompt in written)
    assert isinstance(summarizer.system, Adapter)
    assert all(24 < prompt.limit <= min(120, summarizer.system.window // 5) for prompt in written)
    if length == "4s":
        sentence = "The number {} crane of the quay was painted. "
        said = "".join(sentence.format(word) for word in ("first", "second", "third", "fourth"))
        assert not written[-1].enough(said)  # whether the fourth has ended is not known yet
        assert written[-1].enough(said + "The")


def test_repeated_sentence_does_not_count(summarizer: Summarizer, document: Document) -> None:
    plan = opened(summarizer, document, length="20w").plan
    assert isinstance(plan, OwnWords)
    prompt = [prompt for number in plan.order if (prompt := plan.prompt(number, [], number - 1)).known is None][-1]
    text = "The crane of the old quay was painted green by nine men of the port in one long summer. "
    assert prompt.enough(text + "The")
    plan._said.add(text)
    assert not prompt.enough(text + "The")


def test_interrupted_run_is_resumed_after_its_parts(summarizer: Summarizer, document: Document) -> None:
    whole = summarizer.start(document, Settings()).finish()
    first = whole.parts[:1]
    again = summarizer.start(document, Settings(), done=first).finish()
    assert again.parts[:1] == first
    assert again.complete
    assert all(part.segment > first[-1].segment for part in again.parts[1:])
    everything = summarizer.start(document, Settings(), done=whole.parts).finish()
    assert everything.parts[: len(whole.parts)] == whole.parts


def test_unsupported_sentences_are_removed(
    folder: Path, tiny_encoder: SentenceEncoder, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("awesum.compose.plan.LONGEST_PART", 30)
    monkeypatch.setattr("awesum.compose.plan.Facts.supports", lambda facts, sentence: False)
    summary = loaded(folder, tiny_encoder).summarize(document)
    assert not summary.parts
    assert any("unsupported by the source" in note for note in summary.notes)


def test_part_that_was_cut_off_is_noted(
    summarizer: Summarizer, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("awesum.compose.plan.LONGEST_PART", 3)
    assert any("cut off at 3 tokens" in note for note in summarizer.summarize(document).notes)


def test_extract_loads_no_model(summarizer: Summarizer, document: Document) -> None:
    summary = summarizer.summarize(document, style="extract", length="3s")
    assert len([sentence for part in summary.parts for sentence in part.sentences]) == 3
    assert "_writer" not in vars(summarizer.system)


def test_command_line(
    folder: Path, document: Document, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    report = tmp_path / "report.txt"
    report.write_text(document.text, encoding="utf-8")
    monkeypatch.setattr("awesum.compose.plan.LONGEST_PART", 20)
    assert main(["summarize", str(report), "--model", str(folder), "--json", "--quiet", "--length", "20w"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["settings"]["length"] == "20w"
    assert result["settings"]["dtype"]


def test_documents_side_by_side_are_those_one_by_one(summarizer: Summarizer) -> None:
    texts = [topical_text(50), "One short sentence about a rocket.", topical_text(20, seed=3), topical_text(35, seed=4)]
    documents = [Document(text, path=f"{number}.txt") for number, text in enumerate(texts)]
    alone = [summarizer.summarize(document) for document in documents]
    together = list(summarizer.summarize_all(iter(documents)))
    for one, other in zip(alone, together, strict=True):
        assert isinstance(other, Summary)
        assert other.complete
        assert (other.text, other.notes, other.document.path) == (one.text, one.notes, one.document.path)


# ------------------------------------------------------------------------------------------------------ paraphrasing


@pytest.fixture(params=["none-rewrite", "attentive-rewrite"])
def rewriter(
    request: pytest.FixtureRequest, trained: Callable[[str], Path], tiny_encoder: SentenceEncoder
) -> Summarizer:
    return loaded(trained(request.param), tiny_encoder)


@pytest.fixture(scope="module")
def report() -> Document:
    return Document(topical_text(120), path="long.txt")


def test_only_segments_with_selected_sentences_are_asked(
    rewriter: Summarizer, report: Document, prompts: list[Prompt]
) -> None:
    run = rewriter.start(report, Settings(length="60w"))
    summary = run.finish()
    assert summary.complete
    assert run.session is not None
    assert isinstance(run.session.plan, Paraphrase)
    analysis = run.session.analysis
    selected = [number for number, share in enumerate(analysis.selection.shares) if share]
    assert 0 < len(selected) < len(analysis.segments)
    written = [prompt for prompt in prompts if prompt.known is None]
    assert [prompt.number for prompt in written] == selected
    for prompt in written:
        words = "".join(rewriter.system.tokenizer.decode(prompt.tokens).split())
        share = analysis.selection.shares[prompt.number]
        assert all("".join(analysis.quote(index).text.split()) in words for index in share)
    assert {part.segment for part in summary.parts} <= set(selected)


def test_selected_sentences_stand_in_for_unsupported_ones(rewriter: Summarizer, report: Document) -> None:
    """A model of a few steps writes nonsense: the summary is then what it was asked to paraphrase."""
    summary, extract = (rewriter.summarize(report, length="60w", style=style) for style in ("abstract", "extract"))
    assert 40 <= count_words(summary.text) <= 80
    ours, theirs = (
        {sentence.text for part in each.parts for sentence in part.sentences} for each in (summary, extract)
    )
    assert ours & theirs


def test_without_a_length_it_is_the_usual_one(rewriter: Summarizer, report: Document) -> None:
    assert str(opened(rewriter, report).analysis.selection.length) == "200w"


@pytest.mark.parametrize("length", ["60w", "4s"])
def test_interrupted_paraphrase_is_resumed(rewriter: Summarizer, report: Document, length: str) -> None:
    whole = rewriter.start(report, Settings(length=length)).finish()
    assert len(whole.parts) > 1
    again = rewriter.start(report, Settings(length=length), done=whole.parts[:1]).finish()
    assert [part.segment for part in again.parts] == [part.segment for part in whole.parts]
    assert again.parts[0] == whole.parts[0]


def test_paraphrases_side_by_side_are_those_one_by_one(rewriter: Summarizer) -> None:
    documents = [Document(topical_text(30 + 25 * number, seed=number), path=f"{number}") for number in range(4)]
    alone = [rewriter.summarize(document, length="50w").text for document in documents]
    together = rewriter.summarize_all(documents, length="50w")
    assert [summary.text for summary in together if isinstance(summary, Summary)] == alone
