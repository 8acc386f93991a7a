from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

from awesum.rendering import render
from awesum.summary import Summary


class Page(HTMLParser):
    """The page as a browser sees it: elements, and the text inside each."""

    VOID = ("meta", "br", "link", "img", "hr", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[dict[str, str]] = []
        self.open: list[dict[str, str]] = []
        self.feed(text)
        self.close()
        assert not self.open, "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = {"tag": tag, "text": "", **{name: value or "" for name, value in attrs}}
        self.elements.append(element)
        if tag not in self.VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element["text"] += data

    def all(self, tag: str, **attributes: str) -> list[dict[str, str]]:
        wanted = {"tag": tag, **{name.rstrip("_"): value for name, value in attributes.items()}}
        return [element for element in self.elements if wanted.items() <= element.items()]


def squeeze(text: str) -> str:
    return "".join(text.split())


def test_page_loads_nothing_and_runs_nothing(summary: Summary) -> None:
    text = render(summary, "html")
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "form"} & {
        e["tag"] for e in page.elements
    }
    assert all(element["href"].startswith("#") for element in page.elements if "href" in element)
    assert not any("src" in element or any(name.startswith("on") for name in element) for element in page.elements)
    (style,) = page.all("style")
    assert not re.search(r"url\(|@import|https?:", style["text"])


def test_markup_in_the_document_and_its_name_is_escaped(summary: Summary) -> None:
    text = render(summary, "html")
    page = Page(text)
    assert "<script" not in text
    assert "<note>" not in text
    assert not page.all("b")
    assert not page.all("i")
    assert "<i>report</i>.txt" in page.all("title")[0]["text"]
    assert "a <note>" in page.all("footer")[0]["text"]


def test_every_sentence_of_the_summary_links_to_its_source(summary: Summary) -> None:
    page = Page(render(summary, "html"))
    targets = {element["id"]: element["text"] for element in page.elements if "id" in element}
    links = [element for element in page.all("a") if element.get("class") != "where"]
    sentences = [sentence for part in summary.parts for sentence in part.sentences]
    assert [link["text"] for link in links] == [sentence.text for sentence in sentences]
    assert [targets[link["href"][1:]] for link in links] == [sentence.source.text for sentence in sentences]


def test_every_part_links_to_its_segment(summary: Summary) -> None:
    page = Page(render(summary, "html"))
    segments = {element["id"]: element["text"] for element in page.all("span", class_="segment")}
    places = page.all("a", class_="where")
    assert len(segments) == 3
    assert len(places) == 2
    for place, part in zip(places, summary.parts, strict=True):
        assert squeeze(summary.document.text[part.start : part.end]) in squeeze(segments[place["href"][1:]])


def test_every_id_is_unique(summary: Summary) -> None:
    ids = Counter(element["id"] for element in Page(render(summary, "html")).elements if "id" in element)
    assert max(ids.values()) == 1


def test_exactly_the_selected_sentences_are_marked(summary: Summary) -> None:
    marked = [element["text"] for element in Page(render(summary, "html")).all("mark")]
    assert marked == [quote.text for part in summary.parts for quote in part.salient]


def test_source_is_shown_to_the_last_character(summary: Summary, without_pages: Summary) -> None:
    for shown in (summary, without_pages):
        page = Page(render(shown, "html"))
        text = page.all("section", id="source")[0]["text"].removeprefix("Source")
        for name in page.all("span", class_="name"):
            text = text.replace(name["text"], "", 1)
        assert squeeze(text) == squeeze(shown.document.text)
