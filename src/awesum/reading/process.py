"""Reading in another process, with limits: whatever a file does to its reader, this process goes on.

A reader that dies, hangs or takes too much is one error for that document; the next one gets a new reader. A reader
that did well is kept and used again, because starting one takes longer than reading most documents. See `child` for the
other side.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from typing import IO, Any

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.footprint import format_size, peak_memory
from awesum.reading import messages
from awesum.reading.limits import PATIENCE, ReadLimits
from awesum.reading.source import Source

KEPT = 2
"""Idle readers that are kept, unless somebody needs more of them at the same time."""
WATCHED = 0.05
"""Seconds between two looks at the memory of a reader, where the system does not limit it."""

_PROGRAM = "from awesum.reading.child import serve; serve()"
_idle: list[ReaderProcess] = []
_lock = threading.Lock()


def read_in_process(source: Source, size: int, limits: ReadLimits) -> Document:
    """Read a source of `size` bytes in another process."""
    reader = _take()
    try:
        return reader.read(source, limits, limits.seconds_for(size))
    finally:
        _give_back(reader)


def draw_in_process(file: str, name: str, wanted: dict[str, Any], limits: ReadLimits) -> tuple[Any, bytes]:
    """What `drawing` knows of the pages of a PDF, in another process: a value, and the bytes of an image."""
    reader = _take()
    try:
        source = Source(b"", path=name, file=file)
        return reader.draw(source, wanted, limits, limits.seconds_for(os.stat(file).st_size))
    finally:
        _give_back(reader)


def start() -> None:
    """Start a reader now, so that it is there when it is needed. If it cannot be started, whoever needs it will see."""
    with suppress(OSError):
        _give_back(_take())


def keep(number: int) -> None:
    """Keep so many idle readers: for a server, which reads and draws at the same time."""
    global KEPT
    KEPT = number


def close() -> None:
    """End all idle readers."""
    with _lock:
        readers, _idle[:] = list(_idle), []
    for reader in readers:
        reader.close()


def _take() -> ReaderProcess:
    with _lock:
        while _idle:
            reader = _idle.pop()
            if reader.process.poll() is None:
                return reader
            reader.close()  # it has died while nobody needed it
    return ReaderProcess()


def _give_back(reader: ReaderProcess) -> None:
    with _lock:
        if reader.is_usable and len(_idle) < KEPT:
            _idle.append(reader)
            return
    reader.close()


def _forget() -> None:
    """After a fork: the readers belong to the other process."""
    global _idle, _lock, _forgotten
    _forgotten, _idle, _lock = _idle, [], threading.Lock()


_forgotten: list[ReaderProcess] = []
"""Of the process that this one was forked from: kept, so that nobody closes them."""
atexit.register(close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class ReaderProcess:
    """One process that reads, one document at a time."""

    def __init__(self) -> None:
        self.is_usable = True
        # A new process begins with the peak of the one that started it: below that, its own does not show.
        self._inherited = peak_memory()
        # -P: no module may come from the current folder, which may be full of strangers' files.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                **_apart(),
            )
        except (OSError, TypeError) as error:
            raise AwesumError(
                f"cannot start the process that reads documents ({error}): close other programs and try again"
            ) from error

    def read(self, source: Source, limits: ReadLimits, seconds: float) -> Document:
        """Read one document. If that fails for a reason other than the document's own, the reader is of no more use."""
        header, content = self._ask(source, {}, limits, seconds)
        try:
            return messages.to_document(header, content)
        except (ValueError, KeyError, TypeError) as error:
            self.is_usable = False
            raise _crash(source.path, "its reader sent nonsense") from error

    def draw(self, source: Source, wanted: dict[str, Any], limits: ReadLimits, seconds: float) -> tuple[Any, bytes]:
        """Look at the pages of a PDF: see `draw_in_process`."""
        header, content = self._ask(source, {"drawing": wanted}, limits, seconds)
        return header.get("drawing"), content

    def _ask(
        self, source: Source, more: dict[str, Any], limits: ReadLimits, seconds: float
    ) -> tuple[dict[str, Any], bytes]:
        """Send a request and return the answer; what went wrong is an error of this document."""
        fields = asdict(source) | {"data": None}
        request = {"source": fields, "memory": limits.memory, "seconds": seconds} | more
        self.is_usable = False
        with _Watch(self.process, limits, seconds) as watch:
            try:
                messages.send(self._stdin, request, source.data)
                header, content = self._receive(limits, watch)
            except (EOFError, OSError, messages.Garbled, ValueError, KeyError, TypeError) as error:
                raise self._failure(source.path, limits, seconds, watch) from error
        self.is_usable = not header.get("tired", True) and "limit" not in header
        if "error" in header:
            raise AwesumError(str(header["error"]))
        if "limit" in header:
            raise too_large(source.path, limits)
        if "crash" in header:
            raise _crash(source.path, str(header["crash"]))
        return header, content

    def _receive(self, limits: ReadLimits, watch: _Watch) -> tuple[dict[str, Any], bytes]:
        while True:
            header, content = messages.receive(self._stdout, limits.memory)
            if "progress" not in header:
                return header, content
            watch.extend()

    def _failure(self, path: str, limits: ReadLimits, seconds: float, watch: _Watch) -> AwesumError:
        peak, code = self._end()
        if watch.reason == "time" or (sys.platform != "win32" and code == -signal.SIGXCPU):
            return AwesumError(
                f"{path} took longer to read than {seconds:.0f} seconds and was given up: "
                "if you trust it, give it more time with --read-timeout"
            )
        if watch.reason == "memory" or peak > max(self._inherited, limits.memory // 2):
            return too_large(path, limits)
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return AwesumError(
            f"{path} made its reader crash ({how}): it is damaged, or made to do harm; print it to a new PDF, or save "
            "it in another format"
        )

    def _end(self) -> tuple[int, int]:
        """Kill the process: its peak memory, if that can be told, and its exit code."""
        if self.process.returncode is None:
            if hasattr(os, "wait4"):
                with suppress(ProcessLookupError):  # it may be on its way out by itself: give it a moment to say how
                    _, status, usage = _wait_or_kill(self.process.pid)
                    self.process.returncode = os.waitstatus_to_exitcode(status)
                    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
                    self.close()
                    return peak, self.process.returncode
            self.process.kill()
            self.process.wait()
        self.close()
        return 0, self.process.returncode or 0

    def close(self) -> None:
        """End the process. It has nothing that it could lose."""
        self.is_usable = False
        if self.process.returncode is None:
            self.process.kill()
        for pipe in (self._stdin, self._stdout):
            with suppress(OSError):
                pipe.close()
        self.process.wait()

    @property
    def _stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def _stdout(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout


def _crash(path: str, reason: str) -> AwesumError:
    return AwesumError(
        f"{path} cannot be read ({reason}): "
        "it is damaged, or of a kind that nobody thought of; save it in another format"
    )


def too_large(path: str, limits: ReadLimits) -> AwesumError:
    """The error for a document that takes more memory than its reader has."""
    return AwesumError(
        f"{path} takes more than {format_size(limits.memory)} of memory to read and was given up: "
        "if you trust it, give it more with --read-memory"
    )


def _wait_or_kill(pid: int) -> tuple[int, int, Any]:
    """The end of a process that has closed its pipe, or sent nonsense."""
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        found, status, usage = os.wait4(pid, os.WNOHANG)
        if found:
            return found, status, usage
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    return os.wait4(pid, 0)


def _apart() -> dict[str, Any]:
    """Ctrl-C in the terminal is meant for us, and not for the reader."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"process_group": 0}


class _Watch:
    """Kills a reader that takes too long; and one that takes too much, where the system would let it."""

    def __init__(self, process: subprocess.Popen[bytes], limits: ReadLimits, seconds: float) -> None:
        self.reason = ""
        """`time` or `memory`, if it was killed."""
        self._process, self._limits = process, limits
        # Where the system counts the seconds of computing, the clock is only for readers that have got stuck.
        self._seconds = seconds * (PATIENCE if LIMITED_BY_SYSTEM else 1)
        self._deadline = time.monotonic() + self._seconds
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def extend(self) -> None:
        """The reader has done a step: its time begins anew."""
        self._deadline = time.monotonic() + self._seconds

    def _run(self) -> None:
        while True:
            left = self._deadline - time.monotonic()
            if left <= 0:
                self._kill("time")
                return
            if self._done.wait(left if LIMITED_BY_SYSTEM else min(left, WATCHED)):
                return
            if not LIMITED_BY_SYSTEM and memory_of(self._process.pid) > self._limits.memory:
                self._kill("memory")
                return

    def _kill(self, reason: str) -> None:
        self.reason = reason
        with suppress(OSError):  # not through Popen, which would reap it and lose its figures
            os.kill(self._process.pid, signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)


LIMITED_BY_SYSTEM = sys.platform == "linux"
"""Whether the system refuses memory beyond the limit, so that nobody has to watch."""


def memory_of(pid: int) -> int:
    """The resident memory of a process in bytes; 0 if it is gone."""
    if sys.platform == "linux":
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError, ValueError):
            return 0
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
