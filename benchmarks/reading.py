"""What reading in another process costs, and how soon a bomb ends: the bars are 0.15 s, 3%, 20 s and 1.5 GB."""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from awesum.errors import AwesumError
from awesum.reading import parse, process, read
from awesum.reading.source import Source
from benchmarks import SAMPLE, report

DOCUMENTS = 100


def seconds(work: Callable[[], object]) -> float:
    """The time of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def seconds_of_one() -> float:
    """What the process adds to one document: starting it and reading, less reading here. The median of 9."""

    def alone() -> None:
        process.close()
        read(SAMPLE)

    here = Source(b"", path=str(SAMPLE), suffix=".txt", file=str(SAMPLE))
    parse(here)
    differences = [seconds(alone) - seconds(lambda: parse(here)) for _ in range(9)]
    process.close()
    return statistics.median(differences)


def share_of_a_folder() -> float:
    """What it adds to a folder of 100 documents, as a percentage of summarizing them (with `--style extract`)."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{number}.txt") for number in range(DOCUMENTS)]
        for path in paths:
            path.write_bytes(SAMPLE.read_bytes()[:20_000])
        there = seconds(lambda: [read(path) for path in paths])
        here = seconds(lambda: [parse(Source(b"", path=str(path), suffix=".txt", file=str(path))) for path in paths])
        from awesum import Summarizer

        summarizer = Summarizer.load()
        whole = seconds(lambda: [summarizer.summarize(path) for path in paths[:10]]) * DOCUMENTS / 10
    return 100 * (there - here) / whole


def bombs() -> tuple[float, float]:
    """The longest time and the largest memory that a bomb takes before it is refused."""
    from tests.reading.bombs import BOMBS

    longest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for name, (make, _) in BOMBS.items():
            path = Path(folder, name)
            path.write_bytes(make())
            started = time.perf_counter()
            try:
                read(path)
                print(f"{name} was read")
            except AwesumError as error:
                print(f"{time.perf_counter() - started:6.2f} s  {str(error).replace(folder, '')[:140]}")
            longest = max(longest, time.perf_counter() - started)
    process.close()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return longest, peak / 1e9


def main() -> int:
    """Print all figures."""
    longest, peak = bombs()
    reached = [
        report("the process adds to one document", seconds_of_one(), 0.15, " s"),
        report("a bomb ends within", longest, 20, " s"),
        report("a bomb takes", peak, 1.5, " GB"),
        report("the process adds to a folder of 100", share_of_a_folder(), 3, "%"),
    ]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
