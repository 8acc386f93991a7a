"""The work behind `awesum summarize`: which documents, where to, what is done already, what is kept if it ends early.

Everything about a single document is `summarize`'s; here are only sources, targets, progress and interruptions.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from awesum import __version__, files
from awesum.cli import INTERRUPTED
from awesum.errors import AwesumError
from awesum.partial import PartialSummary, fingerprint
from awesum.reading import is_address, read, readable_files
from awesum.rendering import SUFFIX, Format, render, render_part
from awesum.settings import Settings
from awesum.summary import count

if TYPE_CHECKING:
    from awesum.summarizer import Run, Summarizer

DONE = ".awesum.jsonl"
"""In a folder of summaries: a line for each that is done, so that a second run skips it."""


@dataclass(frozen=True)
class Task:
    """One document and the file that its summary goes to; none means stdout."""

    source: str
    target: Path | None = None


class Job:
    """A call of `awesum summarize`."""

    def __init__(
        self, paths: Sequence[str], settings: Settings, model: str, form: Format, output: str | None, quiet: bool
    ) -> None:
        self.settings, self.model, self.form, self.quiet = settings, model, form, quiet
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

    def run(self) -> int:
        """Do it all; the exit code says whether all went well."""
        for place in {self.folder} if self.folder else {task.target for task in self.tasks}:
            if place:
                _check_writable(place, is_folder=place == self.folder)
        todo = self._skip_done()
        if not todo:
            return 0
        from transformers.utils import logging

        from awesum.summarizer import Summarizer

        logging.disable_progress_bar()  # of a second's loading; the progress of the work is ours to show
        summarizer = Summarizer(self.model)
        if summarizer.goes_in_order and len(todo) > 1 and all(task.target for task in todo):
            return self._together(summarizer, todo)
        failed = 0
        for number, task in enumerate(todo, 1):
            if len(todo) > 1:
                self._say(f"{number} of {len(todo)}: {task.source}")
            try:
                if self._one(summarizer, task, many=len(self.tasks) > 1):
                    return INTERRUPTED
            except AwesumError as error:
                if len(self.tasks) == 1:
                    raise
                failed += 1
                print(f"awesum: error: {error}", file=sys.stderr, flush=True)
        return self._verdict(failed, len(todo))

    @staticmethod
    def _verdict(failed: int, count: int) -> int:
        if failed:
            print(f"awesum: {failed} of {count} documents could not be summarized", file=sys.stderr)
        return 1 if failed else 0

    def _together(self, summarizer: Summarizer, tasks: Sequence[Task]) -> int:
        """Several documents side by side, with a model that writes one part of a document at a time."""
        from awesum.recurrent import CausalRecurrentRun, write_together

        opened: dict[CausalRecurrentRun, tuple[Task, PartialSummary]] = {}
        failed = finished = 0

        def opening() -> Iterator[CausalRecurrentRun]:
            nonlocal failed
            for task in tasks:
                try:
                    run, partial = self._open(summarizer, task, lambda stage, done, total: None)
                    assert isinstance(run, CausalRecurrentRun)
                    assert partial is not None
                    run.read()
                except AwesumError as error:
                    failed += 1
                    print(f"awesum: error: {error}", file=sys.stderr, flush=True)
                    continue
                opened[run] = task, partial
                yield run

        def finish_complete(interrupted: bool = False) -> None:
            nonlocal finished
            for run in [run for run in opened if run.complete or interrupted]:
                task, partial = opened.pop(run)
                finished += 1
                self._say(f"{finished + failed} of {len(tasks)}: {task.source}")
                self._finish(run, task, partial, interrupted and not run.complete)

        try:
            for run, part in write_together(summarizer.chat, opening(), summarizer.side_by_side(self.settings)):
                if part:
                    partial = opened[run][1]
                    _writing(partial.path, partial.add, part)
                finish_complete()
            finish_complete()
        except KeyboardInterrupt:
            finish_complete(interrupted=True)
            return INTERRUPTED
        return self._verdict(failed, len(tasks))

    def _tasks(self, paths: Sequence[str], output: Path) -> list[Task]:
        """Every readable file of every folder, and whatever else was named, each with its file in `output`."""
        tasks: list[Task] = []
        for path in paths:
            if not Path(path).is_dir():
                tasks.append(Task(path, output / (_file_name(path) + SUFFIX[self.form])))
                continue
            files, passed_over = readable_files(Path(path))
            inside = [file for file in files if not file.resolve().is_relative_to(output.resolve())]
            if not inside:
                raise AwesumError(
                    f"{path} holds no file that can be read: there is no .txt, .md, .html, .pdf, .docx or .epub in it"
                )
            if passed_over:
                examples = ", ".join(file.name for file in passed_over[:3])
                _note(
                    f"{len(passed_over)} files in {path} are of no readable kind and are passed over ({examples} ...)"
                )
            tasks += [
                Task(str(file), output / file.relative_to(path).with_name(file.name + SUFFIX[self.form]))
                for file in inside
            ]
        return tasks

    def _skip_done(self) -> list[Task]:
        """The tasks that are not done, by the record in the folder; a changed document or setting is not done."""
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
        known = [__version__, self.model, asdict(self.settings), self.form, version]
        key = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]
        return json.dumps([task.source, str(task.target), key], ensure_ascii=False)

    def _open(
        self, summarizer: Summarizer, task: Task, progress: Callable[[str, int, int], object]
    ) -> tuple[Run, PartialSummary | None]:
        """A run over a document, behind what an interrupted one has left, and the file that its parts are kept in."""
        document = read(task.source)
        partial = None
        if task.target:
            task.target.parent.mkdir(parents=True, exist_ok=True)
            if not files.is_special(task.target):  # beside a pipe or a device there is no place for parts
                partial = PartialSummary(task.target, fingerprint(document, self.settings, self.model))
        written = partial.parts() if partial else []
        if partial:
            partial.start(written)
        if written:
            self._say(f"going on behind the {count(len(written), 'part')} that an interrupted run left")
        return summarizer.start(document, self.settings, progress, written), partial

    def _one(self, summarizer: Summarizer, task: Task, many: bool) -> bool:
        """Summarize one document; true if the user interrupted it."""
        progress = _Progress(self.quiet)
        run, partial = self._open(summarizer, task, progress.show)
        known = len(run.written)
        if many and not task.target and self.form in ("text", "markdown"):
            print(f"==> {task.source} <==", flush=True)
        interrupted = False
        try:
            self._follow(run, task, partial, progress, known)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            progress.close()
        self._finish(run, task, partial, interrupted)
        return interrupted

    def _follow(self, run: Run, task: Task, partial: PartialSummary | None, progress: _Progress, known: int) -> None:
        """Take the parts as they come: to stdout, or to the file of parts."""
        for number, part in enumerate(run):
            if partial and number >= known:
                _writing(partial.path, partial.add, part)
            if not task.target and self.form in ("text", "markdown"):
                progress.clear()
                print(("\n" if number else "") + render_part(part, self.form), end="", flush=True)

    def _finish(self, run: Run, task: Task, partial: PartialSummary | None, interrupted: bool) -> None:
        """Write the summary, whole or as far as it came, and the closing figures."""
        summary = run.summary()
        if task.target and (summary.parts or not interrupted):
            text = render(summary, self.form)
            _writing(task.target, files.write, task.target, text)
            if not interrupted:
                if partial:
                    partial.remove()
                if self.folder:
                    with (self.folder / DONE).open("a", encoding="utf-8") as record:
                        record.write(self._record(task) + "\n")
                    print(task.target, flush=True)
        elif not task.target and self.form in ("json", "html"):
            print(render(summary, self.form), end="", flush=True)
        for note in summary.notes:
            _note(note)
        if interrupted:
            kept = f"{count(len(summary.parts), 'part')} kept" + (f" in {task.target}" if task.target else "")
            again = "; the same command goes on from there" if task.target and summary.parts else ""
            print(
                f"awesum: interrupted: {kept if summary.parts else 'no part was written yet'}{again}", file=sys.stderr
            )
        if not self.quiet:
            print(summary.closing_line(), file=sys.stderr, flush=True)

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


def _file_name(source: str) -> str:
    """A file name for a source that is no file in a folder: the last piece of its path, made harmless."""
    if source == "-":
        return "stdin"
    name = re.sub(r"^https?://", "", source).rstrip("/") if is_address(source) else Path(source).name
    return re.sub(r"[^\w.-]+", "-", name)[-120:]


def _check_writable(target: Path, is_folder: bool) -> None:
    """Say before the work that its result could not be written, not after."""
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
            f"cannot write {path} ({error.strerror or error}): make room and run the same command again, "
            "it goes on where it stopped"
        ) from error


class _Progress:
    """A bar on stderr, one a stage, where there is somebody to see it."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.stage = ""
        self.bar: Any = None

    def show(self, stage: str, done: int, total: int) -> None:
        """Move the bar; a new stage begins a new one."""
        if self.quiet or not sys.stderr.isatty():
            return
        if stage != self.stage:
            self.close()
            from tqdm import tqdm

            unit = {"reading": "token", "writing": "part"}[stage]
            self.bar = tqdm(
                total=total, desc=stage, unit=unit, unit_scale=stage == "reading", leave=False, file=sys.stderr
            )
            self.stage = stage
        self.bar.update(done - self.bar.n)

    def clear(self) -> None:
        """Make way for a line of the result, which may go to the same screen."""
        if self.bar is not None:
            self.bar.clear()

    def close(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None
