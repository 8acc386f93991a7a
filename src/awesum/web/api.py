"""The API: documents come in, summaries go out as they are written. `openapi` describes it."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.footprint import format_size
from awesum.length import count_words
from awesum.reading.limits import ReadLimits
from awesum.reading.source import Source
from awesum.rendering import SUFFIX, render
from awesum.settings import Settings
from awesum.version import __version__
from awesum.web.jobs import Busy, Jobs
from awesum.web.openapi import description
from awesum.web.store import ENDED, DocumentRecord, Store, SummaryRecord, to_name

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

PAGE = Path(__file__).parent / "page"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
READING = 2
"""Documents that are read at the same time."""
DRAWING = 2
"""Pages that are drawn at the same time."""
UNREAD = 32
"""Uploads that may be on their way at the same time."""
SILENCE = 30.0
"""Seconds that an upload may pause."""
SLOWEST = 1_000
"""Bytes per second that an upload has to bring on average, after `SILENCE`."""
BEAT = 15.0
"""Seconds after which something is sent to those who wait for the next part, so that nobody takes it for dead."""
LONGEST_QUERY = 2_000
MOST_SPANS = 2_000
SMALL = 1_000_000
"""Bytes of a request that is not a document."""
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
EXPORTED = {"text": "text/plain", "markdown": "text/markdown", "html": "text/html", "json": "application/json"}

Handler = Callable[[Request], Awaitable[Response]]


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
            Route("/", _file("index.html")),
            Route("/api", _file("api.html")),
            *(Route(f"/{path.name}", _file(path.name)) for path in PAGE.iterdir() if path.suffix != ".html"),
            Route("/api/openapi.json", _describe),
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
            AwesumError: _user_error,
            Busy: _busy,
            HTTPException: _http_error,
            OSError: _disk_error,
            ClientDisconnect: _gone,
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
        if request.headers.get("content-type", "").partition(";")[0].strip() == "application/json":
            return await self._receive_text(request, file)
        name = to_name(request.query_params.get("name", ""))
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            async for chunk in _body(request, self.rules.max_upload):
                opened.write(chunk)
        return Source(b"", path=name, suffix=Path(name).suffix.lower(), file=str(file))

    async def _receive_text(self, request: Request, file: Path) -> Source:
        given = await _json(request, self.rules.max_upload)
        name = to_name(_optional(given, "name") or "Pasted text")
        if (address := _optional(given, "url")) is not None:
            if not self.rules.allow_urls:
                raise HTTPException(403, "addresses are not fetched: start the server with --allow-urls")
            from awesum.reading.web import fetch

            found = await self._in_thread(self._reading, lambda: fetch(address, public_only=True))
            file.write_bytes(found.data)
            file.chmod(0o600)
            return replace(found, data=b"", file=str(file))
        text = _optional(given, "text")
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
        return Response(
            text, media_type="text/plain; charset=utf-8", headers={"cache-control": "private, max-age=3600"}
        )

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
        return Response(image, media_type="image/jpeg", headers={"cache-control": "private, max-age=3600"})

    async def boxes(self, request: Request) -> Response:
        """Where spans of the text stand on the pages of a PDF."""
        record = self._document(request)
        spans = _spans((await _json(request, SMALL)).get("spans"), record.characters)
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
        given = await _json(request, SMALL)
        document = self.store.document(_optional(given, "document") or "")
        if document is None:
            raise HTTPException(404, "there is no such document: send it to /api/documents first")
        settings = _settings(given)
        system = self.jobs.summarizer.system_for(settings)
        if settings.strict and system.style == "extract":
            raise AwesumError("strict is for written sentences, and none are: ask for the style abstract")
        self.jobs.check_room()
        is_watched = _wants_events(request)
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


class EventStream(Response):
    """Server-sent events. It ends, and with it the iterator, as soon as the other side has gone."""

    def __init__(
        self, events: AsyncIterator[tuple[str, Any, int | None]], first: tuple[str, Any, int | None] | None = None
    ) -> None:
        super().__init__(media_type="text/event-stream", headers={"cache-control": "no-store"})
        del self.headers["content-length"]
        self._events, self._first = events, first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the events or the connection end."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            await self._events.aclose()  # type: ignore[attr-defined]

    async def _send(self, send: Send) -> None:
        if self._first is not None:
            await _send_event(send, self._first)
        following = asyncio.ensure_future(anext(self._events, None))
        try:
            while True:
                done, _ = await asyncio.wait((following,), timeout=BEAT)
                if not done:
                    await send({"type": "http.response.body", "body": b":\n\n", "more_body": True})
                    continue
                event = following.result()
                if event is None:
                    break
                await _send_event(send, event)
                following = asyncio.ensure_future(anext(self._events, None))
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send_event(send: Send, event: tuple[str, Any, int | None]) -> None:
    name, data, number = event
    identity = f"id: {number}\n" if number is not None else ""
    body = f"{identity}event: {name}\ndata: {json.dumps(data)}\n\n".encode()
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


# Requests


async def _body(request: Request, most: int) -> AsyncIterator[bytes]:
    """The body of a request as it comes, unless it is too large or too slow."""
    declared = request.headers.get("content-length", "0")
    if declared.isascii() and declared.isdecimal() and int(declared) > most:
        raise _too_large(most)
    stream = request.stream()
    begun, size = time.monotonic(), 0
    while True:
        try:
            chunk = await asyncio.wait_for(anext(stream, b""), SILENCE)
        except TimeoutError:
            raise HTTPException(408, "the upload stopped: send it again") from None
        if not chunk:
            return
        size += len(chunk)
        if size > most:
            raise _too_large(most)
        seconds = time.monotonic() - begun
        if seconds > SILENCE and size < SLOWEST * (seconds - SILENCE):
            raise HTTPException(408, "the upload is too slow: send it again")
        yield chunk


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"this is larger than {format_size(most)}: start the server with a larger --max-upload")


async def _json(request: Request, most: int) -> dict[str, Any]:
    data = bytearray()
    async for chunk in _body(request, most):
        data += chunk
    try:
        given = json.loads(bytes(data))
    except (ValueError, RecursionError):
        raise AwesumError("the request is not JSON: see /api") from None
    if not isinstance(given, dict):
        raise AwesumError("the request is not a JSON object: see /api")
    return given


def _optional(given: dict[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise AwesumError(f"{name} has to be a text: see /api")
    return value


def _settings(given: dict[str, Any]) -> Settings:
    """The settings of a summary, with the names and the errors of the command line."""
    unknown = set(given) - {"document", "length", "query", "style", "strict"}
    if unknown:
        raise AwesumError(f"unknown {', '.join(sorted(unknown))[:100]}: a summary has length, query, style and strict")
    query = _optional(given, "query")
    if query is not None and len(query) > LONGEST_QUERY:
        raise AwesumError(f"the question has more than {LONGEST_QUERY:,} characters: ask a shorter one")
    style: Any = _optional(given, "style")
    strict = given.get("strict", False)
    return Settings(length=given.get("length"), query=(query and query.strip()) or None, style=style, strict=strict)


def _spans(given: Any, characters: int) -> list[tuple[int, int]]:
    if not isinstance(given, list) or len(given) > MOST_SPANS:
        raise AwesumError(f"spans has to be a list of at most {MOST_SPANS:,} pairs: see /api")
    spans: list[tuple[int, int]] = []
    for span in given:
        is_pair = isinstance(span, list) and len(span) == 2 and all(type(edge) is int for edge in span)
        if not is_pair or not 0 <= span[0] <= span[1] <= characters:
            raise AwesumError("a span has to be two character positions of the text: see /api")
        spans.append((span[0], span[1]))
    return spans


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


def _wants_events(request: Request) -> bool:
    return "text/event-stream" in request.headers.get("accept", "")


def _is_pdf(file: Path) -> bool:
    with file.open("rb") as opened:
        return b"%PDF-" in opened.read(1024)


# Answers


def _file(name: str) -> Handler:
    content, kind = (PAGE / name).read_bytes(), TYPES[Path(name).suffix]

    async def answer(request: Request) -> Response:
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    return answer


async def _describe(request: Request) -> Response:
    return JSONResponse(description())


async def _user_error(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status_code=422)


async def _busy(request: Request, error: Exception) -> Response:
    assert isinstance(error, Busy)
    headers = {"retry-after": str(error.seconds)}
    return JSONResponse({"error": str(error), "seconds": error.seconds}, status_code=429, headers=headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {}) | ({"connection": "close"} if error.status_code in (408, 413) else {})
    return JSONResponse({"error": error.detail}, status_code=error.status_code, headers=headers)


async def _disk_error(request: Request, error: Exception) -> Response:
    reason = getattr(error, "strerror", None) or type(error).__name__
    return JSONResponse({"error": f"this cannot be kept ({reason}): make room on the disk"}, status_code=507)


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)
