"""Sentences tile any text, and match what a reader would call sentences."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from awesum.analysis.sentences import LONGEST, WINDOW, ends_sentence, sentence_spans


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


def check_tiling(text: str) -> None:
    spans = sentence_spans(text)
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(start < end for start, end in spans)
    assert not text.strip() or all(text[start:end].strip() for start, end in spans)


PIECES = [
    "A",
    "b",
    "Mr. ",
    "word",
    ". ",
    ".",
    "! ",
    "?",
    "\n",
    "\n\n",
    "  ",
    "\t",
    "。",
    "’",
    '"',
    "- ",
    "1. ",
    "।",
    "\u3000",
]


@settings(deadline=None)  # the first call loads a model
@given(st.text())
@example("\x1c\x85 a\u2028. B")
def test_spans_tile_any_text(text: str) -> None:
    check_tiling(text)


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=200).map("".join))
def test_spans_tile_texts_full_of_boundaries(text: str) -> None:
    check_tiling(text)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([*PIECES, "x" * 150, " " * 201]), st.integers(1, 3000)), max_size=6),
)
def test_spans_tile_texts_longer_than_a_window(pieces: list[tuple[str, int]]) -> None:
    text = "".join(piece * count for piece, count in pieces)[: 3 * WINDOW]
    check_tiling(text)
    assert all(len(sentence.strip()) <= LONGEST + 200 for sentence in sentences(text))


def test_abbreviations_do_not_end_a_sentence() -> None:
    text = "Mr. Smith of Acme Corp. arrived at 5 p.m. on Monday. He left."
    assert sentences(text) == ["Mr. Smith of Acme Corp. arrived at 5 p.m. on Monday. ", "He left."]


def test_heading_is_a_sentence_of_its_own() -> None:
    text = "Annual Report\n\nThe year was good.\nOutlook\nThe next one will be better."
    assert [s.strip() for s in sentences(text)] == [
        "Annual Report",
        "The year was good.",
        "Outlook",
        "The next one will be better.",
    ]


def test_long_title_is_not_part_of_the_first_sentence() -> None:
    title = (
        "The Commercial Crew Program and Its Plans to Ensure Uninterrupted Access to the International Space Station"
    )
    assert sentences(f"{title}\nBackground\nIt began in 2010. It goes on.")[0].strip() == title


def test_line_breaks_mean_nothing_in_wrapped_text() -> None:
    text = "The committee of the\nHouse met and it was\nlate before the members\nwent home. All slept."
    assert sentences(text) == [
        "The committee of the\nHouse met and it was\nlate before the members\nwent home. ",
        "All slept.",
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("今天天气很好。我们去公园！你来吗？", 3),
        ("他说：「走吧。」然后走了。", 2),
        ("यह पहला वाक्य है। यह दूसरा है।", 2),
        ("هل أنت بخير؟ نعم.", 2),
        ("圆周率是３．１４。", 1),
    ],
)
def test_full_stops_of_other_scripts_end_sentences(text: str, count: int) -> None:
    assert len(sentence_spans(text)) == count


def test_span_without_a_word_joins_the_previous_sentence() -> None:
    assert sentences("The end.\n\n* * *\n\nA new part.") == ["The end.\n\n* * *\n\n", "A new part."]


def test_overlong_sentence_is_split_at_white_space() -> None:
    parts = sentences("word " * 5_000)
    assert len(parts) > 1
    assert all(len(part) <= LONGEST and part.startswith("word") for part in parts)


def test_windows_do_not_affect_the_sentences() -> None:
    text = "".join(f"Sentence number {n} was written by Dr. Who, cf. page {n}. " for n in range(6_000))
    assert len(text) > 5 * WINDOW
    assert len(sentence_spans(text)) == 6_000


def test_no_text_has_no_sentences_and_white_space_is_one() -> None:
    assert sentence_spans("") == []
    assert sentence_spans(" \n ") == [(0, 3)]


@pytest.mark.parametrize(
    "piece", ["word ", "a", "a. ", "天气", "天。", "?!", ").", "\n", "\n ", "A\n\n", "a" + " " * 199]
)
def test_a_single_long_line_is_tiled(piece: str) -> None:
    check_tiling(piece * (300_000 // len(piece)))  # would never finish if quadratic in the length


@pytest.mark.parametrize(
    "text", ["It ends.", "Does it? \n\n", "He said “so.”", "(As here.)", "可決した。", "क्या है।", "Wait…"]
)
def test_sentence_ends_with_a_stop_and_closing_marks(text: str) -> None:
    assert ends_sentence(text)


@pytest.mark.parametrize("text", ["Background\n", "Table 1: cost", "3.5", "", " ", "It goes on,"])
def test_heading_does_not_end_like_a_sentence(text: str) -> None:
    assert not ends_sentence(text)


def test_title_in_capitals_is_not_glued_to_the_sentence_after_it() -> None:
    text = "CULTURAL EXCHANGE BY KEITH LAUMER It was a simple exchange. NASA, ESA and Roscosmos agreed."
    assert [text[start:end].strip() for start, end in sentence_spans(text)] == [
        "CULTURAL EXCHANGE BY KEITH LAUMER",
        "It was a simple exchange.",
        "NASA, ESA and Roscosmos agreed.",
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Совет собрался в понедельник. Он решил построить мост. Сколько это стоит? Никто не знает!", 4),
        ("Το συμβούλιο συνεδρίασε τη Δευτέρα. Αποφάσισε να χτίσει γέφυρα. Πόσο κοστίζει; Κανείς δεν ξέρει.", 4),
        ("اجتمع المجلس يوم الاثنين. قرر المجلس بناء جسر. كم يكلف ذلك؟ لا أحد يعرف.", 4),
        ("委员会星期一开会。决定建一座桥。要花多少钱？没有人知道。", 4),
        ("परिषद सोमवार को मिली। उसने पुल बनाने का फैसला किया।", 2),
    ],
)
def test_sentences_of_other_scripts(text: str, count: int) -> None:
    assert len(sentence_spans(text)) == count
