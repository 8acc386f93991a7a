"""A system over a dataset: the work behind `awesum predict`, one JSON object a document.

Rows are added as soon as they are written, so that a killed run can be resumed with no row twice or missing; the
finished file has them in the order of the data. Beside it, `NAME.run.json` records what the predictions are of.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from awesum import files
from awesum.datasets import Example, examples, is_public, splits
from awesum.document import Document
from awesum.errors import AwesumError
from awesum.footprint import format_size, peak_memory
from awesum.length import count_words
from awesum.progress import Bar
from awesum.reading.structure import recognize_blocks
from awesum.settings import Settings
from awesum.summary import count
from awesum.version import __version__

if TYPE_CHECKING:
    from awesum.compose.session import Session
    from awesum.systems.system import System

REFERENCE = "reference"
"""The length that is the reference summary's own."""


@dataclass(frozen=True)
class Job:
    """What is to be predicted."""

    data: str
    """A folder, a file, or the name of a public dataset."""
    split: str = "test"
    documents: int | None = None
    """The first N documents; all if it is not given."""
    length: str | None = None
    """As in `Settings`, or `reference`: as many words as the reference summary has."""
    raw: bool = False
    """The model's text untouched, rather than the checked text that a user gets."""
    max_memory: str | None = None

    def __post_init__(self) -> None:
        self.settings(None, "")  # a length that cannot be read is reported now
        if self.documents is not None and self.documents < 1:
            raise AwesumError(f"--documents must be more than 0, not {self.documents}")
        there = splits(self.data)
        if there and self.split not in there and not Path(self.data).expanduser().is_file():
            raise AwesumError(f"{self.data} has no split {self.split!r}: it has {', '.join(there)}")

    def settings(self, query: str | None, reference: str) -> Settings:
        """The settings for one document."""
        length = self.length
        if length == REFERENCE:
            length = f"{max(1, count_words(reference))}w"
        return Settings(length=length, query=query, max_memory=self.max_memory)


@dataclass
class Totals:
    """What a run came to."""

    path: Path
    documents: int = 0
    resumed: int = 0
    """Of these, written by an earlier run."""
    failed: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    """Invalid rows of the data, by kind."""
    words: int = 0
    seconds: float = 0.0
    peak_memory_bytes: int = 0

    def __str__(self) -> str:
        new = self.documents - self.resumed
        pace = f" ({new / self.seconds:.2f} a second)" if new and self.seconds else ""
        mean = f", {self.words / self.documents:,.0f} words each" if self.documents else ""
        resumed = f", {self.resumed:,} of them by an earlier run" if self.resumed else ""
        failed = f", {self.failed:,} failed" if self.failed else ""
        skipped = "".join(f", {number:,} × {kind} skipped" for kind, number in sorted(self.skipped.items()))
        return (
            f"{count(self.documents, 'prediction')} in {self.path}{resumed}{failed}{skipped}{mean}; "
            f"{self.seconds:.0f} s{pace}, peak {format_size(self.peak_memory_bytes)}"
        )


