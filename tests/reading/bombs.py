"""Small files that exhaust whoever reads them, made in code."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable

from benchmarks.seeds import SEEDS, assemble_pdf


def nested_forms(levels: int = 30, times: int = 10) -> bytes:
    """A PDF of a few kilobytes whose forms draw each other, `times` to the power of `levels` times in all."""

    def stream(dictionary: str, content: bytes) -> bytes:
        packed = zlib.compress(content)
        head = f"<< {dictionary} /Length {len(packed)} /Filter /FlateDecode >>\nstream\n"
        return head.encode() + packed + b"\nendstream"

    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /XObject << /F 5 0 R >> >> >>",
        stream("", b"/F Do"),
    ]
    for level in range(levels):
        form = f"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /F {6 + level} 0 R >> >>"
        objects.append(stream(form, b"/F Do " * times))
    objects.append(stream("/Type /XObject /Subtype /Form /BBox [0 0 9 9]", b"0 0 1 1 re f"))
    return assemble_pdf(objects)


def _with_members(data: bytes, **members: bytes) -> bytes:
    """An archive with some members replaced; `__` stands for a slash, `_dot_` for a dot."""
    names = {name.replace("__", "/").replace("_dot_", "."): content for name, content in members.items()}
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            content = names.pop(member.filename) if member.filename in names else old.read(member)
            new.writestr(member.filename, content, zipfile.ZIP_DEFLATED)
        for name, content in names.items():
            new.writestr(name, content)
    return changed.getvalue()


def huge_mimetype(size: int = 600_000_000) -> bytes:
    """An EPUB whose first member is enormous."""
    return _with_members(SEEDS["epub"](), mimetype=b"application/epub+zip" + bytes(size))


def huge_tree(elements: int = 6_000_000) -> bytes:
    """A DOCX whose XML is small enough, and whose tree is not."""
    word = b'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    xml = b"<w:document " + word + b"><w:body>" + b"<w:p/>" * elements + b"</w:body></w:document>"
    return _with_members(SEEDS["docx"](), word__document_dot_xml=xml)


def lying_size() -> bytes:
    """A DOCX whose directory says that a part of a gigabyte has 5,000 bytes."""
    data = bytearray(_with_members(SEEDS["docx"](), word__document_dot_xml=b" " * 300_000_000))
    for signature, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = data.find(b"word/document.xml") if signature == b"PK\x03\x04" else data.rfind(b"word/document.xml")
        start = data.rfind(signature, 0, at)
        data[start + offset : start + offset + 4] = struct.pack("<I", 5000)
    return bytes(data)


def repeated_spine(times: int = 20_000) -> bytes:
    """An EPUB that lists a chapter 20,000 times."""
    book = SEEDS["epub"]()
    with zipfile.ZipFile(io.BytesIO(book)) as archive:
        package = archive.read("content.opf").replace(b"<spine>", b"<spine>" + b'<itemref idref="i0"/>' * times)
    return _with_members(book, content_dot_opf=package)


def many_attributes(number: int = 200_000) -> bytes:
    """A page with a tag of 200,000 attributes."""
    attributes = " ".join(f"a{n}=1" for n in range(number))
    return f"<html><body><p {attributes}>Text with many attributes.</p></body></html>".encode()


BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "forms.pdf": (nested_forms, "PDF bomb"),
    "mimetype.epub": (huge_mimetype, "the member that names its kind"),
    "tree.docx": (huge_tree, "3,000,000 elements"),
    "lie.docx": (lying_size, "damaged"),
    "spine.epub": (repeated_spine, "lists the part"),
    "attributes.html": (many_attributes, "200,000 attributes"),
}
"""Each with words of the line that refuses it."""
