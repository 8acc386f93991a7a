"""Valid files of every format, made in code: what the fuzzer mutates and the benchmarks read."""

from __future__ import annotations

import io
import textwrap
import zipfile
import zlib
from collections.abc import Sequence

PARAGRAPHS = [
    "The council met on Monday and decided to replace the old bridge over the river before the winter of 2027.",
    "A survey in March found cracks in three of the four pillars, and the engineers recommended a new building.",
    "The costs are estimated at 21.5 million euros, of which the state will pay 6 million if work begins in 2025.",
    "Two members voted against the plan because the new bridge would cross a protected meadow on the north bank.",
    "The mayor called the decision painful but necessary, and promised that the old bridge stays open until then.",
    "A committee will report on the noise, the detours and the fish in the river by the end of the year.",
]
TITLES = ["Decision", "Survey", "Costs", "Objections"]
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def archive(members: dict[str, str | bytes]) -> bytes:
    """A ZIP archive, the first member stored and the others deflated."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as file:
        for number, (name, content) in enumerate(members.items()):
            kind = zipfile.ZIP_STORED if not number else zipfile.ZIP_DEFLATED
            file.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), content, compress_type=kind)
    return data.getvalue()


def _text() -> bytes:
    parts = [
        f"{number} {title}\n\n{text}" for number, (title, text) in enumerate(zip(TITLES, PARAGRAPHS, strict=False), 1)
    ]
    references = "\n".join(f"[{n}] A. Author, On bridges, vol. {n}, 20{n:02}, pp. {n}-{n + 9}." for n in range(1, 5))
    return "\n\n".join(
        ["Contents", "1 Decision ........ 3\n2 Survey ........ 5", *parts, "References", references]
    ).encode()


def _markdown() -> bytes:
    items = "\n".join(f"- *{text}*" for text in PARAGRAPHS[:3])
    return f"---\ntitle: x\n---\n# Decision\n\n{PARAGRAPHS[0]}\n\n{items}\n\n| a | b |\n|---|---|\n| 1 | 2 |\n".encode()


def _html() -> bytes:
    body = "".join(f"<h2>{title}</h2><p>{text}</p>" for title, text in zip(TITLES, PARAGRAPHS, strict=False))
    table = "<table><tr><td>a</td><td>b</td></tr></table><ul><li>one</li></ul>"
    head = '<head><meta charset="utf-8"><title>Bridge</title><style>p{}</style></head>'
    return f"<!doctype html><html>{head}<body><nav>Menu</nav><article>{body}{table}</article></body></html>".encode()


def assemble_pdf(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """A PDF of these objects, numbered from 1, the first its catalogue. `trailer`: further entries of the trailer."""
    data, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    end = b"trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (size, trailer, len(data))
    return data + b"xref\n0 %d\n0000000000 65535 f \n%s%s" % (size, table, end)


def _pdf() -> bytes:
    objects: list[bytes] = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [4 0 R 6 0 R] /Count 2 >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for page in range(2):
        wrapped = [line for text in PARAGRAPHS[3 * page : 3 * page + 3] for line in textwrap.wrap(text, 80)]
        lines = " ".join(f"({line}) Tj T*" for line in wrapped)
        stream = zlib.compress(f"BT /F1 10 Tf 50 800 Td 14 TL (Report {page + 1}) Tj T* {lines} ET".encode())
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] "
            b"/Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>" % (5 + 2 * page)
        )
        objects.append(b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(stream), stream))
    return assemble_pdf(objects)


def _docx() -> bytes:
    word = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    heading = '<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Decision</w:t></w:r></w:p>'
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in PARAGRAPHS)
    row = "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    return archive({
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.'
        'wordprocessingml.document.main+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" '
        f'Type="{_OFFICE}/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f"<w:document {word}><w:body>{heading}{body}{row}</w:body></w:document>",
    })  # fmt: skip


def _pptx() -> bytes:
    from pptx import Presentation

    deck = Presentation()
    for title, text in zip(TITLES, PARAGRAPHS, strict=False):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = f"{text}\n{PARAGRAPHS[4]}"
        slide.notes_slide.notes_text_frame.text = PARAGRAPHS[5]
    data = io.BytesIO()
    deck.save(data)
    return data.getvalue()


def _odt() -> bytes:
    names = "urn:oasis:names:tc:opendocument:xmlns"
    body = "".join(
        f'<text:h text:outline-level="1">{title}</text:h>'
        f'<text:p>{text}<text:s text:c="2"/><text:note>n</text:note></text:p>'
        for title, text in zip(TITLES, PARAGRAPHS, strict=False)
    )
    content = (
        f'<office:document-content xmlns:office="{names}:office:1.0" xmlns:text="{names}:text:1.0" '
        f'xmlns:table="{names}:table:1.0"><office:body><office:text>{body}</office:text></office:body>'
        "</office:document-content>"
    )
    return archive({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content})


def _rtf() -> bytes:
    return (r"{\rtf1\ansi\ansicpg1252 {\b Decision}\par " + r"\par ".join(PARAGRAPHS) + r" caf\'e9 \u8364?}").encode()


def _xlsx() -> bytes:
    import xlsxwriter

    data = io.BytesIO()
    with xlsxwriter.Workbook(data, {"in_memory": True}) as book:
        sheet = book.add_worksheet("Costs")
        for number, text in enumerate(PARAGRAPHS):
            sheet.write_row(number, 0, [number, text, number * 1.5])
    return data.getvalue()


def _epub() -> bytes:
    page = '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>t</title></head><body>{}</body></html>'
    chapters = {f"c{n}.xhtml": page.format(f"<h1>{title}</h1><p>{PARAGRAPHS[n]}</p>") for n, title in enumerate(TITLES)}
    items = "".join(f'<item id="i{n}" href="c{n}.xhtml" media-type="application/xhtml+xml"/>' for n in range(4))
    spine = "".join(f'<itemref idref="i{n}"/>' for n in range(4))
    return archive({
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
        '<rootfiles><rootfile full-path="content.opf" media-type="application/oebps-package+xml"/></rootfiles>'
        "</container>",
        "content.opf": '<package version="3.0" xmlns="http://www.idpf.org/2007/opf" unique-identifier="u"><metadata '
        'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="u">u</dc:identifier><dc:title>t</dc:title>'
        f"<dc:language>en</dc:language></metadata><manifest>{items}</manifest><spine>{spine}</spine></package>",
        **chapters,
    })  # fmt: skip


def _subtitles() -> bytes:
    return "\n".join(
        f"{n}\n00:00:{n:02},000 --> 00:00:{n + 1:02},000\n<i>ANNA:</i> {text}\n" for n, text in enumerate(PARAGRAPHS, 1)
    ).encode()


def _webvtt() -> bytes:
    cues = "\n".join(f"00:0{n}.000 --> 00:0{n}.900\n<v Anna>{text}\n" for n, text in enumerate(PARAGRAPHS))
    return f"WEBVTT\n\n{cues}".encode()


def _transcript() -> bytes:
    turns = [f"[10:0{n}] <{'ana' if n % 2 else 'bo'}> {text}" for n, text in enumerate(PARAGRAPHS)]
    return "\n".join([*turns, "[10:07] <ana> ok", "[10:08] <bo> thanks!"]).encode()


def _mail() -> bytes:
    return (
        "From: Dana <dana@example.org>\nTo: all@example.org\nDate: Tue, 14 Mar 2023 09:12:44 +0000\n"
        'Subject: Bridge\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b"\n\n'
        "--b\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n"
        + "\n\n".join(PARAGRAPHS[:3])
        + f"\n\nOn Monday, Luis wrote:\n> {PARAGRAPHS[3]}\n\n--\nDana\n--b\nContent-Type: application/pdf\n"
        "Content-Disposition: attachment; filename=x.pdf\nContent-Transfer-Encoding: base64\n\nAAAA\n--b--\n"
    ).encode()


SEEDS = {
    "txt": _text, "md": _markdown, "html": _html, "pdf": _pdf, "docx": _docx, "pptx": _pptx, "odt": _odt, "rtf": _rtf,
    "xlsx": _xlsx, "epub": _epub, "srt": _subtitles, "vtt": _webvtt, "chat.txt": _transcript, "eml": _mail,
}  # fmt: skip
"""A function for each format that makes a valid file of it."""
