"""Training an extractor on documents whose summaries are their sentences about money, and evaluating it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rouge_score.rouge_scorer import RougeScorer

from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.extractor import Shape
from awesum.analysis.salience.trained import Calibration, TrainedSalience
from awesum.analysis.salience.words import BUCKETS, stem_ids, stem_rows
from awesum.analysis.sentences import sentence_spans
from awesum.cli import main
from awesum.datasets import Example
from awesum.length import count_words
from awesum.prepared.prepare import prepare
from awesum.training import extractor as training
from awesum.training import extractor_evaluation as evaluation
from awesum.training.extractor import ExtractorSettings, Item, Lesson, to_item, train
from awesum.training.extractor_evaluation import evaluate, extract, table
from tests.datasets.forms import plain, refusal, written
from tests.training.extracting import SHAPE, SPLITS, example, row, untrained

Write = Callable[..., str]
Learned = tuple[TrainedSalience, Path, list[str]]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Writes a dataset as it is, and gives its folder."""

    def write(**splits: list[dict[str, Any]]) -> str:
        folder = tmp_path_factory.mktemp("rows")
        for split, some in splits.items():
            written(folder, f"{split}.jsonl", plain(some))
        return str(folder)

    return write


@pytest.fixture(scope="module")
def folder(rows: Write) -> str:
    return rows(**SPLITS)


@pytest.fixture(scope="module")
def small(rows: Write) -> str:
    return rows(train=SPLITS["train"][:6], validation=SPLITS["validation"][:3], test=SPLITS["test"][:3])


def prepared_from(folder: str, tokenizer: Path, encoder: SentenceEncoder | str, output: Path) -> str:
    options: dict[str, Any] = {"tokenizer": str(tokenizer), "encoder": encoder, "processes": 1}
    return str(prepare(Path(folder), output, lower=60, upper=90, quiet=True, **options).folder)


@pytest.fixture(scope="module")
def learned(folder: str, tiny_encoder: SentenceEncoder, tmp_path_factory: pytest.TempPathFactory) -> Learned:
    """The trained extractor, its file, and the messages of the run."""
    output = tmp_path_factory.mktemp("learned") / "extractor.safetensors"
    messages: list[str] = []
    settings = ExtractorSettings((folder,), str(output), held_out=5, epochs=4, learning_rate=1e-2, batch=2, shape=SHAPE)
    salience = train(settings, encoder=tiny_encoder, processes=1, quiet=True, say=messages.append)
    return salience, output, messages


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch, tiny_encoder: SentenceEncoder) -> None:
    """The tiny encoder is the embedded one."""
    for module in (training, evaluation):
        monkeypatch.setattr(module, "minilm_folder", lambda: Path("embedded"))
    monkeypatch.setattr(SentenceEncoder, "load", lambda folder: tiny_encoder)


def quick(data: str, output: Path, **changes: Any) -> ExtractorSettings:
    return ExtractorSettings((data,), str(output), **{"epochs": 1, "held_out": 1, "shape": SHAPE} | changes)


def silent(note: str) -> None:
    """Nobody reads it."""


# ------------------------------------------------------------------------------------------------------------ training


def test_training_lowers_the_loss(learned: Learned) -> None:
    _, _, (first, *epochs) = learned
    assert re.fullmatch(r"31 training documents, 5 held out, [\d,]+ weights", first)
    losses = [float(re.match(rf"epoch {number}: loss ([\d.]+), ", line)[1]) for number, line in enumerate(epochs, 1)]
    assert len(losses) == 4
    assert losses[-1] < 0.8 * losses[0]


def test_trained_extractor_generalizes_to_other_documents(learned: Learned, tiny_encoder: SentenceEncoder) -> None:
    salience, _, _ = learned
    found = [to_item(example(number), tiny_encoder) for number in range(200, 208)]
    quality = {
        name: np.mean([item.rouge(extract(one, item, item.length)) for item in found])
        for name, one in (("trained", salience), ("untrained", untrained()), ("central", Centrality()))
    }
    assert quality["trained"] > quality["untrained"] + 0.3
    assert quality["trained"] > quality["central"] + 0.3
    usual = [salience.rate(item.texts, item.vectors).usual_words / item.length for item in found]
    assert np.mean(usual) == pytest.approx(1, abs=0.35)


