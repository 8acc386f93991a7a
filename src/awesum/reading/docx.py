"""Word documents: the body text in order, one line per paragraph or table row.

python-docx opens the file, but the XML is walked here: python-docx skips content controls, text boxes and tracked
insertions, and none of that may be lost.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.reading.source import Source

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


def read(source: Source) -> Document:
    """Read a Word document: its paragraphs and tables, in order."""
    from docx import Document as open_docx

    try:
        file = open_docx(io.BytesIO(source.data))
        text = "\n\n".join(_blocks(file.element.body))
        notes = tuple(_notes(file))
    except Exception as error:  # python-docx lets any error of zipfile, lxml and its own lookups escape
        raise AwesumError(
            f"{source.path} is a damaged Word document ({error}): open it in Word, which may repair it, and save it."
        ) from error
    return Document(text, path=source.path, notes=notes)


def _blocks(element: Any) -> Iterator[str]:
    """The paragraphs and table rows under `element` that have text, in order."""
    for child in element:
        if child.tag == f"{_WORD}p":
            yield from _paragraph(child)
        elif child.tag == f"{_WORD}tr":
            cells = (" ".join(_blocks(cell)) for cell in child.iterchildren(f"{_WORD}tc", f"{_WORD}sdt"))
            if row := " | ".join(cell for cell in cells if cell):
                yield row
        elif child.tag not in _SKIPPED:
            yield from _blocks(child)


def _paragraph(paragraph: Any) -> Iterator[str]:
    """The text of a paragraph, then the text boxes anchored in it."""
    parts: list[str] = []
    boxes: list[Any] = []
    pending = list(reversed(paragraph))
    while pending:
        node = pending.pop()
        if node.tag == f"{_WORD}txbxContent":
            boxes.append(node)
        elif node.tag == f"{_WORD}t":
            parts.append(node.text or "")
        elif node.tag in _CHARACTERS:
            parts.append(_CHARACTERS[node.tag])
        elif node.tag not in _SKIPPED:
            pending.extend(reversed(node))
    if text := "".join(parts).strip():
        yield text
    for box in boxes:
        yield from _blocks(box)


def _notes(file: Any) -> Iterator[str]:
    """One note for each kind of text in the file that is not read."""
    found: set[str] = set()
    for relation in file.part.rels.values():
        name = _NOT_READ.get(relation.reltype.rpartition("/")[2])
        if name and not relation.is_external and b"<w:t" in relation.target_part.blob:
            found.add(name)
    for name in sorted(found):
        yield f"the {name} of the document were not read"
