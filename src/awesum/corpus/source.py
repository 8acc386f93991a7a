"""Documents of a corpus: rows of Parquet and JSON lines files, and files that are documents themselves.

`plan` looks at every file once and divides the source into pieces; `batches` reads one piece. Documents of about the
same length share a batch, so that a model that writes them side by side is busy until the end. A row that is not a
document becomes a document with an error; what cannot be read at all is skipped and reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from awesum.corpus import storage
from awesum.corpus.job import Columns, Job, document_id, no_column
from awesum.datasets.files import lines_of
from awesum.datasets.rows import BadRow, checked_text, fields_of
from awesum.errors import AwesumError
from awesum.reading import SUFFIXES

Kind = Literal["parquet", "lines", "documents"]
LINES = tuple(f"{suffix}{packed}" for suffix in (".jsonl", ".ndjson") for packed in ("", ".gz", ".zst"))
PARQUET = (".parquet", ".pq")

BATCH = 32
"""Documents of a batch, at most."""
CHARACTERS = 200_000
"""Characters of a batch, unless a single document has more."""
WINDOW = 512
"""Documents among which those of about the same length are put together."""
WINDOW_CHARACTERS = 8_000_000
GROUPS = 64 * 2**20
"""Bytes of row groups that are read as one piece."""
FILES = 64
"""Documents in files of their own that make a piece."""
ROWS = 64
"""Rows of a Parquet file that are in memory at the same time."""


@dataclass(frozen=True, slots=True)
class Item:
    """A document of the corpus."""

    id: str
    name: str
    """The value of the id column, or the path of the file below the source; empty if there is neither."""
    file: str
    row: int | None = None
    """The row or line of the file, from 1; none if the whole file is the document."""
    text: str | None = None
    """None if the text has to be read from the file."""
    query: str | None = None
    error: str | None = None
    """Why there is nothing to summarize."""
    size: int = 0
    """Bytes of a file that has yet to be read."""

    def __len__(self) -> int:
        return len(self.text or "")


@dataclass(frozen=True)
class Batch:
    """Documents that are summarized together."""

    items: list[Item]
    size: int = 0
    """Bytes of the source that it stands for, to estimate the time left."""
    skipped: list[str] = field(default_factory=list)
    """What could not be read since the batch before, one line each."""
    seconds: float = 0.0
    """The time that reading it took."""
    attempts: int = 0
    """How many workers died while they had it alone."""

    @property
    def name(self) -> str:
        """What identifies it: its first document and where that stands, and how many there are."""
        if not self.items:
            return ""
        first = self.items[0]
        return f"{first.id} {first.file} {first.row} {len(self.items)}"

    def alone(self) -> list[Batch]:
        """Each document in a batch of its own."""
        first, *others = (Batch([item]) for item in self.items)
        return [replace(first, size=self.size, skipped=self.skipped, seconds=self.seconds), *others]

    def after_death(self) -> list[Batch]:
        """What to try after a worker died on it: each document alone, twice; then it has an error."""
        if len(self.items) > 1:
            return self.alone()
        if self.attempts < 1:
            return [replace(self, attempts=self.attempts + 1)]
        return [replace(self, items=[replace(item, error=DIED) for item in self.items])]


DIED = (
    "the process that summarized the document died, and so did another one that tried again: perhaps the machine ran "
    "out of RAM; use --max-memory, fewer --workers, or a larger machine, with --retry-failed"
)


@dataclass(frozen=True)
class Piece:
    """A part of the source that one process reads."""

    kind: Kind
    files: tuple[storage.File, ...]
    groups: tuple[int, ...] = ()
    """The row groups, if it is Parquet."""
    size: int = 0


@dataclass(frozen=True)
class Plan:
    """Everything that is to be read."""

    pieces: list[Piece]
    columns: Columns
    """By name; empty if there are only documents in files of their own."""
    skipped: list[str]
    """What cannot be read, one line each."""

    @property
    def size(self) -> int:
        """The bytes of it all."""
        return sum(piece.size for piece in self.pieces)


def require() -> Any:
    """Import pyarrow, or raise an error that says how to install it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise AwesumError(
            "a corpus is written as Parquet with the library `pyarrow`, which is not installed: "
            "run `pip install 'awesum[data]'`"
        ) from error
    return pyarrow


