"""The table of an evaluation in each format."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from awesum.cli import main
from awesum.evaluation import render
from tests.evaluation.samples import NUMBER, score


def test_plain_table(ours: Path, theirs: Path, references: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["evaluate", ours, references, "--compare", theirs, "--metrics", "rouge", "length", "--processes", "1"]
    assert main([*map(str, arguments), "--quiet"]) == 0
    heading, columns, first, _, second, _, p = capsys.readouterr().out.splitlines()
    assert heading == "6 documents; p: approximate randomization against ours, paired by document, 10,000 trials"
    assert columns.split()[-1] == "Length"
    assert "R-1 ↑" in columns
    found = score(ours, references, compare=[theirs])
    assert first.split()[:2] == ["ours", f"{100 * found.table['ours']['rouge-1'].mean:.2f}"]
    assert second.split()[:2] == ["theirs", f"{100 * found.table['theirs']['rouge-1'].mean:.2f}"]
    assert p.split()[1] == f"{found.table['theirs']['rouge-1'].p:.3f}"


def test_json_is_complete_and_strict(ours: Path, theirs: Path, references: Path) -> None:
    found = score(ours, references, compare=[theirs])

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    parsed = json.loads(render(found, "json"), parse_constant=refuse)
    assert parsed["documents"] == NUMBER
    assert parsed["scores"]["length-ratio"]["range"] == [0, None]
    assert parsed["systems"]["theirs"]["scores"]["rouge-1"]["p"] == found.table["theirs"]["rouge-1"].p
    assert parsed["systems"]["ours"]["scores"]["rouge-1"]["mean"] == found.table["ours"]["rouge-1"].mean


def test_csv_markdown_and_latex(ours: Path, theirs: Path, references: Path) -> None:
    found = score(ours, references, compare=[theirs])
    parsed = list(csv.DictReader(io.StringIO(render(found, "csv"))))
    assert len(parsed) == 2 * len(found.columns)
    assert float(parsed[0]["mean"]) == found.table["ours"]["rouge-1"].mean
    markdown = render(found, "markdown").splitlines()
    assert markdown[2].startswith("| system | R-1 ↑ | R-2 ↑ |")
    assert markdown[4].startswith(f"| ours | **{100 * found.table['ours']['rouge-1'].mean:.2f}** |")
    latex = render(found, "latex")
    assert rf"\textbf{{{100 * found.table['ours']['rouge-1'].mean:.2f}}}" in latex
    assert latex.count(r"\\") == 3
    assert latex.count("&") == 3 * len(found.columns)


def test_names_of_systems_cannot_break_a_table(tmp_path: Path, ours: Path, references: Path) -> None:
    odd = tmp_path / "a|b_50%.jsonl"
    odd.write_bytes(ours.read_bytes())
    found = score(odd, references, metrics=["length"])
    assert "a\\|b_50%" in render(found, "markdown")
    assert r"a|b\_50\%" in render(found, "latex")


def test_systems_of_the_same_name_get_different_names(tmp_path: Path, ours: Path, references: Path) -> None:
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "ours.jsonl"
    other.write_bytes(ours.read_bytes())
    found = score(ours, references, compare=[other], metrics=["length"])
    assert [system.name for system in found.systems] == [str(ours), str(other)]


def test_report_is_written(tmp_path: Path, ours: Path, theirs: Path, references: Path) -> None:
    arguments = ["evaluate", ours, references, "--compare", theirs, "--metrics", "rouge", "--report", tmp_path / "page"]
    assert main([*map(str, arguments), "--quiet", "--processes", "1"]) == 0
    page = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    assert "theirs" in page
    assert "<svg" in page
