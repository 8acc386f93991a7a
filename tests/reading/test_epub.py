"""EPUB books: chapters in reading order, nothing run together, nothing lost."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from fast_ebook import epub

from awesum.errors import AwesumError
from awesum.reading import read
from awesum.reading.epub import read as read_epub
from awesum.reading.source import Source

FIRST = (
    "<h1>One</h1><p>First <b>chap</b>ter,&nbsp;with a<br/>break &amp; more.</p>"
    "<table><tr><td>A</td><td>B</td></tr></table><script>no()</script><title/><p>End.</p>"
)


def book(*chapters: str) -> bytes:
    new = epub.EpubBook()
    new.set_identifier("id")
    new.set_title("Book")
    new.set_language("en")
    items = [epub.EpubHtml(title=str(n), file_name=f"c{n}.xhtml", content=text) for n, text in enumerate(chapters)]
    for item in (*items, epub.EpubNcx(), epub.EpubNav()):
        new.add_item(item)
    new.spine = ["nav", *reversed(items)]
    data = io.BytesIO()
    epub.write_epub(data, new)
    return data.getvalue()


def test_chapters_are_read_in_the_order_of_the_spine(tmp_path: Path) -> None:
    (tmp_path / "b.epub").write_bytes(book(FIRST, "<p>Preface.</p>"))
    document = read(tmp_path / "b.epub")
    assert document.text == "Preface.\n\nOne\n\nFirst chapter, with a\nbreak & more.\n\nA | B\n\nEnd."
    assert document.notes == ("1 of 3 parts of the book are tables of contents or pictures and were left out",)


def test_chapter_that_is_not_well_formed_xml_is_still_read() -> None:
    data = book("<p>Unclosed <b>and</p><p>&bogus; more")
    text = read_epub(Source(data, path="b.epub")).text
    assert "Unclosed and" in text
    assert "more" in text


def with_encryption(data: bytes, target: str) -> bytes:
    file = io.BytesIO(data)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(
            "META-INF/encryption.xml",
            f'<encryption><EncryptedData><CipherReference URI="{target}"/></EncryptedData></encryption>',
        )
    return file.getvalue()


def test_encrypted_chapters_are_refused_and_encrypted_fonts_are_not() -> None:
    data = book("<p>Text.</p>")
    with pytest.raises(AwesumError, match=r"b\.epub is protected by DRM"):
        read_epub(Source(with_encryption(data, "EPUB/c0.xhtml"), path="b.epub"))
    assert read_epub(Source(with_encryption(data, "EPUB/font.otf"), path="b.epub")).text == "Text."


def test_book_of_pictures_is_refused() -> None:
    with pytest.raises(AwesumError, match="book without text"):
        read_epub(Source(book("<p><img src='a.png'/></p>"), path="b.epub"))


def test_damaged_book_is_refused(tmp_path: Path) -> None:
    data = book("<p>Text.</p>")
    (tmp_path / "cut.epub").write_bytes(data[: len(data) // 2])
    with pytest.raises(AwesumError, match="damaged"):
        read(tmp_path / "cut.epub")
    with pytest.raises(AwesumError, match="damaged EPUB"):
        read_epub(Source(data.replace(b"META-INF/container.xml", b"META-INF/kontainer.xml"), path="b.epub"))


def test_entities_that_a_book_defines_are_left_out_and_noted() -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(book("<p>Start. &x; End.</p>"))) as old, zipfile.ZipFile(data, "w") as new:
        for member in old.infolist():
            content = old.read(member)
            if member.filename.endswith("c0.xhtml"):
                page = content.decode().replace("&amp;x;", "&x;")
                start = page.index("<html")
                content = f'<!DOCTYPE html [<!ENTITY x SYSTEM "file:///etc/passwd">]>{page[start:]}'.encode()
            new.writestr(member, content)
    document = read_epub(Source(data.getvalue(), path="b.epub"))
    assert document.text.split() == ["Start.", "End."]
    assert any("1 abbreviation that the book defines itself" in note for note in document.notes)
