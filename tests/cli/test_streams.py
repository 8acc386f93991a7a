"""Encodings, full disks, closed streams and absurd numbers: one line, never a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from awesum.cli import main
from tests.conftest import topical_text

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="devices")
TEXT = "The café in Łódź costs 21 zł and is open. The 国会 met for the first time that day, and was closed again.\n"


def run(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    (folder / "a.txt").write_text(TEXT * 3)
    (folder / "b.txt").write_text(topical_text(30))
    command = command.replace("awesum", f"{sys.executable} -m awesum", 1)
    return subprocess.run(
        command, shell=True, cwd=folder, env=os.environ | environment, capture_output=True, check=False
    )


def line_of(done: subprocess.CompletedProcess[bytes]) -> str:
    errors = [line for line in done.stderr.decode().splitlines() if line.startswith("awesum: error: ")]
    assert done.returncode == 1, done.stderr
    assert len(errors) == 1, done.stderr
    assert b"Traceback" not in done.stderr
    return errors[0]


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_output_that_lacks_characters_is_printed_and_noted(tmp_path: Path, encoding: str) -> None:
    done = run("awesum summarize a.txt --system lead", tmp_path, PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert b"?" in done.stdout
    assert b"were replaced by ?" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("form", ["", "--json"])
def test_full_device_is_one_line(tmp_path: Path, form: str) -> None:
    assert "standard output" in line_of(run(f"awesum summarize a.txt --system lead {form} >/dev/full", tmp_path))


def test_full_device_stops_a_folder_with_one_line(tmp_path: Path) -> None:
    assert "standard output" in line_of(run("awesum summarize a.txt b.txt --system lead >/dev/full", tmp_path))


def test_systems_on_a_full_device(tmp_path: Path) -> None:
    assert "standard output" in line_of(run("awesum systems >/dev/full", tmp_path))


def test_closed_standard_error(tmp_path: Path) -> None:
    """What would be said there is not said among the results."""
    done = run("awesum summarize a.txt --system lead --json 2>&-", tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["complete"]
    assert run("awesum summarize missing.txt --system lead 2>&-", tmp_path).stdout == b""


def test_closed_standard_input(tmp_path: Path) -> None:
    assert "standard input is closed" in line_of(run("awesum summarize - --system lead <&-", tmp_path))


@pytest.mark.parametrize(
    "flags",
    [
        "--length 99999999999999999999999999w",
        f"--length {'9' * 400}s",
        f"--length {'9' * 5000}%",
        f"--max-memory {'9' * 400}GB",
        "--max-memory 0",
        "--read-memory 1e9",
        "--read-memory 1KB",
        "--read-timeout nan",
        "--read-timeout -1",
    ],
)
def test_absurd_numbers(tmp_path: Path, flags: str) -> None:
    assert len(line_of(run(f"awesum summarize a.txt --system lead {flags}", tmp_path))) < 300


def test_empty_path_is_not_the_current_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summarize", ""]) == 1
    assert "a path is empty" in capsys.readouterr().err


def test_termination_is_an_interruption(tmp_path: Path) -> None:
    import signal
    import time

    (tmp_path / "a.txt").write_text(topical_text(30))
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-m", "awesum", "summarize", "pipe", "--system", "lead"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        time.sleep(5)  # it waits for somebody to write into the pipe
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert b"interrupted" in errors
    assert b"Traceback" not in errors


def test_interruption_at_the_very_end_is_no_traceback(tmp_path: Path) -> None:
    code = (
        "import atexit, os, signal, sys; atexit.register(os.kill, os.getpid(), signal.SIGINT); "
        "sys.argv = ['awesum', 'systems']; from awesum.cli import command; sys.exit(command())"
    )
    heed = partial(signal.signal, signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, preexec_fn=heed)
    assert b"extract" in done.stdout
    assert done.stderr == b""
    assert done.returncode == -signal.SIGINT
