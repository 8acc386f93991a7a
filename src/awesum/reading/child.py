"""The process that reads: it takes one document at a time, within the limits that come with it, until nobody asks.

It runs `python -m awesum.reading.child` and is talked to through its standard input and output; see `process` for the
other side. It imports what reading needs and nothing else.
"""

from __future__ import annotations

import os
import signal
import sys
from math import ceil
from typing import IO, Any

from awesum.errors import AwesumError
from awesum.reading import messages
from awesum.reading.limits import PATIENCE
from awesum.reading.source import Source

GRACE = 5
"""Seconds beyond the time limit after which it ends itself, in case nobody is left to end it."""
TIRED = 300_000_000
"""Bytes of peak memory after which it is not used again: what a large document leaves behind counts for the next."""


def serve() -> None:
    """Read documents until the pipe is closed."""
    # Whatever a library prints must not get between the messages.
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash must not leave a file behind
    while True:
        try:
            header, content = messages.receive(asked, sys.maxsize)
        except EOFError:
            return
        answer, text = _answer(header, content, answers)
        del content
        messages.send(answers, answer | {"tired": _peak() > TIRED}, text)
        if sys.platform != "win32":
            signal.alarm(0)


def _answer(request: dict[str, Any], content: bytes, answers: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    """The document, or what is wrong with it."""
    from awesum.reading import parse
    from awesum.reading.progress import reporting

    try:
        limit_memory(request["memory"])
        limit_time(request["seconds"])

        def report() -> None:
            """Somebody may be waiting for a slow but steady reader."""
            limit_time(request["seconds"])
            messages.send(answers, {"progress": True})

        if "drawing" in request:
            return _drawn(request["source"]["file"], request["drawing"])
        with reporting(report):
            return messages.of_document(parse(Source(**request["source"] | {"data": content})))
    except AwesumError as error:
        return {"error": str(error)}, b""
    except MemoryError:
        return {"limit": "memory"}, b""
    except RecursionError:
        return {"crash": "nested too deeply"}, b""
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        return {"crash": f"{type(error).__name__}{': ' if reason else ''}{reason}"}, b""


def _drawn(file: str, wanted: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """What was asked for of the pages of a PDF."""
    from awesum.reading import drawing

    if wanted["what"] == "sizes":
        return {"drawing": drawing.sizes(file)}, b""
    if wanted["what"] == "image":
        return {"drawing": None}, drawing.draw(file, wanted["page"], wanted["width"])
    passages = [drawing.Passage(*fields) for fields in wanted["passages"]]
    return {"drawing": drawing.locate(file, passages)}, b""


def limit_memory(size: int) -> bool:
    """Have the system refuse more memory than this; false where it cannot, and somebody else has to watch."""
    if sys.platform != "linux":
        return False  # macOS accepts the limit and ignores it
    import resource

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard))
    return True


def limit_time(seconds: float) -> None:
    """Have the system end this process after so many more seconds of computing, or many more by the clock."""
    if sys.platform == "win32":
        return
    import resource

    signal.alarm(ceil(PATIENCE * seconds) + GRACE)
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    wanted = ceil(used.ru_utime + used.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _peak() -> int:
    """The peak memory of this process in bytes; getrusage would count that of the process that started it, too."""
    try:
        with open("/proc/self/status", "rb") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(b"VmHWM:"))
    except (OSError, StopIteration):
        from awesum.footprint import peak_memory

        return peak_memory()


if __name__ == "__main__":
    serve()
