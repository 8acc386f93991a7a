"""The API: documents come in, summaries go out as they are written. `openapi` describes it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.length import count_words
from awesum.reading.limits import ReadLimits
from awesum.reading.source import Source
from awesum.rendering import SUFFIX, render
from awesum.version import __version__
from awesum.web.answers import PAGE, busy, describe, disk_error, gone, http_error, serve_file, user_error
from awesum.web.events import EventStream
from awesum.web.jobs import Busy, Jobs
from awesum.web.requests import (
    LONGEST_QUERY,
    is_json,
    optional_text,
    read_body,
    read_json,
    to_settings,
    to_spans,
    wants_events,
)
from awesum.web.store import ENDED, DocumentRecord, Store, SummaryRecord, to_name

READING = 2
"""Documents that are read at the same time."""
DRAWING = 2
"""Pages that are drawn at the same time."""
UNREAD = 32
"""Uploads that may be on their way at the same time."""
PASTED = 20_000_000
"""Bytes of a text that comes as JSON, which is in RAM as a whole; larger ones come as files."""
SMALL = 1_000_000
"""Bytes of a request that is not a document."""
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
EXPORTED = {"text": "text/plain", "markdown": "text/markdown", "html": "text/html", "json": "application/json"}


@dataclass(frozen=True)
class Rules:
    """What the user allows."""

    max_upload: int
    limits: ReadLimits
    allow_urls: bool = False


class Api:
    """All routes, with what they share."""

    def __init__(self, store: Store, jobs: Jobs, rules: Rules) -> None:
        self.store, self.jobs, self.rules = store, jobs, rules
        self._reading = ThreadPoolExecutor(READING, "awesum-read")
        self._drawing = ThreadPoolExecutor(DRAWING, "awesum-draw")
        self._uploads = 0

    def app(self) -> Starlette:
        """The application, without its guard."""
        routes = [
            Route("/", serve_file("index.html")),
            Route("/api", serve_file("api.html")),
            *(Route(f"/{path.name}", serve_file(path.name)) for path in PAGE.iterdir() if path.suffix != ".html"),
            Route("/api/openapi.json", describe),
            Route("/api/status", self.status),
            Route("/api/documents", self.list_documents),
            Route("/api/documents", self.add_document, methods=["POST"]),
            Route("/api/documents/{id}", self.get_document),
            Route("/api/documents/{id}", self.delete_document, methods=["DELETE"]),
            Route("/api/documents/{id}/text", self.text),
            Route("/api/documents/{id}/boxes", self.boxes, methods=["POST"]),
            Route("/api/documents/{id}/pages/{page:int}", self.page),
            Route("/api/summaries", self.list_summaries),
            Route("/api/summaries", self.add_summary, methods=["POST"]),
            Route("/api/summaries/{id}", self.get_summary),
            Route("/api/summaries/{id}", self.delete_summary, methods=["DELETE"]),
            Route("/api/summaries/{id}/events", self.events),
            Route("/api/summaries/{id}/stop", self.stop, methods=["POST"]),
            Route("/api/summaries/{id}/export", self.export),
            Route("/api/history", self.delete_history, methods=["DELETE"]),
        ]
        handlers: dict[Any, Any] = {
            AwesumError: user_error,
            Busy: busy,
            HTTPException: http_error,
            OSError: disk_error,
            ClientDisconnect: gone,
        }
        return Starlette(routes=routes, exception_handlers=handlers)

    @staticmethod
    def open_paths() -> list[str]:
        """What can be had without the token: files of the package, which anybody can read there."""
        return ["/", "/api", "/api/openapi.json", *(f"/{path.name}" for path in PAGE.iterdir())]

    def close(self) -> None:
        """End the threads."""
        for pool in (self._reading, self._drawing):
            pool.shutdown(wait=False, cancel_futures=True)

    async def status(self, request: Request) -> Response:
        """What this server can do."""
        return JSONResponse(
            {
                "version": __version__,
                "model": self.jobs.summarizer.model,
                "styles": ["extract", "abstract"] if self.jobs.writes else ["extract"],
                "default_style": self.jobs.summarizer.system.style,
                "max_upload": self.rules.max_upload,
                "allow_urls": self.rules.allow_urls,
                "history": self.store.is_kept,
                "running": len(self.jobs.running()),
            }
        )

    # Documents

    async def add_document(self, request: Request) -> Response:
        """Take a file as it is (`?name=report.pdf`), or JSON with a `text` or a `url`."""
        if self._uploads >= UNREAD:
            raise Busy(self.jobs.seconds_until_room())
        self._uploads += 1
        try:
            folder = self.store.new_folder()
            try:
                source = await self._receive(request, folder)
                record = await self._in_thread(self._reading, self._read, folder, source)
            except BaseException:
                self.store.discard(folder)
                raise
        finally:
            self._uploads -= 1
        return JSONResponse(asdict(record), status_code=201)

    async def _receive(self, request: Request, folder: Path) -> Source:
        file = folder / "source"
        if is_json(request):
            return await self._receive_text(request, file)
        name = to_name(request.query_params.get("name", ""))
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            async for chunk in read_body(request, self.rules.max_upload):
                opened.write(chunk)
        return Source(b"", path=name, suffix=Path(name).suffix.lower(), file=str(file))

    async def _receive_text(self, request: Request, file: Path) -> Source:
        given = await read_json(request, min(self.rules.max_upload, PASTED))
        name = to_name(optional_text(given, "name") or "Pasted text")
        if (address := optional_text(given, "url")) is not None:
            if not self.rules.allow_urls:
                raise HTTPException(403, "addresses are not fetched: start the server with --allow-urls")
            from awesum.reading.web import fetch

            found = await self._in_thread(self._reading, lambda: fetch(address, public_only=True))
            file.write_bytes(found.data)
            file.chmod(0o600)
            return replace(found, data=b"", file=str(file))
        text = optional_text(given, "text")
        if text is None:
            raise AwesumError("there is nothing to read: send a file, or JSON with a text")
        file.write_bytes(text.encode("utf-8", "replace"))
        file.chmod(0o600)
        return Source(b"", path=name, suffix=".txt", file=str(file))

    def _read(self, folder: Path, source: Source) -> DocumentRecord:
        """Read a document in the process that has limits; keep the file only if its pages can be drawn."""
        from awesum.reading.process import draw_in_process, read_in_process

        file = Path(source.file)
        document = read_in_process(source, file.stat().st_size, self.rules.limits)
        sizes: list[list[float]] = []
        if document.page_starts and _is_pdf(file):
            with suppress(AwesumError):
                sizes, _ = draw_in_process(source.file, source.path, {"what": "sizes"}, self.rules.limits)
        if not sizes:
            file.unlink()
        record = DocumentRecord(
            id="",
            name=source.path,
            created=time.time(),
            characters=len(document.text),
            words=count_words(document.text),
            page_starts=list(document.page_starts),
            page_sizes=sizes,
            notes=list(document.notes),
        )
        return self.store.add(folder, document, record)

    async def list_documents(self, request: Request) -> Response:
        """All documents, the newest first."""
        return JSONResponse([asdict(record) for record in self.store.documents()])

    async def get_document(self, request: Request) -> Response:
        """What is known of a document."""
        return JSONResponse(asdict(self._document(request)))

    async def text(self, request: Request) -> Response:
        """The text of a document, to which all spans refer by character."""
        record = self._document(request)
        document = await self._in_thread(self._drawing, self.store.text, record.id)
        text = document.text.encode("utf-8", "replace")  # one character for one, so that spans stay right
        return Response(text, media_type="text/plain; charset=utf-8", headers=self._caching)

    async def page(self, request: Request) -> Response:
        """A page of a PDF as an image."""
        record = self._document(request)
        number = request.path_params["page"]
        if not 1 <= number <= len(record.page_sizes):
            raise HTTPException(404, f"{record.name} has no page {number} that can be drawn")
        given = request.query_params.get("width", "1200")
        width = min(max(int(given), 50), 2400) if given.isascii() and given.isdecimal() and len(given) < 6 else 1200
        wanted = {"what": "image", "page": number - 1, "width": width}
        _, image = await self._in_thread(self._drawing, self._draw, record, wanted)
        return Response(image, media_type="image/jpeg", headers=self._caching)

    @property
    def _caching(self) -> dict[str, str]:
        """A document never changes; where nothing is to be kept, the browser keeps nothing either."""
        return {"cache-control": "private, max-age=3600" if self.store.is_kept else "no-store"}

    async def boxes(self, request: Request) -> Response:
        """Where spans of the text stand on the pages of a PDF."""
        record = self._document(request)
        spans = to_spans((await read_json(request, SMALL)).get("spans"), record.characters)
        if not record.page_sizes:
            raise HTTPException(404, f"{record.name} has no pages that can be drawn")
        found = await self._in_thread(self._drawing, self._locate, record, spans)
        return JSONResponse({"spans": found})

    def _locate(self, record: DocumentRecord, spans: list[tuple[int, int]]) -> list[dict[str, Any]]:
        document = self.store.text(record.id)
        passages: list[tuple[int, int, str, int]] = []  # span, page, text, occurrence
        for place, (start, end) in enumerate(spans):
            for page, text, occurrence in _on_pages(document, start, end):
                passages.append((place, page, text, occurrence))
        wanted = {"what": "boxes", "passages": [passage[1:] for passage in passages]}
        boxes, _ = self._draw(record, wanted)
        answer: list[dict[str, Any]] = [{"located": False, "pages": []} for _ in spans]
        lost = {place for (place, *_), found in zip(passages, boxes, strict=True) if found is None}
        for (place, page, *_), found in zip(passages, boxes, strict=True):
            if found is not None:
                answer[place]["pages"].append({"page": page + 1, "boxes": found})
                answer[place]["located"] = place not in lost
        return answer

    def _draw(self, record: DocumentRecord, wanted: dict[str, Any]) -> tuple[Any, bytes]:
        from awesum.reading.process import draw_in_process

        return draw_in_process(str(self.store.source(record.id)), record.name, wanted, self.rules.limits)

    async def delete_document(self, request: Request) -> Response:
        """Remove a document and its summaries."""
        record = self._document(request)
        for job in self.jobs.running():
            if job.record.document == record.id:
                self.jobs.stop(job.record.id)
        await self._in_thread(self._drawing, self.store.delete_document, record.id)
        return Response(status_code=204)

    async def delete_history(self, request: Request) -> Response:
        """Remove everything."""
        for job in self.jobs.running():
            self.jobs.stop(job.record.id)
        for record in self.store.documents():
            await self._in_thread(self._drawing, self.store.delete_document, record.id)
        return Response(status_code=204)

    # Summaries

    async def add_summary(self, request: Request) -> Response:
        """Ask for a summary; who accepts `text/event-stream` watches it being written, and it is written for them."""
        given = await read_json(request, SMALL)
        document = self.store.document(optional_text(given, "document") or "")
        if document is None:
            raise HTTPException(404, "there is no such document: send it to /api/documents first")
        settings = to_settings(given)
        system = self.jobs.summarizer.system_for(settings)
        if settings.strict and system.style == "extract":
            raise AwesumError("strict is for written sentences, and none are: ask for the style abstract")
        self.jobs.check_room(settings)
        is_watched = wants_events(request)
        job = self.jobs.submit(self.store.ask(document, settings, is_watched=is_watched))
        if is_watched:
            return EventStream(self.jobs.watch(job), first=("summary", job.snapshot(), None))
        return JSONResponse(job.snapshot(), status_code=202, headers={"location": f"/api/summaries/{job.record.id}"})

    async def events(self, request: Request) -> Response:
        """The parts of a summary from `Last-Event-ID` on; one that was stopped is resumed."""
        record = self._summary(request)
        given = request.headers.get("last-event-id", "0")
        after = int(given) if given.isascii() and given.isdecimal() and len(given) < 9 else 0
        job = self.jobs.get(record.id)
        if job is None and record.state == "done":
            return EventStream(self._replay(record, after))
        if job is None:
            job = self.jobs.submit(replace(record, is_watched=True))
        return EventStream(self.jobs.watch(job, after), first=("summary", job.snapshot(), None))

    async def _replay(self, record: SummaryRecord, after: int) -> AsyncIterator[tuple[str, Any, int | None]]:
        result = self.store.result(record) or {"parts": []}
        for number, part in enumerate(result["parts"][after:], after + 1):
            yield "part", part, number
        yield record.state, asdict(record) | {"summary": result}, None

    async def get_summary(self, request: Request) -> Response:
        """A summary: what was asked for, how far it is, and the result in the form of `awesum summarize --json`."""
        record = self._summary(request)
        job = self.jobs.get(record.id)
        if job and job.record.state not in ENDED:
            written = [asdict(part) for part in list(job.parts)]
            return JSONResponse(job.snapshot() | {"summary": None, "parts": written})
        record = job.record if job else self._summary(request)  # it may have ended meanwhile
        return JSONResponse(asdict(record) | {"summary": self.store.result(record)})

    async def list_summaries(self, request: Request) -> Response:
        """All summaries, the newest first; `?search=` finds words in names, questions and texts."""
        search = request.query_params.get("search", "")[:LONGEST_QUERY]
        found = await self._in_thread(self._drawing, self.store.summaries, search)
        return JSONResponse([asdict(record) for record in found])

    async def stop(self, request: Request) -> Response:
        """End a summary early; what is there is kept."""
        record = self._summary(request)
        self.jobs.stop(record.id)
        return Response(status_code=202)

    async def delete_summary(self, request: Request) -> Response:
        """Remove a summary; a running one is stopped."""
        record = self._summary(request)
        self.jobs.stop(record.id)
        await self._in_thread(self._drawing, self.store.delete_summary, record.id)
        return Response(status_code=204)

    async def export(self, request: Request) -> Response:
        """A summary as a file."""
        record = self._summary(request)
        form = request.query_params.get("format", "text")
        if form not in (*EXPORTED, "docx"):
            raise AwesumError(f"there is no format {form!r}: say {', '.join(EXPORTED)} or docx")
        content = await self._in_thread(self._drawing, self._render, record, form)
        suffix = ".docx" if form == "docx" else SUFFIX[form]  # type: ignore[index]
        name = quote(f"{Path(record.name).stem} - summary{suffix}", safe="")
        kind = DOCX if form == "docx" else EXPORTED[form]
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{name}"}
        return Response(content, media_type=kind, headers=headers)

    def _render(self, record: SummaryRecord, form: str) -> bytes:
        summary = self.store.to_summary(record)
        if summary is None:
            raise HTTPException(409, "nothing of this summary is written yet: wait for it")
        if form == "docx":
            from awesum.rendering.docx import docx

            return docx(summary)
        return render(summary, form).encode("utf-8", "replace")  # type: ignore[arg-type]

    # What they share

    def _document(self, request: Request) -> DocumentRecord:
        record = self.store.document(request.path_params["id"])
        if record is None:
            raise HTTPException(404, "there is no such document: perhaps it was deleted")
        return record

    def _summary(self, request: Request) -> SummaryRecord:
        record = self.store.summary(request.path_params["id"])
        if record is None:
            raise HTTPException(404, "there is no such summary: perhaps it was deleted")
        return record

    async def _in_thread(self, pool: ThreadPoolExecutor, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(pool, lambda: function(*arguments))


def _on_pages(document: Document, start: int, end: int) -> list[tuple[int, str, int]]:
    """What of a span stands on which page, and how often the same stands on that page before."""
    found: list[tuple[int, str, int]] = []
    edges = [*document.page_starts, len(document.text)]
    for page in document.pages(start, end):
        first, last = max(start, edges[page - 1]), min(end, edges[page])
        text = document.text[first:last].strip()
        if text:
            found.append((page - 1, text, document.text.count(text, edges[page - 1], first)))
    return found


def _is_pdf(file: Path) -> bool:
    with file.open("rb") as opened:
        return b"%PDF-" in opened.read(1024)
