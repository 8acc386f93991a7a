"""Choose the reader for a source: by its bytes first, then by content type or suffix, else plain text.

Files that no reader supports (images, archives, old Word files...) are refused here, naming their kind.
"""

from __future__ import annotations

import io
import re
import zipfile

from awesum.errors import AwesumError
from awesum.reading.source import Source

BY_SUFFIX = {".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html", ".xhtml": "html"}
BY_CONTENT_TYPE = {"text/html": "html", "application/xhtml+xml": "html", "text/markdown": "markdown"}

UNPACKED_LIMIT = 1_000_000_000
"""Bytes. A DOCX or EPUB that unpacks to more is a zip bomb or full of video, not a text."""

BOMS = {  # UTF-32 first: its mark starts with that of UTF-16
    b"\xff\xfe\x00\x00": "utf-32",
    b"\x00\x00\xfe\xff": "utf-32",
    b"\xef\xbb\xbf": "utf-8-sig",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BINARY_KINDS = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"II*\x00": "a TIFF image",
    b"MM\x00*": "a TIFF image",
    b"\x1f\x8b": "a gzip archive",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ": "an xz archive",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a RAR archive",
    b"\x7fELF": "a program",
    b"ID3": "an audio file",
    b"OggS": "an audio file",
    b"SQLite format 3": "a database",
}
_ZIP_KINDS = {"xl/": "an Excel workbook", "ppt/": "a PowerPoint presentation", "content.xml": "an OpenDocument file"}
_WORD_DOCUMENT = re.compile(r"word/document\d*\.xml")  # some programs write document2.xml
_HTML_START = re.compile(r"(?:\s|<\?xml[^>]*>|<!--.*?-->)*<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL)
_CONTROL_BYTES = bytes(byte for byte in range(32) if byte not in b"\t\n\f\r\x1b")


def recognize(source: Source) -> str:
    """The name of the module in `awesum.reading` for this source."""
    data = source.data
    if b"%PDF-" in data[:1024]:
        return "pdf"
    if data.startswith(b"PK\x03\x04") or data.startswith(b"PK\x05\x06"):
        return _recognize_zip(source)
    _refuse_binary(source)
    if _HTML_START.match(_beginning(data)) and source.content_type not in ("text/plain", "text/markdown"):
        return "html"
    return BY_CONTENT_TYPE.get(source.content_type) or BY_SUFFIX.get(source.suffix, "text")


def bom_encoding(data: bytes) -> str | None:
    """The encoding declared by a byte order mark, if there is one."""
    return next((encoding for mark, encoding in BOMS.items() if data.startswith(mark)), None)


def _beginning(data: bytes) -> str:
    return data[:4096].decode(bom_encoding(data) or "utf-8", errors="replace")


def _recognize_zip(source: Source) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
            members = archive.infolist()
            names = {member.filename for member in members}
            kind = archive.read("mimetype")[:100].strip() if "mimetype" in names else b""
    except Exception as error:  # zipfile raises a dozen kinds on broken archives
        raise AwesumError(
            f"{source.path} is a damaged DOCX, EPUB or ZIP file ({error}): it may be truncated, download it again."
        ) from error
    is_epub = kind == b"application/epub+zip" or (not kind and "META-INF/container.xml" in names)
    if not is_epub and not any(map(_WORD_DOCUMENT.fullmatch, names)):
        binary = next((kind for start, kind in _ZIP_KINDS.items() if any(n.startswith(start) for n in names)), None)
        raise _binary(source, binary or "a ZIP archive")
    if (unpacked := sum(member.file_size for member in members)) > UNPACKED_LIMIT:
        raise AwesumError(
            f"{source.path} would unpack to {unpacked / 1e9:,.1f} GB, more than the limit of "
            f"{UNPACKED_LIMIT / 1e9:.0f} GB: remove its pictures and videos, or save it as text."
        )
    return "epub" if is_epub else "docx"


def _refuse_binary(source: Source) -> None:
    data = source.data
    if data.startswith(_OLE):
        # Password-protected DOCX files use the same container as old Word files.
        if source.suffix == ".docx" or "EncryptedPackage".encode("utf-16-le") in data:
            raise AwesumError(f"{source.path} is protected by a password: open it in Word and save it without one.")
        raise _binary(source, "an old Word, Excel or PowerPoint file")
    if data.startswith(b"{\\rtf"):
        raise AwesumError(f"{source.path} is an RTF document: open it in a word processor and save it as .docx.")
    if bom_encoding(data):
        return
    for start, kind in _BINARY_KINDS.items():
        if data.startswith(start):
            raise _binary(source, kind)
    if b"\0" in data:
        raise _binary(source, "it contains NUL bytes")
    sample = data[:65_536]
    if len(sample) - len(sample.translate(None, _CONTROL_BYTES)) > 0.3 * len(sample):
        raise _binary(source, "mostly control characters")


def _binary(source: Source, kind: str) -> AwesumError:
    return AwesumError(
        f"{source.path} is a binary file ({kind}), not text: "
        "convert it to text, Markdown, HTML, PDF, DOCX or EPUB first."
    )
