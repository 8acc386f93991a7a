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
    (tmp_path / f".out.txt.awesum-{os.getpid()}").symlink_to(precious)
    files.write(tmp_path / "out.txt", "new")
    assert precious.read_text() == "precious"
    assert (tmp_path / "out.txt").read_text() == "new"


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    others = [".other.txt.awesum-1", ".out.txt.123", ".out.txt.awesum-note", ".out.txt.lock"]
    for name in (".out.txt.awesum-123", *others):
        (tmp_path / name).touch()
    files.remove_leftovers(tmp_path / "out.txt")
    assert sorted(os.listdir(tmp_path)) == others, "nothing that somebody else may have named so"


def test_open_stream_is_written_to_behind_what_stands_there(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("precious\n")
    code = "from pathlib import Path; from awesum import files; files.write(Path('/dev/stdout'), 'new\\n')"
    with log.open("a") as stream:
        subprocess.run([sys.executable, "-c", code], stdout=stream, check=True)
    assert log.read_text() == "precious\nnew\n"
    assert not files.is_special(log)


def test_names_are_shown_in_one_line_without_commands_for_the_terminal() -> None:
    assert files.shown("a\nb\x1b[31m.txt") == "a\ufffdb\ufffd[31m.txt"
    assert files.shown(os.fsdecode(b"caf\xe9 \xe4\xb8\xad.txt")) == "caf\ufffd 中.txt"
    for name in ("Übersicht 1.txt", "Screenshot 10.00\u202fAM.png", "報告\u3000書.txt"):
        assert files.shown(name) == name


def test_output_that_no_name_can_be_is_refused_in_one_line(tmp_path: Path) -> None:
    for is_folder in (False, True):
        with pytest.raises(AwesumError, match="cannot write to") as error:
            files.check_output(tmp_path / ("x" * 300), is_folder=is_folder)
        assert "\n" not in str(error.value)


def test_file_in_a_folder_that_is_read_is_an_input(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").touch()
    with pytest.raises(AwesumError, match="must not be written over"):
        files.check_output(tmp_path / "train.jsonl", files.with_contents([tmp_path]))
    assert files.with_contents([tmp_path / "missing"]) == [tmp_path / "missing"]


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
