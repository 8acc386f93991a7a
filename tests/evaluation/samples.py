"""References and predictions to evaluate, and how they are evaluated."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from awesum.cli import main
from awesum.evaluation import evaluate
from tests.conftest import topical_text

MODEL_FREE = ("rouge", "coverage", "repetition", "length")
NUMBER = 6


def reference(number: int) -> str:
    return topical_text(8, number)


def document(number: int) -> str:
    return topical_text(30, number)


def prediction(number: int, system: int = 0) -> str:
    """System 0 copies the first sentences of the document, system 1 those of another document."""
    return topical_text(5 + number % 3, number + 100 * system)


def rows(path: Path, objects: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in objects), encoding="utf-8")
    return path


def score(*args: Any, **kwargs: Any) -> Any:
    return evaluate(*args, **({"metrics": MODEL_FREE, "quiet": True} | kwargs))[0]


def error(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line of the error that the command ends with."""
    assert main(["evaluate", *map(str, arguments), "--quiet", "--processes", "1"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line.removeprefix("awesum: error: ")
