"""URLs: fetch the address that the user gave, within limits of size and time, and no private host they did not name.

Nothing here parses the response; that is the job of the reader for its format.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from awesum.errors import AwesumError
from awesum.reading.source import Source

if TYPE_CHECKING:
    from httpx2 import URL, Response


@dataclass(frozen=True)
class Limits:
    """Limits on one fetch."""

    size: int = 50_000_000
    """Bytes, counted after decompression."""
    seconds: float = 60.0
    """Total time, including redirects."""
    silence: float = 15.0
    """Seconds to wait for a connection, or for the next bytes."""
    redirects: int = 5


def fetch(address: str, limits: Limits | None = None, *, public_only: bool = False) -> Source:
    """Fetch an http(s) URL. Redirects are followed only to public hosts, or to the host in the user's URL.

    With `public_only` that one has to be public too: whoever asks a server for it may not be on its machine.
    """
    import httpx2

    limits = limits or Limits()
    try:
        named = url = httpx2.URL(address)
    except httpx2.InvalidURL as error:
        raise AwesumError(f"{address} is not a web address ({error}): check it for typos.") from None
    with _Watch(address, limits) as watch:
        for _ in range(limits.redirects + 1):
            _require_web(named, url)
            must_be_public = public_only or not _is_same_place(url, named)
            if must_be_public:
                _require_public_host(address, url)
            answer = _get(url, must_be_public, watch)
            if isinstance(answer, Source):
                moved = url.host != named.host
                return Source(
                    answer.data,
                    path=address,
                    suffix=PurePosixPath(url.path).suffix.lower(),
                    content_type=answer.content_type,
                    charset=answer.charset,
                    notes=(f"{address} was redirected to {url}",) if moved else (),
                )
            url = answer
    raise AwesumError(f"{address} redirects more than {limits.redirects} times, perhaps in a loop: check the address.")


# Which hosts -------------------------------------------------------------------------------------------------------


def _require_web(named: URL, url: URL) -> None:
    if url.scheme not in ("http", "https") or not url.host:
        if url is not named:
            raise AwesumError(
                f"{named} redirects to {url}, which is not an http or https address, and was refused: "
                "give the final address yourself."
            )
        raise AwesumError(f"{named} is not an http or https address: give one, or the path of a file.")


def _is_same_place(url: URL, named: URL) -> bool:
    """Whether `url` has the host and port of the user's URL; an upgrade from http to https counts too."""
    port, named_port = _port(url), _port(named)
    return url.host == named.host and (port == named_port or (port, named_port) == (443, 80))


