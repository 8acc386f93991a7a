"""Fetching from a test server on 127.0.0.1: limits hold, and redirects reach no private host but the user's own."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from awesum.errors import AwesumError
from awesum.reading import read, web
from awesum.reading.web import Limits, fetch

PAGE = (
    "<html><body><article>"
    + "<p>A paragraph about rivers and bridges, and boats.</p>" * 20
    + "</article></body></html>"
)


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def answer(self, data: bytes, content_type: str = "text/plain", **headers: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def redirect(self, location: str) -> None:
        self.send_response(302)
        self.send_header("Location", location)
        self.end_headers()

    def drip(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.wfile.write(b"X")
            self.wfile.flush()
            time.sleep(0.05)

    def do_GET(self) -> None:
        try:
            self.route()
        except OSError:  # the client hung up, as it should
            self.server.hung_up.set()  # type: ignore[attr-defined]

    def route(self) -> None:
        port = self.server.server_address[1]
        match self.path:
            case "/page":
                self.answer(PAGE.encode(), "text/html; charset=utf-8")
            case "/latin":
                self.answer("Größe".encode("latin-1"), "text/plain; charset=iso-8859-1")
            case "/plain":
                self.answer(b"<html> is how a page begins.")
            case "/here":
                self.redirect("/latin")
            case "/loop":
                self.redirect("/loop")
            case "/private":
                self.redirect(f"http://localhost:{port}/page")
            case "/metadata":
                self.redirect("http://169.254.169.254/latest")
            case "/file":
                self.redirect("file:///etc/passwd")
            case "/endless":
                self.answer(b"")
                for _ in range(10_000):
                    self.wfile.write(b"x" * 1000)
            case "/slow":
                self.answer(b"")
                self.drip(5)
            case "/slow-headers":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                self.drip(5)
            case "/silent":
                time.sleep(2)
            case "/bomb":
                self.answer(gzip.compress(b"\n" * 5_000_000), Content_Encoding="gzip")
            case "/bad-gzip":
                self.answer(b"this is no gzip", Content_Encoding="gzip")
            case "/layers":
                self.answer(gzip.compress(gzip.compress(b"hello")), Content_Encoding="gzip, gzip")
            case _:
                self.send_error(404)


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadingHTTPServer]:
    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.hung_up = threading.Event()  # type: ignore[attr-defined]
    running.daemon_threads = True
    threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield running
    running.shutdown()
    running.server_close()


@pytest.fixture
def site(server: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


def test_document_keeps_the_url_the_user_gave(site: str) -> None:
    document = read(f"{site}/page")
    assert document.path == f"{site}/page"
    assert document.text.startswith("A paragraph about rivers")


def test_declared_charset_is_used_and_content_type_decides(site: str) -> None:
    assert read(f"{site}/latin").text == "Größe"
    assert read(f"{site}/plain").text == "<html> is how a page begins."


def test_redirect_within_the_users_host_is_followed_even_if_it_is_private(site: str) -> None:
    assert read(f"{site}/here").text == "Größe"


@pytest.mark.parametrize("path", ["/private", "/metadata"])
def test_redirect_to_a_private_address_is_refused(site: str, path: str) -> None:
    with pytest.raises(AwesumError, match="not on the public internet"):
        fetch(site + path)


def test_second_dns_answer_is_checked_too(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The first lookup is public; the connection then goes to 127.0.0.1 anyway.
    monkeypatch.setattr(web, "_require_public_host", lambda *_: None)
    with pytest.raises(AwesumError, match=r"localhost \((127\.0\.0\.1|::1)\), which is not on the public internet"):
        fetch(f"{site}/private")


@pytest.mark.parametrize(
    ("peer", "public"),
    [
        ("93.184.216.34", True),
        ("2606:4700::1", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("2002:7f00:1::", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::5db8:d822", True),
    ],
)
def test_public_addresses_are_distinguished_from_private_ones(peer: str, public: bool) -> None:
    assert web._is_public(peer) is public


def test_redirect_loop_ends(site: str) -> None:
    with pytest.raises(AwesumError, match=r"redirects more than 5 times"):
        fetch(f"{site}/loop")


def test_error_status_is_named(site: str) -> None:
    with pytest.raises(AwesumError, match="404 Not Found"):
        fetch(f"{site}/nothing")


@pytest.mark.parametrize("path", ["/endless", "/bomb"])
def test_size_limit_holds_for_endless_and_for_compressed_answers(site: str, path: str) -> None:
    with pytest.raises(AwesumError, match="larger than the limit of 1 MB"):
        fetch(site + path, Limits(size=1_000_000))


@pytest.mark.parametrize("path", ["/slow", "/slow-headers"])
def test_time_limit_holds_for_a_server_that_drips_bytes(site: str, path: str) -> None:
    start = time.monotonic()
    with pytest.raises(AwesumError, match=r"longer than the limit of 0\.4 seconds"):
        fetch(site + path, Limits(seconds=0.4))
    assert time.monotonic() - start < 2


def test_silent_server_times_out(site: str) -> None:
    with pytest.raises(AwesumError, match="did not answer in time"):
        fetch(f"{site}/silent", Limits(silence=0.2))


def test_damaged_and_layered_compression_is_refused(site: str) -> None:
    with pytest.raises(AwesumError, match="damaged"):
        fetch(f"{site}/bad-gzip")
    with pytest.raises(AwesumError, match="gzip, gzip"):
        fetch(f"{site}/layers")


@pytest.mark.parametrize("address", ["ftp://example.com/a", "file:///etc/passwd", "https://"])
def test_other_schemes_are_refused(address: str) -> None:
    with pytest.raises(AwesumError, match="not an http or https address"):
        read(address)


def test_redirect_to_another_scheme_is_refused(site: str) -> None:
    with pytest.raises(AwesumError, match=r"redirects to file:/+etc/passwd.*refused"):
        fetch(f"{site}/file")


def test_refused_connection_and_failed_tls_have_different_errors(site: str) -> None:
    with pytest.raises(AwesumError, match="secure connection"):
        fetch(site.replace("http:", "https:"))
    with pytest.raises(AwesumError, match="refused the connection on port 1"):
        fetch("http://127.0.0.1:1/")


def test_unknown_host_is_named() -> None:
    with pytest.raises(AwesumError, match="there is no host no-such-host"):
        fetch("http://no-such-host.invalid/")
