"""`awesum summarize` with tiny models, and documents to call it with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from awesum.analysis.embedding import SentenceEncoder
from awesum.cli import main
from awesum.weights import minilm_folder
from tests.conftest import topical_text


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line that says what is wrong."""
        assert self.code == 1
        assert self.out == ""
        (line,) = self.err.splitlines()
        assert line.startswith("awesum: error: ")
        assert "Traceback" not in self.err
        return line


Awesum = Callable[..., Result]


@pytest.fixture(scope="session")
def minilm() -> SentenceEncoder:
    """The embedded encoder, loaded once for all tests of the command line."""
    return SentenceEncoder.load(minilm_folder())


@pytest.fixture
def awesum(
    tmp_path: Path,
    tiny_folder: Path,
    minilm: SentenceEncoder,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Awesum:
    """`awesum summarize` with the tiny model, in an empty folder."""
    monkeypatch.setattr(SentenceEncoder, "load", lambda folder: minilm)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> Result:
        capsys.readouterr()
        code = main(["summarize", "--model", str(tiny_folder), *map(str, arguments)])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """A file of several segments."""
    path = tmp_path / "report.txt"
    path.write_text(topical_text(100))
    return path


EXTRACT = ("--style", "extract", "--length", "3s")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three documents, one of them deeper down."""
    for number, name in enumerate(["a.txt", "b.md", "deep/c.txt"]):
        path = tmp_path / "reports" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(topical_text(15, seed=number))
    return tmp_path / "reports"


def files_of(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")
    )


SUMMARIES = ["a.txt.txt", "b.md.txt", "deep/c.txt.txt"]
