"""`awesum data prepare`: what it writes, reuses and repairs, and what reading the result refuses."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from awesum.analysis import segmentation
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.sentences import sentence_spans
from awesum.cli import main
from awesum.datasets import Dataset, Stream, examples
from awesum.datasets.rows import Example
from awesum.loading import load_tokenizer
from awesum.prepared.prepare import Preparations, Preparer, _count, coverage, prepare
from awesum.prepared.shards import SIZE
from awesum.prepared.splits import PreparedDocument, prepared
from awesum.scoring import oracle, targets
from tests.conftest import topical_text
from tests.datasets.forms import plain, refusal, written, zstd

ROWS: list[dict[str, Any]] = [
    {
        "id": f"r{number}",
        "document": topical_text(14 + number % 5, seed=number),
        "summary": f"The report says {number}. {topical_text(3, seed=number)}",
        "query": "What of the rocket?" if number % 3 else None,
    }
    for number in range(2 * SIZE + 5)
]
LOWER, UPPER = 60, 90
"""Tokens; small enough for these documents to have several segments."""

Prepare = Callable[..., Preparations]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return written(tmp_path / "mine", "train.jsonl.zst", zstd(plain(ROWS)))


@pytest.fixture
def make(tmp_path: Path, source: Path, tiny_folder: Path, tiny_encoder: SentenceEncoder) -> Prepare:
    """Prepares into the folder `out`, with the tiny models, in this process."""
    usual = {
        "tokenizer": str(tiny_folder),
        "encoder": tiny_encoder,
        "processes": 1,
        "lower": LOWER,
        "upper": UPPER,
        "quiet": True,
    }

    def run(**changes: object) -> Preparations:
        return prepare(source, tmp_path / "out", **usual | changes)

    return run


class PreparedIds(list[str]):
    """The ids of the documents in the order they were prepared; interrupts after `stop` of them."""

    stop: int | None = None


@pytest.fixture
def prepared_ids(monkeypatch: pytest.MonkeyPatch) -> PreparedIds:
    recorded = PreparedIds()
    call = Preparer.__call__

    def recording(self: Preparer, example: Example) -> PreparedDocument:
        if len(recorded) == recorded.stop:
            raise KeyboardInterrupt
        recorded.append(example.id)
        return call(self, example)

    monkeypatch.setattr(Preparer, "__call__", recording)
    return recorded


def ids(first: int = 0, last: int = len(ROWS)) -> list[str]:
    return [row["id"] for row in ROWS[first:last]]


def equal(left: PreparedDocument, right: PreparedDocument) -> bool:
    names = [name for name in PreparedDocument.__slots__ if name != "embeddings"]
    same = all(getattr(left, name) == getattr(right, name) for name in names)
    return same and np.array_equal(left.embeddings, right.embeddings)


def test_documents_can_be_accessed_in_any_order(make: Prepare) -> None:
    split = prepared(make().folder, "train")
    read = list(split)
    for index in (len(ROWS) - 1, 0, SIZE, SIZE - 1, -1):
        assert equal(split[index], read[index])
    for index in (len(ROWS), -len(ROWS) - 1):
        with pytest.raises(IndexError):
            split[index]
    head = split.head(SIZE + 1)
    assert [document.id for document in head] == ids(0, SIZE + 1)
    with pytest.raises(IndexError):
        head[SIZE + 1]
    assert len(split.head(None)) == len(split.head(10**6)) == len(ROWS)


def test_content_matches_the_plain_functions(
    make: Prepare, source: Path, tiny_folder: Path, tiny_encoder: SentenceEncoder
) -> None:
    result = make()
    read = list(prepared(result.folder.parent, "train"))
    assert len(read) == len(prepared(result.folder, "train")) == len(ROWS)
    tokenizer = load_tokenizer(str(tiny_folder))
    for document, example in zip(read, examples(source, "train"), strict=True):
        text = example.document
        sentences = segmentation.measure(text, sentence_spans(text), tokenizer, UPPER)
        texts = [text[sentence.start : sentence.end] for sentence in sentences]
        embeddings = tiny_encoder.encode(texts)
        segments = segmentation.segment(sentences, embeddings, LOWER, UPPER)
        assert (document.id, document.document) == (example.id, text)
        assert (document.summary, document.query) == (example.summary, example.query)
        assert document.sentences == [(sentence.start, sentence.end) for sentence in sentences]
        assert document.tokens == [sentence.tokens for sentence in sentences]
        assert document.segments == [(segment.first, segment.last) for segment in segments]
        assert len(segments) > 1
        assert document.targets == targets.assign(example.summary, text, segments)
        assert document.oracle == sorted(oracle.greedy(texts, example.summary))
        assert document.embeddings.dtype == np.float16
        np.testing.assert_array_equal(document.embeddings, embeddings.astype(np.float16))
    figures = result.splits[0]
    assert (figures.documents, figures.shards, figures.written) == (len(ROWS), 3, 3)
    assert figures.sentences == sum(len(document.sentences) for document in read)
    assert figures.coverage == pytest.approx(np.mean([document.coverage for document in read]))


def test_several_processes_give_the_same_result(make: Prepare, tmp_path: Path, source: Path) -> None:
    alone = list(prepared(make().folder, "train"))
    (tmp_path / "out").rename(tmp_path / "alone")
    together = list(prepared(make(processes=2).folder, "train"))
    assert len(alone) == len(ROWS)
    assert all(equal(left, right) for left, right in zip(alone, together, strict=True))


def test_coverage_counts_words_in_the_segment_that_has_to_write_them() -> None:
    segments = ["Rockets cost money.", "Apples grow on trees."]
    assert coverage("rocket costs. apple", ["rocket costs.", "apple"], segments) == 1
    assert coverage("rocket costs. apple", ["apple", "rocket costs."], segments) == 0
    assert coverage("rocket costs. apple pie rocket", ["rocket costs.", "apple pie rocket"], segments) == 3 / 4
    assert coverage("予算", ["予算", ""], segments) is None


def test_document_with_several_queries_is_encoded_once(
    make: Prepare, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [ROWS[0] | {"id": str(number), "query": f"{number}?"} for number in range(4)]
    written(source, "train.jsonl.zst", zstd(plain(rows)))
    calls = []
    encode = SentenceEncoder.encode
    monkeypatch.setattr(SentenceEncoder, "encode", lambda self, texts: calls.append(len(texts)) or encode(self, texts))
    read = list(prepared(make().folder, "train"))
    assert [document.query for document in read] == ["0?", "1?", "2?", "3?"]
    assert len(calls) == 1


def test_interrupted_run_is_resumed(make: Prepare, prepared_ids: PreparedIds, tmp_path: Path) -> None:
    prepared_ids.stop = SIZE + 3
    with pytest.raises(KeyboardInterrupt):
        make()
    (key,) = (tmp_path / "out").iterdir()
    assert {path.name for path in key.iterdir()} == {"settings.json", "train-00000.parquet"}
    assert "is not finished" in refusal(lambda: prepared(key, "train"))
    prepared_ids.clear()
    prepared_ids.stop = None
    figures = make().splits[0]
    assert prepared_ids == ids(SIZE)
    assert (figures.documents, figures.shards, figures.written) == (len(ROWS), 3, 2)
    assert [document.id for document in prepared(key, "train")] == ids()
    prepared_ids.clear()
    again = make().splits[0]
    assert prepared_ids == []
    assert (again.written, again.as_dict()) == (0, figures.as_dict())


def test_fewer_documents_are_the_first_ones_and_more_reuse_them(make: Prepare, prepared_ids: PreparedIds) -> None:
    folder = make(documents=SIZE + 2).folder
    assert prepared_ids == [document.id for document in prepared(folder, "train")] == ids(0, SIZE + 2)
    prepared_ids.clear()
    assert make().folder == folder
    assert prepared_ids == ids(SIZE)
    prepared_ids.clear()
    make(documents=3)
    assert [document.id for document in prepared(folder, "train")] == ids(0, 3)
    make()
    assert [document.id for document in prepared(folder, "train")] == ids()
    assert prepared_ids == []


def test_other_settings_get_another_folder(
    make: Prepare, tmp_path: Path, tiny_bart_folder: Path, tiny_encoder: SentenceEncoder
) -> None:
    other_encoder = SentenceEncoder(type(tiny_encoder.model)(tiny_encoder.model.config), tiny_encoder.tokenizer)
    changes: list[dict[str, object]] = [
        {},
        {"tokenizer": str(tiny_bart_folder)},
        {"encoder": other_encoder},
        {"lower": LOWER - 1},
        {"upper": UPPER + 1},
    ]
    folders = [make(documents=1, **change).folder for change in changes]
    assert len(set(folders)) == len(changes)
    settings = json.loads((folders[1] / "settings.json").read_text())
    assert settings["dataset"] == "mine"
    assert settings["tokenizer"]["name"] == str(tiny_bart_folder)
    message = refusal(lambda: prepared(tmp_path / "out", "train"))
    assert "contains several prepared datasets" in message
    assert all(folder.name in message for folder in folders)
    assert len(list(prepared(folders[1], "train"))) == 1


def test_folder_does_not_depend_on_the_name_of_the_tokenizer(make: Prepare, tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tiny_folder)
    assert make(documents=1).folder == make(documents=1, tokenizer=str(tmp_path / "link")).folder


def test_changed_source_is_detected(make: Prepare, prepared_ids: PreparedIds, source: Path) -> None:
    folder = make().folder
    prepared_ids.clear()
    changed = [dict(row) for row in ROWS]
    changed[SIZE + 1]["summary"] = "The rocket costs more."
    written(source, "train.jsonl.zst", zstd(plain(changed)))
    prepared_ids.stop = 2
    with pytest.raises(KeyboardInterrupt):
        make()
    prepared_ids.clear()
    prepared_ids.stop = None
    assert make().folder == folder
    assert prepared_ids == ids(SIZE, 2 * SIZE)
    assert [document.summary for document in prepared(folder, "train")] == [row["summary"] for row in changed]
    written(source, "train.jsonl.zst", zstd(plain(changed[:SIZE])))
    make()
    assert [document.id for document in prepared(folder, "train")] == ids(0, SIZE)


@pytest.mark.parametrize("harm", ["truncated", "overwritten", "other columns", "no file"])
def test_damaged_shard_is_refused_and_repaired(make: Prepare, prepared_ids: PreparedIds, harm: str) -> None:
    import pyarrow
    import pyarrow.parquet

    folder = make().folder
    prepared_ids.clear()
    path = folder / "train-00001.parquet"
    content = path.read_bytes()
    if harm == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif harm == "overwritten":
        middle = len(content) // 8  # the last half is metadata, not data
        path.write_bytes(content[:middle] + bytes(100) + content[middle + 100 :])
    elif harm == "other columns":
        pyarrow.parquet.write_table(pyarrow.table({"id": ids(SIZE, 2 * SIZE)}), path)
    else:
        path.unlink()
    message = refusal(lambda: list(prepared(folder, "train")))
    assert str(path) in message
    assert "run the same `awesum data prepare` again" in message
    make()
    assert prepared_ids == ids(SIZE, 2 * SIZE)
    assert path.read_bytes() == content
    assert [document.id for document in prepared(folder, "train")] == ids()


def test_encoder_can_be_named(make: Prepare, tiny_encoder: SentenceEncoder, tmp_path: Path) -> None:
    named = str(tmp_path / "encoder")
    tiny_encoder.model.save_pretrained(named)
    tiny_encoder.tokenizer.save_pretrained(named)
    given, by_name = make(documents=2), make(documents=2, encoder=named)
    assert given.folder != by_name.folder
    assert prepared(by_name.folder, "train").encoder["name"] == named
    for one, other in zip(prepared(given.folder, "train"), prepared(by_name.folder, "train"), strict=True):
        assert equal(one, other)


def test_model_that_is_no_sentence_encoder_is_refused(make: Prepare, tiny_bart_folder: Path, tiny_folder: Path) -> None:
    for folder in (tiny_bart_folder, tiny_folder):
        assert "is not a sentence encoder" in refusal(lambda folder=folder: make(encoder=str(folder)))
    assert "there is no folder" in refusal(lambda: make(encoder="no/such/folder/here"))


def test_invalid_rows_are_reported_and_counted(make: Prepare, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [*ROWS[:2], {"document": "only"}, ROWS[0], ROWS[2] | {"summary": " "}]
    written(source, "train.jsonl.zst", zstd(plain(rows) + b"{\n"))
    result = make()
    assert result.splits[0].skipped == {"no summary": 1, "duplicate id": 1, "empty summary": 1, "broken JSON": 1}
    assert "skipped 1 × broken JSON, 1 × duplicate id, 1 × empty summary, 1 × no summary;" in str(result)
    notes = capsys.readouterr().err.splitlines()
    assert [line.split(" has ")[0].split(" is ")[0] for line in notes] == [
        f"awesum: skipped: {source / 'train.jsonl.zst'}, line {line}" for line in (3, 4, 5, 6)
    ]
    assert [document.id for document in prepared(result.folder, "train")] == ids(0, 2)


def test_invalid_request_is_refused_in_one_line(make: Prepare, source: Path, tmp_path: Path) -> None:
    assert "--documents 0 is too few" in refusal(lambda: make(documents=0))
    assert "--processes 0 is too few" in refusal(lambda: make(processes=0))
    assert "no split 'test'" in refusal(lambda: make(chosen=["test"]))
    assert "cannot be the name of a split" in refusal(lambda: make(chosen=["../train"]))
    assert "there is no folder ./nothing" in refusal(lambda: make(tokenizer="./nothing"))
    assert "contains no prepared documents" in refusal(lambda: prepared(source, "train"))
    assert "contains no prepared documents" in refusal(lambda: prepared(tmp_path / "nowhere", "train"))
    folder = make(documents=1).folder
    assert "has no split 'test' (it has train)" in refusal(lambda: prepared(folder, "test"))
    (folder / "train.json").write_text("[")
    assert "train.json is damaged" in refusal(lambda: prepared(folder, "train"))
    (tmp_path / "out").rename(tmp_path / "elsewhere")
    (tmp_path / "out").write_text("a file")
    assert "give another folder as --out" in refusal(make)


def test_progress_of_a_dataset_that_is_not_in_the_paper_has_no_total() -> None:
    dataset = Dataset(name="novels", repository="someone/novels", note="no licence is stated")
    stream = Stream(dataset, "train", "skip", print)
    assert _count(stream, None) is None
    assert _count(stream, 7) == 7


def test_without_pyarrow_the_error_says_what_to_install(make: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert "pip install 'awesum[data]'" in refusal(make)
    assert "pip install 'awesum[data]'" in refusal(lambda: prepared("out", "train"))


def test_command_prepares_all_splits(
    source: Path,
    tmp_path: Path,
    tiny_folder: Path,
    tiny_encoder: SentenceEncoder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tiny_encoder.model.save_pretrained(tmp_path / "encoder")
    tiny_encoder.tokenizer.save_pretrained(tmp_path / "encoder")
    monkeypatch.setattr("awesum.prepared.prepare.minilm_folder", lambda: tmp_path / "encoder")
    monkeypatch.chdir(tmp_path)
    written(source, "validation.jsonl", plain(ROWS[:3]))
    capsys.readouterr()
    command = ["data", "prepare", str(source), "--out", "out", "--tokenizer", str(tiny_folder), "--processes", "1"]
    assert main([*command, "--documents", "4"]) == 0
    captured = capsys.readouterr()
    train, validation, where = captured.out.splitlines()
    assert train.startswith("train: 4 documents in 1 shard (1 written, 0 reused), ")
    assert validation.startswith("validation: 3 documents in 1 shard (1 written, 0 reused), ")
    assert captured.err == ""
    assert where.startswith("in out/")
    assert [document.id for document in prepared(where.removeprefix("in "), "validation")] == ids(0, 3)
    assert main([*command, "--split", "test"]) == 1
    assert "has no split 'test'" in capsys.readouterr().err
