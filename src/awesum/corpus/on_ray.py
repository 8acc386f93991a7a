"""The engine of several machines: Ray Data reads, summarizes with actors that keep their models, and tries again.

A block of the pipeline is one batch of documents: Ray then moves, retries and hands over one batch at a time, whatever
the size of its texts, and results reach this process soon after they are written. Ray decides where and when a
batch is summarized; this process writes the rows, as it does with the local engine.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from awesum.corpus.job import Columns, Job
from awesum.corpus.local import usual_workers
from awesum.corpus.results import is_new
from awesum.corpus.source import Batch, Item, Piece, Plan, batches
from awesum.corpus.worker import Outcome, Worker
from awesum.errors import AwesumError

PATIENCE = 30.0
"""Seconds that a cluster has to answer."""
OBJECT_STORE = 500_000_000
"""Bytes for batches on their way, where Ray is started here."""


def require() -> Any:
    """Import Ray without its usage statistics, or raise an error that says how to install it."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before it is imported: nothing may be sent to anybody
    os.environ.setdefault("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # its notes are for those who develop it
    # Workers are what this is about: the usual 15 starves them on a busy machine.
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".*")  # a worker that died is replaced: no reason for alarm
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns about what it will do one day
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise AwesumError(
            "--engine ray needs the library Ray, which is not installed: run `pip install 'awesum[ray]'`"
        ) from error
    return ray


def summarize(
    job: Job,
    fingerprint: str,
    plan: Plan,
    digest: str,
    done: Any,
    workers: int | None,
    address: str | None,
    load: Callable[[], Callable[[Batch], Outcome]] | None = None,
) -> Generator[Outcome, None, None]:
    """The outcome of each batch, as they come. `done` are the ids that have a row, sorted."""
    ray = require()
    if not plan.pieces:
        return
    try:
        _connect(ray, workers, address)
        count, gpus = _share(ray, workers, is_ours=address is None)
        load = load or partial(Worker, job, fingerprint)
        yield from _outcomes(ray, load, plan, digest, ray.put(done), count, gpus)
    except AwesumError:
        raise
    except Exception as error:  # Ray has many kinds of errors, and its own form for those of others
        raise AwesumError(
            f"the Ray cluster failed ({_first_line(error)}): what is written stays valid; run the same command again, "
            "and it resumes"
        ) from error
    finally:
        ray.shutdown()


def _outcomes(
    ray: Any, load: Callable[[], Any], plan: Plan, digest: str, done: Any, count: int, gpus: int
) -> Generator[Outcome, None, None]:
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = context.target_min_block_size = 1  # byte: a row, which is a batch, is a block
    context.execution_options.preserve_order = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    deaths = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Deaths).remote()
    readers = max(1, count // 8)
    pieces = ray.data.read_datasource(
        _source_class(ray)(plan.pieces, plan.columns, digest, done),
        override_num_blocks=len(plan.pieces),
        concurrency=readers,
    )
    outcomes = pieces.map_batches(
        Actor,
        fn_constructor_args=(load, deaths),
        batch_size=1,
        batch_format="pyarrow",
        zero_copy_batch=True,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=count),
        num_cpus=1,
        num_gpus=1 if gpus else None,
    )
    for table in outcomes.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
        for outcome in _contents(table):
            if isinstance(outcome, AwesumError):  # a worker could not start: so it would be everywhere
                raise outcome
            assert isinstance(outcome, Outcome), "workers give outcomes"
            yield replace(outcome, workers=count)


# The cluster


def _connect(ray: Any, workers: int | None, address: str | None) -> None:
    """Start Ray here, or join the cluster at an address; the latter has to answer."""
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address is None:
        # One core more than workers: reading has to go on while all of them are busy, or nothing ever moves.
        count = workers or usual_workers()
        store = OBJECT_STORE
        with _silence():
            ray.init(address="local", num_cpus=count + 1, include_dashboard=False, object_store_memory=store, **quiet)
        return
    if address.startswith("ray://"):
        raise AwesumError(
            f"{address} is the address of a Ray client: give host:port of the head node (usually port 6379)"
        )
    _check_answers(address)
    try:
        with _silence():
            ray.init(address=address, **quiet)
    except Exception as error:
        raise AwesumError(
            f"cannot join the Ray cluster at {address} ({_first_line(error)}): see `ray status`"
        ) from error


@contextmanager
def _silence() -> Iterator[None]:
    """Keep what Ray's native code writes to stderr while it starts from the user; its errors are raised as well."""
    sys.stderr.flush()
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


def _check_answers(address: str) -> None:
    """Raise an error if no Ray cluster answers within `PATIENCE`: Ray itself would wait for minutes."""
    deadline = time.monotonic() + PATIENCE
    try:
        if address != "auto":
            host, _, port = address.rpartition(":")
            if not host or not port.isdecimal():
                raise AwesumError(f"{address!r} is not the address of a Ray cluster: give host:port, or auto")
            socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
        command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
        done = subprocess.run(command, timeout=max(1.0, deadline - time.monotonic()), capture_output=True, text=True)
    except (OSError, OverflowError, UnicodeError, subprocess.TimeoutExpired) as error:
        reason = getattr(error, "strerror", None) or "no answer"
        raise AwesumError(
            f"there is no Ray cluster at {address} ({reason}, waited {PATIENCE:.0f} s at most): "
            "check the address with `ray status`, or leave out --address to start Ray here"
        ) from error
    if done.returncode != 0:
        shown = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("[")]
        reason = " ".join(shown[-1].split())[:200].rstrip(".") if shown else "no answer"
        raise AwesumError(
            f"there is no Ray cluster that can be used at {address} ({reason}): check it with `ray status`, "
            "or leave out --address to start Ray here"
        )


