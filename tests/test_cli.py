"""The command as a person meets it: what is printed where, exit codes, files left behind, and every bad input."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from awesum.analysis.embedding import SentenceEncoder
from awesum.cli import main
from awesum.models.causal import ChatModel
from awesum.weights import minilm_folder
from tests.conftest import Calls, topical_text

INTERRUPTED = 130


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line that says what is wrong."""
        assert self.code == 1
        assert self.out == ""
        (line,) = self.err.splitlines()
        assert line.startswith("awesum: error: ")
        assert "Traceback" not in self.err
        return line


Awesum = Callable[..., Result]


@pytest.fixture(scope="session")
def minilm() -> SentenceEncoder:
    """The embedded encoder, loaded once for all tests of this file."""
    return SentenceEncoder.load(minilm_folder())


@pytest.fixture
def awesum(
    tmp_path: Path,
    tiny_folder: Path,
    minilm: SentenceEncoder,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Awesum:
    """`awesum summarize` with the tiny model, in an empty folder."""
    monkeypatch.setattr(SentenceEncoder, "load", lambda folder: minilm)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> Result:
        capsys.readouterr()
        code = main(["summarize", "--model", str(tiny_folder), *map(str, arguments)])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """A file of several segments."""
    path = tmp_path / "report.txt"
    path.write_text(topical_text(100))
    return path


EXTRACT = ("--style", "extract", "--length", "3s")


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
    write = ChatModel.write

    def looking(self: ChatModel, prompts: object, side_by_side: int) -> Iterator[str]:
        seen.append(capsys.readouterr().out)
        return write(self, prompts, side_by_side)

    monkeypatch.setattr(ChatModel, "write", looking)
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


def test_heavy_libraries_are_not_imported_before_they_are_needed() -> None:
    check = "import sys, awesum.cli; print({'torch', 'transformers', 'numpy', 'nupunkt'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("arguments", [["--help"], ["summarize", "--help"], ["--version"]])
def test_help_is_printed_and_all_is_well(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 0
    assert "awesum" in capsys.readouterr().out


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


def test_unknown_style_is_a_wrong_call(report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["summarize", str(report), "--style", "poem"])
    assert end.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "error" in captured.err.splitlines()[-1]
    assert "extract" in captured.err


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


# Folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three documents, one of them deeper down."""
    for number, name in enumerate(["a.txt", "b.md", "deep/c.txt"]):
        path = tmp_path / "reports" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(topical_text(15, seed=number))
    return tmp_path / "reports"


def files_of(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")
    )


SUMMARIES = ["a.txt.txt", "b.md.txt", "deep/c.txt.txt"]


def test_folder_becomes_one_summary_a_file(awesum: Awesum, folder: Path) -> None:
    result = awesum(folder, *EXTRACT, "-o", "out")
    assert result.code == 0
    assert files_of(Path("out")) == SUMMARIES
    for number, name in enumerate(SUMMARIES):
        assert set(re.findall(r"\d+", Path("out", name).read_text())) <= set(
            re.findall(r"\d+", topical_text(15, seed=number))
        )
    assert "3 of 3" in result.err


def test_folder_without_an_output_gets_one_beside_it(awesum: Awesum, folder: Path) -> None:
    result = awesum(folder, *EXTRACT)
    assert result.code == 0
    assert files_of(Path("reports-summaries")) == SUMMARIES
    assert "reports-summaries" in result.err


def test_second_run_over_a_folder_skips_what_is_done(
    awesum: Awesum, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    awesum(folder, "--length", "30w", "-o", "out")
    before = {name: (Path("out") / name).stat().st_mtime_ns for name in SUMMARIES}
    monkeypatch.setattr(SentenceEncoder, "load", lambda *args: pytest.fail("a model was loaded"))
    monkeypatch.setattr(ChatModel, "load", lambda *args: pytest.fail("a model was loaded"))
    result = awesum(folder, "--length", "30w", "-o", "out")
    assert result.code == 0
    assert "skipped" in result.err
    assert {name: (Path("out") / name).stat().st_mtime_ns for name in SUMMARIES} == before


@pytest.mark.parametrize("change", ["document", "length", "summary gone"])
def test_what_changed_is_done_again(awesum: Awesum, folder: Path, change: str) -> None:
    awesum(folder, *EXTRACT, "-o", "out")
    before = Path("out/a.txt.txt").read_text()
    arguments = EXTRACT
    if change == "document":
        (folder / "a.txt").write_text("The vaccine arrived at the clinic far too late for the nurses.")
    elif change == "length":
        arguments = ("--style", "extract", "--length", "5s")
    else:
        Path("out/a.txt.txt").unlink()
    result = awesum(folder, *arguments, "-o", "out")
    assert result.code == 0
    after = Path("out/a.txt.txt").read_text()
    assert (after == before) == (change == "summary gone")
    assert ("2 of 3 are done" in result.err) == (change != "length"), "the other two are skipped"


def test_bad_file_among_good_ones_does_not_stop_them(awesum: Awesum, folder: Path) -> None:
    (folder / "aa.txt").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(200))
    result = awesum(folder, *EXTRACT, "-o", "out")
    assert result.code == 1
    assert files_of(Path("out")) == SUMMARIES
    (line,) = [line for line in result.err.splitlines() if line.startswith("awesum: error: ")]
    assert "aa.txt" in line
    (folder / "aa.txt").unlink()
    assert awesum(folder, *EXTRACT, "-o", "out").code == 0


def test_bad_file_among_named_ones_does_not_stop_them(awesum: Awesum, report: Path) -> None:
    result = awesum("nowhere.txt", report, *EXTRACT)
    assert result.code == 1
    assert len(re.findall(r"cost \d+ dollars\.", result.out)) == 3


def test_summaries_inside_the_folder_are_not_summarized_themselves(awesum: Awesum, folder: Path) -> None:
    for _ in range(2):
        assert awesum(folder, *EXTRACT, "-o", folder / "summaries").code == 0
    assert files_of(folder / "summaries") == SUMMARIES


def test_files_of_the_same_name_get_a_summary_each(awesum: Awesum) -> None:
    for name in ("north", "south"):
        Path(name).mkdir()
        Path(name, "report.txt").write_text(topical_text(15, seed=len(files_of(Path()))))
    result = awesum("north/report.txt", "south/report.txt", *EXTRACT, "-o", "out")
    assert result.code == 0
    assert len(files_of(Path("out"))) == 2


def test_standard_input_is_never_taken_for_done(awesum: Awesum, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out").mkdir()
    for seed, expected in ((1, "rocket"), (2, "nurse")):
        text = "The nurse brought the vaccine to the ward in time." if seed == 2 else topical_text(1)
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
        assert awesum("-", *EXTRACT, "-o", "out").code == 0
        (name,) = files_of(Path("out"))
        assert expected in Path("out", name).read_text()


# Interruption


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch, calls: Calls) -> Callable[[int], None]:
    """Ctrl-C in the middle of the writing, after so many calls of the model."""
    write = ChatModel.write

    def after(calls: int) -> None:
        left = [calls]

        def writing(self: ChatModel, prompts: object, side_by_side: int) -> Iterator[str]:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return write(self, prompts, side_by_side)

        monkeypatch.setattr(ChatModel, "write", writing)

    return after


def test_interrupted_run_keeps_its_parts_and_the_next_goes_on(
    awesum: Awesum, report: Path, interrupt: Callable[[int], None], calls: Calls
) -> None:
    arguments = (report, "--length", "200w", "--json", "-o", "out.json")
    whole = awesum(*arguments[:-1], "whole.json")
    assert whole.code == 0
    written = sum(calls.batches)
    assert written >= 3

    calls.clear()
    interrupt(1)
    broken = awesum(*arguments)
    assert broken.code == INTERRUPTED
    assert broken.out == ""
    assert "Traceback" not in broken.err
    assert "out.json" in broken.err
    kept = json.loads(Path("out.json").read_text())
    assert kept["complete"] is False
    assert len(kept["parts"]) == 1

    calls.clear()
    interrupt(1000)
    assert awesum(*arguments).code == 0
    assert sum(calls.batches) == written - 1, "only the segments that are left are written"
    final = json.loads(Path("out.json").read_text())
    assert final["complete"] is True
    assert final["parts"][0] == kept["parts"][0]
    segments = [part["segment"] for part in final["parts"]]
    assert segments == [part["segment"] for part in json.loads(Path("whole.json").read_text())["parts"]]
    assert sorted(os.listdir()) == ["out.json", "report.txt", "whole.json"]


def test_interrupted_text_says_so_and_stdout_keeps_what_was_printed(
    awesum: Awesum, report: Path, interrupt: Callable[[int], None]
) -> None:
    interrupt(1)
    result = awesum(report, "--length", "200w")
    assert result.code == INTERRUPTED
    assert result.out.strip()
    assert "interrupted" in result.err
    interrupt(1)
    awesum(report, "--length", "200w", "-o", "out.txt")
    assert "interrupted" in Path("out.txt").read_text()


def test_interruption_before_the_first_part_leaves_the_old_summary(
    awesum: Awesum, report: Path, interrupt: Callable[[int], None]
) -> None:
    Path("out.txt").write_text("yesterday's summary")
    interrupt(0)
    assert awesum(report, "--length", "200w", "-o", "out.txt").code == INTERRUPTED
    assert Path("out.txt").read_text() == "yesterday's summary"


def test_interrupted_run_with_other_settings_is_not_mixed_in_and_can_go_on_itself(
    awesum: Awesum, report: Path, interrupt: Callable[[int], None], calls: Calls
) -> None:
    interrupt(1)
    assert awesum(report, "--length", "200w", "-o", "out.txt").code == INTERRUPTED
    interrupt(1)
    assert awesum(report, "--length", "150w", "-o", "out.txt").code == INTERRUPTED
    calls.clear()
    interrupt(1000)
    result = awesum(report, "--length", "150w", "-o", "out.txt")
    assert result.code == 0
    assert "going on behind" in result.err


def test_interrupted_folder_goes_on_with_the_file_it_stopped_in(
    awesum: Awesum, folder: Path, interrupt: Callable[[int], None], calls: Calls
) -> None:
    for name in ("a.txt", "b.md", "deep/c.txt"):
        (folder / name).write_text(topical_text(60, seed=len(name)))
    arguments = (folder, "--length", "150w", "-o", "out")
    interrupt(3)
    assert awesum(*arguments).code == INTERRUPTED
    assert "a.txt.txt" in files_of(Path("out"))
    done = sum(calls.batches)
    interrupt(1000)
    assert awesum(*arguments).code == 0
    total = sum(calls.batches)
    assert files_of(Path("out")) == SUMMARIES
    calls.clear()
    awesum(*arguments[:-1], "fresh")
    assert sum(calls.batches) <= total <= sum(calls.batches) + 1
    assert done > 0


# Where the summary goes


def same_file(name: str, report: Path) -> str:
    """The document itself under another name."""
    if name == "hard link":
        os.link(report, "hard.txt")
        return "hard.txt"
    if name == "symbolic link":
        Path("soft.txt").symlink_to(report)
        return "soft.txt"
    return {"same path": str(report), "another spelling": f"./../{report.parent.name}/{report.name}"}[name]


@pytest.mark.parametrize("name", ["same path", "another spelling", "hard link", "symbolic link"])
def test_output_never_overwrites_the_document(awesum: Awesum, report: Path, name: str) -> None:
    before = report.read_bytes()
    assert "document itself" in awesum(report, *EXTRACT, "-o", same_file(name, report)).error
    assert report.read_bytes() == before


def test_document_in_the_output_folder_is_not_overwritten(awesum: Awesum) -> None:
    Path("out").mkdir()
    document = Path("out/report.txt.txt")
    document.write_text(topical_text(15))
    os.link(document, "report.txt")
    assert "document itself" in awesum("report.txt", *EXTRACT, "-o", "out").error
    assert document.read_text() == topical_text(15)


def test_output_is_written_through_a_symbolic_link(awesum: Awesum, report: Path) -> None:
    Path("elsewhere").mkdir()
    Path("elsewhere/summary.txt").write_text("old")
    Path("elsewhere/summary.txt").chmod(0o640)
    Path("link.txt").symlink_to("elsewhere/summary.txt")
    assert awesum(report, *EXTRACT, "-o", "link.txt").code == 0
    assert Path("link.txt").is_symlink()
    assert "dollars" in Path("elsewhere/summary.txt").read_text()
    assert Path("elsewhere/summary.txt").stat().st_mode & 0o777 == 0o640
    assert os.listdir("elsewhere") == ["summary.txt"]


def test_output_is_written_through_a_dangling_link(awesum: Awesum, report: Path) -> None:
    Path("link.txt").symlink_to("later.txt")
    assert awesum(report, *EXTRACT, "-o", "link.txt").code == 0
    assert Path("link.txt").is_symlink()
    assert "dollars" in Path("later.txt").read_text()


def test_output_goes_into_a_pipe(awesum: Awesum, report: Path) -> None:
    os.mkfifo("pipe")
    with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE, text=True) as reader:
        assert awesum(report, *EXTRACT, "-o", "pipe").code == 0
        assert "dollars" in reader.communicate(timeout=30)[0]
    assert Path("pipe").is_fifo()


def test_output_goes_to_a_device(awesum: Awesum, report: Path) -> None:
    assert awesum(report, *EXTRACT, "-o", "/dev/null").code == 0
    assert Path("/dev/null").is_char_device()
