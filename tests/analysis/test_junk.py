"""What must not be selected is not, headings are sentences of their own, and turns stay whole."""

from __future__ import annotations

from awesum.analysis.junk import in_blocks, without_junk
from awesum.analysis.language import capitalizes_nouns, detect, name
from awesum.analysis.sentences import sentence_spans
from awesum.document import JUNK, Block, Document, Sentence


def split(document: Document) -> list[str]:
    return [document.text[start:end].strip() for start, end in sentence_spans(document.text, document.blocks)]


def sentences(document: Document) -> list[Sentence]:
    return [Sentence(start, end, 1) for start, end in sentence_spans(document.text, document.blocks)]


def document(text: str, *blocks: tuple[str, str]) -> Document:
    found = [Block(text.index(part), text.index(part) + len(part), kind) for part, kind in blocks]  # type: ignore[arg-type]
    return Document(text, blocks=tuple(sorted(found, key=lambda block: block.start)))


def test_heading_is_never_glued_to_the_next_sentence() -> None:
    glued = document(
        "and so on\nResults of the survey\nthe bridge is closed, as we said.", ("Results of the survey", "heading")
    )
    assert split(glued) == ["and so on", "Results of the survey", "the bridge is closed, as we said."]


def test_heading_with_full_stops_stays_whole() -> None:
    text = "Intro text here. What is new? Everything! More text follows here."
    assert split(document(text, ("What is new? Everything!", "heading")))[1] == "What is new? Everything!"


def test_short_turn_is_one_sentence_with_its_speaker() -> None:
    text = "bo: It failed. We retry at ten.\n\nana: Fine. Who tells them?"
    turns = document(text, ("bo: It failed. We retry at ten.", "turn"), ("ana: Fine. Who tells them?", "turn"))
    assert split(turns) == ["bo: It failed. We retry at ten.", "ana: Fine. Who tells them?"]


def test_sentences_still_tile_the_text() -> None:
    text = "  One.  Two (Contributed by A in bpo-1.) three.\n\n"
    marked = document(text, ("(Contributed by A in bpo-1.)", "boilerplate"))
    spans = sentence_spans(text, marked.blocks)
    assert "".join(text[start:end] for start, end in spans) == text


def test_junk_and_headings_are_emptied() -> None:
    text = "Results. The bridge is closed. [1] A. Author, 1999."
    marked = document(text, ("Results.", "heading"), ("[1] A. Author, 1999.", "references"))
    found = sentences(marked)
    texts = [text[sentence.start : sentence.end] for sentence in found]
    assert [kept.strip() for kept in without_junk(marked, found, texts)] == ["", "The bridge is closed.", ""]
    assert in_blocks(marked, found, JUNK) == [False, False, True]


def test_document_of_nothing_but_junk_keeps_it() -> None:
    marked = document("[1] A. Author, 1999.", ("[1] A. Author, 1999.", "references"))
    assert without_junk(marked, sentences(marked), [marked.text]) == [marked.text]


def test_languages_are_told_apart() -> None:
    german = "Der Gemeinderat hat am Montag nach langer Debatte beschlossen, das alte Hallenbad nicht zu sanieren."
    assert detect(german) == "de"
    assert detect("The council decided on Monday that the bridge and the road will be replaced for the winter.") == "en"
    assert detect("国会は予算案を可決した。首相は会見で説明した。" * 3) == "ja"
    assert detect("12 34 56") is None
    assert name("de") == "German"


def test_german_ordinals_and_abbreviations_end_no_sentence() -> None:
    text = "Am 3. Oktober war es kalt. Er kam z. B. Montag. Seit dem 2. Weltkrieg gilt das. Ende."
    assert split(Document(text)) == [
        "Am 3. Oktober war es kalt.",
        "Er kam z. B. Montag.",
        "Seit dem 2. Weltkrieg gilt das.",
        "Ende.",
    ]


def test_wrapped_lines_of_a_script_without_capitals_are_joined() -> None:
    line = "הוועדה החליטה לדחות את הפגישה עד לשבוע הבא בגלל מזג"
    text = f"{line}\n{line}\n{line}\n{line} סוף.\n" * 3
    assert len(split(Document(text))) < 8


def test_language_whose_nouns_have_capitals() -> None:
    assert capitalizes_nouns("Der Rat hat eine Entscheidung über das Bad getroffen.")
    assert not capitalizes_nouns("Ursula von der Leyen met the Council of the European Union in Brussels.")
    assert not capitalizes_nouns("Le maire a dit que le conseil des ministres et la ville sont en accord.")
    assert not capitalizes_nouns("Das Boot ist ein Film, " + "said the man who had seen it in the cinema. " * 5)