def _share(ray: Any, workers: int | None, is_ours: bool) -> tuple[int, int]:
    """The number of workers, and of the GPUs that are there for them.

    More than there is room for at the moment are possible on a cluster that grows.
    """
    there = ray.cluster_resources()
    gpus = int(there.get("GPU", 0))
    room = gpus or max(1, int(there.get("CPU", 1)) - 1)  # one core is for reading
    return (min(room, workers or room) if is_ours else workers or room), gpus


# What runs elsewhere


def _source_class(ray: Any) -> Any:
    """Our pieces as Ray's data source. A function, because the base class is there only where Ray is."""
    from ray.data.block import BlockMetadata
    from ray.data.datasource import Datasource, ReadTask

    class Corpus(Datasource):
        def __init__(self, pieces: list[Piece], columns: Columns, digest: str, done: Any) -> None:
            super().__init__()
            self.pieces, self.columns, self.digest, self.done = pieces, columns, digest, done

        def estimate_inmemory_data_size(self) -> int:
            return sum(piece.size for piece in self.pieces)

        def get_read_tasks(self, parallelism: int, *others: Any, **options: Any) -> list[Any]:
            columns, digest, done = self.columns, self.digest, self.done
            return [
                ReadTask(
                    partial(read, piece, columns, digest, done),
                    BlockMetadata(num_rows=None, size_bytes=piece.size, input_files=None, exec_stats=None),
                )
                for piece in self.pieces
            ]

    return Corpus


def read(piece: Piece, columns: Columns, digest: str, done: Any) -> Iterator[Any]:
    """The batches of a piece, each as a table of one row. `done` is Ray's reference to the ids that have a row."""
    import ray

    try:
        for batch in batches(piece, columns, digest, is_new(ray.get(done))):
            yield _table(batch)
    except AwesumError as error:  # the file was there a moment ago: the others are still worth reading
        yield _table(Batch([], skipped=[str(error)]))


def _table(content: Batch | Outcome | AwesumError) -> Any:
    """One row: what it is, its fields as JSON, and an outcome's rows. Not pickled: another machine may send it."""
    import pyarrow

    fields = {"message": str(content)} if isinstance(content, AwesumError) else asdict(content)
    rows = fields.pop("rows", b"")
    return pyarrow.table(
        {
            "kind": [type(content).__name__],
            "fields": pyarrow.array([json.dumps(fields)], pyarrow.large_string()),
            "rows": pyarrow.array([rows], pyarrow.large_binary()),
        }
    )


def _contents(table: Any) -> Iterator[Batch | Outcome | AwesumError]:
    """The inverse of `_table`, for any number of rows."""
    for row in table.to_pylist():
        fields = json.loads(row["fields"])
        if row["kind"] == Batch.__name__:
            yield Batch(**{**fields, "items": [Item(**item) for item in fields["items"]]})
        elif row["kind"] == Outcome.__name__:
            yield Outcome(rows=row["rows"], **fields)
        else:
            yield AwesumError(fields["message"])


class Actor:
    """A worker, as Ray keeps it."""

    def __init__(self, load: Callable[[], Callable[[Batch], Outcome]], deaths: Any) -> None:
        self.deaths = deaths
        self.error: AwesumError | None = None
        try:
            self.worker = load()
        except AwesumError as error:  # raised, Ray would start another one, again and again
            self.error = error

    def __call__(self, table: Any) -> Any:
        """Summarize a batch, which is the only row of a table."""
        (batch,) = _contents(table)
        assert isinstance(batch, Batch), "readers give batches"
        return _table(self.error or self._summarize(batch))

    def _summarize(self, batch: Batch) -> Outcome:
        if not batch.items:
            return self.worker(batch)
        # A worker that dies takes its batch with it, and Ray gives that to another one: for ever, if it is the batch
        # that kills them. So the deaths are counted, and after the first each document is tried alone.
        died = self._begin(batch)
        is_tried_apart = died and len(batch.items) > 1
        outcome = self._one_by_one(batch) if is_tried_apart else self.worker(_after(batch, died))
        self._end(batch)
        return outcome

    def _one_by_one(self, batch: Batch) -> Outcome:
        from awesum.corpus.rows import join

        outcomes: list[Outcome] = []
        for alone in batch.alone():
            outcomes.append(self.worker(_after(alone, self._begin(alone))))
            self._end(alone)
        return replace(
            outcomes[0],
            rows=join([outcome.rows for outcome in outcomes]),
            documents=sum(outcome.documents for outcome in outcomes),
            busy=sum(outcome.busy for outcome in outcomes),
        )

    def _begin(self, batch: Batch) -> int:
        import ray

        return int(ray.get(self.deaths.begin.remote(batch.name)))

    def _end(self, batch: Batch) -> None:
        self.deaths.end.remote(batch.name)


def _after(alone: Batch, deaths: int) -> Batch:
    """What is left to try of a document after so many workers died on it."""
    for _ in range(deaths):
        (alone,) = alone.after_death()
    return alone


class Deaths:
    """Counts how often a batch was begun and not ended."""

    def __init__(self) -> None:
        self.begun: dict[str, int] = {}

    def begin(self, name: str) -> int:
        """Note that somebody begins; the number of those who began before and did not end."""
        before = self.begun.get(name, 0)
        self.begun[name] = before + 1
        return before

    def end(self, name: str) -> None:
        """Note that a batch is done."""
        self.begun.pop(name, None)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:200].rstrip(".:")
