"""Markdown is read as it would be rendered."""

from __future__ import annotations

from awesum.document import Document
from awesum.reading.markdown import read
from awesum.reading.source import Source


def md(text: str) -> Document:
    return read(Source(text.encode(), path="a.md", suffix=".md"))


def test_markup_goes_and_text_stays() -> None:
    text = "Title\n===\n\nSome *soft* **strong** ~~old~~ `code` [link](http://x.y 'title') ![alt](a.png) <http://u.v>\nnext.\n"
    assert md(text).text == "Title\n\nSome soft strong old code link alt http://u.v next."


def test_lists_quotes_tables_and_code_are_blocks() -> None:
    text = "- one\n- two\n  - three\n\n> quoted\n\n| A | B |\n|---|---|\n| 1 | 2 |\n\n```python\nx = 1\n\ny = 2\n```\n"
    assert md(text).text == "one\n\ntwo\n\nthree\n\nquoted\n\nA | B\n\n1 | 2\n\nx = 1\n\ny = 2"


def test_html_is_read_without_tags_and_comments() -> None:
    text = "<!-- secret -->\n\n<div>Boxed &amp; kept</div>\n\nA <b>bold</b><br>line<!-- no -->.\n\n[ref]: http://x.y\n"
    assert md(text).text == "Boxed & kept\n\nA bold\nline."


def test_front_matter_is_left_out_with_a_note() -> None:
    document = md("---\ntitle: X\ntags: [a]\n---\n# Title\n")
    assert document.text == "Title"
    assert document.notes == ("the YAML front matter was left out",)


def test_thematic_break_at_the_top_is_not_front_matter() -> None:
    document = md("---\n\nText one.\n\n---\n\nText two.\n")
    assert document.text == "Text one.\n\nText two."
    assert document.notes == ()


def test_deeply_nested_text_is_not_lost() -> None:
    assert "deep" in md(">" * 40 + " deep").text


def test_text_nested_too_deeply_is_read_as_plain_text_with_a_note() -> None:
    for text in (">" * 400 + " deep", "deep " + "[" * 50_000):
        document = md(text)
        assert "deep" in document.text
        assert "nested too deeply" in document.notes[-1]
