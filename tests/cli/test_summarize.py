"""`awesum summarize` as a person meets it: what is printed where, exit codes, and every bad input."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from awesum.models.causal import ChatModel
from tests.cli.conftest import EXTRACT, Awesum
from tests.conftest import topical_text

# What goes well


def test_summary_goes_to_stdout_and_figures_to_stderr(awesum: Awesum, report: Path) -> None:
    result = awesum(report, *EXTRACT)
    assert result.code == 0
    assert len(re.findall(r"cost \d+ dollars\.", result.out)) == 3
    text = report.read_text()
    assert all(line in text for line in re.split(r"\n\n|(?<=dollars\.) ", result.out.strip()))
    assert re.search(r"read ([\d,]+) of \1 tokens in \d+ segments", result.err)
    assert re.search(r"peak \d+(\.\d)? [MG]B", result.err)


def test_quiet_leaves_only_the_summary(awesum: Awesum, report: Path) -> None:
    loud, quiet = awesum(report, *EXTRACT), awesum(report, *EXTRACT, "--quiet")
    assert quiet.out == loud.out
    assert quiet.err == ""


def test_written_summary_appears_part_by_part(
    awesum: Awesum, report: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []
    read = ChatModel.read

    def looking(self: ChatModel, *args: Any) -> Any:
        seen.append(capsys.readouterr().out)
        return read(self, *args)

    monkeypatch.setattr(ChatModel, "read", looking)
    rest = awesum(report, "--length", "150w").out
    assert seen[0] == ""
    assert seen[1].strip(), "the first part is printed before the second is begun"
    assert rest.strip()


def test_json_has_everything(awesum: Awesum, report: Path) -> None:
    result = awesum(report, "--json", "--length", "80w", "--query", "Who paid for the launch?")
    data = json.loads(result.out)
    assert {"summary", "parts", "document", "figures", "settings"} <= data.keys()
    assert data["document"]["path"] == str(report)
    assert data["document"]["characters"] == len(report.read_text())
    assert data["figures"]["tokens_read"] == data["document"]["tokens"]
    assert data["settings"]["query"] == "Who paid for the launch?"
    assert data["settings"]["length"] == "80w"
    assert {"text", "segment", "start", "end", "pages", "salient"} <= data["parts"][0].keys()
    assert data["summary"] == "\n\n".join(part["text"] for part in data["parts"])


@pytest.mark.parametrize(("form", "begins"), [("text", "The "), ("markdown", "The "), ("html", "<!doctype html>")])
def test_output_file_holds_what_stdout_would(awesum: Awesum, report: Path, form: str, begins: str) -> None:
    result = awesum(report, *EXTRACT, "--format", form, "-o", "out")
    assert result.code == 0
    assert result.out == ""
    assert Path("out").read_text().startswith(begins)
    if form != "html":  # which has the seconds in it
        assert Path("out").read_text() == awesum(report, *EXTRACT, "--format", form).out
    assert sorted(os.listdir()) == ["out", "report.txt"]


def test_standard_input_is_read(awesum: Awesum, report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from_file = awesum(report, *EXTRACT).out
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(report.read_bytes())))
    assert awesum("-", *EXTRACT).out == from_file


def test_several_files_are_told_apart_on_stdout(awesum: Awesum, report: Path) -> None:
    Path("other.txt").write_text(topical_text(20, seed=3))
    result = awesum(report, "other.txt", *EXTRACT)
    assert result.code == 0
    assert re.findall(r"^==> (.*) <==$", result.out, re.MULTILINE) == [str(report), "other.txt"]


def test_nothing_connects_once_the_weights_are_there(
    awesum: Awesum, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*args: object) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)
    assert awesum(report, *EXTRACT).code == 0
    assert awesum(report, "--length", "40w").code == 0


# Bad input


def refused_before_any_model(path: Path) -> dict[str, tuple[list[str], str]]:
    """Arguments, and a word that the error must hold."""
    text = str(path / "report.txt")
    return {
        "missing file": (["nowhere.txt"], "nowhere.txt"),
        "missing folder": (["nowhere/report.txt"], "nowhere"),
        "near miss": (["reprot.txt"], "report.txt"),
        "folder without readable files": (["pictures"], "pictures"),
        "folder without files": (["hollow"], "hollow"),
        "empty file": (["empty.txt"], "empty"),
        "only white space": (["blank.txt"], "white space"),
        "binary file": (["photo.txt"], "binary"),
        "binary file of no known kind": (["noise.bin"], "binary"),
        "length 0": ([text, "--length", "0"], "length"),
        "length 9999%": ([text, "--length", "9999%"], "100%"),
        "length abc": ([text, "--length", "abc"], "abc"),
        "memory abc": ([text, "--max-memory", "abc"], "abc"),
        "empty query": ([text, "--query", " "], "query"),
        "output under a file": ([text, "-o", "report.txt/out.txt"], "report.txt/out.txt"),
        "output in a missing folder": ([text, "-o", "nowhere/out.txt"], "nowhere/out.txt"),
        "output folder under a file": ([text, "hollow/../report.txt", "-o", "report.txt/out"], "report.txt/out"),
    }


@pytest.mark.parametrize("case", refused_before_any_model(Path()))
def test_bad_input_gets_one_clear_line(
    case: str, awesum: Awesum, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pictures", "hollow"):
        Path(name).mkdir()
    Path("pictures/a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    Path("empty.txt").write_bytes(b"")
    Path("blank.txt").write_text(" \n\t\u3000\n" * 50)
    Path("photo.txt").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)
    Path("noise.bin").write_bytes(bytes(range(256)) * 20)
    monkeypatch.setattr(ChatModel, "load", lambda *args: pytest.fail("minutes of work before the error"))
    before = sorted(os.listdir())
    arguments, word = refused_before_any_model(tmp_path)[case]
    assert word in awesum(*arguments).error
    assert sorted(os.listdir()) == before, "nothing is left behind"


def test_too_little_memory_is_refused_with_what_is_needed(awesum: Awesum, report: Path) -> None:
    for style in ("abstract", "extract"):
        assert re.search(
            r"10 MB.* \d{3} MB|10 MB.* \d\.\d GB", awesum(report, "--style", style, "--max-memory", "10MB").error
        )


def test_enough_memory_is_no_error(awesum: Awesum, report: Path) -> None:
    assert awesum(report, *EXTRACT, "--max-memory", "8GB").code == 0
    assert awesum(report, "--length", "30w", "--max-memory", "8GB").code == 0


@pytest.mark.parametrize("style", ["abstract", "extract"])
def test_folder_that_is_no_model_is_refused(awesum: Awesum, report: Path, tmp_path: Path, style: str) -> None:
    (tmp_path / "no-model").mkdir()
    assert "no-model" in awesum(report, "--model", tmp_path / "no-model", "--style", style).error


@pytest.mark.parametrize("text", ["A single sentence about a crane in a harbour.", "word", "。", "1", "a\nb\nc"])
@pytest.mark.parametrize("style", ["abstract", "extract"])
def test_document_of_one_sentence_is_no_error(awesum: Awesum, text: str, style: str) -> None:
    Path("tiny.txt").write_text(text)
    result = awesum("tiny.txt", "--style", style)
    assert result.code == 0
    assert result.out.split() == text.split()
    assert "note" in result.err


def test_bytes_of_another_encoding_are_read_and_said(awesum: Awesum) -> None:
    Path("latin.txt").write_bytes("Die Prüfung der Brücken wäre überfällig gewesen. ".encode("cp1252") * 40)
    result = awesum("latin.txt", *EXTRACT)
    assert result.code == 0
    assert "Prüfung" in result.out
    assert "note" in result.err


def test_control_characters_do_not_reach_the_screen(awesum: Awesum) -> None:
    Path("escape.txt").write_text("The \x1b[31mcrane\x07 broke in the harbour \x9b today. " * 3)
    result = awesum("escape.txt", *EXTRACT)
    assert result.code == 0
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", result.out)
