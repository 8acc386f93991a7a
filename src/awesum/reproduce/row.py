"""The process of one row: train, or take a finished run, then summarize the test documents.

A process of its own for each row, so that the peak memory that is measured is that row's, and so that a row that takes
too much memory takes nobody else down. It ends when the process that started it does.
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
from awesum.reproduce.plan import Plan
from awesum.training.settings import as_dict, read_settings

_PROGRAM = "from awesum.reproduce.row import serve; serve()"
PATIENCE = 20
"""Seconds that a process has to end by itself."""


class RowMaker:
    """Makes rows, each in a process of its own. These are forked from one that has the libraries loaded, where the
    system can fork: loading them takes longer than many a step."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def make(self, plan: Plan, row: str, *, quiet: bool = False) -> str | None:
        """Train and predict one row. Returns the reason if that fails."""
        job = {
            "settings": as_dict(*plan.settings(row)),
            "documents": str(plan.references),
            "predictions": str(plan.predictions(row)),
            "quiet": quiet,
        }
        server = self._server or self._start()
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            server.stdin.write(json.dumps(job).encode() + b"\n")
            server.stdin.flush()
            answer = server.stdout.readline()
        except BrokenPipeError:
            answer = b""
        except BaseException:
            self._end()
            raise
        try:
            return json.loads(answer)["error"]
        except (ValueError, KeyError, TypeError):
            code = server.wait()
            self._end()
            return _reason(code)

    def _start(self) -> subprocess.Popen[bytes]:
        # -P: no module may come from the current folder.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, "-P", "-c", _PROGRAM]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        return self._server

    def _end(self) -> None:
        """Closing its input ends the server, and with it what it is making."""
        server, self._server = self._server, None
        if server is None:
            return
        for pipe in (server.stdin, server.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        try:
            server.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


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
    from awesum.training.run import train

    hide_progress_bars()
    settings, options = read_settings(None, job["settings"])
    folder = train(settings, options, quiet=job["quiet"])
    system = systems.load(str(folder))
    totals = predict(system, Job(job["documents"], raw=True), Path(job["predictions"]), quiet=job["quiet"])
    if totals.failed:
        return f"{totals.failed} of {totals.documents + totals.failed} documents could not be summarized"
    return None
