"""The process of one row: train, or take a finished run, then summarize the test documents.

A process of its own for each row, so that the peak memory that is measured is that row's, and so that a row that takes
too much memory takes nobody else down. It ends when the process that started it does. Several can run side by side,
each with its share of the cores.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from awesum.errors import AwesumError
from awesum.reproduce.plan import EXTRACTOR, Plan
from awesum.training.settings import as_dict, read_settings
from awesum.workers import THREADS, cores

_PROGRAM = "from awesum.reproduce.row import serve; serve()"
PATIENCE = 20
"""Seconds that a process has to end by itself."""
STOPPED = "stopped"
"""The reason of a row that the user interrupted."""
_HUGE_PAGES = "THP_MEM_ALLOC_ENABLE"
"""Has torch ask for huge pages. Without them, half of the time of some systems (Longformer's large, short-lived
matrices) goes into page faults. The peak memory is the same."""


class RowMaker:
    """Makes rows, each in a process of its own. These are forked from one that has the libraries loaded, where the
    system can fork: loading them takes longer than many a step."""

    def __init__(self, at_once: int = 1) -> None:
        """`at_once` is the number of makers that work side by side."""
        self._at_once = at_once
        self._server: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Another thread may be making a row: that ends, and no other begins."""
        self._is_closed = True
        self._end()

    def make(self, plan: Plan, row: str, *, quiet: bool = False) -> str | None:
        """Train and predict one row, or train the extractor. Returns the reason if that fails."""
        job = job_of(plan, row, quiet=quiet, at_once=self._at_once)
        server = self._server or self._start()
        if self._is_closed:
            self._end()
            return STOPPED
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            server.stdin.write(json.dumps(job).encode() + b"\n")
            server.stdin.flush()
            answer = server.stdout.readline()
        except (BrokenPipeError, ValueError):  # it has ended, or another thread has ended it
            answer = b""
        except BaseException:
            self._end()
            raise
        try:
            return json.loads(answer)["error"]
        except (ValueError, KeyError, TypeError):
            code = server.wait()
            self._end()
            return STOPPED if self._is_closed else _reason(code)

    def _start(self) -> subprocess.Popen[bytes]:
        # -P: no module may come from the current folder.
        environment = {_HUGE_PAGES: "1"} | os.environ
        environment |= {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        if self._at_once > 1:
            environment |= dict.fromkeys(THREADS, str(max(1, cores() // self._at_once)))
            environment["TOKENIZERS_PARALLELISM"] = "false"
        command = [sys.executable, "-P", "-c", _PROGRAM]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        return self._server

    def _end(self) -> None:
        """Closing its input ends the server, and with it what it is making. A thread that waits for an answer reads the
        end of the output, so that is closed last."""
        server, self._server = self._server, None
        if server is None:
            return
        assert server.stdin is not None
        assert server.stdout is not None
        with suppress(OSError):
            server.stdin.close()
        try:
            server.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        server.stdout.close()


def job_of(plan: Plan, row: str, *, quiet: bool = False, at_once: int = 1) -> dict[str, Any]:
    """What a process needs to know to make a row."""
    return {
        "settings": as_dict(*plan.settings(row)),
        "documents": str(plan.references),
        "predictions": None if row == EXTRACTOR else str(plan.predictions(row)),
        "quiet": quiet,
        "name": plan.name(row),
        "at_once": at_once,
    }


def _reason(code: int) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed, as systems do when memory is short: free some, or lower max_tokens"
    return f"its process ended without an answer (exit code {code})"


def serve() -> None:
    """The program of the process: jobs on standard input, their outcomes on standard output."""
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at Ctrl-C, the process that started this one ends it
    import awesum.predict
    import awesum.training.run  # noqa: F401

    jobs = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
    while line := jobs.readline():
        os.write(answers, _answer(line, jobs) + b"\n")
        if not hasattr(os, "fork"):
            return  # the peak memory of the next row is to be its own


def _answer(line: bytes, jobs: IO[bytes]) -> bytes:
    """The outcome of a job, done in a process of its own."""
    if not hasattr(os, "fork"):
        return _outcome(line)
    outcome, result = os.pipe()
    child = os.fork()
    if not child:
        os.close(outcome)
        jobs.close()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.write(result, _outcome(line))
        os._exit(0)  # nothing is left to do, and libraries take their time
    os.close(result)
    with os.fdopen(outcome, "rb") as found:
        # While a row is made, nothing comes in but the end: of the process that started this one. Everything on disk is
        # whole at any time.
        ready, _, _ = select.select([found, jobs], [], [])
        if jobs in ready and found not in ready:
            os.kill(child, signal.SIGKILL)
            os._exit(1)
        answer = found.read()
    _, status = os.waitpid(child, 0)
    return answer or json.dumps({"error": _reason(os.waitstatus_to_exitcode(status))}).encode()


def _outcome(line: bytes) -> bytes:
    error: str | None
    try:
        error = _make(json.loads(line))
    except AwesumError as known:
        error = str(known)
    except Exception as unknown:
        traceback.print_exc()
        error = f"{type(unknown).__name__}: {(str(unknown).splitlines() or [''])[0]}"
    return json.dumps({"error": error}).encode()


def _make(job: dict[str, Any]) -> str | None:
    from awesum import systems
    from awesum.loading import hide_progress_bars
    from awesum.predict import Job, predict
    from awesum.training import record
    from awesum.training.run import train

    hide_progress_bars()
    settings, options = read_settings(None, job["settings"])
    name, at_once = job["name"], job["at_once"]
    quiet = job["quiet"] or at_once > 1  # the bars of several rows would overwrite each other

    def say(note: str) -> None:
        print(f"awesum: {f'{name}: ' * (at_once > 1)}{note}", file=sys.stderr, flush=True)

    folder = train(settings, options, quiet=quiet, say=say)
    record.note_rows_at_once(folder, at_once)
    if job["predictions"] is None:
        return None
    system = systems.load(str(folder))
    totals = predict(system, Job(job["documents"], raw=True), Path(job["predictions"]), quiet=quiet)
    if totals.failed:
        return f"{totals.failed} of {totals.documents + totals.failed} documents could not be summarized"
    return None
