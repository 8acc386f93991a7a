"""A server on loopback that speaks chat completions, and misbehaves where it is told to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[str], str]


def echo(message: str) -> str:
    """The sentences that are to be paraphrased, word for word: what a model that writes nothing of its own would do."""
    return message.rpartition("paragraph")[2].partition(":")[2].strip()


class ChatServer(ThreadingHTTPServer):
    """Answers as `answer` says. `trouble` is taken from for each request; an empty one is no trouble."""

    daemon_threads = True

    def __init__(self, answer: Answer = echo) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.models: Any = [{"id": "tiny", "object": "model"}]
        self.trouble: list[str] = []
        self.always = ""
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.together = self.most_together = 0
        self.pause = 0.0
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def next_trouble(self) -> str:
        with self.lock:
            return self.trouble.pop(0) if self.trouble else self.always


@contextmanager
def serving(answer: Answer = echo) -> Iterator[ChatServer]:
    server = ChatServer(answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: ChatServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _json(self, value: Any, status: int = 200, **headers: str) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.server.headers.append(dict(self.headers))
        if self.path == "/v1/models" and self.server.models is not None:
            models = self.server.models
            self._json(models if isinstance(models, bytes) else {"object": "list", "data": models})
        else:
            self._json({"error": {"message": "no such page"}}, 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            server.requests.append(body)
            server.headers.append(dict(self.headers))
            server.together += 1
            server.most_together = max(server.most_together, server.together)
        try:
            self._answer(body, server.next_trouble())
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            with server.lock:
                server.together -= 1

    def _answer(self, body: dict[str, Any], trouble: str) -> None:
        time.sleep(self.server.pause)
        if trouble.isdigit():
            self._json({"error": {"message": "trouble"}}, int(trouble))
            return
        if trouble == "busy":
            self._json({"error": {"message": "slow down"}}, 429, Retry_After="0")
            return
        if trouble == "context":
            message = "request (900 tokens) exceeds the available context size (256 tokens), try increasing it"
            self._json({"error": {"code": 400, "message": message, "type": "exceed_context_size_error"}}, 400)
            return
        if trouble == "strict" and "chat_template_kwargs" in body:
            self._json({"error": {"message": "Unrecognized request argument: chat_template_kwargs"}}, 400)
            return
        if trouble == "elsewhere":
            self._json({}, 307, Location="http://192.0.2.1/v1/chat/completions")
            return
        if trouble == "hang up":
            self.close_connection = True
            return
        if trouble == "never":
            time.sleep(3)
            self.close_connection = True
            return
        if trouble == "page":
            self._json(b"<html><body>Welcome</body></html>")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        if trouble == "nonsense":
            self._write("data: {nonsense\n\n")
            return
        if trouble == "pings":
            for _ in range(30):
                self._write(": ping\n\n")
                time.sleep(0.1)
            return
        text = self.server.answer(body["messages"][-1]["content"])
        if trouble == "thinks" and body["max_tokens"] < 2000:
            self._event({"reasoning": "hm " * 20})
            self._event({}, "length")
            self._write("data: [DONE]\n\n")
            return
        if trouble == "aloud":
            text = f"<think>First, this. Then, that. It is enough.</think>\n{text}"
        words = text.split(" ")
        for number, word in enumerate(words):
            if trouble == "half" and number > len(words) // 2:
                return
            self._event({"content": word if number == 0 else f" {word}"})
        self._event({}, "stop")
        self._write("data: [DONE]\n\n")

    def _event(self, delta: dict[str, Any], reason: str | None = None) -> None:
        self._write(f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta, 'finish_reason': reason}]})}\n\n")

    def _write(self, text: str) -> None:
        self.wfile.write(text.encode())
        self.wfile.flush()
