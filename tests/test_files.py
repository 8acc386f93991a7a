"""Files: written whole or not at all, locks that end with their process, and outputs that are checked first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from awesum import files
from awesum.errors import AwesumError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links and signals")


def test_link_in_place_of_the_file_beside_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    (tmp_path / f".out.txt.{os.getpid()}").symlink_to(precious)
    files.write(tmp_path / "out.txt", "new")
    assert precious.read_text() == "precious"
    assert (tmp_path / "out.txt").read_text() == "new"


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    for name in (".out.txt.123", ".out.txt.lock", ".out.txt.note", ".other.txt.123"):
        (tmp_path / name).touch()
    files.remove_leftovers(tmp_path / "out.txt")
    assert sorted(os.listdir(tmp_path)) == [".other.txt.123", ".out.txt.lock", ".out.txt.note"]


def test_lock_is_held_by_one_process_and_ends_with_it(tmp_path: Path) -> None:
    lock = files.Lock(tmp_path / "out.txt")
    code = (
        "import sys, os, signal; from pathlib import Path; from awesum.files import Lock; "
        "print(Lock(Path(sys.argv[1])).acquire(), flush=True); sys.stdin.readline(); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )

    def other() -> subprocess.Popen[str]:
        arguments = [sys.executable, "-c", code, str(tmp_path / "out.txt")]
        return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    with other() as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        assert not lock.acquire()
        process.communicate("\n")
    assert lock.acquire(), "a process that was killed holds nothing"
    with other() as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "False\n"
        process.communicate("\n")
    lock.release()
    assert not os.listdir(tmp_path)


def test_lock_of_a_link_is_that_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "out.txt").touch()
    (tmp_path / "link.txt").symlink_to("out.txt")
    assert files.Lock(tmp_path / "link.txt").path == files.Lock(tmp_path / "out.txt").path


@pytest.mark.parametrize("how", ["same", "hard", "soft", "spelled"])
def test_output_that_is_an_input_is_refused(tmp_path: Path, how: str) -> None:
    source = tmp_path / "data.jsonl"
    source.write_text("precious")
    output = tmp_path / "other.jsonl"
    if how == "hard":
        os.link(source, output)
    elif how == "soft":
        output.symlink_to(source)
    else:
        output = source if how == "same" else tmp_path / ".." / tmp_path.name / "data.jsonl"
    with pytest.raises(AwesumError, match="must not be written over"):
        files.check_output(output, [source])
    assert source.read_text() == "precious"


@pytest.mark.parametrize("place", ["/proc/out.txt", "nowhere/out.txt", "folder"])
def test_output_that_cannot_be_written_is_refused_at_once(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(AwesumError, match="cannot write to"):
        files.check_output(tmp_path / place)
