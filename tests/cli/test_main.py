"""The command line before any command does its work: help, wrong calls, and what is imported when."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from awesum import cli
from awesum.cli import COMMANDS, main
from awesum.errors import INTERRUPTED, AwesumError

HEAVY = ("torch", "transformers", "numpy", "nupunkt")
SUBCOMMANDS = [["data", "stats"], ["data", "prepare"], ["extractor", "train"], ["extractor", "evaluate"]]


def imported_by(*arguments: str) -> set[str]:
    """The modules that a process has imported after a call of the command line, whatever its exit code."""
    check = (
        "import sys; from awesum.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print('MODULES', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", check, *arguments], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("MODULES ")[2].split())


def call_wrongly(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a wrong call prints."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("awesum: error: ")
    return line


# What is imported


def test_heavy_libraries_are_not_imported_before_they_are_needed() -> None:
    check = "import sys, awesum.cli; print({'torch', 'transformers', 'numpy', 'nupunkt'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_help_imports_no_command() -> None:
    modules = imported_by("--help")
    assert "awesum.cli" in modules
    assert not {f"awesum.cli.{name}" for name in COMMANDS} & modules
    assert not modules.intersection(HEAVY)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_imports_no_other_command_and_no_heavy_library(name: str) -> None:
    modules = imported_by(name, "--help")
    assert {other for other in COMMANDS if f"awesum.cli.{other}" in modules} == {name}
    allowed = (
        {"numpy"} if name in ("evaluate", "reproduce") else set()
    )  # metrics declare their flags, and compute with it
    assert not modules.intersection(HEAVY) - allowed


@pytest.mark.parametrize("case", ["missing", "near miss", "binary", "empty", "folder", "zip"])
def test_bad_path_is_reported_before_anything_heavy_is_imported(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("report.txt").write_text("A sentence.")
    Path("photo.txt").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(200))
    Path("empty.txt").touch()
    Path("cut.docx").write_bytes(b"PK\x03\x04 and no more")
    Path("hollow").mkdir()
    path = {"missing": "nowhere.txt", "near miss": "reprot.txt", "binary": "photo.txt", "empty": "empty.txt",
            "folder": "hollow", "zip": "cut.docx"}[case]  # fmt: skip
    modules = imported_by("summarize", path)
    assert "awesum.reading" in modules
    assert not modules.intersection(HEAVY)
    assert "awesum.job" not in modules


# Help


@pytest.mark.parametrize("arguments", [["--help"], ["summarize", "--help"], ["--version"]])
def test_help_is_printed_and_all_is_well(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 0
    assert "awesum" in capsys.readouterr().out


def test_without_arguments_the_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    for name, text in COMMANDS.items():
        assert name in shown
        assert text in shown


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS), *SUBCOMMANDS], ids=" ".join)
def test_help_is_as_it_should_read(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*command, "--help"])
    shown = capsys.readouterr().out
    assert "%%" not in shown
    assert "%(" not in shown
    before_examples = shown.partition("examples:")[0]
    assert max(map(len, before_examples.splitlines())) <= 80
    if command:
        assert f"awesum {' '.join(command)}" in shown
        assert "examples:" in shown


def test_help_shows_shares_as_they_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["summarize", "--help"])
    shown = capsys.readouterr().out
    assert "--length 5% " in shown
    assert "200w, 12s, 5% or auto" in shown


# Wrong calls


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("summarize x --style poetic",
         "--style cannot be 'poetic' (choose from abstract, extract); see `awesum summarize --help`"),
        ("summarize x --style extrct",
         "--style cannot be 'extrct' (choose from abstract, extract); did you mean extract?"),
        ("summarize x --lenght 200w",
         "unknown flag --lenght (awesum summarize has no such flag); did you mean --length?"),
        ("summarize x --lenght=200w",
         "unknown flag --lenght (awesum summarize has no such flag); did you mean --length?"),
        ("summarize x --zzz", "unknown flag --zzz (awesum summarize has no such flag); see `awesum summarize --help`"),
        ("summarize x --quie", "unknown flag --quie (awesum summarize has no such flag); did you mean --quiet?"),
        ("summarize", "missing PATH (awesum summarize needs it); see `awesum summarize --help`"),
        ("summarize x --style", "--style has no value (it takes one); see `awesum summarize --help`"),
        ("summarize x --json --format html",
         "--format and --json were both given (only one is possible); leave one of them out"),
        ("evaluate", "missing PREDICTIONS, REFERENCES (awesum evaluate needs them); see `awesum evaluate --help`"),
        ("evaluate a b c", "unexpected argument 'c' (awesum evaluate does not take it); see `awesum evaluate --help`"),
        ("evaluate a b --trials x",
         "--trials cannot be 'x' (it takes a whole number); see `awesum evaluate --help`"),
        ("data", "missing COMMAND (awesum data needs it); see `awesum data --help`"),
        ("data stat x", "unknown command 'stat' (choose from stats, prepare); did you mean stats?"),
        ("data stats x --jsn", "unknown flag --jsn (awesum data stats has no such flag); did you mean --json?"),
        ("--verson", "unknown flag --verson (awesum has no such flag); did you mean --version?"),
    ],
)  # fmt: skip
def test_wrong_call_gets_one_clear_line(arguments: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call_wrongly(arguments.split(), capsys) == f"awesum: error: {line}"


@pytest.mark.parametrize(("given", "meant"), [("sumarize", "summarize"), ("evalute", "evaluate"), ("set-up", "setup")])
def test_mistyped_command_gets_the_nearest(given: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = call_wrongly([given, "report.pdf"], capsys)
    assert line.startswith(f"awesum: error: unknown command {given!r} (choose from summarize, ")
    assert line.endswith(f"; did you mean {meant}?")


def test_file_instead_of_a_command_is_an_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_wrongly(["report.pdf"], capsys).endswith("; see `awesum --help`")


def test_unknown_style_is_a_wrong_call(report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["summarize", str(report), "--style", "poem"])
    assert end.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "error" in captured.err.splitlines()[-1]
    assert "extract" in captured.err


# How a command ends


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A command `trial` whose `run` each test replaces."""
    trial = SimpleNamespace(DESCRIPTION="A trial.", EXAMPLES="examples:", add_arguments=lambda parser: None, run=None)
    monkeypatch.setitem(COMMANDS, "trial", "a trial")
    monkeypatch.setitem(sys.modules, "awesum.cli.trial", trial)  # type: ignore[misc]
    return trial


def test_exit_code_is_that_of_the_command(command: SimpleNamespace) -> None:
    command.run = lambda options: 7
    assert main(["trial"]) == 7


def test_our_error_is_one_line_and_code_1(command: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    def run(options: object) -> int:
        raise AwesumError("the disk is full: free some space")

    command.run = run
    assert main(["trial"]) == 1
    assert capsys.readouterr() == ("", "awesum: error: the disk is full: free some space\n")


def test_interruption_is_code_130(command: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    def run(options: object) -> int:
        raise KeyboardInterrupt

    command.run = run
    assert main(["trial"]) == INTERRUPTED == 130
    assert capsys.readouterr().err == "awesum: interrupted\n"


def test_reader_that_goes_away_is_no_error() -> None:
    """`awesum ... | head`: also if the output is so short that it is written only at the end."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-m", "awesum"], stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_entry_point_and_module_are_the_same_command() -> None:
    done = subprocess.run([sys.executable, "-m", "awesum", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"awesum {cli.__version__}\n"
