"""Predictions, references and options that do not fit are refused in one line, or noted."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from awesum.cli import main
from awesum.evaluation import run as running
from tests.evaluation.samples import NUMBER, error, prediction, reference, rows, score


def test_counts_that_do_not_match(tmp_path: Path, references: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = rows(tmp_path / "few.jsonl", [{"summary": prediction(n)} for n in range(4)])
    line = error(capsys, few, references)
    assert line.startswith(f"{few} has 4 predictions and {references} 6 references: without an id in every row")


def test_ids_that_do_not_match(
    tmp_path: Path, ours: Path, references: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ours.read_text().splitlines(keepends=True)
    ours.write_text("".join(lines[:4]))
    line = error(capsys, ours, references)
    assert line.startswith(f"2 references of {references} have no prediction in {ours} (first: 'd4')")
    ours.write_text("".join([*lines, json.dumps({"id": "x", "summary": "More."})]))
    assert error(capsys, ours, references).startswith(f"1 prediction of {ours} has no reference in {references}")
    ours.write_text("".join([*lines, lines[1]]))
    assert "line 7 has the id 'd1' of an earlier row" in error(capsys, ours, references)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{broken", "line 3 is not JSON"),
        ("[1]", "line 3 is not a JSON object"),
        ('{"id": "d2"}', "line 3 has no 'prediction' (it has 'id'): name the field that, or 'summary'"),
        ('{"id": "d2", "summary": NaN}', "line 3 has a float as 'summary': it must be a text"),
        ('{"id": "d2", "summary": ["a"]}', "line 3 has a list as 'summary'"),
        ('{"id": "d2", "summary": "\\ud800"}', "line 3 has half a character"),
    ],
)
def test_invalid_rows_are_refused_with_their_line(
    ours: Path, references: Path, capsys: pytest.CaptureFixture[str], row: str, message: str
) -> None:
    lines = ours.read_text().splitlines()
    ours.write_text("\n".join([*lines[:2], row, *lines[3:]]))
    assert message in error(capsys, ours, references)


def test_empty_references_and_documents(
    tmp_path: Path, ours: Path, references: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = references.read_text().splitlines()
    row = json.loads(content[1])
    for field, what in (("summary", "reference"), ("document", "document")):
        rows(references, [json.loads(content[0]), row | {field: " "}, *map(json.loads, content[2:])])
        assert f"line 2 has an empty {what}" in error(capsys, ours, references)


def test_missing_files_and_documents(
    tmp_path: Path, ours: Path, references: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "cannot read" in error(capsys, tmp_path / "no.jsonl", references)
    (tmp_path / "empty").mkdir()
    assert "is empty" in error(capsys, tmp_path / "empty", references)
    (tmp_path / "empty.jsonl").touch()
    assert "is empty" in error(capsys, tmp_path / "empty.jsonl", references)
    alone = rows(tmp_path / "alone.jsonl", [{"id": f"d{n}", "summary": reference(n)} for n in range(NUMBER)])
    assert error(capsys, ours, alone, "--metrics", "rouge", "coverage") == (
        f"coverage compares with the documents, and {alone}, line 1 has none: give them with --documents FILE"
    )


def test_unknown_metrics_and_missing_models(
    ours: Path, references: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "there is no metric 'rogue': did you mean 'rouge'?" in error(capsys, ours, references, "--metrics", "rogue")
    assert error(capsys, ours, references, "--metrics", "summac") == (
        "summac needs a model: name one with --nli-model (see --help)"
    )
    assert "--bert-model" in error(capsys, ours, references, "--metrics", "discoscore")
    line = error(capsys, ours, references, "--metrics", "summac", "--nli-model", "x", "--premises", "none")
    assert line == "--premises must be a number of sentences or 'all', not 'none'"
    assert "--trials must be more than 0" in error(capsys, ours, references, "--trials", "0")
    assert "is given twice" in error(capsys, ours, references, "--compare", ours)


def test_null_prediction_is_not_replaced_by_another_field(
    tmp_path: Path, references: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = [
        {"id": f"d{n}", "prediction": prediction(n) if n else None, "summary": reference(n)} for n in range(NUMBER)
    ]
    line = error(capsys, rows(tmp_path / "null.jsonl", objects), references)
    assert "line 1 has a NoneType as 'prediction': it must be a text" in line


def test_ids_in_some_rows_only(ours: Path, references: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours.write_text(ours.read_text().replace('"id": "d3", ', ""))
    assert error(capsys, ours, references).endswith("line 4 has no id, but other rows do: add ids to all rows or none")


def test_ids_on_one_side_only_are_reported(tmp_path: Path, references: Path) -> None:
    nameless = rows(tmp_path / "nameless.jsonl", [{"summary": prediction(n)} for n in range(NUMBER)])
    found = score(nameless, references, metrics=["length"])
    assert f"{nameless} is matched with {references} by order: only one of them has ids" in found.notes


def test_folder_is_never_matched_by_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s").mkdir()
    for n in range(12):
        (tmp_path / "s" / f"{n}.txt").write_text("Some text.")
    lines = tmp_path / "lines.txt"
    lines.write_text("Some text.\n" * 12)
    assert error(capsys, tmp_path / "s", lines).startswith(f"the files of {tmp_path / 's'} are matched by their names")
    assert error(capsys, lines, tmp_path / "s").startswith(f"the files of {tmp_path / 's'} are matched by their names")


def test_folders_in_folders(tmp_path: Path) -> None:
    for folder in ("s", "r"):
        for name in ("a.txt", "sub/a.txt"):
            (tmp_path / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / name).write_text(f"The text of {name}.")
    found = score(tmp_path / "s", tmp_path / "r", metrics=["rouge"])
    assert found.ids == ("a", "sub/a")
    assert found.table["s"]["rouge-1"].mean == 1


@pytest.mark.parametrize("name", ["page.html", "notes.md", "report.pdf"])
def test_file_that_is_not_a_plain_summary_is_refused(
    tmp_path: Path, references: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / name).write_text("<p>Summary and source</p>")
    assert f"{name} is neither text nor JSON" in error(capsys, tmp_path / "s", references)


def test_upper_case_suffixes_and_unsupported_formats(
    tmp_path: Path, ours: Path, references: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    upper = tmp_path / "OURS.JSONL"
    upper.write_bytes(ours.read_bytes())
    expected = score(ours, references).systems[0].scores["rouge-1"]
    np.testing.assert_array_equal(score(upper, references).systems[0].scores["rouge-1"], expected)
    odd = tmp_path / "ours.csv"
    odd.write_text("id,summary\n")
    assert "has an unsupported format" in error(capsys, odd, references)


def test_documents_in_some_rows_only(ours: Path, references: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = [json.loads(line) for line in references.read_text().splitlines()]
    del objects[2]["document"]
    rows(references, objects)
    assert score(ours, references, metrics=["rouge"]).table["ours"]["rouge-1"].counted == NUMBER
    line = error(capsys, ours, references, "--metrics", "coverage")
    assert line.startswith(f"coverage compares with the documents, and {references}, line 3 has none")


def test_summaries_without_rouge_tokens_are_reported(tmp_path: Path) -> None:
    texts = rows(tmp_path / "texts.jsonl", [{"summary": "国会は予算案を可決した。"}, {"summary": "Two words."}])
    other = rows(tmp_path / "other.jsonl", [{"summary": "国会は予算案を可決した。"}, {"summary": "Two words."}])
    notes = score(texts, other, metrics=["rouge"]).notes
    assert any(note.startswith("texts: 1 of 2 summaries have no words in a-z or digits") for note in notes)


def test_model_of_a_metric_that_was_not_chosen(
    ours: Path, references: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = error(capsys, ours, references, "--nli-model", "x")
    assert line.startswith("--nli-model is ")
    assert "summac" in line
    assert line.endswith("to --metrics")


def test_unwritable_report_is_reported_before_scoring(
    tmp_path: Path, ours: Path, references: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "Pairs", lambda *args: pytest.fail("scoring had started"))
    assert "cannot write the report to" in error(capsys, ours, references, "--report", ours / "page")


def test_terminal_without_arrows_gets_a_table(ours: Path, references: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr("sys.stdout", narrow)
    arguments = ["evaluate", str(ours), str(references), "--metrics", "rouge", "--processes", "1", "--quiet"]
    assert main(arguments) == 0
    narrow.flush()
    assert b"R-1 ?" in narrow.buffer.getvalue()  # type: ignore[attr-defined]


def test_unwritable_file_of_scores(
    ours: Path, references: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = error(capsys, ours, references, "--metrics", "rouge", "--scores", tmp_path / "no" / "scores.jsonl")
    assert line.startswith("cannot write to")