class Predictions:
    """The file of predictions: rows are added at its end, and it is whole after each."""

    def __init__(self, path: Path, key: dict[str, Any]) -> None:
        self.path, self.key = path, key
        self.is_special = False
        """Whether it is a pipe or a device: rows go into it as they come, and nothing else does."""
        self._pipe: IO[bytes] | None = None
        self.record = path.with_name(f"{path.name.removesuffix('.jsonl')}.run.json")

    def resume(self) -> dict[str, dict[str, Any]]:
        """The rows of an earlier run of the same job, by id; an unfinished last line is removed."""
        self.is_special = files.is_special(self.path)
        if self.is_special:  # it has no beginning to resume from, and nothing can be put beside it
            return {}
        if not self.path.exists() or not self.path.stat().st_size:
            self._save(finished=False)
            return {}
        self._check_same()
        content = self.path.read_bytes()
        *lines, unfinished = content.split(b"\n")
        try:
            rows = {row["id"]: row for row in map(json.loads, lines)}
            if not all(isinstance(name, str) and isinstance(row["words"], int) for name, row in rows.items()):
                raise TypeError("a row is not a prediction")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise AwesumError(f"{self.path} is damaged ({error}): delete it, or give another -o") from error
        if unfinished:
            with self.path.open("r+b") as file:
                file.truncate(len(content) - len(unfinished))
        return rows

    def _check_same(self) -> None:
        try:
            known = json.loads(self.record.read_text(encoding="utf-8"))["job"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise AwesumError(
                f"{self.path} exists and was not written by `awesum predict` ({self.record.name} is missing): "
                "give another -o, or delete it"
            ) from error
        for name, value in json.loads(json.dumps(self.key)).items():
            if known.get(name) != value:
                raise AwesumError(
                    f"{self.path} has the predictions of another {name} ({known.get(name)}, not {value}): "
                    f"give another -o, or delete it and {self.record.name}"
                )

    def add(self, row: dict[str, Any]) -> None:
        """Add a row. If there is no room for it, the file stays as it was."""
        if self.is_special:
            self._add_to_pipe(row)
            return
        size = self.path.stat().st_size if self.path.exists() else 0
        try:
            with self.path.open("ab") as file:
                file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            with suppress(OSError):
                os.truncate(self.path, size)
            raise self._unwritable(error) from error

    def _add_to_pipe(self, row: dict[str, Any]) -> None:
        try:
            if self._pipe is None:
                self._pipe = self.path.open("wb", buffering=0)
            self._pipe.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        except OSError as error:
            raise self._unwritable(error) from error

    def close(self) -> None:
        """Whoever reads from a pipe has had everything."""
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None

    def finish(self, order: list[str], rows: dict[str, dict[str, Any]], totals: Totals) -> None:
        """Put the rows into the order of the data, and record the totals."""
        if self.is_special:
            return
        if [*rows] != order:
            lines = (json.dumps(rows[name], ensure_ascii=False).encode() + b"\n" for name in order)
            self._write(self.path, lines)
        self._save(finished=not totals.failed, totals=totals)

    def _save(self, *, finished: bool, totals: Totals | None = None) -> None:
        known = asdict(totals) | {"path": str(totals.path)} if totals else {}
        state = {"job": self.key, "version": __version__, "finished": finished, "totals": known}
        self._write(self.record, json.dumps(state, indent=1) + "\n")

    def _write(self, path: Path, content: Any) -> None:
        try:
            files.write(path, content)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> AwesumError:
        return AwesumError(
            f"cannot write {self.path} ({error.strerror or error}): make room or give another -o; "
            "what is written stays valid, and the same command resumes"
        )


def predict(system: System, job: Job, output: Path, *, quiet: bool = False) -> Totals:
    """Summarize every document of a split, many side by side, and keep each summary as soon as it is written."""
    run = _Run(system, job, output, quiet)
    return run.run()


class _Run:
    """One call of `predict`."""

    def __init__(self, system: System, job: Job, output: Path, quiet: bool) -> None:
        self.system, self.job = system, job
        needs_reference = job.length == REFERENCE or system.needs_reference
        files.check_output(
            output, files.with_contents([Path(job.data).expanduser()]) if not is_public(job.data) else []
        )
        self.stream = examples(job.data, job.split, needs_summary=needs_reference)
        key = {
            "system": system.name,
            "model": system.model,
            "fingerprint": system.fingerprint(),
            "data": job.data if is_public(job.data) else str(Path(job.data).expanduser().resolve()),
            "split": job.split,
            "length": job.length,
            "raw": job.raw,
        }
        self.file = Predictions(output, key)
        self.totals = Totals(output)
        self.bar = Bar(quiet)
        self.rows: dict[str, dict[str, Any]] = {}
        self.order: list[str] = []
        self.sessions: dict[Session, str] = {}

    def run(self) -> Totals:
        """Write what is missing."""
        from awesum.systems.system import write_documents

        started = time.perf_counter()
        self.rows = self.file.resume()
        resumed = len(self.rows)
        total = self._count()
        try:
            self.bar.show("predicting", resumed, total)
            settings = Settings(max_memory=self.job.max_memory)
            for session, _ in write_documents(self.system, settings, self._opening()):
                if session.error is not None:
                    self._fail(self.sessions.pop(session), session.error)
                elif session.complete:
                    self._keep(self.sessions.pop(session), session)
                    self.bar.show("predicting", len(self.rows), total)
        finally:
            self.bar.close()
            self.file.close()
        totals = self.totals
        there = [name for name in self.order if name in self.rows]
        totals.documents, totals.resumed = len(there), sum(name in self.rows for name in self.order) - self._new
        totals.skipped = dict(self.stream.skipped)
        totals.words = sum(self.rows[name]["words"] for name in there)
        totals.seconds = round(time.perf_counter() - started, 2)
        totals.peak_memory_bytes = peak_memory()
        # Rows beyond a smaller --documents stay: they were paid for.
        beyond = [name for name in self.rows if name not in set(there)]
        self.file.finish([*there, *beyond], self.rows, totals)
        return totals

    _new = 0

    def _count(self) -> int:
        """The documents to come, for the estimate; counted only where somebody looks."""
        if self.bar.quiet or not sys.stderr.isatty() or is_public(self.job.data):
            return self.job.documents or 0
        silent = examples(self.job.data, self.job.split, needs_summary=False, say=lambda note: None)
        number = sum(1 for _ in silent)
        return min(number, self.job.documents or number)

    def _opening(self) -> Iterator[Session]:
        from awesum.systems.system import open_session

        for example in self.stream:
            if len(self.order) == self.job.documents:
                return
            self.order.append(example.id)
            if example.id in self.rows:
                continue
            try:
                session = open_session(
                    self.system,
                    recognize_blocks(Document(example.document, path=example.id), junk_only=True),
                    self.job.settings(example.query, example.summary),
                    reference=example.summary or None,
                )
            except Exception as error:
                self._fail(example.id, error)
                continue
            self.sessions[session] = example.id
            yield session

    def _keep(self, name: str, session: Session) -> None:
        summary = session.summary()
        text = session.raw() if self.job.raw else summary.text
        row = {
            "id": name,
            "summary": text,
            "words": count_words(text),
            "seconds": summary.figures.seconds,
            "notes": session.raw_notes() if self.job.raw else summary.notes,
        }
        self.file.add(row)
        self.rows[name] = row
        self._new += 1

    def _fail(self, name: str, error: Exception) -> None:
        from awesum.summarizer import as_error

        self.totals.failed += 1
        self.bar.clear()
        print(f"awesum: error: {name}: {as_error(error, name)}", file=sys.stderr, flush=True)


__all__ = ["REFERENCE", "Example", "Job", "Predictions", "Totals", "predict"]
