"""Who may come in: checked for every request before anything looks at it.

A server on 127.0.0.1 is not private by that alone: any web page that the user opens can send requests to it, under its
own name or, by DNS rebinding, under one that leads here. So the name and port in `Host` have to be ours, an `Origin`
has to be our own, and everything but the empty page needs the token. No answer allows another origin to read it.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
"""Nothing but our own files, no inline script or style, and no text that becomes markup."""
DATA_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True)
class Address:
    """Where the server listens, and the names under which it may be addressed."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def url(self) -> str:
        """`http://127.0.0.1:8440`; for all addresses of a machine, the one that works on it."""
        host = "127.0.0.1" if self.host == "0.0.0.0" else "[::1]" if self.host == "::" else self._in_url(self.host)
        return f"http://{host}:{self.port}"

    @staticmethod
    def _in_url(host: str) -> str:
        return f"[{host}]" if ":" in host else host

    def is_ours(self, authority: str) -> bool:
        """Whether `name:port` means this server."""
        name, port = _split(authority)
        if port != self.port:
            return False
        if self.is_loopback:
            return name in ("127.0.0.1", "localhost", "::1", self.host)
        if name in (self.host, "localhost", socket.gethostname().lower()):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False  # a name that is not ours may lead here all the same: that is DNS rebinding
        return self.host in ("0.0.0.0", "::") or address.is_loopback


def _split(authority: str) -> tuple[str, int | None]:
    """Name and port of `name:port`; port 80 if there is none, and None if it is nonsense."""
    name, bracket, rest = authority.strip().lower().partition("]")
    if bracket:  # [::1]:8440
        name, port = name.removeprefix("["), rest.removeprefix(":")
        is_valid = rest == "" or rest.startswith(":")
    else:
        name, colon, port = authority.strip().lower().partition(":")
        is_valid = not colon or bool(port)
    if not is_valid or (port and not (port.isascii() and port.isdecimal() and len(port) <= 5)):
        return name, None
    return name, int(port) if port else 80


class Guard:
    """Lets in what comes from our own page or carries the token, and nothing else."""

    def __init__(self, app: ASGIApp, address: Address, token: str, open_paths: Iterable[str]) -> None:
        self.app, self.address, self._token = app, address, token.encode()
        self.open_paths = frozenset(open_paths)
        """What anybody on this machine may see: the page without its content."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # there are no web sockets
        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        policy = PAGE_POLICY if scope["path"] in self.open_paths else DATA_POLICY

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = HEADERS | {"content-security-policy": policy}
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in added.items())]
            await send(message)

        await self.app(scope, receive, sending)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        hosts = headers.get(b"host", [])
        if len(hosts) != 1 or not self.address.is_ours(hosts[0].decode("latin-1")):
            return 421, "this server is not called that: use the address that it printed"
        for origin in headers.get(b"origin", []):
            scheme, _, authority = origin.decode("latin-1").partition("://")
            # The very name in Host: another name of ours is another origin.
            if scheme != "http" or authority.lower() != hosts[0].decode("latin-1").lower():
                return 403, "requests of other web sites are refused"
        if b"access-control-request-method" in headers:
            return 403, "requests of other web sites are refused"
        if scope["path"] in self.open_paths and scope["method"] in ("GET", "HEAD"):
            return None
        given = headers.get(b"authorization", [])
        kind, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        if kind.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self._token):
            return 401, "the token is missing or wrong: use the address that the server printed when it started"
        return None


async def _refuse(send: Send, status: int, reason: str) -> None:
    body = json.dumps({"error": reason}).encode()
    headers = HEADERS | {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "content-security-policy": DATA_POLICY,
        "connection": "close",  # what else it sends is not read
    }
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
