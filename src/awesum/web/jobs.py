"""The work of the server: summaries that wait, are opened, are written side by side by one engine, and end.

A job is one summary on its way. Documents are analysed by a few threads; everything that a model writes is written by
one, which has the parts of all jobs in one engine. Whoever follows a job reads from it at their own pace: nobody waits
for a slow reader.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from queue import SimpleQueue
from threading import Event, Lock, Semaphore, Thread
from typing import TYPE_CHECKING, Any

from awesum.errors import AwesumError
from awesum.partial import PartialSummary, fingerprint
from awesum.settings import EXTRACT, Settings
from awesum.summarizer import Summarizer, as_error
from awesum.summary import Part
from awesum.web.store import ENDED, State, Store, SummaryRecord, iterate_running

if TYPE_CHECKING:
    from awesum.compose.prompts import DocumentPrompt
    from awesum.compose.session import Session
    from awesum.engine.engine import Engine
    from awesum.models.prompt import Answer, Prompt

WAITING = 32
"""Jobs of a kind, verbatim or written, that may wait to begin. Those that come later are asked to come back."""
ANALYSING = 2
"""Documents of the verbatim style that are analysed at the same time."""
WRITING = 16
"""Documents that a model writes about at the same time."""
GRACE = 0.3
"""Seconds after which a job that nobody watches any more stops: enough to load the page again."""
KEPT_READINGS = 8
"""Documents whose sentences and vectors stay in RAM for the next question."""
TYPICAL = 5.0
"""Seconds between the ends of two jobs, until some have been seen."""


class Busy(Exception):
    """There is no room for another job; `seconds` says when there may be."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many are waiting: come back in {seconds} s")
        self.seconds = seconds


class Stopped(Exception):
    """The job was stopped."""


class Job:
    """One summary on its way. Threads tell it what happens; those who follow it are told in the event loop."""

    def __init__(self, record: SummaryRecord, loop: asyncio.AbstractEventLoop) -> None:
        self.record = record
        self.parts: list[Part] = []
        self.progress: dict[str, Any] = {}
        self.stop = Event()
        """Set if it is to end early."""
        self.watchers = 0
        self.result: dict[str, Any] | None = None
        self._loop, self._changed = loop, asyncio.Event()
        self._stage, self._stage_begun, self._stage_done = "", 0.0, 0
        self._told = 0.0

    def tell(self) -> None:
        """Wake those who follow it; from any thread."""
        with suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def advance(self, stage: str, done: int, total: int) -> None:
        """Take note of progress, and end here if it was stopped."""
        if self.stop.is_set():
            raise Stopped
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._stage_begun, self._stage_done = stage, now, done
        moved = done - self._stage_done
        left = (total - done) * (now - self._stage_begun) / moved if moved > 0 else None
        self.progress = {
            "stage": stage,
            "done": done,
            "total": total,
            "seconds_left": None if left is None else round(left, 1),
        }
        if now - self._told > 0.1 or done == total:
            self._told = now
            self.tell()

    def snapshot(self) -> dict[str, Any]:
        """What the API says about it."""
        return asdict(self.record) | {"progress": self.progress or None, "parts": len(self.parts)}

    async def follow(self, after: int = 0) -> AsyncIterator[tuple[str, Any, int | None]]:
        """Its events from part `after` on, until it ends: name, data, and the number by which to go on from there."""
        sent, state = after, None
        told: dict[str, Any] = {}
        while True:
            changed = self._changed
            if self.record.state != state:
                state = self.record.state
                if state not in ENDED:
                    yield "state", {"state": state}, None
            while sent < len(self.parts):
                sent += 1
                yield "part", asdict(self.parts[sent - 1]), sent
            if self.progress != told and state not in ENDED:
                told = self.progress
                yield "progress", told, None
            if self.record.state in ENDED and sent >= len(self.parts):  # a resumed one may have fewer than before
                yield self.record.state, asdict(self.record) | {"summary": self.result}, None
                return
            await changed.wait()


