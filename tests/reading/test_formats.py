"""The formats of an office: what is read, in which order, and what is noted."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from benchmarks.seeds import PARAGRAPHS, SEEDS, TITLES
from pypdfium2 import PdfiumError

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.reading import ocr, parse, pdf
from awesum.reading.source import Source
from tests.reading.pdf_writer import write_pdf


def read(data: bytes | str, name: str = "a.txt", fields: tuple[str, ...] = ()) -> Document:
    content = data.encode() if isinstance(data, str) else data
    return parse(Source(content, path=name, suffix=f".{name.rpartition('.')[2]}", fields=fields))


def kinds(document: Document) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for block in document.blocks:
        found.setdefault(block.kind, []).append(document.text[block.start : block.end])
    return found


@pytest.mark.parametrize("name", SEEDS)
def test_valid_file_of_every_format_is_read_whole(name: str) -> None:
    document = read(SEEDS[name](), f"a.{name}")
    text = " ".join(document.text.split())
    wanted = PARAGRAPHS[:1] if name == "md" else PARAGRAPHS[:3] if name == "eml" else PARAGRAPHS[:4]
    assert all(paragraph in text for paragraph in wanted)
    starts = [block.start for block in document.blocks]
    assert starts == sorted(starts)
    assert "<" not in text


@pytest.mark.parametrize("name", ["html", "docx", "pptx", "odt", "epub"])
def test_headings_are_blocks(name: str) -> None:
    headings = kinds(read(SEEDS[name](), f"a.{name}"))["heading"]
    assert headings[0] == TITLES[0]
    assert set(headings) <= set(TITLES)


def test_slides_are_pages_and_their_notes_are_read() -> None:
    document = read(SEEDS["pptx"](), "a.pptx")
    assert len(document.page_starts) == 4
    assert all(
        document.text[start:].startswith(title) for start, title in zip(document.page_starts, TITLES, strict=True)
    )
    assert document.text.count(PARAGRAPHS[5]) == 4
    assert "the speaker notes of 4 of 4 slides were read with them" in document.notes


def test_workbook_is_tables_with_a_note() -> None:
    document = read(SEEDS["xlsx"](), "a.xlsx")
    assert kinds(document)["heading"] == ["Costs"]
    assert kinds(document)["table"][1] == f"1 | {PARAGRAPHS[1]} | 1.5"
    assert "6 rows of tables" in document.notes[0]


def test_footnotes_of_an_odt_are_noted() -> None:
    document = read(SEEDS["odt"](), "a.odt")
    assert document.notes == ("the footnotes of the document were not read",)
    assert not any(line.endswith("n") for line in document.text.split("\n\n") if line in PARAGRAPHS)


def test_characters_of_an_rtf_are_decoded() -> None:
    assert read(SEEDS["rtf"](), "a.rtf").text.endswith("café €")
    assert read(rb"{\rtf1\ansi\ansicpg1251 \'cf\'f0\'e8\'e2\'e5\'f2}", "a.rtf").text == "Привет"


def test_subtitles_lose_times_and_markup() -> None:
    document = read(SEEDS["srt"](), "a.srt")
    assert document.text.startswith(f"Anna: {PARAGRAPHS[0]}")
    assert "-->" not in document.text
    assert "left out: the times of 6 subtitles" in document.notes


def test_subtitles_are_joined_into_sentences() -> None:
    cues = (
        "1\n00:00:01,000 --> 00:00:02,000\nIt was a simple\n\n2\n00:00:02,000 --> 00:00:03,000\nexchange of letters.\n"
    )
    assert read(cues, "a.srt").text == "It was a simple exchange of letters."


# Conversations -----------------------------------------------------------------------------------------------------

CHAT = """\
[10:00] <ana> morning all
[10:01] <bo> did the deploy go out last night?
[10:02] <chris> no, the migration failed on shard 7, out of disk
[10:03] <chris> I freed 80 GB
[10:04] <ana> ok
[10:05] <bo> let's wait until Thursday
[10:06] <ana> +1
[10:07] <chris> agreed, billing run is Wednesday night
"""


def test_turns_are_kept_together_and_fillers_left_out() -> None:
    document = read(CHAT)
    assert kinds(document)["turn"] == [
        "bo: did the deploy go out last night?",
        "chris: no, the migration failed on shard 7, out of disk. I freed 80 GB.",
        "bo: let's wait until Thursday.",
        "chris: agreed, billing run is Wednesday night.",
    ]
    assert "3 of 8 turns say nothing" in " ".join(document.notes)


def test_meeting_is_a_transcript() -> None:
    lines = "".join(
        f"Ana Souza: We decided on point {n}.\nBo: Yeah.\nBo: I object to point {n},\nas I said.\n" for n in range(4)
    )
    turns = kinds(read(lines))["turn"]
    assert turns[1] == "Bo: I object to point 0, as I said."
    assert len(turns) == 8


@pytest.mark.parametrize(
    "text",
    [
        "Note: this is prose.\n" * 3 + "It goes on for a while.\n" * 9,
        "Title: A study\nAuthor: Somebody\nDate: today\n\nThe text itself is long and has no turns.\n",
        "\n".join(f"Term{n}: its definition is here." for n in range(20)),
    ],
)
def test_prose_with_colons_is_not_a_transcript(text: str) -> None:
    assert "turn" not in kinds(read(text))


# E-mail ------------------------------------------------------------------------------------------------------------


def test_quoted_text_is_read_once() -> None:
    thread = (
        "From: Ana <a@x.org>\nDate: Monday\nSubject: Store\n\nThe compressor in cold store B tripped last night.\n\n"
        "--\nAna | Head of Operations\n\n"
        "From: Bo <b@x.org>\nDate: Tuesday\nSubject: Re: Store\n\nThe contractor can be here at 13:00 today.\n\n"
        "On Monday, Ana wrote:\n> The compressor in cold store B\n> tripped last night.\n"
    )
    document = read(thread)
    assert document.text.count("tripped last night") == 1
    assert "From Bo, Tuesday, Re: Store" in document.text
    assert "Head of Operations" not in document.text
    assert "read once: 1 passage quoted from a message that is there" in document.notes


def test_parts_of_a_message_are_decoded_and_attachments_noted() -> None:
    document = read(SEEDS["eml"](), "a.eml")
    assert document.text.startswith("From Dana, Tue, 14 Mar 2023 09:12:44 +0000, Bridge")
    assert PARAGRAPHS[3] in document.text, "a quotation of something that is not there is read"
    assert "not read: 1 attachment, x.pdf" in document.notes


# Data --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "fields"),
    [
        ("a.csv", "id,comment\n1,The bridge is closed.\n2,It opens again in May.\n", "id, comment"),
        (
            "a.json",
            '[{"id": "1", "comment": "The bridge is closed."}, {"comment": "It opens again in May."}]',
            "id, comment",
        ),
    ],
)
def test_data_is_refused_unless_fields_are_named(name: str, data: str, fields: str) -> None:
    with pytest.raises(AwesumError, match=f"--fields.*{fields}"):
        read(data, name)
    document = read(data, name, ("comment",))
    assert document.text == "The bridge is closed.\n\nIt opens again in May."
    assert "only the" in document.notes[-1]
    with pytest.raises(AwesumError, match="'nothing'"):
        read(data, name, ("nothing",))


def test_text_that_begins_like_json_is_a_text() -> None:
    assert read("[1] This is a note, and not data.").text.startswith("[1] This")


# Encodings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text",
    [
        "The council met on Monday.\nIt decided.",
        "国会は予算案を可決した。\n首相は会見で説明した。",
        "Комитет принял решение. Да.",
    ],
)
def test_utf16_without_a_mark_is_recognized(encoding: str, text: str) -> None:
    assert read(text.encode(encoding)).text == text


def test_bytes_with_nul_are_still_binary() -> None:
    with pytest.raises(AwesumError, match="NUL"):
        read(bytes(range(256)) * 4)


# PDF ---------------------------------------------------------------------------------------------------------------


def test_receipts_keep_their_body() -> None:
    pages = [
        [f"Payment of {100 + 7 * n} euros was received on {n} March.", f"The balance is {n * 31} euros."]
        for n in range(1, 9)
    ]
    document = read(write_pdf(pages), "a.pdf")
    assert all(f"Payment of {100 + 7 * n} euros" in document.text for n in range(1, 9))


def test_damaged_page_costs_that_page(monkeypatch: pytest.MonkeyPatch) -> None:
    lines_of = pdf._lines_of

    def damaged(file: Any, index: int) -> list[str]:
        if index == 1:
            raise PdfiumError("Failed to load page.")
        return lines_of(file, index)

    monkeypatch.setattr(pdf, "_lines_of", damaged)
    pages = [[f"Chapter {n} is about boats and the people in them.", "And another line."] for n in range(4)]
    document = read(write_pdf(pages), "a.pdf")
    assert "Chapter 3 is" in document.text
    assert "Chapter 1 is" not in document.text
    assert "1 of 4 pages are damaged and were not read: 2" in document.notes


def test_line_numbers_are_left_out() -> None:
    pages = [[f"{n} the witness said that it was so and went on" for n in range(1, 25)] for _ in range(2)]
    document = read(write_pdf(pages), "a.pdf")
    assert not any(character.isdigit() for character in document.text)
    assert "48 line numbers were left out" in document.notes


def test_scan_is_refused_with_advice_or_read_with_ocr(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = write_pdf([[], []])
    monkeypatch.setattr(ocr, "is_available", lambda: False)
    with pytest.raises(AwesumError, match=r"install Tesseract and `pip install 'awesum\[ocr\]'`"):
        read(scan, "a.pdf")
    monkeypatch.setattr(ocr, "is_available", lambda: True)
    monkeypatch.setattr(ocr, "lines_of", lambda pdf, index: [f"Scanned page {index + 1}."])
    document = read(scan, "a.pdf")
    assert document.text.split() == "Scanned page 1. Scanned page 2.".split()
    assert "2 of 2 pages have no text layer and were read with OCR" in document.notes[0]


def test_ocr_runs_tesseract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a program of that name which answers the same whatever it sees."""
    program = tmp_path / "tesseract"
    program.write_text(
        "#!/bin/sh\ncase \"$*\" in *--list-langs*) printf 'List:\\neng\\nosd\\n';; *--version*) echo tesseract 5.3.0;; "
        "*) echo 'A scanned line.' > \"$2.txt\";; esac\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    ocr.is_available.cache_clear()
    ocr._languages.cache_clear()
    try:
        assert read(write_pdf([[]]), "a.pdf").text == "A scanned line."
    finally:
        ocr.is_available.cache_clear()
        ocr._languages.cache_clear()


def test_entity_in_a_word_document_does_not_end_it() -> None:
    import zipfile

    data = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(SEEDS["docx"]())) as old, zipfile.ZipFile(data, "w") as new:
        for member in old.infolist():
            content = old.read(member)
            if member.filename == "word/document.xml":
                content = b'<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + content.replace(
                    b"Monday", b"&x;Monday"
                )
            new.writestr(member.filename, content)
    document = read(data.getvalue(), "a.docx")
    assert "Monday and decided to replace" in document.text
    assert "root:" not in document.text
    assert "1 reference to something outside" in document.notes[-1]
