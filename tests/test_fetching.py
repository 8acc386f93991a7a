"""Fetching a model: its size first, its hash after, resumed where it broke off, offline from then on."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from benchmarks.tiny_models import tiny_llama
from transformers import PreTrainedTokenizerFast

from awesum import catalogue, fetching
from awesum.catalogue import KNOWN, all_fetched, models_folder, resolve
from awesum.cli import main
from awesum.errors import AwesumError
from awesum.systems import registry
from tests.engine.tiny_gguf import write_gguf

COMMIT = "c0ffee" * 6 + "c0ff"


class Hub(ThreadingHTTPServer):
    """A hub on loopback with one repository."""

    daemon_threads = True

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.breaks_after: int | None = None
        self.seen: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._give(body=False)

    def do_GET(self) -> None:
        self._give(body=True)

    def _give(self, body: bool) -> None:
        self.server.seen.append(f"{self.command} {self.path} {self.headers.get('Range', '')}".strip())
        if self.path.startswith(f"/api/models/org/model/tree/{COMMIT}"):
            tree = [
                {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for name, data in self.server.files.items()
            ]
            self._send(json.dumps(tree).encode(), body)
            return
        if self.path.startswith("/api/models/org/model"):
            listed = [{"rfilename": name, "size": len(data)} for name, data in self.server.files.items()]
            self._send(json.dumps({"id": "org/model", "sha": COMMIT, "siblings": listed}).encode(), body)
            return
        data = self.server.files.get(self.path.split("/")[-1])
        if data is None or not self.path.startswith("/org/model/resolve/"):
            self.send_error(404)
            return
        start = int(self.headers.get("Range", "bytes=0-")[6:].split("-")[0])
        self._send(data, body, start)

    def _send(self, data: bytes, body: bool, start: int = 0) -> None:
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("X-Linked-Etag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.end_headers()
        if body:
            end = len(data) if self.server.breaks_after is None else min(start + self.server.breaks_after, len(data))
            self.wfile.write(data[start:end])


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: PreTrainedTokenizerFast) -> bytes:
    path = write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", tiny_llama(tiny_tokenizer), tiny_tokenizer)
    return path.read_bytes()


@pytest.fixture
def hub(gguf: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    server = Hub({"tiny.gguf": gguf})
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", server.address)
    monkeypatch.setenv("AWESUM_CACHE", str(tmp_path / "cache"))
    yield server
    server.shutdown()
    server.server_close()


def fetch(wanted: str, *, dry_run: bool = False) -> tuple[Path | None, list[str]]:
    lines: list[str] = []
    return fetching.fetch(wanted, lines.append, lambda *args: None, dry_run=dry_run), lines


def test_size_is_said_before_anything_is_fetched(hub: Hub, gguf: bytes) -> None:
    path, [line] = fetch("org/model/tiny.gguf", dry_run=True)
    assert path is None
    assert line.startswith(f"will fetch tiny: {len(gguf) / 1e6:.0f} MB from 127.0.0.1 at revision {COMMIT[:12]} to ")
    assert not any(each.startswith("GET") for each in hub.seen)
    assert not models_folder().exists()


def test_file_is_fetched_checked_and_found_by_its_name(hub: Hub, gguf: bytes) -> None:
    path, _ = fetch("org/model/tiny.gguf")
    assert path is not None
    assert path.read_bytes() == gguf
    assert resolve("tiny") == str(path)
    assert registry.of_model("tiny").name == "gguf"
    record = all_fetched()["tiny"]
    assert record["sha256"] == hashlib.sha256(gguf).hexdigest()
    assert record["revision"] == COMMIT
    seen = len(hub.seen)
    assert fetch("org/model/tiny.gguf")[0] == path
    assert len(hub.seen) == seen, "what is there is not asked for again"


def test_interrupted_download_is_resumed(hub: Hub, gguf: bytes) -> None:
    hub.breaks_after = len(gguf) // 3
    for _ in range(2):
        with pytest.raises(AwesumError, match="run the same command again, which resumes"):
            fetch("org/model/tiny.gguf")
        assert resolve("tiny") == "tiny"
    hub.breaks_after = None
    path, _ = fetch("org/model/tiny.gguf")
    assert path is not None
    assert path.read_bytes() == gguf
    ranges = [each.split()[-1] for each in hub.seen if each.startswith("GET")]
    assert ranges[1] == f"bytes={len(gguf) // 3}-"


def test_file_with_another_hash_is_refused_and_deleted(hub: Hub, gguf: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = replace(KNOWN[0], name="mine", repository="org/model", file="tiny.gguf", size=len(gguf), sha256="0" * 64)
    monkeypatch.setattr(catalogue, "KNOWN", (listed,))
    with pytest.raises(AwesumError, match=r"is not mine \(its hash differs\) and was deleted"):
        fetch("mine")
    assert [*models_folder().iterdir()] == []
    monkeypatch.setattr(catalogue, "KNOWN", (replace(listed, size=7),))
    with pytest.raises(AwesumError, match="it is another file"):
        fetch("mine")


def test_file_that_is_no_chat_model_is_refused_and_deleted(hub: Hub) -> None:
    hub.files["x.gguf"] = b"GGUF and then nothing"
    with pytest.raises(AwesumError, match="x is truncated or damaged"):
        fetch("org/model/x.gguf")
    assert [*models_folder().iterdir()] == []


def test_address_of_a_file(hub: Hub) -> None:
    path, _ = fetch(f"{hub.address}/org/model/resolve/main/tiny.gguf")
    assert path is not None
    with pytest.raises(AwesumError, match="does not end in the name of a GGUF file"):
        fetch(f"{hub.address}/org/model")


def test_what_cannot_be_fetched(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AwesumError, match=r"404: it is not there"):
        fetch("org/model/nowhere.gguf")
    with pytest.raises(AwesumError, match=r"there is no model 'nonsense' to fetch: choose qwen2\.5-1.5b, qwen3-4b"):
        fetch("nonsense")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(AwesumError, match=r"cannot fetch tiny from 127\.0\.0\.1 .*check the connection"):
        fetch("org/model/tiny.gguf")


def test_full_disk_is_refused_before_the_download(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = fetching.shutil.disk_usage("/")
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(AwesumError, match=r"free and .* are needed: make room, or set AWESUM_CACHE"):
        fetch("org/model/tiny.gguf")
    assert not any(each.startswith("GET") for each in hub.seen)


def test_folder_on_the_hub_works_offline_from_then_on(hub: Hub, tiny_folder: Path, tmp_path: Path) -> None:
    """In a process of its own: here the library was told to stay offline when it was imported."""
    hub.files = {file.name: file.read_bytes() for file in tiny_folder.iterdir()}
    hub.files["pickle.bin"] = b"never fetched"
    environment = {**os.environ, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-m", "awesum", "setup", "org/model"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"at revision {COMMIT[:12]}" in done.stderr
    folder = Path(resolve("org/model"))
    assert folder.is_relative_to(models_folder())
    assert not (folder / "pickle.bin").exists()
    assert registry.of_model("org/model").name == "chat"


def test_models_are_listed_without_a_connection(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    fetch("org/model/tiny.gguf")
    seen = len(hub.seen)
    assert main(["models"]) == 0
    text = capsys.readouterr().out
    for model in KNOWN:
        assert f"awesum setup {model.name}" in text
    assert "tiny" in text
    assert "not measured here" in text
    assert main(["models", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["ram"] for row in rows} >= {4, 8, 16, 32}
    assert all(row["size"] > 0 for row in rows)
    assert len(hub.seen) == seen


def test_setup_of_a_model_prints_where_it_is(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", "org/model/tiny.gguf"]) == 0
    captured = capsys.readouterr()
    assert captured.out.strip() == resolve("tiny")
    assert captured.err.startswith("awesum: will fetch tiny: ")