def plan(job: Job, output: str | None = None) -> Plan:
    """Divide a source into pieces. Every file of rows must have the columns; a damaged file is skipped, and what lies
    below the `output` is no part of the source."""
    found = storage.find(job.source)
    if output is not None:
        found = [file for file in found if not storage.is_below(file.path, output)]
    pieces: list[Piece] = []
    skipped: list[str] = []
    documents: list[storage.File] = []
    columns, first = job.columns, ""
    if job.settings.query is not None:
        columns = replace(columns, query="")
    resolved: Columns | None = None
    ignored = 0
    for file in found:
        name = file.name.lower()
        if name.endswith((*PARQUET, *LINES)):
            try:
                there, groups = _parquet_columns(file) if name.endswith(PARQUET) else (_line_columns(file), ())
            except _Damaged as error:
                skipped.append(f"{file.path}: {error}")
                continue
            if resolved is None:
                resolved, first = _resolve(columns, there, file.path), file.path
            _check_columns(resolved, there, file.path, first)
            pieces += [Piece("parquet", (file,), each, size) for each, size in groups] or (
                [Piece("lines", (file,), size=file.size)] if name.endswith(LINES) else []
            )
        elif name.endswith(SUFFIXES):
            documents.append(file)
        else:
            ignored += 1
    if len(found) == ignored == 1 and not documents:
        documents, ignored = found, 0  # a file that was named is read whatever its name
    for start in range(0, len(documents), FILES):
        some = tuple(documents[start : start + FILES])
        pieces.append(Piece("documents", some, size=sum(file.size for file in some)))
    if ignored:
        skipped.append(f"{ignored:,} files under {job.source} are of other kinds")
    if not pieces and not skipped[: len(skipped) - bool(ignored)]:
        raise AwesumError(
            f"{job.source} has no documents: it needs Parquet, JSON lines (.jsonl, .jsonl.gz, .jsonl.zst), "
            "or files that `awesum summarize` reads"
        )
    return Plan(pieces, resolved or Columns(), skipped)


def _resolve(columns: Columns, there: dict[str, Any], where: str) -> Columns:
    without = columns.query == ""
    resolved = (replace(columns, query=None) if without else columns).resolve(there, where)
    return replace(resolved, query=None) if without else resolved


def _check_columns(columns: Columns, there: dict[str, Any], where: str, first: str) -> None:
    """Refuse a file that lacks a column of the first one, or whose texts are no texts."""
    for role, name in (("text", columns.text), ("id", columns.id), ("query", columns.query)):
        if name is None:
            continue
        if name not in there:
            error = no_column(name, there, where, role)
            raise AwesumError(f"{error}, or summarize the files whose columns differ (unlike {first}) as another job")
        kind = there[name]
        if role != "id" and kind is not None and not _is_text(kind):
            raise AwesumError(f"{where} has {kind} in the column {name!r}, not text: name another --{role}-column")


def _is_text(kind: Any) -> bool:
    types = require().types
    value = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(value) or types.is_large_string(value) or types.is_string_view(value))


class _Damaged(Exception):
    """Why a file cannot be read."""


def _parquet_columns(file: storage.File) -> tuple[dict[str, Any], list[tuple[tuple[int, ...], int]]]:
    """The columns of a file with their types, and its row groups in pieces with their bytes."""
    arrow = require()
    try:
        with storage.opened(file.path) as opened:
            parquet = arrow.parquet.ParquetFile(opened)
            schema = parquet.schema_arrow
            sizes = [parquet.metadata.row_group(group).total_byte_size for group in range(parquet.num_row_groups)]
    except AwesumError as error:
        cause = error.__cause__
        if isinstance(cause, arrow.ArrowException):
            raise _Damaged(f"this is not a Parquet file that can be read ({_first_words(cause)})") from error
        raise
    pieces: list[tuple[tuple[int, ...], int]] = []
    for group, size in enumerate(sizes):
        if pieces and pieces[-1][1] + size <= GROUPS:
            pieces[-1] = (*pieces[-1][0], group), pieces[-1][1] + size
        else:
            pieces.append(((group,), size))
    return dict(zip(schema.names, schema.types, strict=True)), pieces


