"""What shows in a text: headings, lists and tables; and what is kept out of summaries."""

from __future__ import annotations

import pytest

from awesum.document import Document
from awesum.reading.structure import is_contents_line, is_numbered_heading, recognize_blocks

PROSE = "The committee met in March and decided that the bridge should be replaced before the winter. It was not easy."


def blocks(text: str, kind: str) -> list[str]:
    document = recognize_blocks(Document(text))
    return [text[block.start : block.end] for block in document.blocks if block.kind == kind]


def test_table_of_contents_is_junk() -> None:
    text = f"Report\n\nContents\n\n1 Introduction\n\n2 Methods\n\n3 Results\n\n1 Introduction\n\n{PROSE}"
    assert blocks(text, "contents")[:4] == ["Contents", "1 Introduction", "2 Methods", "3 Results"]
    assert PROSE not in " ".join(blocks(text, "contents"))


@pytest.mark.parametrize(
    "line", ["Introduction .......... 5", "2.1 Methods . . . . . . . 17", "Preface …… xii", "Annex ____ 3"]
)
def test_dots_and_a_page_make_a_contents_line(line: str) -> None:
    assert is_contents_line(line)


@pytest.mark.parametrize("line", ["He paused... 5 people left.", "It cost 5.", "See page 5", "And so on ..."])
def test_prose_is_no_contents_line(line: str) -> None:
    assert not is_contents_line(line)


def test_references_are_junk_up_to_the_next_heading() -> None:
    entries = [f"[{n}] A. Author and B. Other, On bridges, vol. {n}, 199{n}, pp. 3-9." for n in range(5)]
    text = f"{PROSE}\n\nReferences\n\n" + "\n\n".join(entries) + f"\n\nAppendix A\n\n{PROSE}"
    assert blocks(text, "references") == entries


def test_section_called_references_without_any_is_kept() -> None:
    assert not blocks(f"References\n\n{PROSE}\n\n{PROSE}\n\n{PROSE}\n\n{PROSE}", "references")


def test_credits_and_notices_are_junk() -> None:
    credit = "(Contributed by Jane Roe in bpo-12345.)"
    text = f"{PROSE} {credit}\n\n© 2023 The Authors. Licensed.\n\nThis page intentionally left blank"
    assert blocks(text, "boilerplate") == [
        credit,
        "© 2023 The Authors. Licensed.",
        "This page intentionally left blank",
    ]
    assert not blocks("(Contributed to the fund, as agreed.) " + PROSE, "boilerplate")


def test_what_is_kept_out_is_counted() -> None:
    document = recognize_blocks(Document(f"{PROSE} (Contributed by A in bpo-12345.)\n\nIntroduction .......... 5"))
    assert document.notes == ("kept out of the summary: 1 line of a table of contents, 1 boilerplate phrase",)


@pytest.mark.parametrize(
    "line", ["1 Introduction", "3.2 Results of the Survey", "Chapter 4: Tools", "A. Scope", "§ 12 Haftung"]
)
def test_numbered_headings(line: str) -> None:
    assert is_numbered_heading(line)


@pytest.mark.parametrize(
    "line", ["3 ships left the harbour", "12 Monkeys escaped from the zoo.", "1999 was a good year", PROSE]
)
def test_numbers_that_begin_a_sentence_make_no_heading(line: str) -> None:
    assert not is_numbered_heading(line)


def test_headings_lists_and_tables_show() -> None:
    text = f"SUMMARY\n\n{PROSE}\n\nWhat we found\n\n{PROSE}\n\n- one item\n- another item\n\nName | Cost | Year\n"
    assert blocks(text, "heading") == ["SUMMARY", "What we found"]
    assert blocks(text, "list") == ["- one item", "- another item"]
    assert blocks(text, "table") == ["Name | Cost | Year"]
