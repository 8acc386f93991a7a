"""What every reader is given: the bytes, how the user named them, and what the sender said about them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """Bytes that nobody has looked into yet."""

    data: bytes
    path: str
    """File name, address or `-`: how the user named it."""
    suffix: str = ""
    """`.md`, `.html`...: a hint where the bytes themselves do not tell the format."""
    content_type: str = ""
    """`text/html`...: what a web server calls it."""
    charset: str | None = None
    """The encoding that a web server declares."""
    notes: tuple[str, ...] = ()
