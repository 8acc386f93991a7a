"""E-mails: who wrote, to whom, when and about what, then the text; text that is quoted again is read once.

A file may hold one message, with its parts encoded, or a thread that was saved as text.
"""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Iterator
from email.message import EmailMessage

from awesum.document import Document
from awesum.reading.blocks import Blocks
from awesum.reading.html import parse, visible_text
from awesum.reading.source import Source
from awesum.reading.text import decode
from awesum.summary import count

_HEADERS = ("From", "To", "Date", "Subject")
_HEADER_BLOCK = re.compile(r"(?:^|\n)((?:(?:From|To|Cc|Sent|Date|Subject|Message-ID):[^\n]*\n){2,})", re.I)
_HEADER = re.compile(r"^(From|Sent|Date|Subject):\s*(.*)$", re.I | re.M)
_ATTRIBUTION = re.compile(r"^(?:on|am|le|el)\b.{0,200}\b(?:wrote|schrieb|a écrit|escribió)\b.{0,80}:?$", re.I)
_ORIGINAL = re.compile(r"^-{2,}\s*(?:original message|forwarded message|ursprüngliche nachricht).*$", re.I)
_QUOTED = re.compile(r"^(?:\s*>)+ ?")
_SIGNATURE = re.compile(r"^--\s*$")


def read(source: Source) -> Document:
    """Read a message or a thread."""
    message = email.message_from_bytes(_unmarked(source), policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    body, notes = _body(message, source)
    thread = _Thread()
    thread.add_headers({name: _header(message, name) for name in _HEADERS})
    at = 0
    for match in _HEADER_BLOCK.finditer(body):
        thread.add_text(body[at : match.start()])
        thread.add_headers({name.title(): value for name, value in _HEADER.findall(match[1])})
        at = match.end()
    thread.add_text(body[at:])
    attached = [part.get_filename() or part.get_content_type() for part in message.iter_attachments()]
    if attached:
        notes.append(f"not read: {count(len(attached), 'attachment')}, {', '.join(map(_shown, attached[:3]))}")
    return Document(
        thread.blocks.text, path=source.path, notes=(*notes, *thread.notes()), blocks=tuple(thread.blocks.found)
    )


def _unmarked(source: Source) -> bytes:
    """The message as the bytes that a mail program would send."""
    text, _ = decode(source.data, source.charset)
    return (
        text.removeprefix("\ufeff").lstrip("\n").encode()
        if source.data[:2] in (b"\xff\xfe", b"\xfe\xff")
        else (source.data.removeprefix(b"\xef\xbb\xbf").lstrip())
    )


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name) or "").split())
    except MemoryError:
        raise
    except Exception:  # a header that breaks the rules is of no use
        return ""


def _shown(name: str) -> str:
    return " ".join(name.split())[:60]


def _body(message: EmailMessage, source: Source) -> tuple[str, list[str]]:
    """The text of a message, from plain text if there is any, else from HTML."""
    try:
        part = message.get_body(("plain", "html"))
    except MemoryError:
        raise
    except Exception:  # of a message whose parts contradict each other
        part = None
    if part is None:
        part = message
    try:
        data = part.get_payload(decode=True)
    except MemoryError:
        raise
    except Exception:
        data = None
    text, notes = decode(data if isinstance(data, bytes) else b"", part.get_content_charset())
    if part.get_content_type() == "text/html":
        return visible_text(parse(text)), list(notes)
    return text, list(notes)


class _Thread:
    """Messages, newest or oldest first, with each passage read once."""

    def __init__(self) -> None:
        self.blocks = Blocks()
        self._seen: set[str] = set()
        self._repeated = self._signatures = 0

    def add_headers(self, headers: dict[str, str]) -> None:
        """The beginning of a message."""
        date = headers.get("Date") or headers.get("Sent") or ""
        who = re.sub(r"\s*<[^<>]*>", "", headers.get("From", "")).strip('" ')
        about = headers.get("Subject", "")
        line = ", ".join(filter(None, [f"From {who}" if who else "", date, about]))
        self.blocks.add(line, "heading", 1)

    def add_text(self, text: str) -> None:
        """The text of a message: paragraphs that are there already, as quotations are, only once."""
        for paragraph in self._paragraphs(text):
            key = "".join(filter(str.isalnum, paragraph.casefold()))
            if (key and any(key in seen for seen in (self._seen if len(key) > 30 else ()))) or key in self._seen:
                self._repeated += 1
            else:
                self._seen.add(key)
                self.blocks.add(paragraph)

    def _paragraphs(self, text: str) -> Iterator[str]:
        lines: list[str] = []
        depth = 0
        in_signature = False
        for raw in [*text.split("\n"), ""]:
            quoted = _QUOTED.match(raw)
            line = raw[quoted.end() :] if quoted else raw
            now = quoted[0].count(">") if quoted else 0
            if _SIGNATURE.match(line):
                in_signature = True
                self._signatures += 1
            elif in_signature and now != depth:
                in_signature = False
            if not line.strip() or now != depth or _ATTRIBUTION.match(line) or _ORIGINAL.match(line) or in_signature:
                if lines:
                    yield "\n".join(lines)
                lines = []
            is_kept = line.strip() and not (_ATTRIBUTION.match(line) or _ORIGINAL.match(line) or in_signature)
            if is_kept:
                lines.append(line.strip())
            depth = now
        if lines:
            yield "\n".join(lines)

    def notes(self) -> Iterator[str]:
        """What was left out."""
        if self._repeated:
            yield f"read once: {count(self._repeated, 'passage')} quoted from a message that is there"
        if self._signatures:
            yield f"left out: {count(self._signatures, 'signature')}"
