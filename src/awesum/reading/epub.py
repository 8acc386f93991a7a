"""EPUB books: the chapters in reading order.

fast_ebook opens the book. Its Markdown conversion runs table cells and lines together and keeps scripts, so the
chapters are converted to text here.
"""

from __future__ import annotations

import io
import re
import zipfile
from html.entities import html5
from typing import Any

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.reading.html import decode_page, parse, visible_text
from awesum.reading.source import Source

_ENTITY = re.compile(r"&(\w+;)")
_DOCTYPE = re.compile(r"\s*<!DOCTYPE[^>\[]*>", re.I)
_ENCRYPTED_CHAPTER = re.compile(rb"CipherReference[^>]+URI=[\"'][^\"']+\.(?:x?html?|xml)[\"']", re.I)


def read(source: Source) -> Document:
    """Read a book: its chapters, in reading order."""
    from fast_ebook import ITEM_NAVIGATION, epub

    _refuse_encrypted(source)
    try:
        book = epub.read_epub(source.data)
        items = [book.get_item_with_id(name) for name, _ in book.get_spine()]
        present = [item for item in items if item is not None]
        chapters = [i for i in present if i.get_type() != ITEM_NAVIGATION and "html" in i.get_media_type()]
        decoded = [decode_page(item.get_content()) for item in chapters]
    except Exception as error:  # today always a ValueError, but that is not documented
        raise AwesumError(f"{source.path} is a damaged EPUB file ({error}): download it again.") from error
    texts = [visible_text(_parse_chapter(page)) for page, _ in decoded]
    notes = sorted({note for _, page_notes in decoded for note in page_notes})
    if missing := len(items) - len(present):
        notes.append(f"{missing} of {len(items)} parts listed by the book are missing from the file")
    if others := len(present) - len(chapters):
        notes.append(f"{others} of {len(items)} parts of the book are tables of contents or pictures and were left out")
    if not any(texts):
        raise AwesumError(f"{source.path} is a book without text: if its pages are pictures, run OCR on them first.")
    return Document("\n\n".join(text for text in texts if text), path=source.path, notes=tuple(notes))


def _refuse_encrypted(source: Source) -> None:
    """Refuse a book with encrypted chapters. Encrypted fonts are common and harmless."""
    with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
        if "META-INF/encryption.xml" in archive.namelist() and _ENCRYPTED_CHAPTER.search(
            archive.read("META-INF/encryption.xml")
        ):
            raise AwesumError(f"{source.path} is protected by DRM: its text cannot be read. Get a copy without it.")


def _parse_chapter(page: str) -> Any:
    """Parse a chapter as XML: an HTML parser would take `<title/>` as an open element that swallows the page."""
    from lxml import etree

    known = _ENTITY.sub(lambda m: m[0] if m[1] in ("amp;", "lt;", "gt;") else html5.get(m[1], m[0]), page)
    parser = etree.XMLParser(
        no_network=True, resolve_entities="internal", load_dtd=False, remove_comments=True, remove_pis=True
    )
    try:
        return etree.fromstring(_DOCTYPE.sub("", known, count=1).strip(), parser)
    except (etree.XMLSyntaxError, ValueError):
        return parse(page)