def _line_columns(file: storage.File) -> dict[str, Any]:
    """The fields of the first row of a file that is an object."""
    try:
        with storage.opened(file.path) as opened:
            for number, line in lines_of(opened, Path(file.path)):
                with suppress(BadRow):
                    return dict.fromkeys(fields_of(line, f"{file.path}, line {number}"))
    except AwesumError as error:
        if error.__cause__ is not None and isinstance(error.__cause__, OSError):
            raise
        raise _Damaged(str(error)) from error
    raise _Damaged("no line of it is a JSON object")


# Reading a piece


class Reading(Iterator[Item]):
    """The documents of a piece, in order."""

    def __init__(self, piece: Piece, columns: Columns, job: str) -> None:
        self.piece, self.columns, self.job = piece, columns, job
        self.position = 0
        """Bytes that were read."""
        self.skipped: list[str] = []
        """What could not be read so far."""
        kinds: dict[Kind, Callable[[], Iterator[Item]]] = {
            "parquet": self._parquet,
            "lines": self._lines,
            "documents": self._documents,
        }
        self._items = kinds[piece.kind]()

    def __next__(self) -> Item:
        return next(self._items)

    def _documents(self) -> Iterator[Item]:
        import hashlib

        for file in self.piece.files:
            try:
                with storage.opened(file.path) as opened:
                    content = hashlib.file_digest(opened, "sha256").digest()  # type: ignore[arg-type]
                error = None
            except AwesumError as failure:
                content, error = b"", str(failure)
            self.position += file.size
            identifier = document_id(self.job, file.name, None, content)
            yield Item(identifier, file.name, file.path, error=error, size=file.size)

    def _lines(self) -> Iterator[Item]:
        (file,) = self.piece.files
        number = 0
        try:
            with storage.opened(file.path) as opened:
                for number, line in lines_of(opened, Path(file.path)):
                    self.position = opened.tell()
                    where = f"{file.path}, line {number}"
                    try:
                        fields = fields_of(line, where)
                    except BadRow as error:
                        yield self._failed(file, number, line, str(error))
                        continue
                    yield self._item(file, number, fields, where)
        except AwesumError as error:
            self.skipped.append(f"{file.path}, after line {number}: {error}")
        self.position = self.piece.size

    def _parquet(self) -> Iterator[Item]:
        try:
            yield from self._row_groups()
        except AwesumError as error:  # the file was there a moment ago: the others are still worth reading
            self.skipped.append(str(error))
            self.position = self.piece.size

    def _row_groups(self) -> Iterator[Item]:
        (file,) = self.piece.files
        arrow = require()
        names = [name for name in (self.columns.text, self.columns.id, self.columns.query) if name]
        with storage.opened(file.path) as opened:
            parquet = arrow.parquet.ParquetFile(opened, page_checksum_verification=True)
            sizes = [parquet.metadata.row_group(group) for group in range(parquet.num_row_groups)]
            for group in self.piece.groups:
                first = row = sum(each.num_rows for each in sizes[:group])
                end, start = row + sizes[group].num_rows, self.position
                try:
                    for rows in parquet.iter_batches(ROWS, row_groups=[group], columns=names, use_threads=False):
                        rows.validate(full=True)
                        for fields in rows.to_pylist():
                            row += 1
                            yield self._item(file, row, fields, f"{file.path}, row {row}")
                        self.position = start + sizes[group].total_byte_size * (row - first) // sizes[group].num_rows
                except (arrow.ArrowException, OSError, ValueError) as error:
                    self.skipped.append(
                        f"{file.path}, row group {group}: {end - row:,} of {sizes[group].num_rows:,} rows cannot be "
                        f"read ({_first_words(error)})"
                    )
                self.position = start + sizes[group].total_byte_size

    def _item(self, file: storage.File, row: int, fields: dict[str, Any], where: str) -> Item:
        """The document of a row, or a document with an error if the row has none."""
        name = ""
        try:
            if self.columns.id is not None:
                value = fields.get(self.columns.id)
                name = value if isinstance(value, str) else "" if value is None else str(value)
                checked_text(name, self.columns.id, where)
            text = self._text(fields, self.columns.text, where)
            query = self._text(fields, self.columns.query, where, optional=True) or None
        except BadRow as error:
            content = repr(sorted(fields.items(), key=lambda field: field[0])).encode("utf-8", "surrogatepass")
            return self._failed(file, row, content, str(error), name)
        identifier = document_id(self.job, name, query, text.encode())
        return Item(identifier, name, file.path, row, text, query)

    def _text(self, fields: dict[str, Any], name: str | None, where: str, optional: bool = False) -> str:
        if optional and (name is None or fields.get(name) is None):
            return ""
        assert name is not None
        if name not in fields:
            raise BadRow("", f"{where} has no {name!r} (it has {', '.join(map(repr, fields)) or 'no fields'})")
        if fields[name] is None:
            raise BadRow("", f"{where} has nothing in {name!r}")
        text = checked_text(fields[name], name, where)
        if not optional and not text.strip():
            raise BadRow("", f"{where} has no text in {name!r}: there is nothing to summarize")
        return text

    def _failed(self, file: storage.File, row: int, content: bytes, error: str, name: str = "") -> Item:
        # Its place counts: two broken rows may be alike, and both are to be found again.
        identifier = document_id(self.job, f"{name}\n{file.name}\n{row}", None, content)
        return Item(identifier, name, file.path, row, error=error.encode("utf-8", "replace").decode())