class Jobs:
    """All jobs of a server."""

    def __init__(self, summarizer: Summarizer, store: Store, max_memory: str | None = None) -> None:
        self.summarizer, self.store, self.max_memory = summarizer, store, max_memory
        self.summarizer.system.analyst.keeps = KEPT_READINGS
        self._jobs: dict[str, Job] = {}
        self._waiting = {False: 0, True: 0}  # by whether a model writes: neither kind keeps the other from coming in
        self._lock = Lock()
        self._loading = Lock()
        self._loaded: set[str] = set()
        self._ends: dict[bool, deque[float]] = {written: deque(maxlen=20) for written in (False, True)}
        self._verbatim = ThreadPoolExecutor(ANALYSING, "awesum-analyse")
        self._written = ThreadPoolExecutor(1, "awesum-open")
        self._futures: dict[str, Future[None]] = {}
        self._room = Semaphore(WRITING)
        self._writer = Writer(self._new_engine)
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin, with what a killed server has left."""
        self._loop = loop
        self._writer.start()
        self._verbatim.submit(self._warm_up)
        for record in iterate_running(self.store):
            self._begin(self.store.change(record, state="waiting", is_watched=False))

    def close(self) -> None:
        """End. What is watched stops; what is not goes on when the server is started again."""
        jobs = list(self._jobs.values())
        for job in jobs:
            job.stop.set()
        self._verbatim.shutdown(wait=True, cancel_futures=True)
        self._writer.close()
        self._written.shutdown(wait=True, cancel_futures=True)
        for job in jobs:
            if not job.record.is_watched and job.record.state == "stopped":
                self.store.change(job.record, state="waiting")
            elif job.record.is_watched and job.record.state not in ENDED:
                self.store.change(job.record, state="stopped")

    def _warm_up(self) -> None:
        """Load what the first document needs, before it comes."""
        with suppress(Exception):  # it is told to whoever asks for a summary
            from awesum.reading import process

            process.start()
            system = self.summarizer.system_for(Settings())
            self._load(system)

    def _load(self, system: Any) -> None:
        """Load a system, one at a time: while a model is loaded, the library is not itself."""
        if system.name in self._loaded:
            return
        with self._loading:
            if system.name not in self._loaded:
                system.prepare()
                system.load()
                self._loaded.add(system.name)

    @property
    def writes(self) -> bool:
        """Whether there is a system that writes."""
        return self.summarizer.system.style == "abstract" or self.summarizer.system.name == EXTRACT

    def submit(self, record: SummaryRecord) -> Job:
        """Begin a job, or go on with one that was stopped; `Busy` if too many are waiting."""
        with self._lock:
            if job := self._jobs.get(record.id):
                return job
        self.check_room(record.settings)
        return self._begin(self.store.change(record, state="waiting", error=None))

    def check_room(self, settings: Settings) -> None:
        """Refuse a new job while too many of its kind wait."""
        is_written = self._is_written(settings)
        if self._waiting[is_written] >= WAITING:
            raise Busy(self.seconds_until_room(is_written))

    def seconds_until_room(self, is_written: bool = False) -> int:
        """When it is worth trying again: the time in which a quarter of those who wait will have had their turn."""
        ends = self._ends[is_written]
        apart = (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else TYPICAL
        return max(1, min(600, round(apart * self._waiting[is_written] / 4)))

    def _is_written(self, settings: Settings) -> bool:
        return self.summarizer.system_for(settings).style != "extract"

    def get(self, identity: str) -> Job | None:
        """A job that has not ended."""
        return self._jobs.get(identity)

    def running(self) -> list[Job]:
        """All that have not ended."""
        return list(self._jobs.values())

    def _begin(self, record: SummaryRecord) -> Job:
        assert self._loop is not None
        job = Job(record, self._loop)
        with self._lock:
            self._jobs[record.id] = job
            is_written = self._is_written(record.settings)
            self._waiting[is_written] += 1
            pool = self._written if is_written else self._verbatim
            self._futures[record.id] = pool.submit(self._run, job)
        return job

    def stop(self, identity: str) -> None:
        """End a job early; what it has is kept."""
        job = self._jobs.get(identity)
        if job is None:
            return
        job.stop.set()
        future = self._futures.get(identity)
        if future is not None and future.cancel():
            self._no_longer_waiting(job)
            self._end(job, "stopped")
        self._writer.look()

    async def watch(self, job: Job, after: int = 0) -> AsyncIterator[tuple[str, Any, int | None]]:
        """Follow a job. One that is written only while it is watched stops soon after the last watcher has gone."""
        job.watchers += 1
        try:
            async for event in job.follow(after):
                yield event
        finally:
            job.watchers -= 1
            if job.record.is_watched and not job.watchers and job.record.state not in ENDED:
                assert self._loop is not None
                self._loop.call_later(GRACE, self._stop_if_alone, job)

    def _stop_if_alone(self, job: Job) -> None:
        if not job.watchers and job.record.state not in ENDED:
            self.stop(job.record.id)

    # In the threads

    def _no_longer_waiting(self, job: Job) -> None:
        with self._lock:
            self._waiting[self._is_written(job.record.settings)] -= 1

    def _run(self, job: Job) -> None:
        """Open a job; one without a model is written at once, the others are given to the writer."""
        has_room = False
        try:
            system = self.summarizer.system_for(job.record.settings)
            if system.style != "extract":
                while not (has_room := self._room.acquire(timeout=0.1)):
                    if job.stop.is_set():
                        break
            self._no_longer_waiting(job)
            if job.stop.is_set():
                raise Stopped
            session, partial, known = self._open(job, system)
            written = _Written(job, session, partial, known, self._ended, has_room)
            if system.style == "extract":
                for _ in system.engine(Settings()).run(written):
                    pass
                written.take(session.parts)
                self._ended(written)
            else:
                self._writer.add(written)
        except Stopped:
            self._end(job, "stopped")
            self._free(has_room)
        except Exception as error:
            self._end(job, "failed", str(as_error(error, job.record.name)))
            self._free(has_room)

    def _free(self, has_room: bool) -> None:
        if has_room:
            self._room.release()

    def _open(self, job: Job, system: Any) -> tuple[Session, PartialSummary, list[Part]]:
        from awesum.systems.system import open_session

        job.record = self.store.change(job.record, state="reading")
        job.tell()
        self._load(system)
        settings = job.record.settings
        document = self.store.text(job.record.document)
        partial = self.store.partial(job.record, fingerprint(document, settings, system.fingerprint()))
        known = partial.parts()
        partial.start(known)
        session = open_session(system, document, settings, done=known, progress=job.advance)
        job.record = self.store.change(job.record, state="writing")
        job.tell()
        return session, partial, known

    def _ended(self, written: _Written) -> None:
        """A session is complete, has failed or was stopped."""
        job, session = written.job, written.session
        try:
            error = session.error
            if error is not None and not isinstance(error, Stopped):
                self._end(job, "failed", str(as_error(error, job.record.name)))
                return
            summary = session.summary()
            self.store.finish(job.record, summary)
            job.result = summary.to_dict()
            if session.complete:
                written.partial.remove()
            self._end(job, "done" if session.complete else "stopped")
        except Exception as failure:
            self._end(job, "failed", str(as_error(failure, job.record.name)))
        finally:
            self._free(written.has_room)

    def _end(self, job: Job, state: State, error: str | None = None) -> None:
        if state == "stopped" and job.result is None:
            with suppress(OSError, ValueError):
                job.result = self.store.result(job.record)
        opening = " ".join(part.text for part in job.parts)[:300] or job.record.opening
        job.record = replace(job.record, state=state, error=error, finished=time.time(), opening=opening)
        with suppress(OSError):
            self.store.change(job.record)
        self._ends[self._is_written(job.record.settings)].append(time.monotonic())
        with self._lock:
            self._jobs.pop(job.record.id, None)
            self._futures.pop(job.record.id, None)
        job.tell()

    def _new_engine(self) -> Engine:
        system = self.summarizer.system_for(Settings(style="abstract"))
        return system.engine(Settings(max_memory=self.max_memory))


class _Written:
    """A session as the engine sees it: one that was stopped has nothing more to ask."""

    def __init__(
        self,
        job: Job,
        session: Session,
        partial: PartialSummary,
        known: Sequence[Part],
        ended: Callable[[_Written], None],
        has_room: bool,
    ) -> None:
        self.job, self.session, self.partial, self.ended, self.has_room = job, session, partial, ended, has_room
        self._known = len(known)

    @property
    def complete(self) -> bool:
        return self.session.complete

    @complete.setter
    def complete(self, complete: bool) -> None:
        self.session.complete = complete

    @property
    def error(self) -> Exception | None:
        return self.session.error

    @error.setter
    def error(self, error: Exception | None) -> None:
        self.session.error = error

    def begin(self) -> Sequence[Part]:
        return self.session.begin()

    def next_prompt(self) -> Prompt | DocumentPrompt | None:
        return None if self.job.stop.is_set() else self.session.next_prompt()

    def accept(self, number: int, answer: Answer) -> Sequence[Part]:
        return self.session.accept(number, answer)

    def take(self, parts: Sequence[Part]) -> None:
        """Keep the new parts, then show them: what somebody has seen is not lost."""
        for part in parts:
            if len(self.job.parts) >= self._known and not self.session.complete:
                self.partial.add(part)
            self.job.parts.append(part)
        self.job.tell()


class Writer(Thread):
    """The one thread that writes: the prompts of all jobs, side by side, in one engine."""

    def __init__(self, new_engine: Callable[[], Engine]) -> None:
        super().__init__(name="awesum-write", daemon=True)
        self._new_engine = new_engine
        self._inbox: SimpleQueue[_Written | None] = SimpleQueue()
        self._here: list[_Written] = []
        self._is_closing = Event()

    def add(self, written: _Written) -> None:
        """Let a session join."""
        self._inbox.put(written)

    def look(self) -> None:
        """Something was stopped."""
        self._inbox.put(None)

    def close(self) -> None:
        """End after the step at hand."""
        self._is_closing.set()
        self._inbox.put(None)
        if self.is_alive():
            self.join(timeout=10)

    def run(self) -> None:
        """Move all sessions on, step by step; wait while there is nothing to do."""
        engine: Engine | None = None
        while not self._is_closing.is_set():
            coming = [self._inbox.get()] if not (engine and engine.is_busy) else []
            while not self._inbox.empty():
                coming.append(self._inbox.get())
            new = [written for written in coming if written is not None]
            self._here += new
            try:
                for written in new:
                    engine = engine or self._new_engine()
                    engine.add(written)
                if engine is not None:
                    self._leave(engine)
                    if engine.is_busy:
                        self._step(engine)
            except Exception as error:  # of the engine: nobody can tell whose fault it was
                for written in self._here:
                    written.error = error
                    written.ended(written)
                self._here, engine = [], None
        for written in self._here:
            written.ended(written)

    def _leave(self, engine: Engine) -> None:
        """Take those that were stopped out of the engine."""
        for written in [each for each in self._here if each.job.stop.is_set()]:
            engine.drop(written)
            self._finish(written)

    def _step(self, engine: Engine) -> None:
        for written, parts in engine.step():
            if written not in self._here:
                continue
            try:
                written.take(parts)
            except OSError as error:
                engine.drop(written)
                written.error = AwesumError(f"the parts cannot be kept ({error.strerror or error}): make room")
            if written.complete or written.error is not None:
                self._finish(written)

    def _finish(self, written: _Written) -> None:
        self._here.remove(written)
        written.ended(written)
