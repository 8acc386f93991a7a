"""The installed command with the real weights on the sample that the repository holds; and the README's commands."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SAMPLE = "samples/commercial-crew.txt"


def awesum(*arguments: str, cwd: Path = ROOT) -> str:
    """What `awesum` prints on stdout."""
    done = subprocess.run(
        [sys.executable, "-m", "awesum", *arguments], cwd=cwd, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def figures(text: str) -> set[str]:
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


def test_sample_is_summarized_with_the_embedded_model() -> None:
    data = json.loads(awesum("summarize", SAMPLE, "--length", "60w", "--json"))
    source = (ROOT / SAMPLE).read_text(encoding="utf-8")
    assert data["settings"]["model"] == "awesum"
    assert data["settings"]["style"] == "abstract"
    assert 30 <= len(data["summary"].split()) <= 110
    assert figures(data["summary"]) <= figures(source)
    assert data["figures"]["tokens_read"] == data["document"]["tokens"] > 10_000
    segments = data["document"]["segments"]
    assert segments[0][0] == 0
    assert segments[-1][1] == data["document"]["characters"] == len(source)
    assert all(before[1] == after[0] for before, after in pairwise(segments))
    for part in data["parts"]:
        assert [part["start"], part["end"]] == segments[part["segment"]]
        assert all(source[quote["start"] : quote["end"]] == quote["text"] for quote in part["salient"])


def readme_commands() -> list[str]:
    """The commands on the sample that README.md shows to be typed."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    lines = [
        line.strip() for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S) for line in block.splitlines()
    ]
    return [line.split("  #")[0].strip() for line in lines if line.startswith("awesum summarize samples/")]


def test_readme_shows_a_command_on_the_sample() -> None:
    assert readme_commands()


@pytest.mark.parametrize("command", readme_commands())
def test_command_of_the_readme_works(command: str, tmp_path: Path) -> None:
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    arguments = shlex.split(command)[1:]
    assert not {"|", ">", "<", "&&", ";"} & set(arguments), "the test runs plain commands only"
    if "--style" not in arguments:
        arguments += ["--style", "extract"]  # the same path through the command, in seconds
    printed = awesum(*arguments, cwd=tmp_path)
    written = [name for name in os.listdir(tmp_path) if name != "samples"]
    assert printed.strip() or written


@pytest.mark.slow
def test_interrupted_command_keeps_its_parts_and_goes_on(tmp_path: Path) -> None:
    target = tmp_path / "summary.txt"
    command = [sys.executable, "-m", "awesum", "summarize", SAMPLE, "--length", "400w", "-o", str(target)]
    parts = tmp_path / "summary.txt.partial.jsonl"
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        while not parts.exists():
            assert process.poll() is None
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted: 1 part kept" in said
    first = target.read_text().splitlines()[0]
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "going on behind the 1 part" in again.stderr
    assert target.read_text().startswith(first)
    assert len(target.read_text().split()) > 300
    assert not parts.exists()
