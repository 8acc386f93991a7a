"""The labels of written sentences: a sheet that hides the version, labels that find their sentences, and intervals."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks import sheet, truth

DRAFTS = ("1.5B drafts", "1.5B drafts held out")
SOURCE = "The bridge costs 3 million euros. It opens in May. The mayor is content."


def sentence(text: str, start: int, end: int, support: float | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"text": text, "source": {"start": start, "end": end, "text": SOURCE[start:end]}}
    return made if support is None else {**made, "support": support}


@pytest.fixture
def options(tmp_path: Path) -> argparse.Namespace:
    """Two versions of the summary of one report; one sentence is in both."""
    said = {
        "before": [sentence("It opens in June.", 34, 50), sentence("The mayor is happy.", 51, 72)],
        "now": [sentence("It opens in May.", 34, 50, 1.0), sentence("The mayor is happy.", 51, 72, 0.875)],
    }
    for version, sentences in said.items():
        (tmp_path / version).mkdir()
        summary = {"parts": [{"start": 0, "end": 72, "sentences": sentences}]}
        (tmp_path / version / "govreport_bridge.json").write_text(json.dumps(summary))
    (tmp_path / "govreport_bridge.txt").write_text(SOURCE)
    return argparse.Namespace(
        documents=tmp_path,
        before=tmp_path / "before",
        now=tmp_path / "now",
        sheet=tmp_path / "sheet.jsonl",
        answers=tmp_path / "answers.jsonl",
    )


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_sheet_has_each_written_sentence_once_without_its_version(options: argparse.Namespace) -> None:
    sheet.make(options)
    found = rows(options.sheet)
    assert sorted(row["text"] for row in found) == ["It opens in June.", "The mayor is happy."]
    assert all(row["passage"] == SOURCE for row in found)
    assert all(set(row) == {"number", "document", "text", "passage"} for row in found)


def test_labels_return_to_the_sentences_of_their_version(
    options: argparse.Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet.make(options)
    answers = [
        {"number": row["number"], "label": "false" if "June" in row["text"] else "unclear"}
        for row in rows(options.sheet)
    ]
    options.answers.write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    capsys.readouterr()
    sheet.join(options)
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["version"], row["text"], row["copied"], row["label"]) for row in found] == [
        ("before", "It opens in June.", False, "false"),
        ("before", "The mayor is happy.", False, "unclear"),
        ("now", "It opens in May.", True, "true"),
        ("now", "The mayor is happy.", False, "unclear"),
    ]
    assert [row["support"] for row in found[2:]] == [1.0, 0.875]
    assert all(0 <= row["support"] < 0.82 for row in found[:2])  # what the verifier of today says of the earlier ones
    assert {row["document"] for row in found} == {"govreport/bridge"}


def test_interval_holds_the_share_and_narrows() -> None:
    assert truth.interval(0, 0) == (0.0, 1.0)
    low, high = truth.interval(6, 300)
    assert low == pytest.approx(0.0092, abs=1e-4)
    assert high == pytest.approx(0.0429, abs=1e-4)
    assert low < 0.02 < high
    assert truth.interval(0, 300)[0] == 0.0
    assert truth.interval(300, 300)[1] == pytest.approx(1.0)


def test_published_labels_are_complete() -> None:
    """Every sentence has a version, a span and a label; a copy is true."""
    labels = rows(truth.ROOT / "docs" / "labels.jsonl")
    assert {row["version"] for row in labels} == {
        *("before", "now", "1.5B", "writer", "1.5B drafts"),
        *("1.5B held out", "writer held out", "1.5B drafts held out"),
    }
    assert all(("kept" in row) == row["version"].startswith("1.5B drafts") for row in labels)
    fixed, held_out = ({row["document"] for row in labels if row["version"] == of} for of in DRAFTS)
    assert not fixed & held_out, "never measured where the threshold was fixed"
    assert all(row["label"] in sheet.LABELS and row["start"] < row["end"] for row in labels)
    assert all(row["label"] == "true" for row in labels if row["copied"])
    assert all(row["document"].split("/")[0] in sheet.PUBLISHED for row in labels if "text" in row)
