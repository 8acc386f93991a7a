"""The same work on many things, in several processes: results come in order, and few of them wait at a time.

Each process has a pipe of its own and one thing to do, so that any of them may end at any moment without another one
waiting for it. They end with the generator; if this process is killed, they end when they have done what they are at.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, islice
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from awesum.errors import AwesumError

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""What the libraries for arithmetic are told by, and only when they are loaded."""
AHEAD = 4
"""How many results for each process may wait for an earlier one."""

Thing = TypeVar("Thing")
Result = TypeVar("Result")


def cores() -> int:
    """How many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def work(
    load: Callable[[], Callable[[Thing], Result]], things: Iterable[Thing], processes: int
) -> Generator[Result, None, None]:
    """What the function that `load` gives makes of each thing. Close the generator to end before the last.

    With one process, it is this one. Nothing is loaded or started before there is a first thing.
    """
    things = iter(things)
    first = list(islice(things, processes))
    if not first:
        return
    things = chain(first, things)
    if processes == 1:
        yield from map(load(), things)
    else:
        yield from _in_processes(load, things, len(first))


def _in_processes(
    load: Callable[[], Callable[[Thing], Result]], things: Iterator[Thing], processes: int
) -> Iterator[Result]:
    idle: list[Connection] = []
    busy: dict[Connection, int] = {}  # which thing each is at
    started: list[BaseProcess] = []
    waiting: dict[int, Result] = {}
    sent = given = 0
    try:
        for _ in range(processes):
            connection, process = _start(load)
            idle.append(connection)
            started.append(process)
        while True:
            while idle and sent - given < AHEAD * processes:
                try:
                    thing = next(things)
                except StopIteration:
                    break
                busy[idle[-1]] = sent
                _send(idle.pop(), thing)
                sent += 1
            if given == sent:
                return
            ready = wait(list(busy))
            for connection in [one for one in busy if one in ready]:
                waiting[busy.pop(connection)] = _receive(connection)
                idle.append(connection)
            while given in waiting:
                given += 1
                yield waiting.pop(given - 1)
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.join()
        for connection in (*idle, *busy):
            connection.close()


def _start(load: Callable[[], Callable[[Any], Any]]) -> tuple[Connection, BaseProcess]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, load), daemon=True)
    with _interrupts_held(), _one_thread():
        process.start()
    theirs.close()  # so that nothing is left to read from when the process ends
    return ours, process


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C goes to every process of a terminal. One that was started meanwhile never hears it, this one later."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Libraries that are loaded in what is started meanwhile take one core: there is a process for each already."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(connection: Connection, load: Callable[[], Callable[[Any], Any]]) -> None:
    """What each process does: take a thing, give back what becomes of it, until there is no one to take from."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # there is a process for each core already
    function = None
    with connection, suppress(EOFError, OSError):
        while True:
            thing = connection.recv()
            try:
                if function is None:
                    function = load()
                    if torch := sys.modules.get("torch"):  # which nobody has to wait for who does not need it
                        torch.set_num_threads(1)
                result = function(thing)
            except Exception as error:
                if not isinstance(error, AwesumError):
                    error.add_note(traceback.format_exc())  # which would not come with it
                result = error
            connection.send(result)


def _send(connection: Connection, thing: object) -> None:
    try:
        connection.send(thing)
    except OSError as error:
        raise _ended() from error


def _receive(connection: Connection) -> Any:
    try:
        result = connection.recv()
    except (EOFError, OSError) as error:
        raise _ended() from error
    if isinstance(result, Exception):
        raise result
    return result


def _ended() -> AwesumError:
    return AwesumError(
        "a worker process ended before its work was done, perhaps because memory ran out: run the same command again, "
        "which goes on from there, with fewer --processes"
    )
