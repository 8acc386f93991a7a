"""PDF pages become running text; anything missing is noted, or the file is refused."""

from __future__ import annotations

import pytest

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.reading.pdf import read
from awesum.reading.source import Source

from .pdf_writer import write_pdf

LONG = "This line is about as long as the lines of a printed page tend to be in a"


def pdf(*pages: list[str]) -> Document:
    return read(Source(write_pdf(list(pages)), path="a.pdf"))


def test_lines_are_joined_and_paragraphs_kept_apart() -> None:
    document = pdf(
        ["A Short Title", LONG, LONG.lower(), "book.", "Another paragraph begins here and " + LONG.lower(), "row."]
    )
    assert document.text.split("\n\n") == [
        "A Short Title",
        f"{LONG} {LONG.lower()} book.",
        f"Another paragraph begins here and {LONG.lower()} row.",
    ]


def test_bullets_begin_a_new_line() -> None:
    assert pdf([LONG, "\u2022 first " + LONG.lower(), "\u2022 second"]).text.count("\n\n\u2022") == 2


def test_words_broken_at_line_ends_are_joined_and_compounds_keep_their_hyphen() -> None:
    document = pdf(
        [
            f"A well-known thing. {LONG} repre-",
            f"sentative, {LONG.lower()} well-",
            f"known and {LONG.lower()} self-",
            "help",
        ]
    )
    assert "representative, " in document.text
    assert "a well-known and" in document.text
    assert "selfhelp" in document.text  # never seen elsewhere in the document: taken for a broken word


def test_pages_begin_where_their_text_does() -> None:
    document = pdf([LONG, f"{LONG} sentence that goes"], [], [f"on and on, {LONG}", "End."])
    first, second, third = document.page_starts
    assert first == 0
    assert second == third  # the empty page begins where the next one does
    assert document.text[third:].startswith("on and on")
    assert document.text[:third].endswith("goes ")
    assert document.pages(third, third + 2) == [3]
    assert document.notes == ("1 of 3 pages have no text layer (scanned?) and were not read: 2",)


def test_word_broken_by_a_page_end_is_joined() -> None:
    document = pdf([LONG, LONG + " exam-"], ["ple of it, " + LONG])
    assert "example of it" in document.text
    assert document.text[document.page_starts[1] :].startswith("ple of it")


def test_running_headers_and_page_numbers_are_left_out_with_a_note() -> None:
    topics = ["rivers", "bridges", "harbours", "canals"]
    pages = [
        [f"Annual Report 20{n}", f"Of {topic} and {LONG}", f"about {topic}.", str(n + 6)]
        for n, topic in enumerate(topics)
    ]
    document = pdf(*pages)
    assert "Annual Report" not in document.text
    assert "about canals." in document.text
    assert not any(str(n + 6) in document.text for n in range(4))
    assert document.notes == ('8 lines of headers, footers or page numbers were left out, such as "Annual Report 200"',)


def test_changing_headers_that_count_the_pages_are_left_out() -> None:
    topics = ["rivers", "bridges", "harbours", "canals"]
    pages = [[f"{n + 6} On {topic.upper()}", f"Of {topic} and {LONG}"] for n, topic in enumerate(topics)]
    document = pdf(*pages)
    assert "RIVERS" not in document.text
    assert "Of rivers" in document.text


def test_numbers_that_do_not_count_the_pages_stay() -> None:
    document = pdf(["Sales of the year", LONG, "1200"], ["Costs of the year", LONG, "87"])
    assert "1200" in document.text
    assert "87" in document.text
    assert document.notes == ()


def test_scan_is_refused_with_the_advice_to_run_ocr() -> None:
    with pytest.raises(AwesumError, match=r"a\.pdf is a scan without a text layer.*ocrmypdf"):
        pdf([], [])


def test_password_is_named_as_the_reason() -> None:
    key = f"/Encrypt << /Filter /Standard /V 1 /R 2 /O <{'00' * 32}> /U <{'11' * 32}> /P -4 >> /ID [<00> <00>]"
    with pytest.raises(AwesumError, match="protected by a password"):
        read(Source(write_pdf([["Secret"]], key), path="a.pdf"))


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
def test_truncated_file_is_refused_even_if_it_could_be_repaired(keep: float) -> None:
    data = write_pdf([[LONG] * 20] * 5)
    with pytest.raises(AwesumError, match="cut short"):
        read(Source(data[: int(len(data) * keep)], path="a.pdf"))


def test_damaged_file_is_refused() -> None:
    with pytest.raises(AwesumError, match="damaged PDF"):
        read(Source(b"%PDF-1.4\njunk\n%%EOF\n", path="a.pdf"))


def test_junk_before_the_header_is_ignored() -> None:
    assert read(Source(b"junk\n" + write_pdf([["Hello."]]), path="a.pdf")).text == "Hello."


def test_line_that_is_cut_short_inside_a_sentence_goes_on() -> None:
    cut = LONG[: int(0.65 * len(LONG))].rsplit(" ", 1)[0]
    document = pdf([LONG, LONG.lower(), cut, "Expenditures were lower, and so on.", LONG, LONG.lower(), "end."])
    assert f"{cut} Expenditures were lower" in document.text


def test_rows_of_a_table_are_not_joined() -> None:
    rows = [f"Region {n} with a name 12 13 14 15 16 17 18 and 19 of 20" for n in range(3)]
    document = pdf([LONG, LONG.lower(), "end.", *rows, LONG, LONG.lower(), "end."])
    assert all(f"{row}\n\n" in document.text for row in rows)


def test_address_over_two_lines_stays_whole() -> None:
    document = pdf(
        [LONG, "It comes with many packages, as is shown on https://packages.", "example.org/stable/ and so on."]
    )
    assert "https://packages.example.org/stable/ and" in document.text


def test_running_head_in_capitals_is_left_out_though_it_changes() -> None:
    pages = [
        [
            f"CHAPTER {n}. THE {name}",
            f"{name} begins {LONG.lower()}",
            f"{LONG.lower()} {name}",
            f"of {name} and its end.",
        ]
        for n, name in enumerate(["BASICS", "TOOLS", "END"])
    ]
    document = pdf(*pages)
    assert "CHAPTER" not in document.text
    assert "3 lines of headers" in document.notes[0]
