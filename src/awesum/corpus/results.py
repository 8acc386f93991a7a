"""The folder of a corpus: Parquet files that are written whole, and a record of the job.

Only one process writes. A file appears with all of its rows or not at all; small files are merged into larger ones. If
the process is killed after a merged file was written and before the small ones were removed, some rows are there
twice until the next run, which begins by removing the second of each.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from awesum import files
from awesum.corpus import storage
from awesum.corpus.rows import schema
from awesum.corpus.source import require
from awesum.errors import AwesumError

RECORD = "_corpus.json"
"""What the results are of. Tools that read a folder of Parquet files ignore names that begin with `_` or `.`."""
ROWS = 64
"""Rows that are written to a file, unless `SECONDS` have passed before."""
SECONDS = 5.0
MERGED = 32
"""Small files that are merged into one."""
SMALL = ROWS * MERGED // 2
"""Rows below which a file is small."""


class Ids:
    """A set of ids in 16 bytes each: those that came last in a set, all others in a sorted array."""

    RECENT = 20_000

    def __init__(self) -> None:
        self.sorted = np.empty(0, dtype="S16")
        self._recent: set[bytes] = set()

    def __len__(self) -> int:
        return len(self.sorted) + len(self._recent)

    def __contains__(self, identifier: str) -> bool:
        raw = _raw(identifier)
        return raw in self._recent or _is_in(raw, self.sorted)

    def add(self, identifier: str) -> bool:
        """Add an id; false if it was there."""
        if identifier in self:
            return False
        self._recent.add(_raw(identifier))
        if len(self._recent) > self.RECENT:
            self.compact()
        return True

    def compact(self) -> Any:
        """Put everything into the sorted array, and return it."""
        if self._recent:
            self.sorted = np.sort(np.concatenate([self.sorted, np.array(list(self._recent), dtype="S16")]))
            self._recent.clear()
        return self.sorted


def _raw(identifier: str) -> bytes:
    return bytes.fromhex(identifier).rstrip(b"\0")  # as numpy has such strings


def _is_in(raw: bytes, array: Any) -> bool:
    at = int(np.searchsorted(array, np.bytes_(raw)))
    return at < len(array) and bool(array[at] == raw)


class Results:
    """The folder that the rows go to."""

    def __init__(self, folder: str, key: dict[str, Any], source: str) -> None:
        self.shown, self.key, self.source = folder, key, source
        self.system, self.path = storage.filesystem(folder)
        self.is_local = not storage.is_remote(folder)
        self.ids = Ids()
        """The documents that have a row."""
        self.failed = 0
        """Rows with an error."""
        self._pending: list[Any] = []
        self._pending_rows = 0
        self._committed = time.monotonic()
        self._small: list[str] = []
        self._number = 0
        self._lock = files.Lock(Path(self.path) / "corpus") if self.is_local else None

    # Opening

    def open(self, *, retry_failed: bool = False) -> None:
        """Take the folder, refuse that of another job, and load the ids of the rows that are there."""
        self._create()
        names = self._names()
        record = self._read_record(names)
        if record is None:
            self.save({}, finished=False)
        else:
            self._check_same(record)
        for name in names:
            self._number = max(self._number, int(name.split("-")[1]) + 1)
            self._settle(name, retry_failed)

    def _create(self) -> None:
        if self._lock is not None:
            try:
                Path(self.path).mkdir(parents=True, exist_ok=True)
                taken = self._lock.acquire()
            except OSError as error:
                raise self._unwritable(error) from error
            if not taken:
                raise AwesumError(f"another process is writing {self.shown}: wait for its end, or give another -o")
        else:
            try:
                self.system.makedirs(self.path, exist_ok=True)
            except Exception as error:
                raise self._unwritable(error) from error

    def close(self) -> None:
        """Let others have the folder."""
        if self._lock is not None:
            self._lock.release()

    def _names(self) -> list[str]:
        """The result files; a file that is not ours is an error."""
        try:
            there = [path.rsplit("/", 1)[-1] for path in self.system.ls(self.path, detail=False)]
        except FileNotFoundError:
            there = []
        parts = sorted(name for name in there if _is_part(name))
        others = [name for name in there if name not in parts and not name.startswith(".") and name != RECORD]
        if others:
            raise AwesumError(
                f"{self.shown} has files that are not of a corpus ({', '.join(sorted(others)[:3])}): "
                "give another -o, or an empty folder"
            )
        if self.is_local:  # left by a process that was killed while it wrote
            for name in there:
                if name.startswith(".part-"):
                    Path(self.path, name).unlink(missing_ok=True)
        return parts

    def _read_record(self, names: list[str]) -> dict[str, Any] | None:
        place = self._at(RECORD)
        if not self.system.exists(place):
            if names:
                raise AwesumError(f"{self.shown} has results but no {RECORD}: give another -o, or an empty folder")
            return None
        try:
            record = json.loads(self.system.cat_file(place))
            if not isinstance(record["job"], dict):
                raise TypeError("its job is not an object")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise AwesumError(f"{self.shown}/{RECORD} is damaged ({error}): give another -o") from error
        return record

    def _check_same(self, record: dict[str, Any]) -> None:
        known = record["job"] | {"source": record.get("source")}
        for name, value in json.loads(json.dumps({"source": self.source, **self.key})).items():
            if known.get(name) != value:
                raise AwesumError(
                    f"{self.shown} has the results of another job ({name}: {_short(known.get(name))}, not "
                    f"{_short(value)}): give another -o, or delete the folder"
                )

    def _settle(self, name: str, retry_failed: bool) -> None:
        """Load the ids of a file, and remove rows that are there already, or that failed and shall be tried again."""
        arrow = require()
        try:
            with storage.opened(self._address(name)) as opened:
                table = arrow.parquet.read_table(opened, columns=["id", "error"])
        except AwesumError as error:
            raise AwesumError(
                f"{self.shown}/{name} is damaged ({error.__cause__ or error}): delete it and run the same command "
                "again, which summarizes its documents again"
            ) from error
        errors = [value is not None for value in table.column("error").to_pylist()]
        kept = []
        for row, (identifier, is_failed) in enumerate(zip(table.column("id").to_pylist(), errors, strict=True)):
            if not (retry_failed and is_failed) and self.ids.add(identifier):
                kept.append(row)
                self.failed += is_failed
        if len(kept) < table.num_rows:
            if kept:
                self._write(name, self._read(name).take(kept))
            else:
                self._remove(name)
                return
        if len(kept) < SMALL:
            self._small.append(name)

    # Writing

    def add(self, table: Any) -> int:
        """Keep rows until there are enough for a file; the number that are new."""
        new = [row for row, identifier in enumerate(table.column("id").to_pylist()) if self.ids.add(identifier)]
        if not new:
            return 0
        if len(new) < table.num_rows:
            table = table.take(new)
        self.failed += table.num_rows - table.column("error").null_count
        self._pending.append(table)
        self._pending_rows += len(new)
        if self._pending_rows >= ROWS or time.monotonic() - self._committed > SECONDS:
            self.commit()
        return len(new)

    def commit(self) -> None:
        """Write what is there as one file."""
        self._committed = time.monotonic()
        if not self._pending:
            return
        arrow = require()
        table = arrow.concat_tables(self._pending)
        name = self._new_name()
        self._write(name, table)
        self._pending, self._pending_rows = [], 0
        if table.num_rows < SMALL:
            self._small.append(name)
        if len(self._small) >= MERGED:
            self.merge()

    def merge(self) -> None:
        """Put the small files together."""
        if len(self._small) < 2:
            return
        arrow = require()
        merged = arrow.concat_tables([self._read(name) for name in self._small])
        small, self._small = self._small, []
        name = self._new_name()
        self._write(name, merged)
        if merged.num_rows < SMALL:
            self._small.append(name)
        for each in small:
            self._remove(each)

    def save(self, totals: dict[str, Any], *, finished: bool) -> None:
        """Write the record."""
        record = {"job": self.key, "source": self.source, "finished": finished, "totals": totals}
        self._put(RECORD, (json.dumps(record, indent=1) + "\n").encode())

    def _new_name(self) -> str:
        self._number += 1
        return f"part-{self._number - 1:06}-{uuid.uuid4().hex[:8]}.parquet"

    def _read(self, name: str) -> Any:
        with storage.opened(self._address(name)) as opened:
            return require().parquet.read_table(opened, schema=schema())

    def _write(self, name: str, table: Any) -> None:
        arrow = require()
        written = arrow.BufferOutputStream()
        arrow.parquet.write_table(table, written, compression="zstd", write_page_checksum=True)
        self._put(name, written.getvalue().to_pybytes())

    def _put(self, name: str, content: bytes) -> None:
        try:
            if self.is_local:
                files.write(Path(self.path, name), content)
            else:
                self.system.pipe_file(self._at(name), content)  # an object store shows it when it is complete
        except Exception as error:
            raise self._unwritable(error) from error

    def _remove(self, name: str) -> None:
        try:
            self.system.rm_file(self._at(name))
        except Exception as error:
            raise self._unwritable(error) from error

    def _at(self, name: str) -> str:
        return f"{self.path.rstrip('/')}/{name}"

    def _address(self, name: str) -> str:
        return self._at(name) if self.is_local else f"{self.shown.rstrip('/')}/{name}"

    def _unwritable(self, error: Exception) -> AwesumError:
        reason = getattr(error, "strerror", None) or error
        return AwesumError(
            f"cannot write to {self.shown} ({reason}): make room or give another -o; what is written stays valid, and "
            "the same command resumes"
        )


def _is_part(name: str) -> bool:
    pieces = name.removesuffix(".parquet").split("-")
    return name.endswith(".parquet") and len(pieces) == 3 and pieces[0] == "part" and pieces[1].isdecimal()


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def is_new(done: Any) -> Callable[[str], bool]:
    """Whether an id is not in a sorted array: what a process that only reads needs of `Ids`."""
    return lambda identifier: not _is_in(_raw(identifier), done)


def read(folder: str) -> Iterable[dict[str, Any]]:
    """The rows of a folder, one file in memory at a time."""
    for file in storage.find(folder):
        if _is_part(file.name):
            with storage.opened(file.path) as opened:
                yield from require().parquet.read_table(opened, schema=schema()).to_pylist()
