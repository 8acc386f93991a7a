"""The process of one row: train, or take a finished run, then summarize the test documents.

A process of its own for each row, so that the peak memory that is measured is that row's, and so that a row that takes
too much memory takes nobody else down. It ends when the process that started it does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from awesum.errors import AwesumError
from awesum.reproduce.plan import Plan
from awesum.training.settings import as_dict, read_settings

_PROGRAM = "from awesum.reproduce.row import main; main()"
PATIENCE = 20
"""Seconds that a process has to end by itself."""


def make(plan: Plan, row: str, *, quiet: bool = False) -> str | None:
    """Train and predict one row in another process. Returns the reason if that fails."""
    settings, options = plan.settings(row)
    job = {
        "settings": as_dict(settings, options),
        "documents": str(plan.references),
        "predictions": str(plan.predictions(row)),
        "quiet": quiet,
    }
    # -P: no module may come from the current folder.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
        answer = process.stdout.read()
        code = process.wait()
    finally:
        _end(process)
    try:
        return json.loads(answer)["error"]
    except (ValueError, KeyError, TypeError):
        return _reason(code)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Closing its input ends the process, if it has not ended."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _reason(code: int) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed, as systems do when memory is short: free some, or lower max_tokens"
    return f"its process ended without an answer (exit code {code})"


def main() -> None:
    """The program of the process: a job on standard input, the outcome on standard output."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print is no answer
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    error: str | None
    try:
        error = _make(job)
    except AwesumError as known:
        error = str(known)
    except KeyboardInterrupt:
        os._exit(130)
    except Exception as unknown:
        traceback.print_exc()
        error = f"{type(unknown).__name__}: {(str(unknown).splitlines() or [''])[0]}"
    print(json.dumps({"error": error}), file=answers, flush=True)
    os._exit(0)  # nothing is left to do, and libraries take their time


def _end_with_parent() -> None:
    """Standard input ends when the process that started this one does; everything on disk is whole at any time."""
    with suppress(OSError, ValueError):
        sys.stdin.read()
    os._exit(1)


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
