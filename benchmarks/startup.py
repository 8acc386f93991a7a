"""How long a user waits: for the help, for the error about a mistyped path, and for the first part of the summary."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from benchmarks import SAMPLE, report

AWESUM = [sys.executable, "-m", "awesum"]


def seconds_to_help() -> float:
    """One call of `awesum --help`."""
    started = time.perf_counter()
    subprocess.run([*AWESUM, "--help"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def seconds_to_error() -> float:
    """One call of `awesum summarize` with a path that does not exist."""
    started = time.perf_counter()
    done = subprocess.run([*AWESUM, "summarize", "nowhere.txt"], check=False, stderr=subprocess.PIPE)
    seconds = time.perf_counter() - started
    assert done.returncode == 1
    assert b"nowhere.txt does not exist" in done.stderr
    return seconds


def seconds_to_first_part() -> float:
    """From the start of the process to the first line on stdout."""
    started = time.perf_counter()
    with subprocess.Popen(
        [*AWESUM, "summarize", str(SAMPLE), "--style", "abstract", "--quiet"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        seconds = time.perf_counter() - started
        process.kill()
    return seconds


def main() -> int:
    """Print all three, after one call of each to warm the caches."""
    seconds_to_help()
    seconds_to_error()
    seconds_to_first_part()
    helped = statistics.median(seconds_to_help() for _ in range(5))
    refused = statistics.median(seconds_to_error() for _ in range(5))
    first = statistics.median(seconds_to_first_part() for _ in range(3))
    reached = [
        report("awesum --help", helped, 0.15, " s"),
        report("a mistyped path", refused, 0.3, " s"),
        report("first part of the sample", first, 15, " s"),
    ]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
