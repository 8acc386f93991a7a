"""Answers that need nothing but the request: the page's files, the API's description, and errors in one line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from awesum.web.jobs import Busy
from awesum.web.openapi import description

PAGE = Path(__file__).parent / "page"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
Handler = Callable[[Request], Awaitable[Response]]


def serve_file(name: str) -> Handler:
    """A file of the page, read once."""
    content, kind = (PAGE / name).read_bytes(), TYPES[Path(name).suffix]

    async def answer(request: Request) -> Response:
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    return answer


async def describe(request: Request) -> Response:
    """The API, as OpenAPI describes it."""
    return JSONResponse(description())


async def user_error(request: Request, error: Exception) -> Response:
    """What the user can mend."""
    return JSONResponse({"error": str(error)}, status_code=422)


async def busy(request: Request, error: Exception) -> Response:
    """There is no room, and when there will be."""
    assert isinstance(error, Busy)
    headers = {"retry-after": str(error.seconds)}
    return JSONResponse({"error": str(error), "seconds": error.seconds}, status_code=429, headers=headers)


async def http_error(request: Request, error: Exception) -> Response:
    """An error with a status of its own."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {}) | ({"connection": "close"} if error.status_code in (408, 413) else {})
    return JSONResponse({"error": error.detail}, status_code=error.status_code, headers=headers)


async def disk_error(request: Request, error: Exception) -> Response:
    """A document or a summary that could not be stored."""
    reason = getattr(error, "strerror", None) or type(error).__name__
    return JSONResponse({"error": f"this cannot be kept ({reason}): make room on the disk"}, status_code=507)


async def gone(request: Request, error: Exception) -> Response:
    """Nobody is left to read an answer."""
    return Response(status_code=499)
