"""A summary as a Word document: its paragraphs, with a number after each sentence, and the sources they lead to."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from awesum.summary import Summary

_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def docx(summary: Summary) -> bytes:
    """The file."""
    from docx import Document
    from docx.shared import Pt

    document = Document()
    document.core_properties.author = ""
    document.core_properties.title = _plain(f"Summary of {summary.document.path}")
    document.styles["Normal"].font.size = Pt(11)
    document.add_heading(_plain(f"Summary of {summary.document.path}"), level=1)
    if query := summary.settings.get("query"):
        document.add_paragraph().add_run(_plain(query)).italic = True
    sources: list[str] = []
    for part in summary.parts:
        paragraph = document.add_paragraph()
        for sentence in part.sentences:
            pages = summary.document.pages(sentence.source.start, sentence.source.end)
            sources.append(f"{_pages(pages)}{sentence.source.text}")
            paragraph.add_run(_plain(" ".join(sentence.text.split())))
            mark = paragraph.add_run(f"\u2009{len(sources)}")
            mark.font.superscript = True
            paragraph.add_run(" ")
    if not summary.complete:
        document.add_paragraph("Interrupted: the rest of the summary is missing.")
    document.add_heading("Sources", level=2)
    for number, source in enumerate(sources, 1):
        document.add_paragraph(f"{number}\u2002{_plain(' '.join(source.split()))}")
    document.add_paragraph(_plain(summary.closing_line()))
    for note in summary.notes:
        document.add_paragraph(_plain(f"Note: {note}"))
    data = io.BytesIO()
    document.save(data)
    return data.getvalue()


def _pages(pages: list[int]) -> str:
    if not pages:
        return ""
    return f"Page {pages[0]}: " if len(pages) == 1 else f"Pages {pages[0]}-{pages[-1]}: "


def _plain(text: str) -> str:
    """Text without what no XML file may have."""
    return _NOT_IN_XML.sub("\ufffd", text)
