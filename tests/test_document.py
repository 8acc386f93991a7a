from __future__ import annotations

import pytest

from awesum.document import Document

PAGED = Document("x" * 100, page_starts=(0, 30, 60))


@pytest.mark.parametrize(
    ("start", "end", "pages"),
    [
        (0, 10, [1]),
        (0, 30, [1]),
        (0, 31, [1, 2]),
        (29, 30, [1]),
        (30, 60, [2]),
        (10, 61, [1, 2, 3]),
        (60, 100, [3]),
        (99, 100, [3]),
        (30, 30, [2]),
    ],
)
def test_pages_are_those_that_contain_the_characters(start: int, end: int, pages: list[int]) -> None:
    assert PAGED.pages(start, end) == pages


def test_document_without_pages_has_none() -> None:
    assert Document("text").pages(0, 4) == []


def test_text_before_the_first_page_belongs_to_it() -> None:
    assert Document("x" * 20, page_starts=(5, 10)).pages(0, 8) == [1]


def test_page_without_text_contains_nothing() -> None:
    document = Document("x" * 20, page_starts=(0, 10, 10))
    assert document.pages(0, 10) == [1]
    assert document.pages(10, 20) == [3]
