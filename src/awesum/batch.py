"""Many documents: which, where to, what is done already, and what is kept if the work ends early.

The work behind `awesum summarize`. What happens to a single document is the system's; here are sources, targets,
progress, interruptions, and errors that stay with their document.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from awesum import files
from awesum.errors import INTERRUPTED, AwesumError
from awesum.files import Lock, shown
from awesum.partial import PartialSummary, fingerprint
from awesum.progress import Bar
from awesum.reading import is_address, no_readable_file, process, read, readable_files
from awesum.reading.limits import ReadLimits
from awesum.rendering import SUFFIX, Format, render, render_part
from awesum.settings import Settings
from awesum.summary import Part, count
from awesum.version import __version__

if TYPE_CHECKING:
    from awesum.compose.session import Session
    from awesum.document import Document
    from awesum.summarizer import Summarizer
    from awesum.systems.system import System

DONE = ".awesum.jsonl"
"""In a folder of summaries: a line for each that is done, so that a second run skips it, and for each that is being
written, so that no file of somebody else is written over."""
PATIENCE = 0.2
"""Seconds between two looks at whether another process is done with a document."""


@dataclass(frozen=True)
class Task:
    """One document and the file that its summary goes to; none means stdout."""

    source: str
    target: Path | None = None


@dataclass(frozen=True)
class _Opened:
    """A document that is being written."""

    task: Task
    partial: PartialSummary | None
    """Where its parts are kept."""
    known: list[Part]
    """The parts that an interrupted run has left."""
    lock: Lock | None


class _Outcome(AwesumError):
    """The error of the only document, or one that every other document would end in, too."""


_SAME_FOR_ALL = (_Outcome, BrokenPipeError)


class Batch:
    """A call of `awesum summarize`."""

    def __init__(
        self,
        paths: Sequence[str],
        settings: Settings,
        summarizer: Callable[[], Summarizer],
        form: Format = "text",
        output: str | None = None,
        quiet: bool = False,
        limits: ReadLimits | None = None,
        fields: Sequence[str] = (),
    ) -> None:
        self.settings, self.form, self.quiet = settings, form, quiet
        self.limits, self.fields = limits, fields
        self._summarizer = summarizer
        self._failed = self._finished = self._elsewhere = 0
        self._read: Document | None = None  # the only document, if there is one
        self._known_bytes = 0  # of the record in the folder
        self._known_lines: set[str] = set()
        self._ours: set[str] = set()  # the targets in it
        folders = [path for path in paths if os.path.isdir(path)]
        unnamed = output is None and bool(folders)
        if unnamed:
            output = f"{Path(folders[0]).resolve().name}-summaries"
        many = len(paths) > 1 or bool(folders)
        self.folder = Path(output) if output and (many or os.path.isdir(output) or output.endswith(os.sep)) else None
        if self.folder:
            self.tasks = _apart(self._tasks(paths, self.folder))
            if unnamed:
                self._say(f"writing the summaries to {output}{os.sep}")
        else:
            self.tasks = [Task(path, Path(output) if output else None) for path in paths]
        self._refuse_overwriting()
        self._opened: dict[Session, _Opened] = {}

    def _refuse_overwriting(self) -> None:
        """No summary may take the place of a document, under whatever name."""
        documents = {}
        for task in self.tasks:
            with suppress(OSError, ValueError):
                state = os.stat(task.source)
                documents[state.st_dev, state.st_ino] = task.source
        for task in self.tasks:
            with suppress(OSError, ValueError):
                state = os.stat(task.target or "")
                if document := documents.get((state.st_dev, state.st_ino)):
                    its = "itself" if document == task.source else shown(document)
                    raise AwesumError(
                        f"{shown(str(task.target))} is the document {its}, which the summary would overwrite: "
                        "give another -o"
                    )

    @cached_property
    def system(self) -> System:
        """What summarizes."""
        return self._summarizer().system_for(self.settings)

    def run(self) -> int:
        """Summarize everything; the exit code says whether all went well."""
        for place in {self.folder} if self.folder else {task.target for task in self.tasks}:
            if place:
                files.check_output(place, is_folder=place == self.folder)
        process.start()  # while the rest of the program is loaded
        if len(self.tasks) == 1 and not self.folder:
            self._read = self._read_document(self.tasks[0])  # if it cannot be read, nothing else need be loaded
        todo = self._skip_done()
        total = len(todo) + self._failed
        # Text that goes to the screen is written one document at a time; files are written side by side.
        groups = [todo] if all(task.target for task in todo) else [[task] for task in todo]
        for group in groups:
            if group and self._write(group, total):
                return INTERRUPTED
        if self._elsewhere:
            self._say(f"{self._elsewhere} of {total} were summarized by another process meanwhile")
        if self._failed:
            print(f"awesum: {self._failed} of {total} documents could not be summarized", file=sys.stderr)
        return 1 if self._failed else 0

    def _write(self, tasks: Sequence[Task], total: int) -> bool:
        """Write some documents side by side; true if the user interrupted it."""
        bar = Bar(self.quiet or len(tasks) > 1)
        coming = self._opening(tasks, total, bar)
        try:
            while True:
                try:
                    self._write_sessions(coming, total, bar)
                    return False
                except _SAME_FOR_ALL:
                    raise
                except Exception as error:  # of the engine: nobody can tell whose fault it was
                    if not self._opened:
                        raise
                    for opened in list(self._opened.values()):
                        self._fail(opened.task, error)
                    self._forget_all()
        except KeyboardInterrupt:
            bar.close()
            self._interrupt()
            return True
        finally:
            self._forget_all()
            bar.close()

    def _write_sessions(self, coming: Iterator[Session], total: int, bar: Bar) -> None:
        from awesum.systems.system import write_documents

        for session, parts in write_documents(self.system, self.settings, coming):
            opened = self._opened.get(session)
            if opened is None:  # it could not be kept, and was given up
                continue
            error = session.error
            if error is None:
                try:
                    self._keep(session, opened, parts, bar)
                    if session.complete:
                        bar.close()
                        self._finish(session, total)
                except _SAME_FOR_ALL:
                    raise
                except Exception as failure:
                    error = failure
            if error is not None:
                self._forget(session)
                self._fail(opened.task, error)

    def _keep(self, session: Session, opened: _Opened, parts: Sequence[Part], bar: Bar) -> None:
        """Keep the new parts of a document where an interruption cannot take them, and show them."""
        for part in parts:
            if opened.partial and part not in opened.known:
                _writing(opened.partial.path, opened.partial.add, part)
            if not opened.task.target and self.form in ("text", "markdown"):
                bar.clear()
                first = part is session.parts[0]
                _print(("" if first else "\n") + render_part(part, self.form), end="")

    def _opening(self, tasks: Sequence[Task], total: int, bar: Bar) -> Iterator[Session]:
        waiting: list[tuple[Task, Lock]] = []
        for task in tasks:
            lock = Lock(task.target) if task.target and not files.is_special(task.target) else None
            try:
                if lock and not self._acquire(task, lock):
                    waiting.append((task, lock))
                    continue
            except Exception as error:
                self._fail(task, error)
                continue
            yield from self._try_to_open(task, lock, total, bar if len(tasks) == 1 else None)
        for task, lock in waiting:
            # Another process has it. If that ends without a result, it is ours.
            self._say(f"another process is summarizing {shown(task.source)}: waiting for it")
            while not self._acquire(task, lock):
                time.sleep(PATIENCE)
            if self.folder and self._is_done(task, self._done()):
                self._elsewhere += 1
                lock.release()
            else:
                yield from self._try_to_open(task, lock, total, None)

    def _acquire(self, task: Task, lock: Lock) -> bool:
        """Take the right to write a summary, if nobody else has it; and clear up what others have left of it."""
        assert task.target is not None
        try:
            task.target.parent.mkdir(parents=True, exist_ok=True)
            if not lock.acquire():
                return False
        except OSError as error:
            raise AwesumError(
                f"cannot write {shown(str(task.target))} ({error.strerror or error}): give another -o"
            ) from error
        files.remove_leftovers(task.target)
        return True

    def _try_to_open(self, task: Task, lock: Lock | None, total: int, bar: Bar | None) -> Iterator[Session]:
        """A session on a document; none if it cannot be read, which is reported, or is done by now."""
        if lock and self.folder and self._is_done(task, self._done()):  # since this run began
            self._elsewhere += 1
            lock.release()
            return
        if total > 1 and not task.target:
            self._say(f"{self._finished + self._failed + 1} of {total}: {shown(task.source)}")
        try:
            session = self._open(task, lock, bar)
        except BaseException as error:
            if lock:
                lock.release()
            if not isinstance(error, Exception):
                raise
            self._fail(task, error)
            return
        if len(self.tasks) > 1 and not task.target and self.form in ("text", "markdown"):
            _print(f"==> {shown(task.source)} <==")
        yield session

    def _open(self, task: Task, lock: Lock | None, bar: Bar | None) -> Session:
        """A session on a document, resumed after what an interrupted run has left."""
        from awesum.systems.system import no_progress, open_session

        document, self._read = self._read or self._read_document(task), None
        partial, known = None, list[Part]()
        if task.target and lock:  # there is no place for parts beside a pipe or a device
            if self.folder:
                self._claim(task)
            partial = PartialSummary(task.target, fingerprint(document, self.settings, self.system.fingerprint()))
            known = partial.parts()
            _writing(partial.path, partial.start, known)
            if known:
                self._say(f"resuming after {count(len(known), 'part')} of an interrupted run")
        session = open_session(
            self.system,
            document,
            self.settings,
            done=known,
            progress=bar.show if bar else no_progress,
        )
        self._opened[session] = _Opened(task, partial, known, lock)
        return session

    def _read_document(self, task: Task) -> Document:
        document = read(task.source, self.limits, fields=self.fields)
        return replace(document, path=shown(document.path))

    def _claim(self, task: Task) -> None:
        """Note that a file in the folder of summaries is ours, before it is written; one that is not is left alone."""
        self._done()
        if os.path.realpath(str(task.target)) in self._ours:
            return
        if os.path.lexists(str(task.target)):
            raise AwesumError(
                f"{shown(str(task.target))} is not a summary that awesum wrote, and would be written over: "
                "move it away, or give another -o"
            )
        self._note_done(json.dumps([task.source, str(task.target), ""]))

    def _forget(self, session: Session) -> _Opened:
        """The document is no longer being written: another process may."""
        opened = self._opened.pop(session)
        if opened.lock:
            opened.lock.release()
        return opened

    def _forget_all(self) -> None:
        for session in list(self._opened):
            self._forget(session)

    def _fail(self, task: Task, error: Exception) -> None:
        """Report what is wrong with one document. If there is only one, that is the outcome of it all."""
        from awesum.summarizer import as_error

        line = as_error(error, shown(task.source))
        if len(self.tasks) == 1:
            raise _Outcome(str(line)) from error
        self._failed += 1
        print(f"awesum: error: {line}", file=sys.stderr, flush=True)

    def _finish(self, session: Session, total: int, interrupted: bool = False) -> None:
        """Write the summary, whole or as far as it came, and the closing figures."""
        task, partial = self._opened[session].task, self._opened[session].partial
        summary = session.summary()
        if task.target and (summary.parts or not interrupted):
            _writing(task.target, files.write, task.target, render(summary, self.form))
            if not interrupted:
                if partial:
                    partial.remove()
                if self.folder:
                    _writing(self.folder / DONE, self._note_done, self._record(task))
        self._forget(session)
        self._finished += 1
        if total > 1 and task.target:
            self._say(f"{self._finished + self._failed} of {total}: {shown(task.source)}")
        if task.target and self.folder and not interrupted:
            _print(shown(str(task.target)))
        elif not task.target and self.form in ("json", "html"):
            _print(render(summary, self.form), end="")
        for note in summary.notes:
            _note(note)
        if interrupted:
            _say_interrupted(len(summary.parts), task)
        if not self.quiet:
            print(summary.closing_line(), file=sys.stderr, flush=True)

    def _interrupt(self) -> None:
        """Keep what there is of every document that was being written."""
        for session in list(self._opened):
            self._finish(session, 1, interrupted=True)
        if not self._finished:
            print("awesum: interrupted: no part was written yet", file=sys.stderr)

    def _tasks(self, paths: Sequence[str], output: Path) -> list[Task]:
        """Every readable file of every folder, and whatever else was named, each with its file in `output`."""
        suffix = SUFFIX[self.form]
        tasks: list[Task] = []
        for path in paths:
            if not os.path.isdir(path):
                tasks.append(Task(path, files.sibling(output / _file_name(path), suffix)))
                continue
            if files.is_same(Path(path), output):
                raise AwesumError(f"{path} is the folder of the documents: give another one for the summaries with -o")
            found, others = readable_files(Path(path))
            inside = [file for file in found if not file.resolve().is_relative_to(output.resolve())]
            if not inside and len(paths) == 1:
                raise no_readable_file(path)
            if not inside:
                self._failed += 1
                print(f"awesum: error: {no_readable_file(path)}", file=sys.stderr, flush=True)
            if others:
                examples = ", ".join(shown(file.name) for file in others[:3])
                _note(f"{count(len(others), 'file')} in {path} skipped: not of a readable kind ({examples} ...)")
            tasks += [Task(str(file), files.sibling(output / file.relative_to(path), suffix)) for file in inside]
        return tasks

    def _skip_done(self) -> list[Task]:
        """The tasks that are not done, by the record in the folder; a changed document, model or setting is not."""
        done = self._done()
        todo = [task for task in self.tasks if not self._is_done(task, done)] if done else self.tasks
        if len(todo) < len(self.tasks):
            self._say(f"{len(self.tasks) - len(todo)} of {len(self.tasks)} are done already and are skipped")
        return todo

    def _done(self) -> set[str]:
        """The lines of the record in the folder, those included that other processes have added since."""
        if self.folder:
            with suppress(OSError), (self.folder / DONE).open("rb") as record:
                record.seek(self._known_bytes)
                *lines, _ = record.read().split(b"\n")  # the last one may be on its way
                self._known_bytes += sum(len(line) + 1 for line in lines)
                for line in (raw.decode("utf-8", "replace") for raw in lines):
                    if target := _target_of(line):
                        self._known_lines.add(line)
                        self._ours.add(os.path.realpath(target))
        return self._known_lines

    def _note_done(self, line: str) -> None:
        """Add a line to the record, also after one that was cut short; several processes may do so at once."""
        assert self.folder is not None
        with (self.folder / DONE).open("ab+", buffering=0) as record:
            if record.tell():
                record.seek(-1, os.SEEK_END)
                line = line if record.read(1) == b"\n" else f"\n{line}"
            record.write(f"{line}\n".encode())

    def _is_done(self, task: Task, done: set[str]) -> bool:
        known = task.source != "-" and task.target is not None and os.path.exists(task.target)
        return known and self._record(task) in done

    def _record(self, task: Task) -> str:
        """What identifies a finished task: its files, the state of the source, and how it was summarized."""
        try:
            state = os.stat(task.source)
            version = [state.st_size, state.st_mtime_ns]
        except OSError:
            version = []  # an address: there is no telling, the name has to do
        known = [__version__, self._fingerprint, asdict(self.settings), self.form, version]
        key = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]
        return json.dumps([task.source, str(task.target), key])

    @cached_property
    def _fingerprint(self) -> str:
        return self.system.fingerprint()

    def _say(self, line: str) -> None:
        if not self.quiet:
            print(f"awesum: {line}", file=sys.stderr, flush=True)


def _apart(tasks: list[Task]) -> list[Task]:
    """The tasks with a number in the name of a target that another one has already."""
    taken: set[Path | None] = set()
    apart: list[Task] = []
    for task in tasks:
        target, number = task.target, 1
        while target in taken and task.target:
            number += 1
            target = task.target.with_name(f"{task.target.stem}-{number}{task.target.suffix}")
        taken.add(target)
        apart.append(Task(task.source, target))
    return apart


def _print(text: str, end: str = "\n") -> None:
    """Print a result. Whatever keeps it from being printed, the other documents would meet as well."""
    try:
        print(text, end=end, flush=True)
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:  # ValueError: it is closed
        raise unprintable(error) from error


def unprintable(error: OSError | ValueError) -> AwesumError:
    """The error for a standard output that takes no more."""
    reason = getattr(error, "strerror", None) or error
    return _Outcome(f"cannot write to standard output ({reason}): make room, or give a file with -o")


def _note(note: str) -> None:
    print(f"awesum: note: {note}", file=sys.stderr, flush=True)


def _say_interrupted(parts: int, task: Task) -> None:
    kept = f"{count(parts, 'part')} kept" + (f" in {task.target}" if task.target else "")
    again = "; run the same command again to resume" if task.target and parts else ""
    print(f"awesum: interrupted: {kept if parts else 'no part was written yet'}{again}", file=sys.stderr)


def _file_name(source: str) -> str:
    """A file name for a source that is no file in a folder: the last piece of its path, made harmless."""
    if source == "-":
        return "stdin"
    name = re.sub(r"^https?://", "", source).rstrip("/") if is_address(source) else Path(source).name
    return re.sub(r"[^\w.-]+", "-", shown(name))[-120:]


def _target_of(line: str) -> str | None:
    """The target of a line in the record; none if it is not a line of ours."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_ours = isinstance(fields, list) and len(fields) == 3 and all(isinstance(field, str) for field in fields)
    return fields[1] if is_ours else None


def _writing(path: Path, write: Callable[..., object], *what: object) -> None:
    try:
        write(*what)
    except OSError as error:
        raise AwesumError(
            f"cannot write {path} ({error.strerror or error}): make room and run the same command again to resume"
        ) from error