def _port(url: URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _require_public_host(address: str, url: URL) -> None:
    """Check a host before connecting. The connection is checked again: DNS may answer differently the second time."""
    try:
        found = socket.getaddrinfo(url.host, _port(url), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise AwesumError(f"{address} leads to {url.host}, which cannot be found: check the address.") from None
    for *_, peer in found:
        _require_public_peer(address, url, str(peer[0]))


def _require_public_peer(address: str, url: URL, peer: str) -> None:
    if not _is_public(peer):
        raise AwesumError(
            f"{address} leads to {url.host} ({peer}), which is not on the public internet, and was refused: "
            "if you trust it, give that address yourself on the command line."
        )


def _is_public(peer: str) -> bool:
    ip = ipaddress.ip_address(peer)
    if isinstance(ip, ipaddress.IPv6Address):
        # An embedded IPv4 address is as private as it would be on its own.
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None) or _nat64(ip)
        ip = inner or ip
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def _nat64(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in ipaddress.ip_network("64:ff9b::/96") else None


# The request -------------------------------------------------------------------------------------------------------


@dataclass
class _Watch:
    """Closes the connection when the total time is up: a server that drips bytes would never time out otherwise."""

    address: str
    limits: Limits
    deadline: float = field(init=False)
    _timer: threading.Timer = field(init=False)
    _socket: socket.socket | None = None

    def __enter__(self) -> _Watch:
        self.deadline = time.monotonic() + self.limits.seconds
        self._timer = threading.Timer(self.limits.seconds, self._cut)
        self._timer.daemon = True
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        if self._socket:
            self._socket.close()

    def hold(self, connection: socket.socket) -> None:
        if self._socket:
            self._socket.close()
        self._socket = connection.dup()  # TLS takes over the original
        self.check()

    def check(self) -> None:
        if time.monotonic() >= self.deadline:
            raise AwesumError(
                f"{self.address} took longer than the limit of {self.limits.seconds:g} seconds: "
                "download it with another program and pass the file."
            )

    def _cut(self) -> None:
        with suppress(OSError):
            if self._socket:
                self._socket.shutdown(socket.SHUT_RDWR)


def _get(url: URL, public_only: bool, watch: _Watch) -> Source | URL:
    """One request: the response, or the target of its redirect."""
    import httpx2

    def on_event(name: str, details: dict[str, Any]) -> None:
        # httpx2 calls this after connecting, before it sends anything.
        if name == "connection.connect_tcp.complete":
            stream = details["return_value"]
            try:
                if public_only:
                    _require_public_peer(watch.address, url, str(stream.get_extra_info("server_addr")[0]))
                watch.hold(stream.get_extra_info("socket"))
            except AwesumError:
                stream.close()
                raise

    # trust_env=False: with a proxy, the peer would be the proxy and checking it would be pointless; nor may .netrc
    # send a password to the target of a redirect. Users behind a proxy can download the page first.
    with (
        _as_users_error(url, watch),
        httpx2.Client(trust_env=False, timeout=watch.limits.silence, follow_redirects=False) as client,
        client.stream(
            "GET",
            url,
            headers={"Accept-Encoding": "gzip", "User-Agent": "awesum"},
            extensions={"trace": on_event},
        ) as response,
    ):
        if response.has_redirect_location:
            return url.join(response.headers["Location"])
        if response.status_code >= 400:
            status = f"{response.status_code} {response.reason_phrase}".strip()
            raise AwesumError(f"{watch.address} answered with HTTP status {status}: check the address in a browser.")
        data = _body(response, watch)
        content_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return Source(data, path=watch.address, content_type=content_type, charset=response.charset_encoding)


def _body(response: Response, watch: _Watch) -> bytes:
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    # One layer, counted while it is unpacked: nested layers are how decompression bombs work.
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise AwesumError(
            f"{watch.address} was sent in an encoding ({encoding}) that we did not ask for: download it with a browser "
            "and pass the file."
        )
    data = bytearray()
    for chunk in response.iter_bytes():
        data += chunk
        watch.check()
        if len(data) > watch.limits.size:
            raise AwesumError(
                f"{watch.address} is larger than the limit of {watch.limits.size / 1e6:g} MB: "
                "download it with another program and pass the file."
            )
    watch.check()  # the stream may have ended because the watch closed it
    return bytes(data)


@contextmanager
def _as_users_error(url: URL, watch: _Watch) -> Iterator[None]:
    import httpx2

    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError) as error:
        watch.check()
        raise AwesumError(f"{watch.address} could not be fetched: {_reason(url, error)}.{_proxy_hint()}") from error


def _reason(url: URL, error: Exception) -> str:
    import ssl

    import httpx2

    causes: list[BaseException] = [error]
    while cause := causes[-1].__cause__ or causes[-1].__context__:
        causes.append(cause)
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return f"there is no host {url.host}. Check the address and the network"
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return f"the secure connection to {url.host} failed ({error}). Check the address and the date of this computer"
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return f"{url.host} refused the connection on port {_port(url)}. Check the address and that the server runs"
    if isinstance(error, httpx2.TimeoutException):
        return f"{url.host} did not answer in time. Try again later"
    if isinstance(error, httpx2.DecodingError):
        return f"{url.host} sent compressed data that is damaged. Try again, or download it with a browser"
    return f"{error or type(error).__name__}. Try again, or download it with a browser"


def _proxy_hint() -> str:
    proxies = ("http_proxy", "https_proxy", "all_proxy")
    if any(os.environ.get(name) or os.environ.get(name.upper()) for name in proxies):
        return " (Proxy settings are ignored: download the page and pass the file.)"
    return ""
