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


def test_contents_of_questions_on_several_lines_are_contents() -> None:
    text = (
        "Table of Contents\n\n1. Definitions\n    1.1. What is this?\n    1.2. What is the difference between this and "
        "all other\n    distributions? Why should I choose it?\n2. Getting it\n    2.1. Where can I get it?\n\n"
        f"1. Definitions\n\n1.1. What is this?\n\n    {PROSE}\n"
    )
    assert [line.split()[0] for line in blocks(text, "contents")] == [
        "Table", "1.", "1.1.", "1.2.", "distributions?", "2.", "2.1.",
    ]  # fmt: skip
    assert blocks(text, "heading") == ["1. Definitions", "1.1. What is this?"]


def test_long_title_in_contents_is_contents_from_its_first_line() -> None:
    text = "1.4 What is it? . . . . . 2\n\n1.5 What is different? Why\n\nshould I choose it? . . . . . . 2\n\nA text.\n"
    assert len(blocks(text, "contents")) == 3


def test_long_text_with_dots_in_it_is_no_contents() -> None:
    assert not blocks(f"{PROSE * 10} Costs .... 12 {PROSE * 10} Income .... 14 {PROSE * 10}", "contents")


def test_item_of_a_list_goes_on_in_its_indented_lines() -> None:
    text = "There are:\n\n  * a wide range of tools, many of which\n    come with it.\n\n  * another one.\n"
    assert blocks(text, "list") == [
        "* a wide range of tools, many of which\n    come with it.",
        "* another one.",
    ]


@pytest.mark.parametrize("line", ["Yes. It has", "Mr. Miller has", "12. The rest has"])
def test_line_inside_a_paragraph_is_no_item(line: str) -> None:
    assert not blocks(f"It was said in chapter\n{line} the most recent versions of all of the\nprograms.\n", "list")


def test_licence_around_a_book_is_boilerplate() -> None:
    text = (
        "The Project Gutenberg EBook of A Story\n\nThis eBook is for the use of anyone anywhere.\n\n"
        "*** START OF THIS PROJECT GUTENBERG EBOOK A STORY ***\n\n\nProduced by Ann Bo and the Online\n"
        f"Distributed Proofreading Team at http://www.pgdp.net\n\n[Transcriber's Note: no evidence.]\n\n{PROSE}\n\n"
        "*** END OF THIS PROJECT GUTENBERG EBOOK A STORY ***\n\nYou may copy it under the terms of the License.\n"
    )
    assert len(blocks(text, "boilerplate")) == 7
    assert not any(PROSE[:20] in block for block in blocks(text, "boilerplate"))


def test_signatures_of_a_contract_are_boilerplate() -> None:
    text = f"{PROSE}\n\nIN WITNESS WHEREOF the parties have signed this.\n\nSigned for Ann Ltd: ______   Date: ______\n"
    assert len(blocks(text, "boilerplate")) == 2


def test_only_junk_if_nothing_else_is_wanted() -> None:
    text = f"SUMMARY\n\n{PROSE}\n\nAll rights reserved.\n"
    found = recognize_blocks(Document(text), junk_only=True)
    assert [block.kind for block in found.blocks] == ["boilerplate"]
    assert found.notes == ("kept out of the summary: 1 boilerplate phrase",)


def test_page_of_dots_is_read_in_no_time() -> None:
    """Each of these took hours, or minutes."""
    for text in (". . " * 20_000, "contents\n" * 5_000, "references\n" * 1_000 + "x\n" * 1_000):
        recognize_blocks(Document(text))


def test_heading_with_a_number_may_take_two_lines() -> None:
    text = f"1.6. How does the project fit in or compare with the Free\nSoftware Foundation's project?\n\n{PROSE}\n"
    assert blocks(text, "heading") == [text[: text.index("\n\n")]]
