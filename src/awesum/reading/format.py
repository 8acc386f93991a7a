"""Choose the reader for a source: by its bytes first, then by content type or suffix, else plain text.

Files that no reader supports (images, archives, old Word files...) are refused here, naming their kind.
"""

from __future__ import annotations

import re
import unicodedata

from awesum.errors import AwesumError
from awesum.reading.archive import beginning, check, damaged, open_archive
from awesum.reading.source import Source

BY_SUFFIX = {
    ".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html", ".xhtml": "html",
    ".csv": "csv", ".tsv": "csv", ".json": "json", ".eml": "mail", ".srt": "subtitles", ".vtt": "subtitles",
}  # fmt: skip
BY_CONTENT_TYPE = {
    "text/html": "html", "application/xhtml+xml": "html", "text/markdown": "markdown", "text/csv": "csv",
    "application/json": "json", "message/rfc822": "mail", "text/vtt": "subtitles", "application/x-subrip": "subtitles",
}  # fmt: skip

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
_ODT = b"application/vnd.oasis.opendocument.text"
_ZIP_KINDS = {"xl/": "an old or binary Excel workbook", "content.xml": "an OpenDocument file that is not a text"}
_WORD_DOCUMENT = re.compile(r"word/document\d*\.xml")  # some programs write document2.xml
_SUBTITLES = re.compile(r"\s*(?:WEBVTT\b|\d+\s*\n\s*\d{1,2}:\d\d:\d\d[,.]\d{1,3}\s*-->)")
_MAIL_HEADER = re.compile(r"^(From|To|Date|Subject|Message-ID|Received|Return-Path|Delivered-To|MIME-Version): ", re.M)
_JSON_START = re.compile(r"\s*[\[{]\s*[\[{\"\d\]}]")
_HTML_START = re.compile(r"(?:\s|<\?xml[^>]*>|<!--.*?-->)*<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL)
LONGEST_KIND = 1000
"""Bytes of the member of an archive that names its kind."""
SAMPLE = 8192
"""Bytes in which UTF-16 without a byte order mark has to show."""
_CONTROL_BYTES = bytes(byte for byte in range(32) if byte not in b"\t\n\f\r\x1b")


def recognize(source: Source) -> str:
    """The name of the module in `awesum.reading` for this source."""
    data = source.data
    if b"%PDF-" in data[:1024]:
        return "pdf"
    if data.startswith(b"PK\x03\x04") or data.startswith(b"PK\x05\x06"):
        return _recognize_zip(source)
    if data.startswith(b"{\\rtf"):
        return "rtf"
    _refuse_binary(source)
    start = _beginning(data)
    if _HTML_START.match(start) and source.content_type not in ("text/plain", "text/markdown"):
        return "html"
    named = BY_CONTENT_TYPE.get(source.content_type) or BY_SUFFIX.get(source.suffix)
    return named or _recognize_text(start)


def _recognize_text(start: str) -> str:
    """The reader of a text whose name says nothing."""
    if _SUBTITLES.match(start):
        return "subtitles"
    header = start.lstrip("\ufeff").partition("\n\n")[0]
    if _MAIL_HEADER.match(header) and len(set(_MAIL_HEADER.findall(header))) >= 3:
        return "mail"
    return "json" if _JSON_START.match(start) else "text"


def bom_encoding(data: bytes) -> str | None:
    """The encoding declared by a byte order mark, if there is one; that of UTF-16 without one shows in its bytes."""
    return next((encoding for mark, encoding in BOMS.items() if data.startswith(mark)), None) or _utf16(data)


def _utf16(data: bytes) -> str | None:
    """UTF-16 without a byte order mark: every other byte of it says which script it is, and is mostly the same."""
    sample = data[: SAMPLE // 2 * 2]
    if b"\0" not in sample or len(sample) < 4 or len(data) % 2:
        return None
    plausible = {name: _plausible(sample, name) for name in ("utf-16-le", "utf-16-be")}
    best = max(plausible, key=lambda name: plausible[name])
    other = min(plausible.values())
    return best if plausible[best] > 0.95 and other < 0.7 else None


def _plausible(sample: bytes, encoding: str) -> float:
    """The share of letters, digits, punctuation and white space; 0 if it cannot be decoded."""
    try:
        text = sample.decode(encoding)
    except UnicodeDecodeError as error:
        if error.start < len(sample) - 2:  # else a character of four bytes is cut at the end of the sample
            return 0.0
        text = sample[: error.start].decode(encoding)
    if not text or sum(ord(character) & 0xFF == 0 for character in text) > 0.1 * len(text):
        return 0.0  # Latin letters with their bytes swapped look like Chinese
    known = sum(character in "\t\n\r" or unicodedata.category(character)[0] in "LMNPSZ" for character in text)
    scripts = {_script(character) for character in text if unicodedata.category(character)[0] == "L"}
    return known / len(text) if len(scripts) <= max(3, len(text) ** 0.5 / 2) else 0.0


def _script(character: str) -> int:
    """The block of 256 characters that a letter is in; all of Chinese, Japanese and Korean count as one."""
    block = ord(character) >> 8
    return 0x4E if 0x2E <= block <= 0x9F or 0xAC <= block <= 0xD7 else block


def _beginning(data: bytes) -> str:
    encoding = bom_encoding(data)
    return data[:4096].decode(encoding or "utf-8", errors="replace").replace("\r\n", "\n")


def _recognize_zip(source: Source) -> str:
    with open_archive(source) as archive:
        names = set(archive.namelist())
        if "mimetype" in names and (size := archive.getinfo("mimetype").file_size) > LONGEST_KIND:
            raise AwesumError(
                f"{source.path} is made to exhaust whoever reads it: the member that names its kind has {size:,} bytes."
            )
        try:
            kind = beginning(archive, "mimetype").strip()
        except MemoryError:
            raise
        except Exception as error:
            raise damaged(source, error) from error
        found = _zip_kind(names, kind)
        if found is None:
            binary = next((kind for start, kind in _ZIP_KINDS.items() if any(n.startswith(start) for n in names)), None)
            raise _binary(source, binary or "a ZIP archive")
        check(source, archive)
    return found


def _zip_kind(names: set[str], kind: bytes) -> str | None:
    if kind == b"application/epub+zip" or (not kind and "META-INF/container.xml" in names):
        return "epub"
    if kind.startswith(_ODT) and "content.xml" in names:
        return "odt"
    if any(map(_WORD_DOCUMENT.fullmatch, names)):
        return "docx"
    if "ppt/presentation.xml" in names:
        return "pptx"
    return "xlsx" if "xl/workbook.xml" in names else None


def _refuse_binary(source: Source) -> None:
    data = source.data
    if data.startswith(_OLE):
        # Password-protected DOCX files use the same container as old Word files.
        if source.suffix == ".docx" or "EncryptedPackage".encode("utf-16-le") in data:
            raise AwesumError(f"{source.path} is protected by a password: open it in Word and save it without one.")
        raise _binary(source, "an old Word, Excel or PowerPoint file")
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
        "convert it to text, Markdown, HTML, PDF, DOCX, ODT, RTF, PPTX, XLSX or EPUB first."
    )
