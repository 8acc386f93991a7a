"""The input of every reader: raw bytes, the name the user gave, and hints about the format."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """The raw bytes of a document, not yet parsed, or the file that has them."""

    data: bytes
    path: str
    """File name, URL or `-`, as the user gave it."""
    suffix: str = ""
    """`.md`, `.html`...: a hint, used if the bytes do not settle the format."""
    content_type: str = ""
    """`text/html`...: the content type sent by a web server."""
    charset: str | None = None
    """The encoding declared by a web server."""
    notes: tuple[str, ...] = ()
    file: str = ""
    """The path of a file to read the bytes from, where they are read by another process."""
    fields: tuple[str, ...] = ()
    """The fields of a CSV or JSON file that the user asked for."""
