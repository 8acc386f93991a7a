"""Reading in another process: whatever happens there is one error here, and the next document is read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from awesum.errors import AwesumError
from awesum.reading import process, read
from awesum.reading.limits import ReadLimits
from awesum.reading.source import Source

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@pytest.fixture(autouse=True)
def fresh_readers() -> Iterator[None]:
    process.close()
    yield
    process.close()


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text("A short text. It has two sentences.")
    return path


@pytest.fixture
def reader_does(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have readers do something else with a document."""

    def plant(code: str) -> None:
        lines = "\n    ".join(code.split("\n"))
        program = f"import awesum.reading as reading\ndef parse(source):\n    {lines}\nreading.parse = parse\n"
        monkeypatch.setattr(process, "_PROGRAM", program + process._PROGRAM)

    return plant


def failure(path: Path, limits: ReadLimits | None = None) -> str:
    with pytest.raises(AwesumError) as error:
        read(path, limits)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os; os.abort()", "SIGABRT"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("import os; os._exit(3)", "exit code 3"),
        ("raise LookupError('unknown encoding: zip')", "LookupError: unknown encoding: zip"),
        ("raise ValueError('several\\nlines')", "ValueError: several lines"),
        ("def deeper(): deeper()\ndeeper()", "nested too deeply"),
    ],
)
def test_reader_that_breaks_is_one_error_and_the_next_document_is_read(
    document: Path, reader_does: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, code: str, words: str
) -> None:
    whole = process._PROGRAM
    reader_does(code)
    assert words in failure(document)
    process.close()
    monkeypatch.setattr(process, "_PROGRAM", whole)
    assert read(document).text.startswith("A short text.")


def test_reader_that_computes_for_ever_is_ended(document: Path, reader_does: Callable[[str], None]) -> None:
    reader_does("while True: pass")
    assert "longer to read than 1 seconds" in failure(document, ReadLimits(seconds=1))


def test_reader_that_sleeps_for_ever_is_ended(document: Path, reader_does: Callable[[str], None]) -> None:
    reader_does("import time; time.sleep(1000)")
    started = time.monotonic()
    assert "longer to read than 1 seconds" in failure(document, ReadLimits(seconds=1))
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("watched", [False, True])
def test_reader_that_takes_too_much_memory_is_ended(
    document: Path, reader_does: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, watched: bool
) -> None:
    """By the system where it can; else by a watchdog, which is tried here with the system's limit out of the way."""
    code = "held = []\nwhile True: held.append(bytearray(10_000_000))"
    if watched:
        monkeypatch.setattr(process, "LIMITED_BY_SYSTEM", False)
        code = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))\nimport time\n" + code
        code = code.replace("held.append(", "time.sleep(0.01); held.append(")
    reader_does(code)
    assert "--read-memory" in failure(document, ReadLimits(memory=250_000_000))


def test_steady_reader_has_more_time(document: Path, reader_does: Callable[[str], None]) -> None:
    reader_does(
        "import time\nfrom awesum.document import Document\nfrom awesum.reading import progress\n"
        "for _ in range(4):\n    end = time.process_time() + 1.5\n"
        "    while time.process_time() < end: pass\n    progress.step()\n"
        "return Document('steady')"
    )
    assert read(document, ReadLimits(seconds=3)).text == "steady"


@pytest.mark.parametrize("nonsense", ["b'x' * 5", "b'\\\\xff' * 100", "(1).to_bytes(8, 'big') * 2 + b'[' + b'x'"])
def test_reader_that_sends_nonsense_is_one_error(
    document: Path, monkeypatch: pytest.MonkeyPatch, nonsense: str
) -> None:
    monkeypatch.setattr(process, "_PROGRAM", f"import os, sys; os.write(1, {nonsense}); sys.stdin.read(1)")
    assert "crash" in failure(document)


def test_reader_is_used_again(document: Path) -> None:
    read(document)
    (first,) = process._idle
    read(document)
    assert process._idle == [first]


def test_reader_that_died_meanwhile_is_replaced(document: Path) -> None:
    read(document)
    (first,) = process._idle
    os.kill(first.process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, first.process.pid, os.WEXITED | os.WNOWAIT)
    assert read(document).text
    assert process._idle != [first]


def test_many_threads_read_at_once(document: Path) -> None:
    texts: list[str] = []
    threads = [threading.Thread(target=lambda: texts.append(read(document).text)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == [document.read_text()] * 6
    assert len(process._idle) <= process.KEPT


def test_reader_imports_nothing_heavy(document: Path, reader_does: Callable[[str], None]) -> None:
    reader_does("import sys\nfrom awesum.document import Document\nreturn Document(' '.join(sys.modules))")
    modules = set(read(document).text.split())
    assert not modules & {"torch", "transformers", "numpy", "trafilatura", "pypdfium2"}


def test_reader_takes_no_module_from_the_current_folder(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "striprtf.py").write_text("raise SystemExit('a stranger was here')")
    (tmp_path / "json.py").write_text("raise SystemExit('a stranger was here')")
    monkeypatch.chdir(tmp_path)
    assert read(document).text


def test_reader_ends_with_the_process_that_started_it(document: Path) -> None:
    code = f"from awesum.reading import read, process; read({str(document)!r}); "
    code += "print(process._idle[0].process.pid, flush=True)"
    hang = "; import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    done = subprocess.run([sys.executable, "-c", code + hang], capture_output=True, text=True, check=False)
    pid = int(done.stdout)
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        with open(f"/proc/{pid}/stat") as file:
            if file.read().split()[2] == "Z":
                return
        time.sleep(0.1)
    pytest.fail("the reader is still there")


def test_limits_are_checked() -> None:
    for memory, seconds in (("1MB", None), ("9e99GB", None), (None, 0.0), (None, -1.0), (None, float("nan"))):
        with pytest.raises(AwesumError):
            ReadLimits.parse(memory, seconds)
    assert ReadLimits.parse("2GB", 60.0) == ReadLimits(2_000_000_000, 60.0)
    assert ReadLimits().seconds_for(10_000_000) == 35.0


def test_file_name_that_is_not_utf8_reaches_the_reader(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))
    path.write_text("Good coffee.")
    assert read(path).text == "Good coffee."


def test_source_that_holds_bytes_is_sent(tmp_path: Path) -> None:
    assert process.read_in_process(Source(b"Hello you.", path="-"), 10, ReadLimits()).text == "Hello you."


def test_reader_of_a_large_process_is_used_again(document: Path) -> None:
    """A process begins with the peak of the one that started it, which must not be taken for its own."""
    held = bytearray(400_000_000)
    held[::4096] = b"x" * len(held[::4096])
    read(document)
    assert process._idle
