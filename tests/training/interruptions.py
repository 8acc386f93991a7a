"""Training runs that end too early: by an error, and by being killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from awesum import compat
from awesum.analysis.embedding import SentenceEncoder
from awesum.training.settings import TrainingSettings, settings_class
from awesum.training.trainer import AwesomeTrainer, last_checkpoint
from tests.training.runs import ROOT, Case, go_with


class Interrupted(Exception):
    pass


def stopping_after(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends after this many documents, as by a power cut."""
    step, done = AwesomeTrainer.training_step, []

    def stopping(self: AwesomeTrainer, *args: Any, **kwargs: Any) -> torch.Tensor:
        if len(done) == count:
            raise Interrupted
        done.append(1)
        return step(self, *args, **kwargs)

    monkeypatch.setattr(AwesomeTrainer, "training_step", stopping)


def drive(settings: dict[str, Any], own: dict[str, Any], encoder: str) -> None:
    """What the process that is killed does, in float32 as all tests of tiny models."""
    compat.has_fast_bfloat16 = lambda: False
    torch.set_num_threads(1)
    made = TrainingSettings(**settings)
    go_with(SentenceEncoder.load(encoder))(Case(made, settings_class(made.system)(**own)))


def killed(case: Case, encoder: SentenceEncoder, folder: Path) -> Path:
    """Train in another process until there is a second checkpoint, kill it, and return its last checkpoint."""
    encoder.model.save_pretrained(folder / "encoder")
    encoder.tokenizer.save_pretrained(folder / "encoder")
    arguments = f"{asdict(case.settings)!r}, {asdict(case.own)!r}, {str(folder / 'encoder')!r}"
    running = subprocess.Popen(
        [sys.executable, "-c", f"from tests.training.interruptions import drive; drive({arguments})"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        end = time.monotonic() + 240
        while not (case.output / "checkpoint-2" / "trainer_state.json").exists():
            assert running.poll() is None, running.communicate()[1]
            assert time.monotonic() < end
            time.sleep(0.005)
    finally:
        running.send_signal(signal.SIGKILL)
        running.communicate()
    assert running.returncode == -signal.SIGKILL
    reached = last_checkpoint(case.output)
    assert reached is not None
    return reached
