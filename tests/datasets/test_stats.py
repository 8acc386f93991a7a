"""`awesum data stats`: figures on stdout next to the paper's, everything else on stderr."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from awesum.cli import main
from awesum.datasets.stats import measure
from tests.datasets.conftest import Publish
from tests.datasets.forms import plain, refusal, written, zstd

TRAIN = [
    {"document": "one two three four", "summary": "one two"},
    {"document": "one two", "summary": "one", "query": "q?"},
    {"document": "one two", "summary": ""},
]
TEST = [{"document": "a b c d e f", "summary": "a b c"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written(tmp_path / "mine", "train.jsonl.zst", zstd(plain(TRAIN) + b"{\n"))
    return written(tmp_path / "mine", "test.jsonl", plain(TEST))


def test_splits_are_counted_and_added_up(folder: Path) -> None:
    statistics = measure(folder)
    assert statistics.as_dict() == {
        "source": str(folder),
        "splits": [
            {
                "split": "train",
                "documents": 2,
                "document_words": 3,
                "summary_words": 1.5,
                "with_query": 1,
                "skipped": {"broken JSON": 1, "empty summary": 1},
            },
            {
                "split": "test",
                "documents": 1,
                "document_words": 6,
                "summary_words": 3,
                "with_query": 0,
                "skipped": {},
            },
        ],
        "all": {
            "split": "all",
            "documents": 3,
            "document_words": 4,
            "summary_words": 2,
            "with_query": 1,
            "skipped": {"broken JSON": 1, "empty summary": 1},
        },
        "paper": None,
    }


def test_command_prints_a_table_and_reports_skipped_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "stats", str(folder)]) == 0
    captured = capsys.readouterr()
    header, train, test, both, *skipped = captured.out.splitlines()
    assert header.split() == ["split", "documents", "document", "words", "summary", "words", "with", "query", "skipped"]
    assert train.split() == ["train", "2", "3", "2", "1", "2"]
    assert test.split() == ["test", "1", "6", "3", "0", "0"]
    assert both.split() == ["all", "3", "4", "2", "1", "2"]
    assert skipped == ["skipped in train: 1 × broken JSON", "skipped in train: 1 × empty summary"]
    path = folder / "train.jsonl.zst"
    assert [line.split(" has ")[0].split(" is ")[0] for line in captured.err.splitlines()] == [
        f"awesum: skipped: {path}, line 3",
        f"awesum: skipped: {path}, line 4",
    ]


def test_command_takes_splits_a_file_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "stats", str(folder), "--split", "test", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert [split["split"] for split in figures["splits"]] == ["test"]
    assert main(["data", "stats", str(folder / "test.jsonl"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["splits"] == figures["splits"]


def test_papers_figures_are_shown_for_a_public_dataset(publish: Publish, capsys: pytest.CaptureFixture[str]) -> None:
    publish("govreport", [{"report": "one two three", "summary": "one"}] * 2)
    assert main(["data", "stats", "govreport", "--split", "train"]) == 0
    header, train, both = capsys.readouterr().out.splitlines()
    assert "paper: documents" in header
    assert train.split() == ["train", "2", "3", "1", "0", "0", "17,516"]
    assert both.split() == ["all", "2", "3", "1", "0", "0", "19,463", "9,409", "553"]


def test_papers_figures_are_shown_only_for_a_folder_of_that_name(folder: Path, tmp_path: Path) -> None:
    assert measure(folder).paper is None
    folder.rename(tmp_path / "qmsum")
    paper = measure(tmp_path / "qmsum").paper
    assert paper is not None
    assert paper.document_words == 9_070


def test_split_without_a_valid_row_has_no_averages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "mine", "train.jsonl", b"{\n")
    assert main(["data", "stats", "mine"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["train", "0", "-", "-", "0", "1"]


def test_truncated_file_is_refused_in_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "train.jsonl.zst"
    path.write_bytes(path.read_bytes()[:-10])
    assert main(["data", "stats", str(folder), "--split", "train"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1].startswith(f"awesum: error: cannot decompress {path} (")


def test_missing_split_folder_or_name_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no split 'validation'" in refusal(lambda: measure(folder, ["train", "validation"]))
    assert capsys.readouterr().err == ""  # before train was read
    (folder.parent / "nothing").mkdir()
    assert "contains no dataset" in refusal(lambda: measure(folder.parent / "nothing"))
    assert "did you mean booksum?" in refusal(lambda: measure("booksun"))
