"""What the process that reads and the one that asks say to each other: a header in JSON, and bytes after it.

Nothing is pickled: a reader that a hostile file has taken over can send a wrong text, but no code.
"""

from __future__ import annotations

import json
from typing import IO, Any

from awesum.document import Block, Document

_LONGEST_HEADER = 1 << 28


class Garbled(Exception):
    """What came is not a message."""


def send(file: IO[bytes], header: dict[str, Any], content: bytes = b"") -> None:
    """Send a message."""
    encoded = json.dumps(header).encode()
    file.write(len(encoded).to_bytes(8, "big") + len(content).to_bytes(8, "big"))
    file.write(encoded)
    file.write(content)
    file.flush()


def receive(file: IO[bytes], longest: int) -> tuple[dict[str, Any], bytes]:
    """Receive a message whose content has at most `longest` bytes; `EOFError` if there is none."""
    sizes = _exactly(file, 16)
    header, content = int.from_bytes(sizes[:8], "big"), int.from_bytes(sizes[8:], "big")
    if header > _LONGEST_HEADER or content > longest:
        raise Garbled
    try:
        fields = json.loads(_exactly(file, header))
    except ValueError as error:
        raise Garbled from error
    if not isinstance(fields, dict):
        raise Garbled
    return fields, _exactly(file, content)


def _exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data


def of_document(document: Document) -> tuple[dict[str, Any], bytes]:
    """A document as a message."""
    header = {
        "path": document.path,
        "page_starts": document.page_starts,
        "notes": document.notes,
        "blocks": [[block.start, block.end, block.kind, block.level] for block in document.blocks],
    }
    return {"document": header}, document.text.encode()


def to_document(header: dict[str, Any], content: bytes) -> Document:
    """The document of a message."""
    fields = header["document"]
    blocks = tuple(Block(start, end, kind, level) for start, end, kind, level in fields["blocks"])
    pages, notes = tuple(fields["page_starts"]), tuple(fields["notes"])
    return Document(content.decode(), fields["path"], pages, notes, blocks)
