"""OpenDocument texts: paragraphs, headings, lists and tables in order; without footnotes, comments and deletions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from awesum.document import Document, Kind
from awesum.errors import AwesumError
from awesum.reading.archive import open_archive
from awesum.reading.blocks import Blocks
from awesum.reading.source import Source

_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_LEFT_OUT = {
    f"{_TEXT}note": "footnotes",
    f"{_OFFICE}annotation": "comments",
    f"{_TEXT}tracked-changes": "deleted passages",
}
_JUNK: dict[str, Kind] = {
    f"{_TEXT}table-of-content": "contents",
    f"{_TEXT}alphabetical-index": "contents",
    f"{_TEXT}bibliography": "references",
}
MOST_SPACES = 100
"""A document may say that there are a billion spaces."""


def read(source: Source) -> Document:
    """Read a text document."""
    from lxml import etree

    blocks = Blocks()
    left_out: set[str] = set()
    parser = etree.XMLParser(no_network=True, resolve_entities=False, load_dtd=False, remove_comments=True)
    try:
        with open_archive(source) as archive:
            tree = etree.fromstring(archive.read("content.xml"), parser)
        body = tree.find(f"{_OFFICE}body/{_OFFICE}text")
        for text, kind, level in _pieces(() if body is None else body, left_out):
            blocks.add(text, kind, level)
    except MemoryError:
        raise
    except Exception as error:  # of zipfile and lxml
        raise AwesumError(
            f"{source.path} is a damaged OpenDocument text ({' '.join(str(error).split())[:200]}): open it in "
            "LibreOffice, which may repair it, and save it."
        ) from error
    notes = tuple(f"the {name} of the document were not read" for name in sorted(left_out))
    return Document(blocks.text, path=source.path, notes=notes, blocks=tuple(blocks.found))


def _pieces(
    element: Any, left_out: set[str], kind: Kind | None = None, level: int = 0
) -> Iterator[tuple[str, Kind | None, int]]:
    """The paragraphs, headings and table rows under an element, in order."""
    for child in element:
        tag = child.tag
        if tag in _LEFT_OUT:
            left_out.add(_LEFT_OUT[tag])
        elif tag == f"{_TEXT}h" and kind is None:
            outline = child.get(f"{_TEXT}outline-level") or "1"
            yield _text(child, left_out), "heading", int(outline) if outline.isdecimal() else 1
        elif tag in (f"{_TEXT}p", f"{_TEXT}h"):
            yield _text(child, left_out), kind, level
        elif tag == f"{_TABLE}table-row":
            cells = (
                " ".join(" ".join(text.split()) for text, _, _ in _pieces(cell, left_out, "table"))
                for cell in child.iterchildren(f"{_TABLE}table-cell")
            )
            yield " | ".join(cell for cell in cells if cell), "table", 0
        elif tag == f"{_TEXT}list":
            yield from _pieces(child, left_out, kind or "list", level + 1)
        else:
            yield from _pieces(child, left_out, _JUNK.get(tag, kind), level)


def _text(paragraph: Any, left_out: set[str]) -> str:
    """The text of a paragraph, with the spaces and breaks that are elements."""
    parts = [paragraph.text or ""]
    for child in paragraph:
        if child.tag in _LEFT_OUT:
            left_out.add(_LEFT_OUT[child.tag])
        elif child.tag == f"{_TEXT}s":
            count = child.get(f"{_TEXT}c") or "1"
            parts.append(" " * min(int(count) if count.isdecimal() else 1, MOST_SPACES))
        elif child.tag == f"{_TEXT}tab":
            parts.append("\t")
        elif child.tag == f"{_TEXT}line-break":
            parts.append("\n")
        elif isinstance(child.tag, str):
            parts.append(_text(child, left_out))
        parts.append(child.tail or "")
    return "".join(parts)
