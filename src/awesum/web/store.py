"""What the server keeps: documents and summaries, as files in one private folder that only its owner can read.

A document is its text and what its reader knows about it, and the file itself where pages are to be drawn. A summary is
a record, the parts as they are written (`partial`), and the result. Everything is written atomically, so that a server
that was killed finds what it had.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from awesum import files
from awesum.document import Block, Document, Segment
from awesum.errors import AwesumError
from awesum.partial import PartialSummary, part_from_fields
from awesum.settings import Settings
from awesum.summary import Figures, Part, Summary

State = Literal["waiting", "reading", "writing", "done", "stopped", "failed"]
"""`stopped`: by the user, or because nobody was watching any more; it can be resumed."""
ENDED: tuple[State, ...] = ("done", "stopped", "failed")

KEPT_CHARACTERS = 20_000_000
"""Of documents in RAM, which are there again when the next question comes."""
TEMPORARY = "awesum-serve-"
"""How the folder of a server that keeps no history begins."""
ABANDONED = 60.0
"""Seconds after which such a folder that no server has locked belongs to one that was killed."""
_ID = re.compile(r"[0-9a-f]{20}")
_LONGEST_NAME = 200


@dataclass(frozen=True)
class DocumentRecord:
    """What there is to know about a document without reading it."""

    id: str
    name: str
    """As the user calls it: only ever shown, never a path."""
    created: float
    characters: int
    words: int
    page_starts: list[int]
    page_sizes: list[list[float]]
    """Width and height of each page that can be drawn; empty for everything but PDF."""
    notes: list[str]


@dataclass(frozen=True)
class SummaryRecord:
    """A summary that was asked for, and what became of it."""

    id: str
    document: str
    name: str
    """Of the document."""
    created: float
    length: str | None
    query: str | None
    style: str | None
    strict: bool
    state: State = "waiting"
    error: str | None = None
    is_watched: bool = False
    """Whether it is written only as long as somebody watches."""
    finished: float | None = None
    opening: str = ""
    """The beginning of its text, for lists."""

    @property
    def settings(self) -> Settings:
        """As `awesum summarize` has them; the limit of the memory is the server's."""
        return Settings(length=self.length, query=self.query, style=self.style, strict=self.strict)  # type: ignore[arg-type]


