"""Word documents: everything in the body, in order, and a note on whatever is not read."""

from __future__ import annotations

import io
from typing import Any

import docx
import pytest
from docx.oxml import parse_xml

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.reading.docx import read
from awesum.reading.source import Source

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def saved(file: Any) -> bytes:
    data = io.BytesIO()
    file.save(data)
    return data.getvalue()


def read_back(file: Any) -> Document:
    return read(Source(saved(file), path="a.docx"))


def test_paragraphs_and_tables_come_in_order() -> None:
    file = docx.Document()
    file.add_heading("Title")
    file.add_paragraph("Before.")
    table = file.add_table(2, 2)
    for cell, text in zip([*table.rows[0].cells, *table.rows[1].cells], "ABCD", strict=True):
        cell.text = text
    file.add_paragraph("After.")
    assert read_back(file).text == "Title\n\nBefore.\n\nA | B\n\nC | D\n\nAfter."


def test_merged_cells_are_read_once() -> None:
    file = docx.Document()
    table = file.add_table(1, 3)
    table.cell(0, 0).merge(table.cell(0, 2)).text = "wide"
    assert read_back(file).text == "wide"


def test_insertions_content_controls_and_links_are_read_and_deletions_are_not() -> None:
    file = docx.Document()
    for xml in (
        f"<w:p {W}><w:r><w:t>Kept </w:t></w:r><w:ins><w:r><w:t>inserted</w:t></w:r></w:ins>"
        "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del>"
        "<w:hyperlink><w:r><w:t> linked</w:t></w:r></w:hyperlink></w:p>",
        f"<w:sdt {W}><w:sdtContent><w:p><w:r><w:t>Controlled</w:t><w:tab/><w:t>content</w:t></w:r></w:p>"
        "</w:sdtContent></w:sdt>",
    ):
        file.element.body.insert(-1, parse_xml(xml))
    assert read_back(file).text == "Kept inserted linked\n\nControlled\tcontent"


def test_comments_headers_and_footers_are_noted() -> None:
    file = docx.Document()
    paragraph = file.add_paragraph("Text.")
    assert read_back(file).notes == ()
    file.sections[0].header.paragraphs[0].text = "Confidential"
    file.add_comment(paragraph.runs, text="Really?", author="A")
    assert read_back(file).notes == (
        "the comments of the document were not read",
        "the headers and footers of the document were not read",
    )


def test_damaged_document_is_refused() -> None:
    data = saved(docx.Document()).replace(b"[Content_Types].xml", b"[Kontent_Types].xml")
    with pytest.raises(AwesumError, match=r"a\.docx is a damaged Word document"):
        read(Source(data, path="a.docx"))


def test_error_of_several_lines_is_one() -> None:
    """Found by the fuzzer: the parser ends some of its messages with a line break."""
    import zipfile

    data = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved(docx.Document()))) as old, zipfile.ZipFile(data, "w") as new:
        for member in old.infolist():
            content = old.read(member)
            new.writestr(
                member.filename, content.replace(b"<w:body>", b"<w:body>&#0;") if b"<w:body>" in content else content
            )
    with pytest.raises(AwesumError, match="damaged Word document") as error:
        read(Source(data.getvalue(), path="a.docx"))
    assert "\n" not in str(error.value)