def batches(
    piece: Piece, columns: Columns, job: str, is_new: Callable[[str], bool], most: int = BATCH
) -> Iterator[Batch]:
    """The documents of a piece that are new, in batches of about the same length."""
    reading = Reading(piece, columns, job)
    position, reported, started = 0, 0, time.perf_counter()
    while True:
        window, is_last = _window(reading, is_new)
        seconds = time.perf_counter() - started
        groups = _groups(window, most) or [[]]
        size, position = reading.position - position, reading.position
        skipped, reported = reading.skipped[reported:], len(reading.skipped)
        for number, items in enumerate(groups):
            share = size * (number + 1) // len(groups) - size * number // len(groups)
            yield Batch(items, share, skipped if number == 0 else [], seconds / len(groups))
        if is_last:
            return
        started = time.perf_counter()


def _window(items: Iterable[Item], is_new: Callable[[str], bool]) -> tuple[list[Item], bool]:
    """The next new documents, and whether these were the last ones."""
    window: list[Item] = []
    characters = 0
    for seen, item in enumerate(items, 1):
        if is_new(item.id):
            window.append(item)
            characters += len(item)
        if len(window) == WINDOW or characters > WINDOW_CHARACTERS or seen >= 100 * WINDOW:
            return window, False
    return window, True


def _groups(items: list[Item], most: int) -> list[list[Item]]:
    """Documents of about the same length together: the longest first, because they take longest. How long the text in a
    file is shows only once it is read: until then, its bytes have to do."""
    groups: list[list[Item]] = []
    characters = 0
    for item in sorted(items, key=lambda item: item.size or len(item), reverse=True):
        if not groups or len(groups[-1]) == most or characters + len(item) > CHARACTERS:
            groups.append([])
            characters = 0
        groups[-1].append(item)
        characters += len(item)
    return groups


def _first_words(error: Exception) -> str:
    return " ".join(str(error).split())[:160].rstrip(".") or type(error).__name__
