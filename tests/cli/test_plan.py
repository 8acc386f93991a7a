"""`awesum plan`: each mistake gets one line that says what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from awesum.cli import main
from awesum.planning import step
from tests.planning.test_tracing import TINY


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AWESUM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    return str(tmp_path)


def refused(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    assert main(["plan", *flags]) == 1
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["se3", "--base", "nobody/nothing"], "give a folder with its config.json, one of"),
        (["se3", "--size", "huge"], "say base or large"),
        (["se3", "--target-tokens", "2000"], "beyond the 1,024 positions of the decoder: say 1024 or fewer"),
        (["se3", "--segment-tokens", "2000"], "beyond the 1,024 positions of the encoder: say 1024 or fewer"),
        (["truncated", "--input-tokens", "5000"], "beyond the 1,024 positions of truncated's encoder"),
        (["longformer", "--input-tokens", "20000"], "beyond the 16,384 positions of longformer's encoder"),
        (["long-t5", "--base", "facebook/bart-large"], "bart"),
        (["se3", "--segments", "4", "--input-tokens", "4096"], "leave one of them out"),
        (["se3", "--segments", "0"], "--segments must be 1 or more"),
        (["se3", "--table", "memory"], "leave one of them out"),
        (["se3", "--dataset", "qmsum"], "add --table"),
        (["se3", "--strategy", "fsdp"], "add --gpus"),
        (["se3", "--plot", "a.svg", "--json"], "leave one of them out"),
        (["se3", "--gpu-memory", "much"], "--gpu-memory"),
        (["se3", "--optim", "adamw_imagined"], "optim"),
        (["lead"], "does not train"),
        ([], "there is nothing to plan"),
    ],
)
def test_mistakes_are_refused_in_one_line(flags: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert expected in refused(capsys, *flags)


def test_card_that_is_too_small_for_the_weights_names_what_is_needed(
    base: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "truncated", "--base", base, "--input-tokens", "64", "--target-tokens", "8",
                 "--gpu-memory", "100KB"]) == 0  # fmt: skip
    shown = capsys.readouterr().out
    assert "does not fit" in shown
    assert "the weights alone take" in shown


def test_step_that_cannot_be_traced_is_estimated_and_says_so(
    base: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise RuntimeError("no trace today\nand more")

    monkeypatch.setattr(step, "training_step", fail)
    assert main(["plan", "truncated", "--base", base, "--input-tokens", "64", "--target-tokens", "8"]) == 0
    shown = capsys.readouterr().out
    assert "note: the step could not be traced (no trace today): this is an estimate by a formula" in shown


def test_longest_input_is_at_most_what_a_system_can_read(base: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "truncated", "--base", base, "--input-tokens", "64", "--target-tokens", "8",
                 "--gpu-memory", "1TB", "--json"]) == 0  # fmt: skip
    plan = json.loads(capsys.readouterr().out)
    assert plan["fits"] is True
    assert plan["longest_input_tokens"] == TINY["max_position_embeddings"]
