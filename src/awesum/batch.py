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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from awesum import files
from awesum.errors import INTERRUPTED, AwesumError
from awesum.files import shown
from awesum.partial import PartialSummary, fingerprint
from awesum.progress import Bar
from awesum.reading import is_address, no_readable_file, read, readable_files
from awesum.rendering import SUFFIX, Format, render, render_part
from awesum.settings import Settings
from awesum.summary import Part, count
from awesum.version import __version__

if TYPE_CHECKING:
    from awesum.compose.session import Session
    from awesum.summarizer import Summarizer
    from awesum.systems.system import System

DONE = ".awesum.jsonl"
"""In a folder of summaries: a line for each that is done, so that a second run skips it."""


@dataclass(frozen=True)
class Task:
    """One document and the file that its summary goes to; none means stdout."""

    source: str
    target: Path | None = None


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
    ) -> None:
        self.settings, self.form, self.quiet = settings, form, quiet
        self._summarizer = summarizer
        folders = [path for path in paths if Path(path).is_dir()]
        unnamed = output is None and bool(folders)
        if unnamed:
            output = f"{Path(folders[0]).resolve().name}-summaries"
        many = len(paths) > 1 or bool(folders)
        self.folder = Path(output) if output and (many or Path(output).is_dir() or output.endswith(os.sep)) else None
        if self.folder:
            self.tasks = _apart(self._tasks(paths, self.folder))
            if unnamed:
                self._say(f"writing the summaries to {output}{os.sep}")
        else:
            self.tasks = [Task(path, Path(output) if output else None) for path in paths]
        for task in self.tasks:
            if task.target and files.is_same(Path(task.source), task.target):
                raise AwesumError(
                    f"{task.target} is the document itself, which the summary would overwrite: give another -o"
                )
        self._opened: dict[Session, tuple[Task, PartialSummary | None, list[Part]]] = {}
        self._failed = self._finished = 0

    @cached_property
    def system(self) -> System:
        """What summarizes."""
        return self._summarizer().system_for(self.settings)

    def run(self) -> int:
        """Summarize everything; the exit code says whether all went well."""
        for place in {self.folder} if self.folder else {task.target for task in self.tasks}:
            if place:
                _check_writable(place, is_folder=place == self.folder)
        todo = self._skip_done()
        if not todo:
            return 0
        # Text that goes to the screen is written one document at a time; files are written side by side.
        groups = [todo] if all(task.target for task in todo) else [[task] for task in todo]
        total = len(todo)
        for group in groups:
            if self._write(group, total):
                return INTERRUPTED
        if self._failed:
            print(f"awesum: {self._failed} of {total} documents could not be summarized", file=sys.stderr)
        return 1 if self._failed else 0

    def _write(self, tasks: Sequence[Task], total: int) -> bool:
        """Write some documents side by side; true if the user interrupted it."""
        from awesum.systems.system import write_documents

        bar = Bar(self.quiet or len(tasks) > 1)
        try:
            for session, parts in write_documents(self.system, self.settings, self._opening(tasks, total, bar)):
                task, partial, known = self._opened[session]
                for part in parts:
                    if partial and part not in known:
                        _writing(partial.path, partial.add, part)
                    if not task.target and self.form in ("text", "markdown"):
                        bar.clear()
                        first = part is session.parts[0]
                        print(("" if first else "\n") + render_part(part, self.form), end="", flush=True)
                if session.error is not None:
                    self._fail(task, session.error)
                    del self._opened[session]
                elif session.complete:
                    bar.close()
                    self._finish(session, total)
        except KeyboardInterrupt:
            bar.close()
            self._interrupt()
            return True
        finally:
            bar.close()
        return False

    def _opening(self, tasks: Sequence[Task], total: int, bar: Bar) -> Iterator[Session]:
        for task in tasks:
            if total > 1 and not task.target:
                self._say(f"{self._finished + self._failed + 1} of {total}: {shown(task.source)}")
            try:
                session = self._open(task, bar if len(tasks) == 1 else None)
            except Exception as error:
                self._fail(task, error)
                continue
            if len(self.tasks) > 1 and not task.target and self.form in ("text", "markdown"):
                print(f"==> {shown(task.source)} <==", flush=True)
            yield session

    def _open(self, task: Task, bar: Bar | None) -> Session:
        """A session on a document, resumed after what an interrupted run has left."""
        from awesum.systems.system import no_progress, open_session

        document = read(task.source)
        document = replace(document, path=shown(document.path))
        partial, known = None, list[Part]()
        if task.target and not files.is_special(task.target):  # there is no place for parts beside a pipe or a device
            task.target.parent.mkdir(parents=True, exist_ok=True)
            partial = PartialSummary(task.target, fingerprint(document, self.settings, self.system.fingerprint()))
            known = partial.parts()
            partial.start(known)
            if known:
                self._say(f"resuming after {count(len(known), 'part')} of an interrupted run")
        session = open_session(
            self.system,
            document,
            self.settings,
            done=known,
            progress=bar.show if bar else no_progress,
        )
        self._opened[session] = task, partial, known
        return session

    def _fail(self, task: Task, error: Exception) -> None:
        """Report what is wrong with one document. If there is only one, that is the outcome of it all."""
        from awesum.summarizer import as_error

        line = as_error(error, shown(task.source))
        if len(self.tasks) == 1:
            raise line from error
        self._failed += 1
        print(f"awesum: error: {line}", file=sys.stderr, flush=True)

    def _finish(self, session: Session, total: int, interrupted: bool = False) -> None:
        """Write the summary, whole or as far as it came, and the closing figures."""
        task, partial, _ = self._opened.pop(session)
        self._finished += 1
        if total > 1 and task.target:
            self._say(f"{self._finished + self._failed} of {total}: {shown(task.source)}")
        summary = session.summary()
        if task.target and (summary.parts or not interrupted):
            _writing(task.target, files.write, task.target, render(summary, self.form))
            if not interrupted:
                if partial:
                    partial.remove()
                if self.folder:
                    with (self.folder / DONE).open("a", encoding="utf-8") as record:
                        record.write(self._record(task) + "\n")
                    print(shown(str(task.target)), flush=True)
        elif not task.target and self.form in ("json", "html"):
            print(render(summary, self.form), end="", flush=True)
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
            if not Path(path).is_dir():
                tasks.append(Task(path, files.sibling(output / _file_name(path), suffix)))
                continue
            found, others = readable_files(Path(path))
            inside = [file for file in found if not file.resolve().is_relative_to(output.resolve())]
            if not inside:
                raise no_readable_file(path)
            if others:
                examples = ", ".join(shown(file.name) for file in others[:3])
                _note(f"{count(len(others), 'file')} in {path} skipped: not of a readable kind ({examples} ...)")
            tasks += [Task(str(file), files.sibling(output / file.relative_to(path), suffix)) for file in inside]
        return tasks

    def _skip_done(self) -> list[Task]:
        """The tasks that are not done, by the record in the folder; a changed document, model or setting is not."""
        if not self.folder:
            return self.tasks
        try:
            done = set((self.folder / DONE).read_text(encoding="utf-8").splitlines())
        except OSError:
            return self.tasks
        todo = [task for task in self.tasks if not self._is_done(task, done)]
        if len(todo) < len(self.tasks):
            self._say(f"{len(self.tasks) - len(todo)} of {len(self.tasks)} are done already and are skipped")
        return todo

    def _is_done(self, task: Task, done: set[str]) -> bool:
        known = task.source != "-" and task.target is not None and task.target.exists()
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


def _check_writable(target: Path, is_folder: bool) -> None:
    """Report before the work that its result could not be written, not after."""
    try:
        files.check_writable(target, is_folder=is_folder)
    except OSError as error:
        raise AwesumError(
            f"cannot write to {target} ({error.strerror or error}): give another place with -o"
        ) from error


def _writing(path: Path, write: Callable[..., object], *what: object) -> None:
    try:
        write(*what)
    except OSError as error:
        raise AwesumError(
            f"cannot write {path} ({error.strerror or error}): make room and run the same command again to resume"
        ) from error
