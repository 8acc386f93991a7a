"""A corpus from beginning to end: the work behind `awesum corpus`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from awesum import files
from awesum.corpus import source, storage
from awesum.corpus.job import Job, digest
from awesum.corpus.results import Results
from awesum.corpus.rows import from_bytes
from awesum.corpus.worker import Outcome
from awesum.errors import AwesumError
from awesum.footprint import format_size, peak_memory
from awesum.progress import Bar
from awesum.summary import count

Engine = Literal["local", "ray"]
SECONDS = 30.0
"""Between two lines of progress where nobody sees a bar."""


@dataclass
class Totals:
    """What a run came to."""

    folder: str
    documents: int = 0
    """Rows in the folder."""
    resumed: int = 0
    """Of these, written by earlier runs."""
    failed: int = 0
    """Of these, with an error."""
    repeated: int = 0
    """Documents that had the id of another one."""
    skipped: list[str] = field(default_factory=list)
    """What could not be read."""
    seconds: float = 0.0
    workers: int = 0
    reading: float = 0.0
    """Seconds spent reading, of all processes together."""
    busy: float = 0.0
    """Seconds spent summarizing, of all workers together."""
    peak_memory_bytes: int = 0
    """Of this process, without the workers."""

    @property
    def new(self) -> int:
        """Rows that this run wrote."""
        return self.documents - self.resumed

    def __str__(self) -> str:
        pace = f" ({self.new / self.seconds:.1f} documents a second)" if self.new and self.seconds else ""
        parts = [
            f"{self.resumed:,} of them by earlier runs" if self.resumed else "",
            f"{self.failed:,} with an error" if self.failed else "",
            f"{count(self.repeated, 'repeated document')} left out" if self.repeated else "",
            f"{len(self.skipped):,} × unreadable skipped" if self.skipped else "",
        ]
        details = "".join(f", {part}" for part in parts if part)
        return f"{count(self.documents, 'row')} in {self.folder}{details}; {self.seconds:.0f} s{pace}"


def summarize_corpus(
    job: Job,
    folder: str,
    *,
    engine: Engine = "local",
    workers: int | None = None,
    address: str | None = None,
    retry_failed: bool = False,
    quiet: bool = False,
    say: Callable[[str], object] | None = None,
    load: Callable[[], Any] | None = None,
) -> Totals:
    """Summarize every document of a corpus that has no row in the folder yet.

    A document that fails is a row with its error. `workers` are processes; without it, one for each core or GPU.
    `address` is that of a running Ray cluster. `say` receives what a user should read, line by line. `load` makes a
    worker; without it, a `Worker` with the models of the job.
    """
    started = time.monotonic()
    say = say or _to_stderr
    source.require()
    if engine == "ray":
        from awesum.corpus import on_ray

        on_ray.require()
    _check_folder(job, folder)
    plan = source.plan(job, folder)
    system = job.load()
    key = job.key(system)
    results = Results(folder, key, job.source if storage.is_remote(job.source) else storage.local_path(job.source))
    totals = Totals(folder, skipped=list(plan.skipped))
    for line in plan.skipped:
        say(f"skipped: {line}")
    progress = _Progress(plan.size, quiet)
    try:
        results.open(retry_failed=retry_failed)
        totals.resumed = len(results.ids)
        if totals.resumed:
            say(f"resuming after {count(totals.resumed, 'document')} of earlier runs")
        done = results.ids.compact()
        outcomes: Generator[Outcome, None, None]
        if engine == "ray":
            from awesum.corpus import on_ray

            outcomes = on_ray.summarize(job, key["fingerprint"], plan, digest(key), done, workers, address, load)
        else:
            from awesum.corpus import local

            totals.workers = workers or local.usual_workers()
            outcomes = local.summarize(job, key["fingerprint"], plan, digest(key), done, totals.workers, load)
        try:
            with closing(outcomes):
                for outcome in outcomes:
                    totals.workers = outcome.workers or totals.workers
                    totals.reading += outcome.reading
                    totals.busy += outcome.busy
                    totals.skipped += outcome.skipped
                    for line in outcome.skipped:
                        progress.clear()
                        say(f"skipped: {line}")
                    if outcome.documents:
                        totals.repeated += outcome.documents - results.add(from_bytes(outcome.rows))
                    totals.repeated += outcome.repeated
                    progress.show(len(results.ids) - totals.resumed, outcome.size)
        finally:
            # What is finished is kept, whatever ended it.
            progress.close()
            results.commit()
            totals.documents, totals.failed = len(results.ids), results.failed
        results.merge()
        totals.seconds = round(time.monotonic() - started, 2)
        totals.peak_memory_bytes = peak_memory()
        results.save(asdict(totals), finished=True)
    except KeyboardInterrupt:
        kept = count(totals.documents, "row")
        say(f"interrupted: {kept} kept in {folder}; run the same command again to resume")
        raise
    finally:
        results.close()
    return totals


def _check_folder(job: Job, folder: str) -> None:
    """Refuse a folder that cannot be written, or that lies in the source."""
    if not folder:
        raise AwesumError("-o is empty: name a folder for the results")
    if storage.is_below(folder, job.source):
        raise AwesumError(
            f"{folder} is inside the corpus {job.source}, and would be read as a part of it: give another -o"
        )
    if not storage.is_remote(folder):
        path = Path(storage.local_path(folder))
        if os.path.exists(path) and not os.path.isdir(path):
            raise AwesumError(f"{folder} is a file: -o has to name a folder")
        files.check_output(path, is_folder=True)


class _Progress:
    """A bar on a terminal; elsewhere a line now and then. The share of the source that was read says what is left."""

    def __init__(self, size: int, quiet: bool) -> None:
        self.size, self.quiet = size, quiet
        self.read = 0
        self.started = self.last = time.monotonic()
        self.bar = Bar(quiet)

    def show(self, documents: int, size: int) -> None:
        """So many documents have a row now; the last ones stand for `size` bytes of the source."""
        self.read += size
        share = min(1.0, self.read / self.size) if self.size else 1.0
        total = max(documents, round(documents / share)) if share else 0
        if sys.stderr is not None and sys.stderr.isatty():
            self.bar.show("summarizing", documents, total)
            return
        now = time.monotonic()
        if self.quiet or now - self.last < SECONDS or not share:
            return
        self.last = now
        left = (now - self.started) * (1 - share) / share
        rate = documents / (now - self.started)
        _to_stderr(f"{documents:,} of about {total:,} documents, {rate:.1f} a second, {_duration(left)} left")

    def clear(self) -> None:
        """Make way for a line."""
        self.bar.clear()

    def close(self) -> None:
        """Take the bar away."""
        self.bar.close()


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{seconds:.0f} s"


def _to_stderr(line: str) -> None:
    print(f"awesum: {line}", file=sys.stderr, flush=True)


def throughput(totals: Totals) -> str:
    """Where the time of a run went, in words."""
    whole = totals.seconds * totals.workers
    if not whole:
        return ""
    summarizing, reading = totals.busy / whole, totals.reading / whole
    rest = max(0.0, 1 - summarizing)
    return (
        f"{count(totals.workers, 'worker')}: {summarizing:.0%} summarizing, {rest:.0%} starting, scheduling and "
        f"waiting; reading took {totals.reading:.1f} s ({reading:.0%}); peak {format_size(totals.peak_memory_bytes)}"
    )
