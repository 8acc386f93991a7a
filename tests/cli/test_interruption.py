"""Ctrl-C in the middle of `awesum summarize`: what was written stays, and the next run resumes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from awesum.errors import INTERRUPTED
from awesum.models.causal import ChatModel
from tests.cli.conftest import SUMMARIES, Awesum, files_of
from tests.conftest import Calls, topical_text


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch, calls: Calls) -> Callable[[int], None]:
    """Ctrl-C in the middle of the writing, when one more prompt than this is about to be read."""
    read = ChatModel.read

    def after(prompts: int) -> None:
        left = [prompts]

        def reading(self: ChatModel, *args: Any) -> Any:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return read(self, *args)

        monkeypatch.setattr(ChatModel, "read", reading)

    return after


def test_interrupted_run_keeps_its_parts_and_the_next_goes_on(
    awesum: Awesum, report: Path, interrupt: Callable[[int], None], calls: Calls
) -> None:
    arguments = (report, "--length", "200w", "--json", "-o", "out.json")
    whole = awesum(*arguments[:-1], "whole.json")
    assert whole.code == 0
    written = len(calls)
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
    assert len(calls) == written - 1, "only the segments that are left are written"
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
    assert "resuming after" in result.err


def test_interrupted_folder_goes_on_with_the_file_it_stopped_in(
    awesum: Awesum, folder: Path, interrupt: Callable[[int], None], calls: Calls
) -> None:
    for name in ("a.txt", "b.md", "deep/c.txt"):
        (folder / name).write_text(topical_text(60, seed=len(name)))
    arguments = (folder, "--length", "150w", "-o", "out")
    interrupt(3)
    assert awesum(*arguments).code == INTERRUPTED
    assert "a.txt.txt" in files_of(Path("out"))
    done = len(calls)
    interrupt(1000)
    assert awesum(*arguments).code == 0
    total = len(calls)
    assert files_of(Path("out")) == SUMMARIES
    calls.clear()
    awesum(*arguments[:-1], "fresh")
    assert len(calls) <= total <= len(calls) + 3, "at most the prompts that were under way are read again"
    assert done > 0
