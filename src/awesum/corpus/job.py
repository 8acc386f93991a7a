"""What is to be done with a corpus, and the ids of its documents."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from awesum.datasets.rows import NAMES
from awesum.errors import AwesumError
from awesum.settings import Settings
from awesum.version import __version__

if TYPE_CHECKING:
    from awesum.reading.limits import ReadLimits
    from awesum.systems.system import System

USUAL = {"text": (*NAMES["document"], "text", "content", "body"), "id": NAMES["id"], "query": NAMES["query"]}
"""The columns that are used if none is named: the first of these that is there."""


@dataclass(frozen=True)
class Columns:
    """The columns of a table that hold the text, the id and the query of a document."""

    text: str | None = None
    id: str | None = None
    query: str | None = None

    def resolve(self, there: Iterable[str], where: str) -> Columns:
        """The columns by name; `there` are those of a file, and `where` names it in errors."""
        there = list(there)
        found: dict[str, str | None] = {}
        for role, name in asdict(self).items():
            if name is not None and name not in there:
                raise no_column(name, there, where, role)
            found[role] = name or next((usual for usual in USUAL[role] if usual in there), None)
        if found["text"] is None:
            raise no_column("text", there, where, "text")
        return Columns(**found)


def no_column(name: str, there: Iterable[str], where: str, role: str) -> AwesumError:
    """The error for a file without a column."""
    names = ", ".join(there) or "no columns"
    return AwesumError(f"{where} has no column {name!r}: it has {names}; name one with --{role}-column")


@dataclass(frozen=True)
class Job:
    """What is to be summarized, and how. Whatever changes a summary changes the ids of the documents."""

    source: str
    """A Parquet or JSON lines file, a document, a folder or a glob of such, here or on another file system."""
    columns: Columns = field(default_factory=Columns)
    settings: Settings = field(default_factory=Settings)
    system: str | None = None
    model: str | None = None
    verifier: str | None = None
    limits: ReadLimits | None = None
    """Of the process that reads a document; they change no summary."""

    def __post_init__(self) -> None:
        if self.settings.query is not None and self.columns.query is not None:
            raise AwesumError("--query and --query-column were both given: leave one of them out")
        for name in ("model", "verifier"):
            given = getattr(self, name)
            if given is not None and os.path.exists(given):
                object.__setattr__(self, name, os.path.abspath(given))  # a worker may start in another folder

    def load(self) -> System:
        """The system that summarizes."""
        from awesum.loading import hide_progress_bars
        from awesum.summarizer import Summarizer

        hide_progress_bars()
        summarizer = Summarizer(self.model, system=self.system, verifier=self.verifier)
        system = summarizer.system_for(self.settings)
        if system.needs_reference:
            raise AwesumError(f"{system.name} needs a reference summary: run it on a dataset with `awesum predict`")
        return system

    def key(self, system: System) -> dict[str, Any]:
        """Everything that a summary depends on besides the document, in words."""
        written = system.style == "abstract"
        return {
            "awesum": __version__,
            "system": system.name,
            "model": system.model,
            "fingerprint": system.fingerprint(),
            "verifier": system.verifier_name() if written else None,
            "length": self.settings.length,
            "style": self.settings.style,
            "strict": self.settings.strict,
            "query": self.settings.query,
            "columns": asdict(self.columns),
        }


def digest(key: dict[str, Any]) -> str:
    """A fingerprint of a job's key."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


def document_id(job: str, name: str, query: str | None, content: bytes) -> str:
    """The id of a document: 32 hexadecimal digits that depend on the job's digest, its name, its query and content."""
    known = json.dumps([job, name, query]).encode("utf-8", "surrogatepass")
    return hashlib.sha256(known + b"\n" + content).hexdigest()[:32]
