"""Web pages: the main content if it can be found, else all visible text, and nothing invisible."""

from __future__ import annotations

import socket

import pytest

from awesum.errors import AwesumError
from awesum.reading.html import parse, read, visible_text
from awesum.reading.source import Source

ARTICLE = "".join(
    f"<p>Paragraph {n} of the article tells something new about the river and its bridges.</p>" for n in range(9)
)
PAGE = (
    "<html><head><title>T</title><script>var x = 1;</script></head><body><nav><ul><li><a href='/'>Home</a></li>"
    f"<li><a href='/b'>Imprint</a></li></ul></nav><article><h1>Bridges</h1>{ARTICLE}</article>"
    "<footer>Copyright by nobody</footer></body></html>"
)


def test_main_content_is_read_without_menus_and_with_a_note() -> None:
    document = read(Source(PAGE.encode(), path="a.html"))
    assert "Paragraph 0 of" in document.text
    assert "Paragraph 8 of" in document.text
    assert "Imprint" not in document.text
    assert "var x" not in document.text
    assert "only the main content" in document.notes[-1]


def test_reading_opens_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    page = PAGE.replace("<html>", '<!DOCTYPE html SYSTEM "http://127.0.0.1:9/x.dtd"><html>')
    assert read(Source(page.replace("<h1>", '<img src="http://127.0.0.1:9/x"><h1>').encode(), path="a.html")).text


def test_all_visible_text_is_read_if_no_main_content_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trafilatura.extract", lambda *_, **__: None)
    document = read(Source(PAGE.encode(), path="a.html"))
    assert "Imprint" in document.text
    assert "no main content" in document.notes[-1]


def test_page_without_text_is_refused() -> None:
    with pytest.raises(AwesumError, match=r"a\.html is a web page without text"):
        read(Source(b"<html><body><script>build()</script></body></html>", path="a.html"))


@pytest.mark.parametrize(
    ("data", "charset"),
    [
        (f'<html><head><meta charset="windows-1251"></head><body><p>{"Привет мир. " * 30}</p>'.encode("cp1251"), None),
        (f"<html><body><p>{'Привет мир. ' * 30}</p>".encode("koi8-r"), "koi8-r"),
        (
            f'<?xml version="1.0" encoding="UTF-8"?><html><body><p>{"Привет мир. " * 30}</p></body></html>'.encode(),
            None,
        ),
    ],
)
def test_declared_charset_is_respected(data: bytes, charset: str | None) -> None:
    assert "Привет мир." in read(Source(data, path="a.html", charset=charset)).text


def test_visible_text_separates_blocks_cells_and_lines() -> None:
    page = (
        "<div>Loose<p>in <b>bo</b>ld</p>tail</div><table><tr><th>A</th><td>B</td></tr></table>a<br>b<!-- no -->c"
        "<p hidden>no</p><p style='display: none'>no</p><pre>x\n y</pre><style>no</style><dl><dt>t</dt><dd>d</dd></dl>"
    )
    assert visible_text(parse(page)) == "Loose\n\nin bold\n\ntail\n\nA | B\n\na\nbc\n\nx\n y\n\nt\n\nd"


def test_unclosed_elements_lose_no_text() -> None:
    page = "<html><head><title>no</title></head><body>" + "<b>bold <font color='red'>red " * 5_000 + "<p>The end."
    assert visible_text(parse(page)).endswith("The end.")
    assert visible_text(parse(page)).count("bold") == 5_000


def test_lines_of_the_source_are_no_lines_of_the_page() -> None:
    from awesum.reading.html import _on_one_line

    page = "<p>One\nline.</p><pre>two\nlines</pre><p>And\none.</p>"
    assert _on_one_line(page) == "<p>One line.</p><pre>two\nlines</pre><p>And one.</p>"
    assert _on_one_line("<p>One\nline.") == "<p>One line."
