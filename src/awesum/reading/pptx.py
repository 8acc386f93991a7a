"""PowerPoint presentations: the text of each slide in order, with its title, tables and speaker notes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from awesum.document import Document, Kind
from awesum.errors import AwesumError
from awesum.reading.blocks import Blocks
from awesum.reading.source import Source

DEEPEST = 50
"""Groups within groups."""


def read(source: Source) -> Document:
    """Read a presentation; its slides are the pages of the document."""
    from pptx import Presentation

    blocks = Blocks()
    starts: list[int] = []
    pictures = notes_read = 0
    try:
        for slide in Presentation(io.BytesIO(source.data)).slides:
            starts.append(blocks.next_start)
            title = slide.shapes.title
            if title is not None and title.has_text_frame:
                blocks.add(" ".join(title.text_frame.text.split()), "heading", 1)
            for shape in _shapes(slide.shapes):
                pictures += shape.shape_type is not None and shape.shape_type.name in ("PICTURE", "CHART")
                if title is None or shape.shape_id != title.shape_id:
                    for text, kind, level in _texts(shape):
                        blocks.add(text, kind, level)
            if slide.has_notes_slide and (said := slide.notes_slide.notes_text_frame):
                notes_read += bool(said.text.strip())
                for paragraph in said.paragraphs:
                    blocks.add(paragraph.text)
    except MemoryError:
        raise
    except Exception as error:  # python-pptx lets any error of zipfile, lxml and its own lookups escape
        raise AwesumError(
            f"{source.path} is a damaged presentation ({' '.join(str(error).split())}): open it in PowerPoint, which "
            "may repair it, and save it."
        ) from error
    notes = []
    if notes_read:
        notes.append(f"the speaker notes of {notes_read} of {len(starts)} slides were read with them")
    if pictures:
        notes.append(f"{pictures} pictures and charts were not read")
    starts = [min(start, len(blocks.text)) for start in starts]
    return Document(blocks.text, source.path, tuple(starts), tuple(notes), tuple(blocks.found))


def _shapes(shapes: Any, depth: int = 0) -> Iterator[Any]:
    """All shapes, those inside groups included."""
    for shape in shapes:
        if getattr(shape, "shapes", None) is not None and depth < DEEPEST:
            yield from _shapes(shape.shapes, depth + 1)
        else:
            yield shape


def _texts(shape: Any) -> Iterator[tuple[str, Kind | None, int]]:
    if getattr(shape, "has_table", False) and shape.has_table:
        for row in shape.table.rows:
            yield " | ".join(text for cell in row.cells if (text := " ".join(cell.text.split()))), "table", 0
    elif shape.has_text_frame:
        paragraphs = [paragraph for paragraph in shape.text_frame.paragraphs if paragraph.text.strip()]
        for paragraph in paragraphs:
            is_item = len(paragraphs) > 1 or paragraph.level > 0
            text = paragraph.text.replace("\v", "\n")
            yield (text, "list", paragraph.level + 1) if is_item else (text, None, 0)
