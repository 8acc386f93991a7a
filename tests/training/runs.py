"""What the tests of whole training runs have in common."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest

from awesum.analysis.analysis import Analyst
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.errors import AwesumError
from awesum.training.run import train
from awesum.training.settings import TrainingSettings, settings_class
from awesum.training.trainer import last_checkpoint
from tests.conftest import topical_text

ROOT = Path(__file__).parents[2]
Go = Callable[..., Path]


@dataclass(frozen=True)
class Case:
    """The settings of a run: those of every system, and those of its own."""

    settings: TrainingSettings
    own: Any

    @classmethod
    def of(cls, **values: Any) -> Case:
        common = {field.name for field in fields(TrainingSettings)}
        settings = TrainingSettings(**{name: value for name, value in values.items() if name in common})
        own = {name: value for name, value in values.items() if name not in common}
        return cls(settings, settings_class(settings.system)(**own))

    @property
    def output(self) -> Path:
        return Path(self.settings.output)

    def but(self, **changes: Any) -> Case:
        """With some settings changed."""
        common = {field.name for field in fields(TrainingSettings)}
        return Case(
            replace(self.settings, **{name: value for name, value in changes.items() if name in common}),
            replace(self.own, **{name: value for name, value in changes.items() if name not in common}),
        )


def rows(count: int, sentences: int = 2, growth: int = 4) -> list[dict[str, str]]:
    """Documents, each longer than the one before it, whose summaries are sentences like their own.

    By default they have one to six segments of a tiny BART.
    """
    return [
        {
            "id": f"report {number}",
            "document": topical_text(sentences + growth * number, seed=number),
            "summary": " ".join(topical_text(3, seed=number).split()),
        }
        for number in range(count)
    ]


def causal_rows(count: int) -> list[dict[str, str]]:
    """Documents of one to four segments of a tiny causal model."""
    return rows(count, 8, 9)


def short_run(folder: Path, examples: list[dict[str, str]], base: Path, **settings: Any) -> Case:
    """These documents once, one a step, with a checkpoint after each step."""
    write(folder / "data" / "train.jsonl", examples)
    common: dict[str, Any] = {
        "data": str(folder / "data"),
        "output": str(folder / "out"),
        "base": str(base),
        "epochs": 1.0,
        "warmup_steps": 0,
        "accumulation": 1,
        "save_steps": 1,
        "log_steps": 1,
        "precision": "float32",
    }
    return Case.of(**common | settings)


def go_with(encoder: SentenceEncoder) -> Go:
    """Runs a case quietly."""

    def run(case: Case, **options: Any) -> Path:
        quiet: dict[str, Any] = {"say": lambda note: None, "analyst": Analyst(encoder, Centrality()), "quiet": True}
        return train(case.settings, case.own, **quiet | options)

    return run


def write(path: Path, examples: list[dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in examples), encoding="utf-8")


def history(output: str | Path) -> list[tuple[float, ...]]:
    """Step, loss, norm of the gradient and learning rate, as the last checkpoint has them."""
    last = last_checkpoint(Path(output))
    assert last is not None
    lines = json.loads((last / "trainer_state.json").read_text())["log_history"]
    return [(line["step"], line["loss"], line["grad_norm"], line["learning_rate"]) for line in lines if "loss" in line]


def record(output: str | Path) -> Any:
    return json.loads((Path(output) / "run.json").read_text(encoding="utf-8"))


def steps(output: str | Path) -> list[int]:
    return sorted(int(path.name.rpartition("-")[2]) for path in Path(output).glob("checkpoint-*"))


def in_one_line(error: pytest.ExceptionInfo[AwesumError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


def in_two_processes(*arguments: str, **environment: str) -> list[str]:
    """Run Python with these arguments in two processes that find each other: what they print."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"} | environment
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, *arguments],
            env=common | {"RANK": str(rank), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2"},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = []
    try:
        for running in processes:
            output, _ = running.communicate(timeout=600)
            assert running.returncode == 0, output
            outputs.append(output)
    finally:
        for running in processes:
            with running:  # its pipe is closed and its end awaited
                running.kill()
    return outputs
