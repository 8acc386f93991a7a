"""What reading in another process costs, and how soon a bomb ends: the bars are 0.15 s, 3%, 20 s and 1.5 GB."""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from awesum.errors import AwesumError
from awesum.reading import parse, process, read
from awesum.reading.limits import ReadLimits
from awesum.reading.source import Source
from benchmarks import SAMPLE, report

DOCUMENTS = 100


def computing(work: Callable[[], object]) -> float:
    """The processor seconds of one call, those of the process that reads included: the clock would count whatever else
    the machine does."""

    def used() -> float:
        process.close()  # only processes that have ended are counted
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime

    started = used()
    work()
    return used() - started


def seconds_of_one() -> float:
    """What the process adds to one document: starting it and reading, less reading here. The median of 9."""
    here = Source(b"", path=str(SAMPLE), suffix=".txt", file=str(SAMPLE))
    parse(here)
    differences = [computing(lambda: read(SAMPLE)) - computing(lambda: parse(here)) for _ in range(9)]
    return statistics.median(differences)


def share_of_a_folder() -> float:
    """What it adds to a folder of 100 documents, as a percentage of summarizing them (with `--style extract`)."""
    from awesum import Summarizer
    from awesum.summarizer import as_document

    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{number}.txt") for number in range(DOCUMENTS)]
        for path in paths:
            path.write_bytes(SAMPLE.read_bytes()[:20_000])
        sources = [Source(b"", path=str(path), suffix=".txt", file=str(path)) for path in paths]
        there = computing(lambda: [read(path) for path in paths])
        here = computing(lambda: [parse(source) for source in sources])
        summarizer = Summarizer.load()
        document = as_document(paths[0])
        whole = here + DOCUMENTS * computing(lambda: summarizer.summarize(document))
    return 100 * (there - here) / whole


def bombs() -> tuple[float, float]:
    """The longest time, in seconds, and the largest memory, in GB, that a bomb takes before it is refused."""
    from tests.reading.bombs import BOMBS

    limits = ReadLimits()
    longest = largest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for name, (make, _) in BOMBS.items():
            path = Path(folder, name)
            path.write_bytes(make())
            reader = process.ReaderProcess()
            with _Peak(reader.process.pid) as peak:
                started = time.perf_counter()
                try:
                    source = Source(b"", path=name, suffix=path.suffix, file=str(path))
                    reader.read(source, limits, limits.seconds_for(path.stat().st_size))
                    outcome = "read"
                except AwesumError as error:
                    outcome = str(error)[:120]
                seconds = time.perf_counter() - started
            reader.close()
            print(f"{seconds:6.2f} s {peak.bytes / 1e9:5.2f} GB  {outcome}")
            longest, largest = max(longest, seconds), max(largest, peak.bytes / 1e9)
    return longest, largest


class _Peak:
    """The peak memory of another process, looked at every few milliseconds."""

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self.bytes = max(self.bytes, process.memory_of(self._pid))


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
