"""A worker: a system with its models, which summarizes one batch of documents after another."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from awesum.corpus import rows, storage
from awesum.corpus.job import Job
from awesum.corpus.source import Batch, Item
from awesum.document import Document
from awesum.errors import AwesumError
from awesum.files import shown

if TYPE_CHECKING:
    from awesum.compose.session import Session


@dataclass(frozen=True)
class Outcome:
    """What became of a batch."""

    rows: bytes
    """A table: see `rows.from_bytes`."""
    documents: int
    size: int
    skipped: list[str]
    reading: float
    """Seconds that reading the batch took."""
    busy: float
    """Seconds that summarizing it took."""
    workers: int = 0
    """The number of workers, where the engine finds out only at work."""
    repeated: int = 0
    """Documents that the source has twice, where that shows before they are summarized."""


class Worker:
    """Summarizes batches. `fingerprint` is that of the job; other weights than those are refused."""

    def __init__(self, job: Job, fingerprint: str) -> None:
        self.job = job
        self.system = job.load()
        if self.system.fingerprint() != fingerprint:
            raise AwesumError(
                f"{self.system.model} has other weights where a worker runs than where the command was started: "
                "install the same version of awesum and the same weights on every machine"
            )
        self.system.prepare()
        self.system.load()

    def __call__(self, batch: Batch) -> Outcome:
        """Summarize every document of a batch; each has a row, whatever happens."""
        started = time.perf_counter()
        written = self._rows(batch.items)
        return Outcome(
            rows.to_bytes(written),
            len(written),
            batch.size,
            batch.skipped,
            batch.seconds,
            time.perf_counter() - started,
        )

    def _rows(self, items: Sequence[Item]) -> list[dict[str, Any]]:
        from awesum.systems.system import write_documents

        done: dict[str, dict[str, Any]] = {}
        opened: dict[Session, Item] = {}
        try:
            for session, _ in write_documents(self.system, self.job.settings, self._opening(items, opened, done)):
                item = opened[session]
                if session.error is not None:
                    done[item.id] = self._failed(item, session.error)
                elif session.complete:
                    done[item.id] = rows.written(item, session.summary())
        except Exception as error:  # of the engine: whose fault it was shows if each document is alone
            left = [item for item in items if item.id not in done]
            if len(items) == 1:
                return [self._failed(items[0], error)]
            return [*done.values(), *(row for item in left for row in self._rows([item]))]
        return list(done.values())

    def _opening(
        self, items: Sequence[Item], opened: dict[Session, Item], done: dict[str, dict[str, Any]]
    ) -> Iterator[Session]:
        from awesum.systems.system import open_session

        for item in items:
            settings = replace(self.job.settings, query=item.query) if item.query else self.job.settings
            if item.error is not None:
                done[item.id] = rows.failed(item, item.error, settings)
                continue
            try:
                session = open_session(self.system, self._document(item), settings)
            except Exception as error:
                done[item.id] = self._failed(item, error)
                continue
            opened[session] = item
            yield session

    def _document(self, item: Item) -> Document:
        if item.text is not None:
            return Document(item.text, path=_shown(item))
        from awesum.reading import read

        if not storage.is_remote(item.file):
            return replace(read(storage.local_path(item.file), self.job.limits), path=_shown(item))
        with storage.opened(item.file) as file:
            content = io.BytesIO(file.read())
        content.name = item.name  # its suffix says which format it is
        return replace(read(content, self.job.limits), path=_shown(item))

    def _failed(self, item: Item, error: Exception) -> dict[str, Any]:
        from awesum.summarizer import as_error

        if isinstance(error, MemoryError):
            error = AwesumError(
                f"{_shown(item)} needs more RAM than there is: use --max-memory, fewer --workers or a larger machine"
            )
        return rows.failed(item, str(as_error(error, _shown(item))), self.job.settings)


def _shown(item: Item) -> str:
    return shown(item.name or (item.file if item.row is None else f"{item.file}, row {item.row}"))
