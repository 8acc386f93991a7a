"""How a command meets the world around it: signals that end it, and a standard output that lacks some characters."""

from __future__ import annotations

import codecs
import io
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

TERMINATED = 143
"""The exit code that shells give to a command ended by SIGTERM."""


class Terminated(KeyboardInterrupt):
    """Somebody asked the command to end: what is there is kept, as after Ctrl-C."""


@contextmanager
def terminating_cleanly() -> Iterator[list[int]]:
    """Take SIGTERM, and the end of the terminal, for an interruption; the signals that came are in the list."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def end(number: int, frame: FrameType | None) -> None:
        came.append(number)
        raise Terminated

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {}
    for number in (getattr(signal, name) for name in names):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP, and so do we
            before[number] = signal.signal(number, end)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def printing_anything() -> Iterator[Counter[str]]:
    """Replace what standard output cannot hold by a question mark; the characters are counted."""
    replaced: Counter[str] = Counter()

    def replace(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        lost = error.object[error.start : error.end]
        replaced.update(lost)
        return "?" * len(lost), error.end

    output = sys.stdout
    if not isinstance(output, io.TextIOWrapper) or output.errors != "strict":
        yield replaced
        return
    codecs.register_error("awesum", replace)
    output.reconfigure(errors="awesum")
    try:
        yield replaced
    finally:
        output.reconfigure(errors="strict")
