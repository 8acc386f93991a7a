"""Server-sent events: what is written is sent as it comes, until either side has gone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

BEAT = 15.0
"""Seconds after which something is sent to those who wait for the next part, so that nobody takes it for dead."""


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
