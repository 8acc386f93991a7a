"""The engine of one machine: this process reads, and worker processes summarize."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from awesum.corpus.job import Job
from awesum.corpus.results import Ids, is_new
from awesum.corpus.source import BATCH, Batch, Plan, batches
from awesum.corpus.worker import Outcome, Worker
from awesum.workers import THREADS, cores, work_resiliently

RAM_PER_WORKER = 2_000_000_000
"""Bytes that a worker with the default models may take; fewer workers than cores are started if that is not there."""


def usual_workers() -> int:
    """One for each core, as far as the RAM goes; one for a GPU."""
    import torch

    if torch.cuda.is_available():
        return 1
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # not on this system
        return cores()
    return max(1, min(cores(), free // RAM_PER_WORKER))


def threads_of(workers: int) -> int:
    """The threads of each worker: as the environment says, or its share of the cores."""
    given = next((os.environ[name] for name in THREADS if os.environ.get(name, "").isdecimal()), None)
    return max(1, int(given) if given else cores() // workers)


def summarize(
    job: Job,
    fingerprint: str,
    plan: Plan,
    digest: str,
    done: Any,
    workers: int | None,
    load: Callable[[], Callable[[Batch], Outcome]] | None = None,
) -> Generator[Outcome, None, None]:
    """The outcome of each batch, as they come. `done` are the ids that have a row, sorted."""
    seen = Ids()
    seen.sorted = done
    count = workers or usual_workers()
    reading = _Reading(plan, digest, seen, count)
    load = load or partial(Worker, job, fingerprint)
    yield from work_resiliently(load, reading, count, Batch.after_death, threads_of(count))
    left = reading.left or Batch([])  # what was read after the last document that had to be summarized
    yield Outcome(b"", 0, left.size, left.skipped, left.seconds, 0.0, repeated=reading.repeated)


class _Reading(Iterable[Batch]):
    """The batches of all pieces. Those without a new document are put together with the next one that has some."""

    def __init__(self, plan: Plan, digest: str, seen: Ids, workers: int) -> None:
        self.plan, self.digest, self.seen = plan, digest, seen
        self.repeated = 0
        self._was_open = is_new(seen.sorted)
        self.left: Batch | None = None
        """What was read since the last batch."""
        files = sum(len(piece.files) for piece in plan.pieces)
        is_files = all(piece.kind == "documents" for piece in plan.pieces)
        # A few files are spread over the workers rather than sent to one of them.
        self.most = max(1, min(BATCH, files // workers)) if is_files else BATCH

    def _is_new(self, identifier: str) -> bool:
        is_new = self.seen.add(identifier)
        self.repeated += not is_new and self._was_open(identifier)
        return is_new

    def __iter__(self) -> Iterator[Batch]:
        for piece in self.plan.pieces:
            for batch in batches(piece, self.plan.columns, self.digest, self._is_new, self.most):
                if self.left:
                    before, self.left = self.left, None
                    batch = replace(
                        batch,
                        size=before.size + batch.size,
                        skipped=before.skipped + batch.skipped,
                        seconds=before.seconds + batch.seconds,
                    )
                if batch.items:
                    yield batch
                else:
                    self.left = batch
