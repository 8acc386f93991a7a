"""Plain text: decode bytes in any encoding to clean characters. Never fails; notes every guess and replacement.

Transcripts are left to `transcript`; line numbers, and the headers and footers of pages, to `pages`.
"""

from __future__ import annotations

import codecs
import re
from contextlib import suppress

from awesum.document import Document
from awesum.reading.format import bom_encoding
from awesum.reading.source import Source

SAMPLE = 256 * 1024
"""Bytes used to guess an encoding: the detector is slow."""

# C0 except tab and newline, DEL, C1, a byte order mark inside the text, lone surrogates.
_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ufeff\ud800-\udfff]")
_TERMINAL = re.compile("(?:\x1b\\[|\x9b)[0-?]{0,40}[ -/]{0,10}[@-~]")  # colours and movements of a terminal
_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")  # they can make a text look like another one


def read(source: Source) -> Document:
    """Read plain text in any encoding."""
    from awesum.reading.pages import without_furniture
    from awesum.reading.transcript import find_turns, from_turns

    text, notes = decode(source.data, source.charset)
    if turns := find_turns(text):
        return from_turns(turns, source.path, notes)
    text, left_out = without_furniture(text)
    return Document(text, path=source.path, notes=(*notes, *left_out))


def decode(data: bytes, declared: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Decode `data`, with line endings as newlines; also returns notes on what was guessed or replaced."""
    text, notes = _decode(data, declared)
    return text.replace("\r\n", "\n").replace("\r", "\n"), notes


def replace_control_characters(text: str) -> tuple[str, tuple[str, ...]]:
    """Replace control characters one for one, to keep offsets: form feeds by newlines, all others by spaces."""
    text = _TERMINAL.sub(lambda match: "\x00" * len(match[0]), text.replace("\f", "\n").replace("\r", "\n"))
    text, controls = _CONTROL.subn(" ", text)
    text, directions = _DIRECTIONS.subn(" ", text)
    notes = (f"{controls:,} control characters were replaced by spaces",) if controls else ()
    if directions:
        notes = (*notes, f"{directions:,} marks that turn the direction of the text around were replaced by spaces")
    return text, notes


def _decode(data: bytes, declared: str | None) -> tuple[str, tuple[str, ...]]:
    if encoding := bom_encoding(data):
        return _replacing(data, encoding)
    if encoding := _known(declared):
        with suppress(UnicodeError):
            return data.decode(encoding), ()
    try:
        return data.decode("utf-8"), ()
    except UnicodeDecodeError as error:
        first_bad = error.start
    text, notes = _replacing(data, "utf-8")
    if _is_utf8_with_surrogates(data):
        return text, notes
    ascii_count = len(data.translate(None, bytes(range(0x80, 0x100))))
    bad = text.count("\ufffd")
    # Bytes in another encoding rarely form valid UTF-8 sequences: if there are more good ones than bad, it is UTF-8.
    if bad < len(text) - ascii_count - bad:
        return text, notes
    encoding = _guess(data, first_bad)
    text, notes = _replacing(data, encoding)
    return text, (f"the text is not UTF-8; it was read as {encoding}, which is a guess", *notes)


def _replacing(data: bytes, encoding: str) -> tuple[str, tuple[str, ...]]:
    text = data.decode(encoding, errors="replace")
    bad = text.count("\ufffd") - (data.count("\ufffd".encode()) if encoding.startswith("utf-8") else 0)
    name = encoding.removesuffix("-sig").upper()
    return text, (f"{bad:,} bytes that are not {name} were replaced by \ufffd",) if bad > 0 else ()


def _is_utf8_with_surrogates(data: bytes) -> bool:
    """Whether halves of characters, each encoded on its own, are all that is wrong: some programs write them."""
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _known(encoding: str | None) -> str | None:
    """Python's name for `encoding`, or None if it cannot decode it."""
    try:
        b"a".decode(encoding or "", "ignore")  # rot13 and zip are encodings, but not of text
        return codecs.lookup(encoding or "").name
    except (LookupError, ValueError):
        return None


def _guess(data: bytes, first_bad: int) -> str:
    from charset_normalizer import from_bytes

    start = max(0, first_bad - SAMPLE // 4)  # the plain ASCII before it carries no information
    matches = from_bytes(data[start : start + SAMPLE])
    best = matches.best()
    if best is None:
        return "cp1252"
    # Western text often fits the Central European code page equally well; the Western one is far more likely.
    alike = {match.encoding for match in matches if match.chaos <= best.chaos} | set(best.could_be_from_charset)
    return "cp1252" if best.encoding == "cp1250" and "cp1252" in alike else best.encoding
