"""Parallel maps over processes: `work` in order, with a bounded number of results in flight; `work_resiliently` as
results come, with new workers for those that die.

Each worker process has its own pipe and holds one item at a time, so a worker that dies never blocks another. Workers
end with the generator; if this process is killed, each ends after its current item.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, islice
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from awesum.errors import AwesumError

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables that set the threads of the numeric libraries; these read them once, when imported."""
AHEAD = 4
"""Results per process that may be held back while an earlier one is still missing."""
MOST_DEATHS = 20
"""Workers that may die without a result between them: more, and it is not the items that kill them."""
MOST_UNLOADED = 3
"""Workers in a row that may die while they load."""
READY = "ready"
"""What a worker of `work_resiliently` sends once everything is loaded."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """The number of cores available to this process."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def work(
    load: Callable[[], Callable[[Item], Result]], items: Iterable[Item], processes: int
) -> Generator[Result, None, None]:
    """Apply the function that `load` returns to each item, in order. Close the generator to stop early.

    `load` is called once per process. With `processes=1` everything runs in this process. Nothing is loaded or
    started until there is a first item.
    """
    items = iter(items)
    first = list(islice(items, processes))
    if not first:
        return
    items = chain(first, items)
    if processes == 1:
        yield from map(load(), items)
    else:
        yield from _in_processes(load, items, len(first))


def _in_processes(
    load: Callable[[], Callable[[Item], Result]], items: Iterator[Item], processes: int
) -> Iterator[Result]:
    idle: list[Connection] = []
    busy: dict[Connection, int] = {}  # worker -> index of its item
    started: list[BaseProcess] = []
    waiting: dict[int, Result] = {}  # index -> result, until all earlier ones have been yielded
    sent = yielded = 0
    try:
        for _ in range(processes):
            connection, process = _start(load)
            idle.append(connection)
            started.append(process)
        while True:
            while idle and sent - yielded < AHEAD * processes:
                try:
                    item = next(items)
                except StopIteration:
                    break
                busy[idle[-1]] = sent
                _send(idle.pop(), item)
                sent += 1
            if yielded == sent:
                return
            ready = wait(list(busy))
            for connection in [one for one in busy if one in ready]:
                waiting[busy.pop(connection)] = _receive(connection)
                idle.append(connection)
            while yielded in waiting:
                yielded += 1
                yield waiting.pop(yielded - 1)
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.join()
        for connection in (*idle, *busy):
            connection.close()


def work_resiliently(
    load: Callable[[], Callable[[Item], Result]],
    items: Iterable[Item],
    processes: int,
    after_death: Callable[[Item], Iterable[Item]],
    threads: int = 1,
) -> Generator[Result, None, None]:
    """Apply the function that `load` returns to each item, each result as soon as it is there.

    A worker that dies is replaced, and `after_death` says what to try instead of its item. If several in a row die
    while they load, that ends everything: so would the next. Close the generator to stop early.
    """
    coming = iter(items)
    again: deque[Item] = deque()
    workers: dict[Connection, BaseProcess] = {}
    busy: dict[Connection, Item | None] = {}  # None: it is loading
    idle: list[Connection] = []
    deaths = unloaded = 0
    is_last = False
    try:
        while True:
            while not is_last and len(again) < processes:
                try:
                    again.append(next(coming))
                except StopIteration:
                    is_last = True
            while again and idle:
                item = again.popleft()
                worker = idle.pop()
                busy[worker] = item
                with suppress(OSError):  # it is dead: waiting for it will tell
                    worker.send(item)
            loading = sum(item is None for item in busy.values())
            for _ in range(min(len(again) - loading, processes - len(workers))):
                worker, process = _start(load, threads, ready=True)
                workers[worker], busy[worker] = process, None
            if not busy:
                return
            for worker in [one for one in wait(list(busy)) if isinstance(one, Connection)]:
                lost = busy.pop(worker)
                try:
                    result = worker.recv()
                except (EOFError, OSError) as error:
                    worker.close()
                    workers.pop(worker).join()
                    deaths += 1
                    unloaded += lost is None
                    if unloaded > MOST_UNLOADED or deaths > MOST_DEATHS:
                        raise _worker_died("--workers") from error
                    if lost is not None:
                        again.extend(after_death(lost))
                    continue
                idle.append(worker)
                if isinstance(result, Exception):
                    raise result
                if lost is None:
                    unloaded = 0
                else:
                    deaths = 0
                    yield result
    finally:
        for process in workers.values():
            process.terminate()
        for process in workers.values():
            process.join()
        for connection in workers:
            connection.close()


def _start(
    load: Callable[[], Callable[[Any], Any]], threads: int = 1, ready: bool = False
) -> tuple[Connection, BaseProcess]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, load, threads, ready), daemon=True)
    with _interrupts_blocked(), _limited_threads(threads):
        process.start()
    theirs.close()  # only the worker holds this end: its death then closes the pipe
    return ours, process


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT: a worker started in here inherits the block and survives Ctrl-C; this process gets it afterwards.

    Without it, Ctrl-C would reach a worker before the worker ignores the signal.
    """
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _limited_threads(threads: int) -> Iterator[None]:
    """Make workers started in here use so many threads each; one, if there is already one process per core."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(connection: Connection, load: Callable[[], Callable[[Any], Any]], threads: int, ready: bool) -> None:
    """The loop of a worker: receive an item, send its result, until the pipe closes.

    With `ready` it loads before there is an item, and says so.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # there is already one process per core
    function = None
    with connection, suppress(EOFError, OSError):
        while True:
            item = None if ready and function is None else connection.recv()
            try:
                if function is None:
                    function = load()
                    if torch := sys.modules.get("torch"):  # only if `load` imported it: importing torch takes seconds
                        torch.set_num_threads(threads)
                    if ready:
                        connection.send(READY)
                        continue
                result = function(item)
            except Exception as error:
                if not isinstance(error, AwesumError):
                    error.add_note(traceback.format_exc())  # pickling drops the traceback
                result = error
            connection.send(result)
            if function is None:
                return


def _send(connection: Connection, item: object) -> None:
    try:
        connection.send(item)
    except OSError as error:
        raise _worker_died() from error


def _receive(connection: Connection) -> Any:
    try:
        result = connection.recv()
    except (EOFError, OSError) as error:
        raise _worker_died() from error
    if isinstance(result, Exception):
        raise result
    return result


def _worker_died(flag: str = "--processes") -> AwesumError:
    return AwesumError(
        "a worker process ended early, perhaps because the machine ran out of RAM: run the same command again with "
        f"fewer {flag}, and it resumes from here"
    )
