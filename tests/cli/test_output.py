"""Where `awesum summarize -o` writes: never over the document, and through links, pipes and devices."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import EXTRACT, Awesum
from tests.conftest import topical_text


def same_file(name: str, report: Path) -> str:
    """The document itself under another name."""
    if name == "hard link":
        os.link(report, "hard.txt")
        return "hard.txt"
    if name == "symbolic link":
        Path("soft.txt").symlink_to(report)
        return "soft.txt"
    return {"same path": str(report), "another spelling": f"./../{report.parent.name}/{report.name}"}[name]


@pytest.mark.parametrize("name", ["same path", "another spelling", "hard link", "symbolic link"])
def test_output_never_overwrites_the_document(awesum: Awesum, report: Path, name: str) -> None:
    before = report.read_bytes()
    assert "document itself" in awesum(report, *EXTRACT, "-o", same_file(name, report)).error
    assert report.read_bytes() == before


def test_document_in_the_output_folder_is_not_overwritten(awesum: Awesum) -> None:
    Path("out").mkdir()
    document = Path("out/report.txt.txt")
    document.write_text(topical_text(15))
    os.link(document, "report.txt")
    assert "document itself" in awesum("report.txt", *EXTRACT, "-o", "out").error
    assert document.read_text() == topical_text(15)


def test_output_is_written_through_a_symbolic_link(awesum: Awesum, report: Path) -> None:
    Path("elsewhere").mkdir()
    Path("elsewhere/summary.txt").write_text("old")
    Path("elsewhere/summary.txt").chmod(0o640)
    Path("link.txt").symlink_to("elsewhere/summary.txt")
    assert awesum(report, *EXTRACT, "-o", "link.txt").code == 0
    assert Path("link.txt").is_symlink()
    assert "dollars" in Path("elsewhere/summary.txt").read_text()
    assert Path("elsewhere/summary.txt").stat().st_mode & 0o777 == 0o640
    assert os.listdir("elsewhere") == ["summary.txt"]


def test_output_is_written_through_a_dangling_link(awesum: Awesum, report: Path) -> None:
    Path("link.txt").symlink_to("later.txt")
    assert awesum(report, *EXTRACT, "-o", "link.txt").code == 0
    assert Path("link.txt").is_symlink()
    assert "dollars" in Path("later.txt").read_text()


def test_output_goes_into_a_pipe(awesum: Awesum, report: Path) -> None:
    os.mkfifo("pipe")
    with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE, text=True) as reader:
        assert awesum(report, *EXTRACT, "-o", "pipe").code == 0
        assert "dollars" in reader.communicate(timeout=30)[0]
    assert Path("pipe").is_fifo()


def test_output_goes_to_a_device(awesum: Awesum, report: Path) -> None:
    assert awesum(report, *EXTRACT, "-o", "/dev/null").code == 0
    assert Path("/dev/null").is_char_device()