@dataclass
class Store:
    """The private folder. Its methods may be called from any thread."""

    folder: Path
    is_kept: bool = True
    """Whether it outlives the server."""
    _summaries: dict[str, SummaryRecord] = field(default_factory=dict)
    _documents: dict[str, DocumentRecord] = field(default_factory=dict)
    _texts: dict[str, Document] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _file_lock: files.Lock | None = None

    @classmethod
    def open(cls, folder: Path) -> Store:
        """The history of earlier runs; refused while another server has it."""
        _check_ours(folder)
        _make_private(folder)
        _make_private(folder / "documents")
        _make_private(folder / "summaries")
        store = cls(folder)
        store._file_lock = files.Lock(folder / "history")
        if not store._file_lock.acquire():
            raise AwesumError(
                f"another `awesum serve` is using the history in {folder}: stop that one, name another folder with "
                "--folder, or keep none with --no-history"
            )
        store._load()
        return store

    @classmethod
    def temporary(cls) -> Store:
        """A folder for this run alone."""
        folder = Path(tempfile.mkdtemp(prefix=TEMPORARY))
        _make_private(folder / "documents")
        _make_private(folder / "summaries")
        store = cls(folder, is_kept=False)
        store._file_lock = files.Lock(folder / "history")
        store._file_lock.acquire()
        _remove_abandoned(folder.parent)
        return store

    def close(self) -> None:
        """Forget everything if nothing is to be kept."""
        if self._file_lock:
            self._file_lock.release()
        if not self.is_kept:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _load(self) -> None:
        for path in (self.folder / "documents").glob("*/record.json"):
            with suppress(OSError, ValueError, TypeError):
                self._documents[path.parent.name] = DocumentRecord(**json.loads(path.read_text(encoding="utf-8")))
        for path in (self.folder / "summaries").glob("*/record.json"):
            with suppress(OSError, ValueError, TypeError):
                self._summaries[path.parent.name] = SummaryRecord(**json.loads(path.read_text(encoding="utf-8")))
        for path in [*(self.folder / "documents").iterdir(), *(self.folder / "summaries").iterdir()]:
            # Of a server that was killed before it was done. A record that cannot be read now may be readable later.
            if _ID.fullmatch(path.name) and not (path / "record.json").exists():
                shutil.rmtree(path, ignore_errors=True)

    # Documents

    def new_folder(self) -> Path:
        """A place for a document that is on its way; `add` makes it one of ours, `discard` removes it."""
        path = self.folder / "documents" / secrets.token_hex(10)
        path.mkdir(mode=0o700)
        return path

    def discard(self, folder: Path) -> None:
        """Remove a document that did not become one."""
        shutil.rmtree(folder, ignore_errors=True)

    def add(self, folder: Path, document: Document, record: DocumentRecord) -> DocumentRecord:
        """Keep a document that was read into its folder."""
        fields = {
            "text": document.text,
            "path": document.path,
            "page_starts": document.page_starts,
            "notes": document.notes,
            "blocks": [[block.start, block.end, block.kind, block.level] for block in document.blocks],
        }
        # JSON, rather than text, so that every character comes back as it was, unpaired surrogates included.
        _write(folder / "document.json", fields)
        record = replace(record, id=folder.name)
        _write(folder / "record.json", asdict(record))
        with self._lock:
            self._documents[record.id] = record
            self._remember(record.id, document)
        return record

    def document(self, identity: str) -> DocumentRecord | None:
        """What is known of a document."""
        return self._documents.get(identity)

    def documents(self) -> list[DocumentRecord]:
        """All of them, the newest first."""
        with self._lock:
            known = list(self._documents.values())
        return sorted(known, key=lambda record: -record.created)

    def source(self, identity: str) -> Path:
        """The file of a document whose pages can be drawn."""
        return self._folder("documents", identity) / "source"

    def text(self, identity: str) -> Document:
        """A document with its text."""
        with self._lock:
            if found := self._texts.pop(identity, None):
                self._texts[identity] = found
                return found
        fields = json.loads((self._folder("documents", identity) / "document.json").read_text(encoding="utf-8"))
        blocks = tuple(Block(*block) for block in fields["blocks"])
        document = Document(
            fields["text"], fields["path"], tuple(fields["page_starts"]), tuple(fields["notes"]), blocks
        )  # fmt: skip
        with self._lock:
            self._remember(identity, document)
        return document

    def _remember(self, identity: str, document: Document) -> None:
        self._texts[identity] = document
        while len(self._texts) > 1 and sum(len(each.text) for each in self._texts.values()) > KEPT_CHARACTERS:
            del self._texts[next(iter(self._texts))]

    def delete_document(self, identity: str) -> None:
        """Remove a document and all its summaries."""
        for record in [each for each in self.summaries() if each.document == identity]:
            self.delete_summary(record.id)
        with self._lock:
            self._documents.pop(identity, None)
            self._texts.pop(identity, None)
        shutil.rmtree(self._folder("documents", identity), ignore_errors=True)

    # Summaries

    def ask(self, document: DocumentRecord, settings: Settings, *, is_watched: bool) -> SummaryRecord:
        """Keep a new summary that was asked for."""
        record = SummaryRecord(
            id=secrets.token_hex(10),
            document=document.id,
            name=document.name,
            created=time.time(),
            length=None if settings.length is None else str(settings.length),
            query=settings.query,
            style=settings.style,
            strict=settings.strict,
            is_watched=is_watched,
        )
        self._folder("summaries", record.id).mkdir(mode=0o700)
        self.change(record)
        return record

    def change(self, record: SummaryRecord, **changes: Any) -> SummaryRecord:
        """Write down what has become of a summary; nothing, if it was deleted meanwhile."""
        record = replace(record, **changes)
        folder = self._folder("summaries", record.id)
        if folder.is_dir():
            _write(folder / "record.json", asdict(record))
            with self._lock:
                self._summaries[record.id] = record
        return record

    def summary(self, identity: str) -> SummaryRecord | None:
        """What is known of a summary."""
        return self._summaries.get(identity)

    def summaries(self, search: str = "") -> list[SummaryRecord]:
        """Those that have all these words in the document's name, the question or the text; the newest first."""
        words = search.casefold().split()
        with self._lock:
            known = list(self._summaries.values())
        found = sorted(known, key=lambda record: -record.created)
        return [record for record in found if not words or self._has(record, words)]

    def _has(self, record: SummaryRecord, words: list[str]) -> bool:
        text = f"{record.name} {record.query or ''} {record.opening}".casefold()
        if all(word in text for word in words):
            return True
        with suppress(OSError, ValueError):
            text += " ".join(part.text for part in self.parts(record)).casefold()
        return all(word in text for word in words)

    def partial(self, record: SummaryRecord, key: str) -> PartialSummary:
        """The parts of a summary that is being written."""
        return PartialSummary(self._folder("summaries", record.id) / "summary.json", key)

    def finish(self, record: SummaryRecord, summary: Summary) -> None:
        """Keep a summary as it is now, whole or not."""
        folder = self._folder("summaries", record.id)
        if folder.is_dir():
            _write(folder / "summary.json", summary.to_dict())

    def result(self, record: SummaryRecord) -> dict[str, Any] | None:
        """The JSON of a summary, as `awesum summarize --json` prints it; None if there is none yet."""
        try:
            text = (self._folder("summaries", record.id) / "summary.json").read_text(encoding="utf-8")
            fields: dict[str, Any] = json.loads(text)
        except FileNotFoundError:
            return None
        return fields

    def parts(self, record: SummaryRecord) -> list[Part]:
        """The parts of a summary that is not being written at the moment."""
        if (fields := self.result(record)) is not None:
            return [part_from_fields(part) for part in fields["parts"]]
        return []

    def to_summary(self, record: SummaryRecord) -> Summary | None:
        """A kept summary with its document, to be rendered."""
        fields = self.result(record)
        if fields is None:
            return None
        return Summary(
            parts=[part_from_fields(part) for part in fields["parts"]],
            document=self.text(record.document),
            tokens=fields["document"]["tokens"],
            segments=[Segment(0, 0, start, end, 0) for start, end in fields["document"]["segments"]],
            figures=Figures(**fields["figures"]),
            settings=fields["settings"],
            notes=fields["notes"],
            complete=fields["complete"],
        )

    def delete_summary(self, identity: str) -> None:
        """Remove a summary."""
        with self._lock:
            self._summaries.pop(identity, None)
        shutil.rmtree(self._folder("summaries", identity), ignore_errors=True)

    def _folder(self, kind: str, identity: str) -> Path:
        """The folder of one of ours: only ever named by the number that we gave it."""
        if not _ID.fullmatch(identity):
            raise KeyError(identity)
        return self.folder / kind / identity


