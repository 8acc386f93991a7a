"""What a hostile page, file or client does to the server: refused or contained, and the server goes on."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from awesum.errors import AwesumError
from awesum.reading.limits import ReadLimits
from awesum.web import connections, requests
from awesum.web.api import Rules
from awesum.web.guard import Address
from awesum.web.server import Serving, check
from awesum.web.store import to_name
from tests.conftest import topical_text
from tests.reading.pdf_writer import write_pdf
from tests.web.conftest import TOKEN, Client

OCTETS = {"Content-Type": "application/octet-stream"}


@pytest.fixture(autouse=True)
def goes_on(client: Client) -> Any:
    """After every attack the server answers."""
    yield
    assert client.get("/api/status").status == 200


def raw(client: Client, request: bytes, seconds: float = 10) -> bytes:
    """The answer to whatever bytes."""
    with socket.create_connection(("127.0.0.1", client.port), timeout=seconds) as connection:
        connection.sendall(request)
        answer = b""
        try:
            while chunk := connection.recv(65536):
                answer += chunk
        except (TimeoutError, ConnectionError):
            pass
        return answer


# Other web sites


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil.example:{port}",
     "localhost.evil.example:{port}", "evil.example:{port}@127.0.0.1:{port}", "[::2]:{port}", "2130706433:{port}",
     "127.0.0.1:{port}:80", "", "127.0.0.1:{port}, evil.example", "192.168.1.7:{port}", "0.0.0.0:{port}"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/api/status", "/nowhere"])
def test_foreign_host_is_refused_before_routing(client: Client, host: str, path: str) -> None:
    named = host.format(port=client.port)
    request = f"GET {path} HTTP/1.1\r\nHost: {named}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
    assert raw(client, request.encode()).split(b"\r\n")[0].split(b" ")[1] in (b"421", b"400")


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_own_names_are_let_in(client: Client, name: str) -> None:
    assert client.get("/api/status", headers={"Host": f"{name}:{client.port}"}).status == 200


def test_two_hosts_are_none(client: Client) -> None:
    request = f"GET / HTTP/1.1\r\nHost: {client.host}\r\nHost: evil.example\r\n\r\n"
    assert b" 400 " in raw(client, request.encode()) or b" 421 " in raw(client, request.encode())


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1", "http://127.0.0.1:1", "file://",
     "http://localhost:{port}", "http://127.0.0.1:{port}.evil.example", ""],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/api/status"])
def test_foreign_origin_is_refused_even_with_the_token(client: Client, origin: str, path: str) -> None:
    answer = client.get(path, headers={"Origin": origin.format(port=client.port)})
    assert answer.status == 403
    assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_own_origin_is_let_in_but_allows_no_other(client: Client) -> None:
    answer = client.get("/api/status", headers={"Origin": f"http://{client.host}"})
    assert answer.status == 200
    assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_preflight_is_refused(client: Client) -> None:
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    assert client.send("OPTIONS", "/api/documents", headers=headers, token=None).status == 403


# The token


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer \xff"],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/api/status"), ("GET", "/api/documents"), ("POST", "/api/documents"), ("DELETE", "/api/history"),
     ("GET", "/api/summaries/x/events"), ("GET", "/nowhere"), ("POST", "/")],
)  # fmt: skip
def test_nothing_without_the_token(client: Client, header: str | None, method: str, path: str) -> None:
    headers = {} if header is None else {"Authorization": header}
    assert client.send(method, path, headers=headers, token=None).status == 401


def test_token_in_the_query_does_not_count(client: Client) -> None:
    assert client.get(f"/api/status?token={TOKEN}", token=None).status == 401


def test_only_the_empty_page_is_open(client: Client) -> None:
    for path in client.server._api.open_paths():
        if path.endswith("api.html") or path.endswith("index.html"):
            continue
        answer = client.get(path, token=None)
        assert answer.status == 200, path
        assert TOKEN.encode() not in answer.body


def test_page_may_load_nothing_but_itself(client: Client) -> None:
    answer = client.get("/", token=None)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    for name in (path for path in client.server._api.open_paths() if path.endswith((".js", ".css"))):
        assert b"http://" not in client.get(name, token=None).body.replace(b"http://www.w3.org", b"")
        assert b"https://" not in client.get(name, token=None).body
        assert b"innerHTML" not in client.get(name, token=None).body


# Names and content


@pytest.mark.parametrize(
    "name",
    ["../../../etc/passwd", "..\\..\\boot.ini", "/etc/passwd", "a/../../b.txt", "\x00evil.txt", "con\r\nX-Evil: 1.txt",
     "<img src=x onerror=alert(1)>.txt", "a" * 5000 + ".txt", "‮txt.exe", "", ".", "..", "\ud83d\ude00.txt"],
)  # fmt: skip
def test_names_are_only_ever_shown(client: Client, name: str, tmp_path: Path) -> None:
    before = set(client.server._store.folder.rglob("*"))
    record = client.upload(topical_text(8).encode(), name.encode("utf-16", "surrogatepass").decode("utf-16"))
    new = set(client.server._store.folder.rglob("*")) - before
    assert {path.name for path in new} == {record["id"], "document.json", "record.json"}
    assert len(record["name"]) <= 200
    assert record["name"]
    assert not set("/\\\r\n\x00\u202e") & set(record["name"])
    done = client.summarize(record["id"], style="extract", length="1s")
    answer = client.get(f"/api/summaries/{done['id']}/export?format=html")
    assert b"<img" not in answer.body
    assert "x-evil" not in answer.headers
    assert answer.headers["content-disposition"].isascii()


def test_name_is_the_last_piece_of_a_path() -> None:
    assert to_name("C:\\Users\\me\\report.pdf") == "report.pdf"
    assert to_name("/home/me/report.pdf") == "report.pdf"
    assert to_name("///") == "document"


@pytest.mark.parametrize(
    "path",
    ["/../../../etc/passwd", "/..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/page/../api.py",
     "/api/documents/../../etc/passwd", "/api/documents/%2e%2e%2f%2e%2e/text", "/api/documents/..%00/text"],
)  # fmt: skip
def test_paths_lead_nowhere_else(client: Client, path: str) -> None:
    request = (
        f"GET {path} HTTP/1.1\r\nHost: {client.host}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
    )
    answer = raw(client, request.encode())
    assert b" 404 " in answer.split(b"\r\n")[0]
    assert b"root:" not in answer


def test_markup_in_a_document_stays_text(client: Client) -> None:
    hostile = "The <script>alert(1)</script> report cost 7 dollars. <img src=x onerror=alert(2)> Another one came. " * 4
    record = client.upload(hostile.encode(), "a.txt")
    text = client.get(f"/api/documents/{record['id']}/text")
    assert text.headers["content-type"].startswith("text/plain")
    assert "sandbox" in text.headers["content-security-policy"]
    done = client.summarize(record["id"], style="extract", length="2s")
    page = client.get(f"/api/summaries/{done['id']}/export?format=html").body
    assert b"<script>alert" not in page
    assert b"<img" not in page


def test_headers_cannot_be_smuggled(client: Client) -> None:
    """Two lengths, or a length and chunks, would let a second request hide in the body of the first."""
    hidden = b"GET /api/status HTTP/1.1\r\nHost: evil\r\n\r\n"
    for lengths in ("Content-Length: 4\r\nContent-Length: 40", "Content-Length: abc", "Content-Length: -1"):
        request = f"POST /api/documents HTTP/1.1\r\nHost: {client.host}\r\n{lengths}\r\n\r\n".encode() + hidden
        assert b" 400 " in raw(client, request).split(b"\r\n")[0]


# Too much


def test_upload_that_says_it_is_ten_gigabytes_is_refused_at_once(client: Client) -> None:
    request = (
        f"POST /api/documents?name=big HTTP/1.1\r\nHost: {client.host}\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Type: application/octet-stream\r\nContent-Length: 10000000000\r\n\r\n"
    )
    answer = raw(client, request.encode())
    assert b" 413 " in answer.split(b"\r\n")[0]


def test_upload_without_an_end_is_cut_off_at_the_limit(client: Client) -> None:
    folder = client.server._store.folder / "documents"
    before = set(folder.iterdir())
    sent = 0
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as connection:
        connection.sendall(
            f"POST /api/documents HTTP/1.1\r\nHost: {client.host}\r\nAuthorization: Bearer {TOKEN}\r\n"
            "Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        try:
            while sent < 100_000_000:
                connection.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
                sent += 0x10000
        except ConnectionError:
            pass
    assert sent < 20_000_000
    time.sleep(0.5)
    assert set(folder.iterdir()) == before


@pytest.mark.parametrize(
    "head",
    [b"GET /" + b"a" * 200_000, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 50_000, b"\x16\x03\x01" * 100, b"\x00" * 1000],
)
def test_endless_and_senseless_headers_are_refused(client: Client, head: bytes) -> None:
    answer = raw(client, head)
    assert not answer or b" 400 " in answer.split(b"\r\n")[0]


def test_slow_requests_are_given_up(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADERS_WITHIN", 0.5)
    slow = [socket.create_connection(("127.0.0.1", client.port), timeout=10) for _ in range(20)]
    started = time.monotonic()
    for connection in slow:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
    for connection in slow:
        with contextlib.suppress(ConnectionError):
            assert connection.recv(100) == b""
        connection.close()
    assert time.monotonic() - started < 8


def test_slow_request_after_a_complete_one_is_given_up(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADERS_WITHIN", 0.5)
    with socket.create_connection(("127.0.0.1", client.port), timeout=10) as connection:
        connection.sendall(f"GET / HTTP/1.1\r\nHost: {client.host}\r\n\r\n".encode())
        time.sleep(0.3)
        assert connection.recv(1_000_000).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET / HTT")
        time.sleep(1)
        try:
            while left := connection.recv(1_000_000):
                assert left
        except ConnectionError:
            pass


def test_upload_that_drips_is_given_up(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "SILENCE", 0.5)
    request = (
        f"POST /api/documents HTTP/1.1\r\nHost: {client.host}\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Type: application/octet-stream\r\nContent-Length: 1000\r\n\r\nx"
    )
    assert b" 408 " in raw(client, request.encode()).split(b"\r\n")[0]


def test_a_thousand_connections_do_not_keep_others_out(client: Client) -> None:
    held: list[socket.socket] = []
    try:
        for _ in range(1000):
            try:
                held.append(socket.create_connection(("127.0.0.1", client.port), timeout=5))
            except OSError:
                break
        assert len(held) > 200
        started = time.monotonic()
        assert client.get("/api/status").status == 200
        assert time.monotonic() - started < 5
    finally:
        for connection in held:
            connection.close()


def test_reader_that_stops_reading_holds_up_nobody(client: Client, report: dict[str, Any]) -> None:
    with socket.create_connection(("127.0.0.1", client.port)) as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        body = f'{{"document": "{report["id"]}", "style": "extract", "length": "50%"}}'
        stuck.sendall(
            f"POST /api/summaries HTTP/1.1\r\nHost: {client.host}\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Accept: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        assert client.summarize(report["id"], style="extract", length="50%")["state"] == "done"


# Hostile files


def test_hostile_pdfs_are_contained(client: Client) -> None:
    nested = write_pdf([["A page with a text of some length on it."]]).replace(
        b"/Font <<", b"/XObject << /X 5 0 R >> /Font <<"
    )
    huge = write_pdf([["A page with a text of some length on it."]]).replace(b"[0 0 595 842]", b"[0 0 9e8 9e8]")
    cut = write_pdf([["A page with a text of some length on it."]])[:-200]
    for content in (nested, huge, cut, b"%PDF-1.7\n" + os.urandom(5000), b"%PDF-" + b"<<" * 50_000):
        answer = client.send("POST", "/api/documents?name=bad.pdf", content, OCTETS)
        assert answer.status in (201, 422)
        if answer.status == 201 and answer.json["page_sizes"]:
            image = client.get(f"/api/documents/{answer.json['id']}/pages/1?width=99999")
            assert image.status in (200, 422)
            assert len(image.body) < 20_000_000


def test_reader_that_is_killed_while_drawing_is_one_error(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from awesum.reading import process

    record = client.upload(write_pdf([["A page with a text of some length on it."]]), "a.pdf")
    process.close()
    with monkeypatch.context() as patched:
        patched.setattr(process, "_PROGRAM", "import os; os.kill(os.getpid(), 9)")
        answer = client.get(f"/api/documents/{record['id']}/pages/1")
    assert answer.status == 422
    assert "crash" in answer.json["error"]
    assert client.get(f"/api/documents/{record['id']}/pages/1").status == 200


def test_server_that_may_fetch_addresses_fetches_no_private_one(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    monkeypatch.setattr(client.server._api, "rules", replace(client.server._api.rules, allow_urls=True))
    for address in (f"http://{client.host}/api/status", "http://169.254.169.254/latest", "file:///etc/passwd"):
        answer = client.send("POST", "/api/documents", {"url": address})
        assert answer.status == 422
        assert "public internet" in answer.json["error"] or "not an http" in answer.json["error"]


# How it is started


def refused(**changes: Any) -> str:
    wanted = {"host": "127.0.0.1", "port": 0, "token": None, "folder": None, "max_memory": None}
    with pytest.raises(AwesumError) as error:
        check(Serving(**wanted | changes, rules=Rules(1, ReadLimits())))
    return str(error.value)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org", "127.0.0.1.example.org"])
def test_other_hosts_need_a_token(host: str) -> None:
    assert "--token" in refused(host=host)


def test_short_tokens_are_refused() -> None:
    assert "guess" in refused(token="secret")
    assert "guess" in refused(token="sixteen letters!")


def test_port_out_of_range_is_refused() -> None:
    assert "65535" in refused(port=70_000)


@pytest.mark.parametrize(
    ("host", "authority", "is_ours"),
    [
        ("127.0.0.1", "localhost:80", True),
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "evil.example:80", False),
        ("0.0.0.0", "192.168.1.7:80", True),
        ("0.0.0.0", "[fe80::1]:80", True),
        ("0.0.0.0", "evil.example:80", False),
        ("192.168.1.7", "192.168.1.7:80", True),
        ("192.168.1.7", "192.168.1.8:80", False),
        ("printer.local", "printer.local:80", True),
        ("127.0.0.1", "localhost:080x", False),
        ("127.0.0.1", "[::1", False),
    ],
)
def test_names_of_a_server(host: str, authority: str, is_ours: bool) -> None:
    assert Address(host, 80).is_ours(authority) is is_ours


def test_port_that_is_taken_is_one_line(client: Client, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "awesum", "serve", "--port", str(client.port), "--folder", str(tmp_path / "other")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert f"port {client.port}" in line
