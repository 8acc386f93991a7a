"""EPUB books: the chapters in reading order.

fast_ebook opens the book. Its Markdown conversion runs table cells and lines together and keeps scripts, so the
chapters are converted to text here.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter
from html.entities import html5
from typing import Any

from awesum.document import Block, Document
from awesum.errors import AwesumError
from awesum.reading.html import decode_page, find_blocks, heading_levels, parse, refuse_attributes, visible_text
from awesum.reading.source import Source
from awesum.summary import count

_ENTITY = re.compile(r"&(\w+;)")
_OWN_ENTITY = re.compile(r"<!ENTITY\s+(\w+)")
_DOCTYPE = re.compile(r"\s*<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>", re.I | re.S)
MOST_REPEATS = 100
"""Times that a book may list a chapter. None should be listed twice."""
_ENCRYPTED_CHAPTER = re.compile(rb"CipherReference[^>]+URI=[\"'][^\"']+\.(?:x?html?|xml)[\"']", re.I)


def read(source: Source) -> Document:
    """Read a book: its chapters, in reading order."""
    from fast_ebook import ITEM_NAVIGATION, epub

    _refuse_encrypted(source)
    try:
        book = epub.read_epub(source.data)
        listed = Counter(name for name, _ in book.get_spine())
        _refuse_repeats(source, listed)
        items = [book.get_item_with_id(name) for name in listed]
        present = [item for item in items if item is not None]
        chapters = [i for i in present if i.get_type() != ITEM_NAVIGATION and "html" in i.get_media_type()]
        decoded = [decode_page(item.get_content()) for item in chapters]
    except (AwesumError, MemoryError):
        raise
    except Exception as error:  # today always a ValueError, but that is not documented
        raise AwesumError(
            f"{source.path} is a damaged EPUB file ({' '.join(str(error).split())}): download it again."
        ) from error
    text, blocks = "", list[Block]()
    own_entities = 0
    for page, _ in decoded:
        refuse_attributes(source, page)
        page, found = _without_own_entities(page)
        own_entities += found
        tree = _parse_chapter(page)
        if chapter := visible_text(tree):
            text += "\n\n" if text else ""
            blocks += find_blocks(chapter, heading_levels(tree), len(text))
            text += chapter
    notes = sorted({note for _, page_notes in decoded for note in page_notes})
    if missing := len(items) - len(present):
        notes.append(f"{missing} of {len(items)} parts listed by the book are missing from the file")
    if others := len(present) - len(chapters):
        notes.append(f"{others} of {len(items)} parts of the book are tables of contents or pictures and were left out")
    if repeated := listed.total() - len(listed):
        notes.append(f"{repeated} parts that the book lists twice were read once")
    if own_entities:
        notes.append(f"left out: {count(own_entities, 'abbreviation')} that the book defines itself (XML entities)")
    if not text:
        raise AwesumError(f"{source.path} is a book without text: if its pages are pictures, run OCR on them first.")
    return Document(text, path=source.path, notes=tuple(notes), blocks=tuple(blocks))


def _refuse_repeats(source: Source, listed: Counter[str]) -> None:
    name, times = listed.most_common(1)[0] if listed else ("", 0)
    if times > MOST_REPEATS:
        raise AwesumError(
            f"{source.path} lists the part {name!r} {times:,} times, to exhaust whoever reads it: it is not a book."
        )


def _refuse_encrypted(source: Source) -> None:
    """Refuse a book with encrypted chapters. Encrypted fonts are common and harmless."""
    with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
        if "META-INF/encryption.xml" in archive.namelist() and _ENCRYPTED_CHAPTER.search(
            archive.read("META-INF/encryption.xml")
        ):
            raise AwesumError(f"{source.path} is protected by DRM: its text cannot be read. Get a copy without it.")


def _without_own_entities(page: str) -> tuple[str, int]:
    """A chapter without the entities that it defines itself, and how many there were: bombs are made of them."""
    doctype = _DOCTYPE.search(page)
    own = set(_OWN_ENTITY.findall(doctype[0])) if doctype else set()
    if not doctype or not own:
        return page, 0
    rest, found = re.subn(rf"&(?:{'|'.join(own)});", " ", page[doctype.end() :])
    return page[: doctype.end()] + rest, found


def _parse_chapter(page: str) -> Any:
    """Parse a chapter as XML: an HTML parser would take `<title/>` as an open element that swallows the page."""
    from lxml import etree

    known = _ENTITY.sub(lambda m: m[0] if m[1] in ("amp;", "lt;", "gt;") else html5.get(m[1], m[0]), page)
    parser = etree.XMLParser(
        no_network=True, resolve_entities="internal", load_dtd=False, remove_comments=True, remove_pis=True
    )
    try:
        return etree.fromstring(_DOCTYPE.sub("", known, count=1).strip(), parser)
    except (etree.XMLSyntaxError, ValueError):  # without memory, too: the parser below reports that
        return parse(_DOCTYPE.sub("", page, count=1))
