"""The installed command with the real weights on the sample that the repository holds; and the README's commands."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
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
    assert data["settings"]["model"] == "smollm2"
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
