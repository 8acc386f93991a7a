"""Connections that do not hold up others: a request has to arrive in time, and there is room for the next."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_WITHIN = 10.0
"""Seconds for the headers of a request, from its first byte, or from the connection if it is the first."""
MOST = 256
"""Connections at the same time. A new one takes the place of the oldest that has nothing to do."""


class PatientProtocol(H11Protocol):
    """uvicorn's protocol, which by itself would wait for the end of a request for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to count."""
        super().connection_made(transport)
        self._since = time.monotonic()
        self._deadline: asyncio.TimerHandle | None = None
        if len(self.connections) > MOST and not self._make_room():
            transport.abort()
            return
        self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        """A new request may have begun; it has to end in time."""
        if self._is_idle and self._deadline is None:
            self._wait_for_request()
        super().data_received(data)
        if not self._is_idle:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def _is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _make_room(self) -> bool:
        idle = [each for each in self.connections if isinstance(each, PatientProtocol) and each is not self]
        idle = [each for each in idle if each._is_idle]
        if not idle:
            return False
        min(idle, key=_since).transport.abort()
        return True

    def _wait_for_request(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(HEADERS_WITHIN, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if self._is_idle:
            self.transport.abort()


def _since(protocol: Any) -> float:
    since: float = protocol._since
    return since
