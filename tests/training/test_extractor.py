"""Training an extractor on documents whose summaries are their sentences about money, and evaluating it."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rouge_score.rouge_scorer import RougeScorer

from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.extractor import Extractor, Shape
from awesum.analysis.salience.trained import Calibration, TrainedSalience
from awesum.analysis.sentences import sentence_spans
from awesum.cli import main
from awesum.length import count_words
from awesum.prepared.prepare import prepare
from awesum.training import extractor as training
from awesum.training.extractor import (
    ExtractorSettings,
    Item,
    Items,
    calibrate,
    evaluate,
    extract,
    fit_length,
    measure,
    table,
    train,
)
from tests.conftest import TOPICS
from tests.datasets.forms import plain, refusal, written

pytest.importorskip("pyarrow")

MARKED = "budget"
SHAPE = Shape(size=16, heads=4, inner=24, dropout=0.1)


def row(number: int, query: str | None = None) -> dict[str, Any]:
    """A document of 16 to 24 sentences, a fifth of them about money; those, slightly changed, are its summary."""
    chance = random.Random(number)
    others = [topic for topic in TOPICS if topic != MARKED]
    count = 16 + number % 3 * 4
    marked = set(chance.sample(range(3, count), count // 5))
    sentences = []
    for at in range(count):
        words = chance.sample(TOPICS[MARKED if at in marked else chance.choice(others)].split(), 8)
        sentences.append(f"{' '.join(words).capitalize()} {number * 100 + at}.")
    summary = " ".join(sentences[at].replace(".", " as well.") for at in sorted(marked))
    return {"id": f"r{number}", "document": " ".join(sentences), "summary": summary, "query": query}


SPLITS = {
    "train": [row(number) for number in range(36)],
    "validation": [row(number) for number in range(100, 110)],
    "test": [row(number) for number in range(200, 212)],
}
Prepare = Callable[..., str]


@pytest.fixture(scope="session")
def prepared_rows(
    tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path, tiny_encoder: SentenceEncoder
) -> Prepare:
    def run(encoder: SentenceEncoder | str = tiny_encoder, **splits: list[dict[str, Any]]) -> str:
        folder = tmp_path_factory.mktemp("extractor")
        for split, rows in splits.items():
            written(folder / "rows", f"{split}.jsonl", plain(rows))
        options: dict[str, Any] = {"tokenizer": str(tiny_folder), "encoder": encoder, "processes": 1}
        return str(prepare(folder / "rows", folder / "out", lower=60, upper=90, quiet=True, **options).folder)

    return run


@pytest.fixture(scope="session")
def folder(prepared_rows: Prepare) -> str:
    return prepared_rows(**SPLITS)


@pytest.fixture(scope="session")
def small(prepared_rows: Prepare) -> str:
    return prepared_rows(train=SPLITS["train"][:8], validation=SPLITS["validation"][:3], test=SPLITS["test"][:3])


@pytest.fixture(scope="session")
def learned(folder: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainedSalience, Path, list[str]]:
    """The trained extractor, its file, and the messages of the run."""
    output = tmp_path_factory.mktemp("learned") / "extractor.safetensors"
    messages: list[str] = []
    settings = ExtractorSettings((folder,), str(output), epochs=4, learning_rate=1e-2, shape=SHAPE)
    return train(settings, quiet=True, say=messages.append), output, messages


@pytest.fixture
def validation(folder: str) -> list[Item]:
    items = list(Items([folder], "validation").spread(None))
    assert len(items) == len(SPLITS["validation"])
    return items


class Chance:
    """Random scores."""

    name = "chance"

    def score(self, texts: list[str], embeddings: np.ndarray, query: np.ndarray | None = None) -> np.ndarray:
        return np.random.default_rng(len(texts)).normal(size=len(texts)).astype(np.float32)


def untrained(seed: int = 0) -> TrainedSalience:
    torch.manual_seed(seed)
    return TrainedSalience(Extractor(replace(SHAPE, vector=32)))


# ------------------------------------------------------------------------------------------------------------ training


def test_training_lowers_the_loss(learned: tuple[TrainedSalience, Path, list[str]]) -> None:
    _, _, (first, *epochs) = learned
    assert re.fullmatch(r"36 training documents, 10 validation documents, [\d,]+ weights", first)
    losses = [float(re.match(rf"epoch {number}: loss ([\d.]+), ", line)[1]) for number, line in enumerate(epochs, 1)]
    assert len(losses) == 4
    assert losses[-1] < 0.9 * losses[0]


def test_trained_extractor_generalizes_to_other_documents(
    learned: tuple[TrainedSalience, Path, list[str]], folder: str
) -> None:
    salience, _, _ = learned
    items = list(Items([folder], "test").spread(None))
    found = {type(one).__name__: measure(one, items) for one in (salience, Centrality(), Chance())}
    for two in ("Centrality", "Chance"):
        assert found["TrainedSalience"][0] > found[two][0] + 0.2
        assert found["TrainedSalience"][1] > found[two][1] + 0.2


def test_returned_extractor_is_the_one_in_the_file(
    learned: tuple[TrainedSalience, Path, list[str]], validation: list[Item]
) -> None:
    salience, output, _ = learned
    read = TrainedSalience.load(output)
    assert (read.name, read.calibration) == (salience.name, salience.calibration)
    assert read.extractor.shape == replace(SHAPE, vector=32)
    item = validation[0]
    scores = [one.score(item.texts, item.embeddings) for one in (read, salience)]
    np.testing.assert_array_equal(*scores)
    assert read.calibration == calibrate(salience, validation)


def test_file_depends_only_on_the_seed(small: str, tmp_path: Path) -> None:
    files = []
    for number, seed in enumerate((3, 3, 4)):
        output = tmp_path / f"{number}.safetensors"
        torch.rand(number)  # random numbers drawn before must not matter
        settings = ExtractorSettings((small,), str(output), epochs=2, seed=seed, shape=SHAPE)
        train(settings, quiet=True, say=lambda note: None)
        files.append(output.read_bytes())
    assert files[0] == files[1]
    assert files[0] != files[2]


def test_best_epoch_is_kept(small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, torch.Tensor]] = []
    qualities = [0.2, 0.5, 0.4]

    def measured(salience: TrainedSalience, *rest: object) -> tuple[float, float]:
        seen.append({name: weight.half().float() for name, weight in salience.extractor.state_dict().items()})
        return qualities[len(seen) - 1], 0.0

    monkeypatch.setattr(training, "measure", measured)
    settings = ExtractorSettings((small,), str(tmp_path / "a"), epochs=3, shape=SHAPE)
    kept = train(settings, quiet=True, say=lambda note: None).extractor.state_dict()
    same = [all(torch.equal(kept[name], weight) for name, weight in weights.items()) for weights in seen]
    assert same == [False, True, False]


def test_several_folders_are_used_and_the_first_determines_the_length(
    small: str, prepared_rows: Prepare, tmp_path: Path
) -> None:
    short = [row | {"summary": row["summary"].split(".")[0] + "."} for row in SPLITS["test"][:4]]
    more = prepared_rows(train=SPLITS["train"][:5], validation=short)
    longest = []
    for folders in ((small, more), (more, small)):
        messages: list[str] = []
        settings = ExtractorSettings(folders, str(tmp_path / "a"), epochs=1, validation_documents=3, shape=SHAPE)
        salience = train(settings, quiet=True, say=messages.append)
        assert messages[0].startswith("13 training documents, 6 validation documents")
        assert len(re.findall(r"\d+\.\d\d/\d+\.\d\d", messages[1])) == 2, "each folder is evaluated"
        longest.append(salience.calibration.words(200))
        first = list(Items(folders[:1], "validation").spread(3))
        assert salience.calibration == calibrate(salience, first)
    assert longest[0] > 2 * longest[1]


def test_invalid_request_is_refused_in_one_line(folder: str, prepared_rows: Prepare, tmp_path: Path) -> None:
    def refused(data: str, output: Path) -> str:
        return refusal(lambda: train(ExtractorSettings((data,), str(output), shape=SHAPE), quiet=True))

    assert "there is no folder" in refused(folder, tmp_path / "nowhere" / "a.safetensors")
    assert "is a folder" in refused(folder, tmp_path)
    assert "contains no prepared documents" in refused(str(tmp_path / "nowhere"), tmp_path / "a")
    assert "has no split 'validation'" in refused(prepared_rows(train=SPLITS["train"][:2]), tmp_path / "a")
    nothing = {"document": "No summary."}
    for split in ("train", "validation"):
        splits = {"train": SPLITS["train"][:2], "validation": SPLITS["test"][:2]} | {split: [nothing]}
        empty = prepared_rows(**splits)
        assert f"the split '{split}' of {empty} has no documents" in refused(empty, tmp_path / "a")
        assert "has no documents" in refusal(lambda: evaluate(untrained(), empty, split))  # noqa: B023
    assert list(tmp_path.iterdir()) == []


def test_vectors_of_another_encoder_are_refused_in_one_line(folder: str) -> None:
    assert "sentence vectors of 384 numbers, these have 32" in refusal(
        lambda: evaluate(TrainedSalience(Extractor(Shape())), folder, "test", processes=1, quiet=True)
    )


# --------------------------------------------------------------------------------------------------------------- items


def test_folders_of_different_encoders_are_not_mixed(folder: str, prepared_rows: Prepare, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(folder, copied)
    settings = next(copied.rglob("settings.json"))
    changed = json.loads(settings.read_text(encoding="utf-8"))
    changed["sentence encoder"] |= {"name": "another", "sha256": "0"}
    settings.write_text(json.dumps(changed), encoding="utf-8")
    assert "prepare both with the same --encoder" in refusal(lambda: Items([folder, str(copied)], "train"))


def test_mixed_gives_every_document_once_in_random_order(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "MIXED", 2)  # of three shards
    items = Items([folder, folder], "train")
    assert len(items) == 72
    orders = [[item.summary for item in items.mixed(random.Random(seed))] for seed in ("0 1", "0 1", "0 2")]
    expected = sorted(row["summary"] for row in SPLITS["train"])
    for order in orders:
        assert sorted(order) == sorted(expected * 2)
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    numbers = [int(row["id"][1:]) for summary in orders[0] for row in SPLITS["train"] if row["summary"] == summary]
    assert sum(np.diff(numbers) == 1) < 36, "not in the order of the shards"


@pytest.mark.parametrize("count", [1, 3, 4, 7, 19, 35, 36, 100, None])
def test_spread_gives_evenly_spaced_documents(folder: str, count: int | None) -> None:
    summaries = [row["summary"] for row in SPLITS["train"]]
    found = [summaries.index(item.summary) for item in Items([folder], "train").spread(count)]
    assert len(found) == min(count or 36, 36)
    assert found[0] == 0
    gaps = np.diff([*found, 36])
    assert gaps.min() >= 1
    assert gaps.max() - gaps.min() <= 1


def test_item_is_the_document_with_its_white_space(validation: list[Item]) -> None:
    for item, row in zip(validation, SPLITS["validation"], strict=True):
        assert "".join(item.texts) == row["document"]
        assert item.words == count_words(row["document"])
        assert item.embeddings.shape == (len(item.texts), 32)
        assert item.embeddings.dtype == np.float32
        assert item.query is None


def test_queries_are_encoded_by_the_encoder_of_the_vectors(
    prepared_rows: Prepare, tiny_encoder: SentenceEncoder, tmp_path: Path
) -> None:
    tiny_encoder.model.save_pretrained(tmp_path)
    tiny_encoder.tokenizer.save_pretrained(tmp_path)
    rows = [row(0, "What of the harbour crane?"), row(1)]
    asked = prepared_rows(encoder=str(tmp_path), test=rows)
    first, second = Items([asked], "test").spread(None)
    np.testing.assert_allclose(first.query, tiny_encoder.encode(["What of the harbour crane?"])[0], atol=1e-6)
    assert second.query is None
    nameless = Items([prepared_rows(test=rows)], "test")
    assert "from an unnamed encoder" in refusal(lambda: list(nameless.spread(None)))


def test_worth_combines_the_oracle_label_and_the_density_of_summary_words(validation: list[Item]) -> None:
    for item in validation:
        labels, density, both = (item.worth(share) for share in (1.0, 0.0, 0.5))
        assert np.flatnonzero(labels).tolist() == sorted(item.oracle)
        assert set(labels.tolist()) == {0.0, 1.0}
        np.testing.assert_allclose(both, (labels + density) / 2, atol=1e-6)
        assert 0 <= density.min() <= density.max() <= 1
        assert density[labels == 1].min() > density[labels == 0].max()


def test_rouge_matches_the_package(validation: list[Item]) -> None:
    scorer = RougeScorer(["rouge1", "rouge2"], use_stemmer=True)
    for number, item in enumerate(validation):
        for chosen in ([], item.oracle, [0, 2 + number, 5 + number]):
            scores = scorer.score(item.summary, " ".join(item.texts[index] for index in chosen))
            assert item.rouge(chosen) == (scores["rouge1"].fmeasure, scores["rouge2"].fmeasure)


# --------------------------------------------------------------------------------------------------------- calibration


def of_lengths(document: int, summary: float) -> Item:
    return Item(["word " * document], "word " * round(summary), np.zeros((1, 2), dtype=np.float32), None, [])


@pytest.mark.parametrize("curve", [Calibration(5, 0.5, 3000), Calibration(30, 0.3, 6000), Calibration(0.9, 0.8, 2000)])
def test_length_is_fitted_to_the_summaries(curve: Calibration) -> None:
    documents = [150, 400, 900, 1500, 1900, 2500, 2900, 3500, 5000, 5900, 7000, 9000, 12_000]
    fitted = fit_length([of_lengths(words, curve.words(words)) for words in documents])
    assert fitted.longest == curve.longest
    assert fitted.power == pytest.approx(curve.power, rel=0.02)
    for words in (100, 1000, 4000, 10_000):
        assert fitted.words(words) == pytest.approx(curve.words(words), rel=0.02)


def test_length_of_a_single_document_is_fitted_exactly() -> None:
    assert fit_length([of_lengths(500, 60)]).words(500) == pytest.approx(60)
    assert np.isfinite(fit_length([of_lengths(0, 0)]).words(10))


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_calibration_is_never_worse_than_the_fitted_length(
    learned: tuple[TrainedSalience, Path, list[str]], validation: list[Item], seed: int | None
) -> None:
    salience = learned[0] if seed is None else untrained(seed)
    fitted, calibrated = fit_length(validation), calibrate(salience, validation)
    qualities = [
        sum(sum(item.rouge(extract(salience, item, one.words(item.words), one.redundant))) for item in validation)
        for one in (calibrated, fitted)
    ]
    assert qualities[0] >= qualities[1] > 0
    assert 1 in training.FACTORS, "the fitted length is one of the candidates"
    assert fitted.redundant in training.REDUNDANCIES
    assert calibrated.redundant in training.REDUNDANCIES
    assert calibrated.factor / fitted.factor == pytest.approx(
        min(training.FACTORS, key=lambda times: abs(times - calibrated.factor / fitted.factor))
    )


# ---------------------------------------------------------------------------------------------------------- evaluating


def test_rows_are_the_scores_of_the_extracts(learned: tuple[TrainedSalience, Path, list[str]], folder: str) -> None:
    salience, _, _ = learned
    rows = evaluate(salience, folder, "test", documents=6, processes=1, quiet=True)
    assert [row.name for row in rows] == ["lead", "unsupervised", "trained", "oracle"]
    scorer = RougeScorer(["rouge1", "rouge2", "rougeLsum"], use_stemmer=True)
    items = list(Items([folder], "test").spread(6))
    for row in rows:
        scores, words, hits, either = [], 0, 0, 0
        for item in items:
            amount = salience.calibration.words(item.words)
            chosen = {
                "lead": lead(item, amount),
                "unsupervised": extract(Centrality(), item, amount),
                "trained": extract(salience, item, amount, salience.calibration.redundant),
                "oracle": item.oracle,
            }[row.name]
            lines = "\n".join(item.summary[start:end].strip() for start, end in sentence_spans(item.summary))
            found = scorer.score(lines, "\n".join(item.texts[index].strip() for index in chosen))
            scores.append([100 * found[name].fmeasure for name in ("rouge1", "rouge2", "rougeLsum")])
            words += sum(count_words(item.texts[index]) for index in chosen)
            hits += len(set(chosen) & set(item.oracle))
            either += len(chosen) + len(item.oracle)
        assert row.rouge == pytest.approx(np.mean(scores, axis=0))
        assert row.words == pytest.approx(words / len(items))
        assert row.f1 == pytest.approx(200 * hits / either)


def lead(item: Item, amount: float) -> list[int]:
    """The first sentences, until they have `amount` words."""
    chosen = []
    while sum(count_words(item.texts[index]) for index in chosen) < amount:
        chosen.append(len(chosen))
    return chosen


def test_oracle_scores_highest_and_the_trained_extractor_next(
    learned: tuple[TrainedSalience, Path, list[str]], folder: str
) -> None:
    rows = {row.name: row for row in evaluate(learned[0], folder, "test", processes=1, quiet=True)}
    assert rows["oracle"].f1 == 100
    for name in ("lead", "unsupervised"):
        for measured in range(3):
            assert rows["oracle"].rouge[measured] >= rows["trained"].rouge[measured] > rows[name].rouge[measured]
        assert rows["trained"].f1 > rows[name].f1


def test_all_extracts_can_have_the_length_of_the_reference(folder: str) -> None:
    short = TrainedSalience(untrained().extractor, Calibration(factor=1, power=0.1))
    own = evaluate(short, folder, "validation", processes=1, quiet=True)
    rows = evaluate(short, folder, "validation", at_reference=True, processes=1, quiet=True)
    reference = np.mean([count_words(row["summary"]) for row in SPLITS["validation"]])
    for row, shorter in zip(rows[:3], own[:3], strict=True):
        assert row.words == pytest.approx(reference, abs=9)  # the words of one sentence
        assert shorter.words == 9
    assert rows[3] == own[3]


def test_table_has_one_line_per_row(folder: str) -> None:
    rows = evaluate(untrained(), folder, "test", documents=2, processes=1, quiet=True)
    head, *lines = table(rows).splitlines()
    assert head.split() == ["R-1", "R-2", "R-Lsum", "words", "F1"]
    assert [line.split() for line in lines] == [
        [row.name, *(f"{score:.2f}" for score in row.rouge), f"{row.words:.0f}", f"{row.f1:.2f}"] for row in rows
    ]
    assert len({len(line) for line in (head, *lines)}) == 1


# --------------------------------------------------------------------------------------------------------- the command


def test_command_trains_and_evaluates(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--epochs", "2", "--size", "16", "--validation-documents", "2", "--quiet"]
    assert main(["extractor", "train", "--data", small, "--output", "mine.safetensors", *options]) == 0
    captured = capsys.readouterr()
    salience = TrainedSalience.load("mine.safetensors")
    assert captured.out.splitlines() == [str(salience.calibration), "mine.safetensors"]
    assert [line.split(":")[0] for line in captured.err.splitlines()[1:]] == ["epoch 1", "epoch 2"]
    assert salience.extractor.shape == Shape(vector=32, size=16, inner=48)

    command = ["extractor", "evaluate", "--data", small, "--extractor", "mine.safetensors", "--split", "test"]
    command += ["--processes", "1", "--documents", "2", "--quiet"]
    expected = evaluate(salience, small, "test", documents=2, processes=1, quiet=True)
    assert main(command) == 0
    assert capsys.readouterr().out.rstrip("\n") == table(expected)
    assert main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [(row["name"], tuple(row["rouge"]), row["words"], row["f1"]) for row in printed] == [
        (row.name, row.rouge, row.words, row.f1) for row in expected
    ]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("train --data nowhere --output a", "nowhere contains no prepared documents"),
        ("train --data nowhere --output gone/a", "there is no folder gone"),
        ("train --data nowhere --output a --epochs 0", "--epochs must be more than 0, not 0"),
        ("train --data nowhere --output a --learning-rate nan", "--learning-rate must be more than 0, not nan"),
        ("train --data nowhere --output a --validation-documents 0", "--validation-documents must be more than 0"),
        ("train --data nowhere --output a --size 10", "--size must be a multiple of 4"),
        ("train --data nowhere --output a --dropout 1", "--dropout from 0 to below 1"),
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
