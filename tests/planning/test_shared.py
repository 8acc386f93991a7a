"""The plan for each of several processes, against two that really run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from awesum.planning.plan import Request, make
from tests.planning.test_tracing import SYSTEMS as SETTINGS
from tests.planning.test_tracing import TINY
from tests.planning.two_processes import LENGTHS, SYSTEMS
from tests.training.runs import in_two_processes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("planned-processes")
    in_two_processes("-m", "tests.planning.two_processes", str(made))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.parametrize("way", ["ddp", "fsdp"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_peak_of_each_process(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, way: str, name: str
) -> None:
    monkeypatch.setenv("AWESUM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    lengths = LENGTHS[name]
    request = Request(
        system,
        {"base": str(tmp_path), "optim": "sgd", "precision": "float32", "accumulation": 1, **SETTINGS[system]},
        input_tokens=lengths.input_tokens,
        target_tokens=lengths.target_tokens,
        segment_tokens=None if system == "truncated" else lengths.segment_tokens,
        attention="own",
        gpus=2,
        strategy=way,
    )
    planned = make(request).peak_bytes
    for rank in range(2):
        measured = json.loads((folder / f"{rank}.json").read_text())[f"{system} {way} {name}"]
        assert planned == pytest.approx(measured, rel=0.1)
