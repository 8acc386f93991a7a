"""Any bytes decode to text, and notes report every guess and replacement."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awesum.reading.text import decode, replace_control_characters


@settings(deadline=None)  # the first guess loads the detector
@given(st.binary())
def test_decoding_never_fails(data: bytes) -> None:
    text, _ = decode(data)
    assert "\r" not in text


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\ufeff\0")))
def test_utf8_round_trips(text: str) -> None:
    assert decode(text.encode()) == (text, ())


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_byte_order_mark_decides(encoding: str) -> None:
    assert decode("Grüße, 世界".encode(encoding)) == ("Grüße, 世界", ())


def test_a_few_bad_bytes_in_utf8_are_replaced_and_counted() -> None:
    text, notes = decode("Grüße über Grüße".encode() + b" \xff \xfe end")
    assert text == "Grüße über Grüße \ufffd \ufffd end"
    assert notes == ("2 bytes that are not UTF-8 were replaced by \ufffd",)


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "The café’s “quoted” naïve résumé costs £5. " * 50),
        ("cp1251", "Привет, мир. Это простой текст на русском языке для проверки. " * 5),
        ("cp1250", "Příliš žluťoučký kůň úpěl ďábelské ódy. " * 5),
        ("shift_jis", "今日は天気がとても良いです。明日も晴れるでしょう。" * 5),
    ],
)
def test_other_encodings_are_guessed_and_the_guess_is_noted(encoding: str, text: str) -> None:
    decoded, notes = decode(text.encode(encoding))
    assert decoded == text
    assert "which is a guess" in notes[0]


def test_declared_encoding_is_used_unless_it_is_wrong() -> None:
    assert decode("Größe".encode("latin-1"), "iso-8859-1") == ("Größe", ())
    assert decode("Größe".encode(), "ascii") == ("Größe", ())
    assert decode(b"plain", "no-such-thing") == ("plain", ())


def test_line_ends_become_newlines() -> None:
    assert decode(b"a\r\nb\rc\n")[0] == "a\nb\nc\n"


def test_control_characters_become_spaces_one_for_one() -> None:
    text, notes = replace_control_characters("a\x00b\x1b\x7f\x9f\ufeffc\td\ne\ff\ud800")
    assert text == "a b    c\td\ne\nf "
    assert notes == ("6 control characters were replaced by spaces",)
    assert replace_control_characters("clean\n") == ("clean\n", ())


def test_halves_of_characters_do_not_make_utf8_another_encoding() -> None:
    text, notes = decode(b"A lone half \xed\xa0\x80 here. " * 50)
    assert text.startswith("A lone half \ufffd")
    assert notes == ("150 bytes that are not UTF-8 were replaced by \ufffd",)


def test_colours_of_a_terminal_go_whole() -> None:
    text, _ = replace_control_characters("a \x1b[31mred\x1b[0m b")
    assert text.split() == ["a", "red", "b"]
    assert len(text) == len("a \x1b[31mred\x1b[0m b")


def test_marks_that_turn_a_text_around_are_replaced() -> None:
    text, notes = replace_control_characters("only \u2066admins\u2069 \u202e")
    assert text == "only  admins   "
    assert notes == ("3 marks that turn the direction of the text around were replaced by spaces",)