def test_returned_extractor_is_the_one_in_the_file(learned: Learned, tiny_encoder: SentenceEncoder) -> None:
    salience, output, _ = learned
    read = TrainedSalience.load(output)
    assert (read.name, read.calibration) == (salience.name, salience.calibration)
    assert read.extractor.shape == SHAPE
    item = to_item(example(100), tiny_encoder)
    found = [one.rate(item.texts, item.vectors) for one in (read, salience)]
    np.testing.assert_array_equal(found[0].scores, found[1].scores)
    assert [path.name for path in output.parent.iterdir()] == [output.name]


def test_file_depends_only_on_the_seed(small: str, tiny_encoder: SentenceEncoder, tmp_path: Path) -> None:
    files = []
    for number, seed in enumerate((3, 3, 4)):
        output = tmp_path / f"{number}.safetensors"
        torch.rand(number)  # random numbers drawn before must not matter
        settings = quick(small, output, seed=seed)
        train(settings, encoder=tiny_encoder, processes=1, quiet=True, say=silent)
        files.append(output.read_bytes())
    assert files[0] == files[1]
    assert files[0] != files[2]


def test_file_is_replaced_after_every_epoch(
    small: str, tiny_encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "a.safetensors"
    seen: list[Any] = []

    def noting(note: str) -> None:
        if note.startswith("epoch"):
            seen.append(output.read_bytes())
            assert TrainedSalience.load(output).calibration == Calibration()

    train(quick(small, output, epochs=2), encoder=tiny_encoder, processes=1, quiet=True, say=noting)
    assert len({*seen, output.read_bytes()}) == 3


def test_document_in_another_script_does_no_harm(rows: Write, tiny_encoder: SentenceEncoder, tmp_path: Path) -> None:
    foreign = {"id": "f", "document": "国会は予算案を可決した。首相は会見で説明した。", "summary": "The budget passed."}
    lone = {"id": "l", "document": "Budget.\n\nHarbour.\n\nQuay.", "summary": "The budget passed."}
    data = rows(train=[*SPLITS["train"][:4], foreign, lone])
    notes: list[str] = []
    settings = quick(data, tmp_path / "a.safetensors")
    salience = train(settings, encoder=tiny_encoder, processes=1, quiet=True, say=notes.append)
    assert "nan" not in notes[1]
    assert all(torch.isfinite(weight).all() for weight in salience.extractor.state_dict().values())


# ---------------------------------------------------------------------------------------------------- what is held out


def split(*folders: str, **changes: Any) -> tuple[list[Lesson], list[list[Example]]]:
    return training._split(ExtractorSettings(folders, "a", **changes), 1, True)


def test_held_out_documents_are_evenly_spread_and_not_trained_on(folder: str, small: str) -> None:
    lessons, (held_out, more) = split(folder, small, held_out=4)
    assert [one.document for one in held_out] == [SPLITS["train"][at]["document"] for at in (0, 9, 18, 27)]
    assert len(more) == 1, "a fifth of six at most"
    assert len(lessons) == 32 + 5
    lengths = sorted(count_words(one["summary"]) for one in SPLITS["train"])
    kept = sorted([lesson.length for lesson in lessons[:32]] + [count_words(one.summary) for one in held_out])
    assert kept == lengths


def test_number_of_documents_can_be_limited(folder: str) -> None:
    lessons, (held_out,) = split(folder, documents=10, held_out=40)
    assert (len(lessons), len(held_out)) == (8, 2)


def test_document_with_several_queries_is_held_out_as_a_whole(rows: Write) -> None:
    asked = [row(number, query) | {"id": f"{number} {query}"} for number in range(5) for query in ("Crane?", "Tax?")]
    lessons, (held_out,) = split(rows(train=asked), held_out=1)
    assert len(held_out) == 1
    assert len(lessons) == 8, "neither of its two questions is trained on"
    assert all(lesson.query is not None for lesson in lessons)


def test_rarity_is_the_inverse_document_frequency() -> None:
    lessons = [Lesson.of(Example("", text, "The crane.", None)) for text in ("A crane. The crane.", "A tide.", "A.")]
    found = training._rarity(lessons)
    assert found.shape == (BUCKETS,)
    for word, documents in (("a", 3), ("crane", 1), ("tide", 1), ("unheard", 0)):
        assert found[stem_rows(stem_ids(word))[0]] == pytest.approx(np.log(4 / (documents + 1)) + 0.5)


def test_invalid_request_is_refused_in_one_line(folder: str, small: str, rows: Write, tmp_path: Path) -> None:
    def refused(data: str, output: Path, **changes: Any) -> str:
        return refusal(lambda: train(quick(data, output, **changes), processes=1, quiet=True, say=silent))

    target = tmp_path / "a"
    assert "there is no folder" in refused(folder, tmp_path / "nowhere" / "a.safetensors")
    assert "is a folder" in refused(folder, tmp_path)
    assert "nowhere" in refused(str(tmp_path / "nowhere"), target)
    assert "has no split 'train': it has validation, test" in refused(
        rows(validation=SPLITS["test"][:2], test=SPLITS["test"][:2]), target
    )
    assert "has 1 documents: give at least 2" in refused(rows(train=SPLITS["train"][:1]), target)
    assert "has 1 documents: give at least 2" in refused(folder, target, documents=1)
    same = [SPLITS["train"][0] | {"id": str(number)} for number in range(3)]
    assert "would be held out" in refused(rows(train=same), target)
    foreign = [{"id": str(number), "document": f"国会{number}。", "summary": "予算。"} for number in range(4)]
    assert "no document has words of a-z" in refused(rows(train=foreign), target)
    assert list(tmp_path.iterdir()) == []
    nothing = rows(test=[{"document": "No summary."}])
    assert "the split 'test'" in refusal(lambda: evaluate(untrained(), nothing, "test", processes=1, quiet=True))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_output_that_cannot_be_written_is_refused_at_once(folder: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        message = refusal(lambda: train(quick(folder, tmp_path / "a"), processes=1, quiet=True, say=silent))
    finally:
        tmp_path.chmod(0o700)
    assert "cannot write" in message


def test_full_disk_is_refused_at_once(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(training, "check_writable", fail)
    monkeypatch.setattr(training, "examples", lambda *rest: pytest.fail("the data was read"))
    message = refusal(lambda: train(quick(folder, tmp_path / "a"), processes=1, quiet=True, say=silent))
    assert "cannot write" in message
    assert "No space left" in message


# ---------------------------------------------------------------------------------------------------------- evaluating


@pytest.mark.usefixtures("embedded")
def test_rows_are_the_scores_of_the_extracts(learned: Learned, folder: str, tiny_encoder: SentenceEncoder) -> None:
    salience, _, _ = learned
    rows = evaluate(salience, folder, "test", documents=4, processes=1, quiet=True)
    assert [row.name for row in rows] == ["lead", "unsupervised", "trained", "oracle"]
    scorer = RougeScorer(["rouge1", "rouge2", "rougeLsum"], use_stemmer=True)
    found_items = [to_item(example(number), tiny_encoder) for number in (200, 202, 204, 206)]  # evenly spread
    for one in rows:
        scores, words, errors, hits, either = [], [], [], 0, 0
        for item in found_items:
            amount = salience.rate(item.texts, item.vectors).usual_words
            chosen = {
                "lead": lead(item, amount),
                "unsupervised": extract(Centrality(), item, amount),
                "trained": extract(salience, item, amount),
                "oracle": item.oracle,
            }[one.name]
            lines = "\n".join(item.summary[start:end].strip() for start, end in sentence_spans(item.summary))
            found = scorer.score(lines, "\n".join(item.texts[index].strip() for index in chosen))
            scores.append([100 * found[name].fmeasure for name in ("rouge1", "rouge2", "rougeLsum")])
            words.append(sum(count_words(item.texts[index]) for index in chosen))
            errors.append(100 * abs(words[-1] - item.length) / item.length)
            hits += len(set(chosen) & set(item.oracle))
            either += len(chosen) + len(item.oracle)
        assert one.rouge == pytest.approx(np.mean(scores, axis=0))
        assert one.words == pytest.approx(np.mean(words))
        assert one.f1 == pytest.approx(200 * hits / either)
        assert one.length_error == pytest.approx(np.mean(errors))


def lead(item: Item, amount: float) -> list[int]:
    """The first sentences, until they have `amount` words."""
    chosen: list[int] = []
    while sum(count_words(item.texts[index]) for index in chosen) < amount:
        chosen.append(len(chosen))
    return chosen


@pytest.mark.usefixtures("embedded")
def test_oracle_scores_highest_and_the_trained_extractor_next(learned: Learned, folder: str) -> None:
    rows = {row.name: row for row in evaluate(learned[0], folder, "test", processes=1, quiet=True)}
    assert rows["oracle"].f1 == 100
    for name in ("lead", "unsupervised"):
        for measured in range(3):
            assert rows["oracle"].rouge[measured] >= rows["trained"].rouge[measured] > rows[name].rouge[measured]
        assert rows["trained"].f1 > rows[name].f1


@pytest.mark.usefixtures("embedded")
def test_all_extracts_can_have_the_length_of_the_reference(folder: str) -> None:
    short = TrainedSalience(untrained().extractor, Calibration(length=1e-6))
    own = evaluate(short, folder, "validation", processes=1, quiet=True)
    rows = evaluate(short, folder, "validation", at_reference=True, processes=1, quiet=True)
    reference_words = np.mean([count_words(row["summary"]) for row in SPLITS["validation"]])
    for one, shorter in zip(rows[:3], own[:3], strict=True):
        assert one.words == pytest.approx(reference_words, abs=9)  # the words of one sentence
        assert shorter.words == 9
        assert one.length_error < shorter.length_error
    assert rows[3] == own[3]


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize("documents", [None, 2])
def test_prepared_folder_gives_the_same_rows(
    learned: Learned,
    small: str,
    tiny_folder: Path,
    tiny_encoder: SentenceEncoder,
    tmp_path: Path,
    documents: int | None,
) -> None:
    prepared = prepared_from(small, tiny_folder, tiny_encoder, tmp_path / "prepared")
    raw, ready = (
        evaluate(learned[0], where, "validation", documents=documents, processes=1, quiet=True)
        for where in (small, prepared)
    )
    for one, other in zip(raw, ready, strict=True):
        assert one.name == other.name
        assert one.rouge == pytest.approx(other.rouge)
        assert (one.words, one.f1, one.length_error) == pytest.approx((other.words, other.f1, other.length_error))


def test_queries_of_prepared_documents_are_encoded_by_the_encoder_of_the_vectors(
    rows: Write, tiny_folder: Path, tiny_encoder: SentenceEncoder, tmp_path: Path
) -> None:
    tiny_encoder.model.save_pretrained(tmp_path / "encoder")
    tiny_encoder.tokenizer.save_pretrained(tmp_path / "encoder")
    asked = rows(test=[row(0, "What of the harbour crane?"), row(1)])
    named = prepared_from(asked, tiny_folder, str(tmp_path / "encoder"), tmp_path / "named")
    count, found = evaluation._items(named, "test", None)
    first, second = found
    assert count == 2
    assert first.query.text == "What of the harbour crane?"
    np.testing.assert_allclose(first.query.vector, tiny_encoder.encode([first.query.text])[0], atol=1e-6)
    assert second.query is None
    nameless = prepared_from(asked, tiny_folder, tiny_encoder, tmp_path / "nameless")
    assert "from an unnamed encoder" in refusal(lambda: list(evaluation._items(nameless, "test", None)[1]))


@pytest.mark.parametrize("count", [1, 3, 4, 7, 19, 35, 36, 100, None])
def test_documents_are_evenly_spread(count: int | None) -> None:
    found = sorted(evaluation._spread(36, count, "folder", "train"))
    assert len(found) == min(count or 36, 36)
    assert found[0] == 0
    gaps = np.diff([*found, 36])
    assert gaps.min() >= 1
    assert gaps.max() - gaps.min() <= 1
    assert "the split 'train' of folder has no documents" in refusal(
        lambda: evaluation._spread(0, count, "folder", "train")
    )


@pytest.mark.usefixtures("embedded")
def test_table_has_one_line_per_row(folder: str) -> None:
    rows = evaluate(untrained(), folder, "test", documents=2, processes=1, quiet=True)
    head, *lines = table(rows).splitlines()
    assert head.split() == ["R-1", "R-2", "R-Lsum", "words", "F1", "length", "off", "by"]
    assert [line.split() for line in lines] == [
        [
            row.name,
            *(f"{score:.2f}" for score in row.rouge),
            f"{row.words:.0f}",
            f"{row.f1:.2f}",
            f"{row.length_error:.1f}%",
        ]
        for row in rows
    ]
    assert len({len(line) for line in (head, *lines)}) == 1


# --------------------------------------------------------------------------------------------------------- the command


@pytest.mark.usefixtures("embedded")
def test_command_trains_and_evaluates(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--epochs", "2", "--size", "16", "--hold-out", "1", "--processes", "1", "--quiet"]
    assert main(["extractor", "train", "--data", small, "--output", "mine.safetensors", *options]) == 0
    captured = capsys.readouterr()
    salience = TrainedSalience.load("mine.safetensors")
    assert captured.out.splitlines() == [str(salience.calibration), "mine.safetensors"]
    assert [line.split(":")[0] for line in captured.err.splitlines()[1:]] == ["epoch 1", "epoch 2"]
    assert salience.extractor.shape == Shape(size=16, inner=48)

    command = ["extractor", "evaluate", "--data", small, "--extractor", "mine.safetensors", "--split", "test"]
    command += ["--processes", "1", "--documents", "2", "--quiet"]
    expected = evaluate(salience, small, "test", documents=2, processes=1, quiet=True)
    assert main(command) == 0
    assert capsys.readouterr().out.rstrip("\n") == table(expected)
    assert main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [(row["name"], tuple(row["rouge"]), row["words"], row["f1"], row["length_error"]) for row in printed] == [
        (row.name, row.rouge, row.words, row.f1, row.length_error) for row in expected
    ]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("train --data nowhere --output a", "nowhere"),
        ("train --data nowhere --output gone/a", "cannot write to gone/a"),
        ("train --data nowhere --output a --epochs 0", "--epochs must be more than 0, not 0"),
        ("train --data nowhere --output a --learning-rate nan", "--learning-rate must be more than 0, not nan"),
        ("train --data nowhere --output a --hold-out 0", "--hold-out must be more than 0"),
        ("train --data nowhere --output a --size 10", "--size must be a multiple of 4"),
        ("train --data nowhere --output a --dropout 1", "--dropout from 0 to below 1"),
        ("train --data nowhere --output .", "Is a directory"),
        ("evaluate --data nowhere --extractor gone", "gone is not an extractor"),
        ("evaluate --data nowhere --documents 0", "--documents must be more than 0"),
        ("evaluate --data nowhere --processes -1", "--processes must be more than 0"),
    ],
)
def test_command_refuses_in_one_line(
    command: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["extractor", *command.split()]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("awesum: error: ")
    assert reason in line