def to_name(given: str) -> str:
    """A file name as it may be shown: the last piece of a path, without what would change the text around it."""
    last = re.split(r"[/\\]", given)[-1]
    plain = "".join(character for character in last if character.isprintable())
    return plain.strip()[-_LONGEST_NAME:] or "document"


def _remove_abandoned(place: Path) -> None:
    """Remove what servers without a history left behind when they were killed."""
    for folder in place.glob(f"{TEMPORARY}*"):
        with suppress(OSError):
            status = folder.lstat()
            is_mine = stat.S_ISDIR(status.st_mode) and (not hasattr(os, "getuid") or status.st_uid == os.getuid())
            if is_mine and time.time() - status.st_mtime > ABANDONED:
                lock = files.Lock(folder / "history")
                if lock.acquire():
                    shutil.rmtree(folder, ignore_errors=True)
                    lock.release()


def _check_ours(folder: Path) -> None:
    """Refuse a folder in which anything but a history lies: nothing of it may be closed to others or removed."""
    try:
        there = [name for name in os.listdir(folder) if not name.startswith(".")]
        for name in there:
            inside = os.listdir(folder / name) if name in ("documents", "summaries") else [name]
            if foreign := next((each for each in inside if not each.startswith(".") and not _ID.fullmatch(each)), None):
                raise AwesumError(
                    f"{folder} is not a history of `awesum serve` (it has {files.shown(foreign)!r}): name a new or an "
                    "empty folder with --folder"
                )
    except FileNotFoundError:
        return
    except OSError as error:
        raise AwesumError(
            f"cannot keep documents in {folder} ({error.strerror or error}): name another folder with --folder"
        ) from error


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise AwesumError(f"{folder} is not a folder of its own: name another one with --folder")
        if hasattr(os, "getuid") and status.st_uid != os.getuid():
            raise AwesumError(f"{folder} belongs to somebody else: name another one with --folder")
        folder.chmod(0o700)
    except OSError as error:
        raise AwesumError(
            f"cannot keep documents in {folder} ({error.strerror or error}): name another folder with --folder"
        ) from error


def _write(path: Path, fields: dict[str, Any]) -> None:
    """Replace a file of ours. The folders around it are private; its own rights say the same."""
    with files.replacing(path) as aside:
        aside.chmod(0o600)
        aside.write_text(json.dumps(fields), encoding="utf-8")


def iterate_running(store: Store) -> Iterator[SummaryRecord]:
    """The summaries that a killed server was about to write, the oldest first."""
    for record in reversed(store.summaries()):
        if record.state not in ENDED:
            yield record
