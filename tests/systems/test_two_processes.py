"""Each system that can be trained, in two processes: the same losses as in one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from awesum.training.settings import trainable
from tests.systems.conftest import OWN
from tests.training.runs import ROOT, history, in_two_processes

SETTINGS = OWN | {
    "se3": (),
    "awesome": ("--memory", "attentive", "--memory-size", "8", "--memory-layers", "2", "--salient", "text"),
    "adapter": ("--memory", "attentive", "--memory-size", "8", "--memory-layers", "1", "--update-layers", "1"),
}
EVERY = "import json, sys; from awesum.cli import main; sys.exit(max(main(each) for each in json.loads(sys.argv[1])))"


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one(
    data: Path, base: Callable[[str], str], tiny_folder: Path, tmp_path: Path
) -> None:
    """Two documents a step: one in each process, or one after the other in the only one."""

    def runs(name: str, accumulation: int) -> str:
        settings = [
            *["--data", str(data), "--epochs", "3", "--warmup-steps", "0", "--learning-rate", "1e-3", "--quiet"],
            *["--batch-size", "1", "--accumulation", str(accumulation), "--save-steps", "6", "--log-steps", "1"],
            *["--precision", "float32"],
        ]
        output = {system: str(tmp_path / name / system) for system in SETTINGS}
        bases = {system: str(tiny_folder) if system == "adapter" else base(system) for system in SETTINGS}
        return json.dumps(
            [
                ["train", "--system", system, "--base", bases[system], *settings, *own, "--output", output[system]]
                for system, own in SETTINGS.items()
            ]
        )

    cache = {"AWESUM_CACHE": str(tmp_path / "cache")}
    outputs = in_two_processes("-c", EVERY, runs("two", 1), **cache)
    assert not any("parallel_mode" in output for output in outputs), "the library doubts that there are two"
    subprocess.run([sys.executable, "-c", EVERY, runs("one", 2)], check=True, env=os.environ | cache, cwd=ROOT)
    for system in SETTINGS:
        ours, theirs = history(tmp_path / "two" / system), history(tmp_path / "one" / system)
        assert len(ours) == len(theirs) == 6, system
        for found, expected in zip(ours, theirs, strict=True):
            assert found[:2] == pytest.approx(expected[:2], rel=1e-4), system  # logged with four or five digits
            assert found[2] == pytest.approx(expected[2], rel=1e-3), system


def test_every_system_that_can_be_trained_is_tested_here() -> None:
    assert set(SETTINGS) | {"extractor"} == set(trainable()), "the extractor is tested with the others of its kind"
