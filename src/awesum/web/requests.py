"""What a request holds, read and checked: its body within limits, and the values in it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from awesum.errors import AwesumError
from awesum.footprint import format_size
from awesum.settings import Settings

SILENCE = 30.0
"""Seconds that an upload may pause."""
SLOWEST = 1_000
"""Bytes per second that an upload has to bring on average, after `SILENCE`."""
DISCARDED, PATIENCE = 50_000_000, 10.0
"""Bytes above the limit that are still taken before an upload is refused, so that its sender can read why; and the
seconds that it may take."""
LONGEST_QUERY = 2_000
MOST_SPANS = 2_000


async def read_body(request: Request, most: int) -> AsyncIterator[bytes]:
    """The body of a request as it comes, unless it is too large or too slow."""
    declared = request.headers.get("content-length", "0")
    if declared.isascii() and declared.isdecimal() and int(declared) > most:
        if int(declared) <= most + DISCARDED:
            await _discard(request)
        raise _too_large(request, most)
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
            raise _too_large(request, most)
        seconds = time.monotonic() - begun
        if seconds > SILENCE and size < SLOWEST * (seconds - SILENCE):
            raise HTTPException(408, "the upload is too slow: send it again")
        yield chunk


async def _discard(request: Request) -> None:
    """Take what is not wanted: most clients look for an answer only after they have sent everything."""
    with suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(PATIENCE):
            async for _ in request.stream():
                pass


def is_json(request: Request) -> bool:
    """Whether the body of a request is said to be JSON, rather than a file as it is."""
    return request.headers.get("content-type", "").partition(";")[0].strip() == "application/json"


def _too_large(request: Request, most: int) -> HTTPException:
    advice = "send the text as a file" if is_json(request) else "start the server with a larger --max-upload"
    return HTTPException(413, f"this is larger than {format_size(most)}: {advice}")


async def read_json(request: Request, most: int) -> dict[str, Any]:
    """The JSON object that is the body of a request."""
    data = bytearray()
    async for chunk in read_body(request, most):
        data += chunk
    try:
        given = json.loads(bytes(data))
    except (ValueError, RecursionError):
        raise AwesumError("the request is not JSON: see /api") from None
    if not isinstance(given, dict):
        raise AwesumError("the request is not a JSON object: see /api")
    return given


def optional_text(given: dict[str, Any], name: str) -> str | None:
    """A text, or None if there is none of that name."""
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise AwesumError(f"{name} has to be a text: see /api")
    return value if value is None else value.encode("utf-8", "replace").decode()  # halves of a character cannot be sent


def to_settings(given: dict[str, Any]) -> Settings:
    """The settings of a summary, with the names and the errors of the command line."""
    unknown = set(given) - {"document", "length", "query", "style", "strict"}
    if unknown:
        raise AwesumError(f"unknown {', '.join(sorted(unknown))[:100]}: a summary has length, query, style and strict")
    query = optional_text(given, "query")
    if query is not None and len(query) > LONGEST_QUERY:
        raise AwesumError(f"the question has more than {LONGEST_QUERY:,} characters: ask a shorter one")
    style: Any = optional_text(given, "style")
    strict = given.get("strict", False)
    return Settings(length=given.get("length"), query=(query and query.strip()) or None, style=style, strict=strict)


def to_spans(given: Any, characters: int) -> list[tuple[int, int]]:
    """Spans of a text with this many characters."""
    if not isinstance(given, list) or len(given) > MOST_SPANS:
        raise AwesumError(f"spans has to be a list of at most {MOST_SPANS:,} pairs: see /api")
    spans: list[tuple[int, int]] = []
    for span in given:
        is_pair = isinstance(span, list) and len(span) == 2 and all(type(edge) is int for edge in span)
        if not is_pair or not 0 <= span[0] <= span[1] <= characters:
            raise AwesumError("a span has to be two character positions of the text: see /api")
        spans.append((span[0], span[1]))
    return spans


def wants_events(request: Request) -> bool:
    """Whether the answer is to be a stream of events."""
    return "text/event-stream" in request.headers.get("accept", "")
