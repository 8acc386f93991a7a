"""A server with tiny models on a free port of this machine, and a client that speaks plain HTTP."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from awesum import Summarizer
from awesum.analysis.analysis import Analyst
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.models.causal import ChatModel
from awesum.reading.limits import ReadLimits
from awesum.systems.chat import Chat
from awesum.web.api import Rules
from awesum.web.server import Server, Serving
from tests.conftest import topical_text

TOKEN = "a-token-for-tests-only"


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """Talks to the server; `token=None` leaves the token out."""

    port: int
    server: Server

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def send(
        self,
        method: str,
        path: str,
        body: bytes | dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        token: str | None = TOKEN,
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            self._request(connection, method, path, body, headers, token)
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, names, answer.read())
        finally:
            connection.close()

    def _request(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | dict[str, Any] | None,
        headers: dict[str, str] | None,
        token: str | None,
    ) -> None:
        given = dict(headers or {})
        if token is not None:
            given.setdefault("Authorization", f"Bearer {token}")
        if isinstance(body, dict):
            body = json.dumps(body).encode()
            given.setdefault("Content-Type", "application/json")
        connection.request(method, path, body, given)

    def get(self, path: str, **more: Any) -> Answer:
        return self.send("GET", path, **more)

    def upload(self, content: bytes, name: str = "report.txt") -> dict[str, Any]:
        from urllib.parse import quote

        octets = {"Content-Type": "application/octet-stream"}
        answer = self.send("POST", f"/api/documents?name={quote(name)}", content, octets)
        assert answer.status == 201, answer.body
        return dict(answer.json)

    @contextmanager
    def events(
        self, path: str, body: dict[str, Any] | None = None, after: int | None = None
    ) -> Iterator[Iterator[tuple[str, Any, str | None]]]:
        """Server-sent events; leaving the block closes the connection, as closing the page does."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        self._request(connection, "GET" if body is None else "POST", path, body, headers, TOKEN)
        held = connection.sock
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        try:
            yield _events(answer)
        finally:
            held.shutdown(socket.SHUT_RDWR)
            connection.close()

    def summarize(self, document: str, **wanted: Any) -> dict[str, Any]:
        """A whole summary, as the last event tells it."""
        with self.events("/api/summaries", {"document": document, **wanted}) as events:
            *_, (name, data, _) = events
        assert name == "done", data
        return dict(data)

    def wait(self, path: str, is_enough: Callable[[Any], bool], seconds: float = 60) -> Any:
        """Ask again until the answer is what it should be."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.get(path).json
            if is_enough(found):
                return found
            assert time.monotonic() < deadline, found
            time.sleep(0.05)


def _events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, Any, str | None]]:
    fields: dict[str, str] = {}
    while line := answer.readline():
        text = line.decode().rstrip("\n")
        if text:
            name, _, value = text.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield fields["event"], json.loads(fields["data"]), fields.get("id")
            fields = {}


def tiny_summarizer(encoder: SentenceEncoder, chat: ChatModel) -> Summarizer:
    return Summarizer(system=Chat(writer=chat, analyst=Analyst(encoder, Centrality())))


@contextmanager
def serving(summarizer: Summarizer, folder: Path | None, **changes: Any) -> Iterator[Client]:
    """A server in a thread of this process."""
    wanted = Serving("127.0.0.1", 0, TOKEN, folder, None, Rules(2_000_000, ReadLimits()))
    told: list[str] = []
    ready = threading.Event()

    def started(address: str) -> None:
        told.append(address)
        ready.set()

    server = Server(replace(wanted, **changes), summarizer, started)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert ready.wait(60)
        yield Client(int(told[0].split(":")[2].split("/")[0]), server)
    finally:
        server.stop()
        thread.join(60)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def client(
    tmp_path_factory: pytest.TempPathFactory, tiny_encoder: SentenceEncoder, tiny_chat: ChatModel
) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("served") / "history"
    with serving(tiny_summarizer(tiny_encoder, tiny_chat), folder) as found:
        yield found


@pytest.fixture(scope="module")
def report(client: Client) -> dict[str, Any]:
    """A document of several segments that the server has read."""
    return client.upload(topical_text(100).encode())
