"""Word documents: the body text in order, one line per paragraph or table row, with headings and lists.

python-docx opens the file, but the XML is walked here: python-docx skips content controls, text boxes and tracked
insertions, and none of that may be lost.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

from awesum.document import Document, Kind
from awesum.errors import AwesumError
from awesum.reading.blocks import Blocks
from awesum.reading.source import Source
from awesum.summary import count

Piece = tuple[str, Kind | None, int]
"""The text of a paragraph or table row, what it is, and its level."""

_NOT_READ = {"footnotes": "footnotes", "endnotes": "endnotes", "comments": "comments", "header": "headers and footers"}
_NOT_READ["footer"] = _NOT_READ["header"]
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_CHARACTERS = {f"{_WORD}tab": "\t", f"{_WORD}br": "\n", f"{_WORD}cr": "\n", f"{_WORD}noBreakHyphen": "-"}
# A text box is stored twice, once as a fallback for old programs; moved text is stored at its old and new place.
_SKIPPED = {
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback",
    f"{_WORD}moveFrom",
    f"{_WORD}pPr",
}
_HEADING = re.compile(r"(?:heading|berschrift|titre|ttulo|titolo|kop|rubrik|nagwek)\D{0,3}(\d)|title|titel", re.I)
_STYLES: dict[str, Kind] = {"toc": "contents", "tableoffigures": "contents", "bibliography": "references"}


def read(source: Source) -> Document:
    """Read a Word document: its paragraphs and tables, in order."""
    from docx import Document as open_docx

    try:
        file = open_docx(io.BytesIO(source.data))
        blocks = Blocks()
        for text, kind, level in _pieces(file.element.body):
            blocks.add(text, kind, level)
        notes = tuple(_notes(file))
    except MemoryError:
        raise
    except Exception as error:  # python-docx lets any error of zipfile, lxml and its own lookups escape
        reason = " ".join(str(error).split())
        raise AwesumError(
            f"{source.path} is a damaged Word document ({reason}): open it in Word, which may repair it, and save it."
        ) from error
    return Document(blocks.text, path=source.path, notes=notes, blocks=tuple(blocks.found))


def _pieces(element: Any) -> Iterator[Piece]:
    """The paragraphs and table rows under `element` that have text, in order."""
    for child in element:
        if child.tag == f"{_WORD}p":
            yield from _paragraph(child)
        elif child.tag == f"{_WORD}tr":
            found = child.iterchildren(f"{_WORD}tc", f"{_WORD}sdt")
            cells = (" ".join(text for text, _, _ in _pieces(cell)) for cell in found)
            if row := " | ".join(cell for cell in cells if cell):
                yield row, "table", 0
        elif child.tag not in _SKIPPED:
            yield from _pieces(child)


def _kind(paragraph: Any) -> tuple[Kind | None, int]:
    """What a paragraph is, by its style, its outline level or its numbering."""
    properties = paragraph.find(f"{_WORD}pPr")
    if properties is None:
        return None, 0
    style, outline = properties.find(f"{_WORD}pStyle"), properties.find(f"{_WORD}outlineLvl")
    name = "" if style is None else style.get(f"{_WORD}val") or ""
    if kind := _STYLES.get(re.sub(r"[\d\W_]", "", name).lower()):
        return kind, 0
    if heading := _HEADING.match(name):
        return "heading", int(heading[1] or 1)
    if outline is not None and (level := outline.get(f"{_WORD}val") or "").isdecimal() and int(level) < 9:
        return "heading", int(level) + 1
    if properties.find(f"{_WORD}numPr") is not None or name.lower().startswith("list"):
        return "list", 1
    return None, 0


def _paragraph(paragraph: Any) -> Iterator[Piece]:
    """The text of a paragraph, then the text boxes anchored in it."""
    parts: list[str] = []
    boxes: list[Any] = []
    pending = list(reversed(paragraph))
    while pending:
        node = pending.pop()
        if node.tag == f"{_WORD}txbxContent":
            boxes.append(node)
        elif node.tag == f"{_WORD}t":
            # What the parser leaves unresolved is a child of the text, and what comes after it is its tail.
            parts += [node.text or "", *(child.tail or "" for child in node)]
        elif node.tag in _CHARACTERS:
            parts.append(_CHARACTERS[node.tag])
        elif node.tag not in _SKIPPED:
            pending.extend(reversed(node))
    if text := "".join(parts).strip():
        yield text, *_kind(paragraph)
    for box in boxes:
        yield from _pieces(box)


def _notes(file: Any) -> Iterator[str]:
    """One note for each kind of text in the file that is not read."""
    found: set[str] = set()
    for relation in file.part.rels.values():
        name = _NOT_READ.get(relation.reltype.rpartition("/")[2])
        if name and not relation.is_external and b"<w:t" in relation.target_part.blob:
            found.add(name)
    for name in sorted(found):
        yield f"the {name} of the document were not read"
    if entities := sum(1 for _ in file.element.body.iter(_entity())):
        yield f"left out: {count(entities, 'reference')} to something outside of the document"


def _entity() -> Any:
    from lxml import etree

    return etree.Entity
