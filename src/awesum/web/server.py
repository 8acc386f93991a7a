"""Open the port and serve until somebody asks to stop."""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import uvicorn
from starlette.applications import Starlette

from awesum.errors import AwesumError
from awesum.reading import process
from awesum.summarizer import Summarizer
from awesum.web.api import DRAWING, READING, Api, Rules
from awesum.web.connections import PatientProtocol
from awesum.web.guard import Address, Guard
from awesum.web.jobs import Jobs
from awesum.web.store import Store

SHORTEST_TOKEN = 16
"""Characters of a token that a user gives: a shorter one can be guessed."""


@dataclass(frozen=True)
class Serving:
    """What `awesum serve` was asked to do."""

    host: str
    port: int
    token: str | None
    folder: Path | None
    """Where the history is kept; none keeps nothing."""
    max_memory: str | None
    rules: Rules


def check(serving: Serving) -> None:
    """Refuse what would not be safe, before anything is loaded."""
    if serving.token is not None and (len(serving.token) < SHORTEST_TOKEN or not _is_plain(serving.token)):
        raise AwesumError(f"the --token is too easy to guess: give at least {SHORTEST_TOKEN} letters and digits")
    if not Address(serving.host, serving.port).is_loopback and serving.token is None:
        raise AwesumError(
            f"--host {serving.host} would let other machines in: give a --token of your own as well, "
            "or leave out --host"
        )
    if not 0 <= serving.port <= 65535:
        raise AwesumError(f"--port {serving.port} is not a port: give a number from 1 to 65535, or 0 for any free one")


def _is_plain(token: str) -> bool:
    return token.isascii() and token.isprintable() and " " not in token


class Server:
    """A server with its open port. `run` blocks until `stop` is called, or somebody interrupts it."""

    def __init__(self, serving: Serving, summarizer: Summarizer, started: Callable[[str], object]) -> None:
        check(serving)
        self._listening = listen(serving.host, serving.port)
        try:
            self._store = Store.open(serving.folder) if serving.folder else Store.temporary()
        except AwesumError:
            self._listening.close()
            raise
        address = Address(serving.host, self._listening.getsockname()[1])
        token = serving.token or secrets.token_urlsafe(24)
        self.jobs = Jobs(summarizer, self._store, serving.max_memory)
        self._api = Api(self._store, self.jobs, serving.rules)
        inner = self._api.app()

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            self.jobs.start(asyncio.get_running_loop())
            started(f"{address.url}/#token={quote(token, safe='')}")
            yield

        inner.router.lifespan_context = lifespan
        config = uvicorn.Config(
            Guard(inner, address, token, self._api.open_paths()),
            http=PatientProtocol,
            ws="none",
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)

    def run(self) -> None:
        """Serve."""
        _allow_many_files()
        process.keep(READING + DRAWING)
        try:
            self._server.run(sockets=[self._listening])
        finally:
            self.jobs.close()
            self._api.close()
            self._store.close()
            self._listening.close()

    def stop(self) -> None:
        """End soon; from any thread."""
        self._server.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """The open port, or the reason why there is none in one line."""
    try:
        family, kind, number, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise AwesumError(f"there is no address {host!r} ({reason}): leave out --host") from error
    listening = socket.socket(family, kind, number)
    if sys.platform != "win32":
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(place)
        listening.listen(256)
    except OSError as error:
        listening.close()
        raise AwesumError(
            f"cannot listen on {host} port {port} ({error.strerror or error}): give another --port, or 0 for a free one"
        ) from error
    listening.setblocking(False)
    return listening


def _allow_many_files() -> None:
    """Connections are files, too, and some systems allow few by default."""
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
        if soft < wanted:
            with suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
