"""Transcripts are recognized, quotations name their speaker, and speech loses its hesitations but not its meaning."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awesum.analysis.salience.choice import word_costs
from awesum.analysis.turns import Turns, readable

MEETING = """\
Ana: Good morning all of you.
Bo: Um , we should ship the new box on Friday. It is ready for the customers.
Ana: Fine.
Bo: I will do it.
Cy: I disagree with that plan.
Bo: Why do you ?
"""
CHAT = """\
[10:00] <ana> morning all
[10:01] <bo> did the deploy go out last night
[10:02] <cy> no, the migration failed on shard 7
[10:03] <ana> ugh
[10:04] <bo> I freed 80 GB and will try again at ten
[10:05] <cy> ok
"""
NOT_TRANSCRIPTS = {
    "prose": "The board met in May. It approved the plan: all of it.\n" * 9,
    "settings": "".join(f"Setting {letter}: some value\n" for letter in "abcdefghij"),
    "a few turns": MEETING[: MEETING.index("Cy")],
    "a quotation in a report": "The report is long and has many lines.\n" * 20 + MEETING,
    "nothing": "",
}


def test_speakers_of_a_meeting_and_of_a_chat() -> None:
    assert Turns.of(MEETING).speakers == ("Ana", "Bo", "Ana", "Bo", "Cy", "Bo")
    assert Turns.of(CHAT).speakers == ("ana", "bo", "cy", "ana", "bo", "cy")


@pytest.mark.parametrize("name", NOT_TRANSCRIPTS)
def test_other_texts_are_no_transcripts_and_are_quoted_as_they_are(name: str) -> None:
    turns = Turns.of(NOT_TRANSCRIPTS[name])
    assert not turns
    assert turns.quote(0, "Ana: Um , yes .") == ("Ana: Um , yes .", None)


def quoted(text: str, words: str, last: str | None = None) -> tuple[str, str | None]:
    return Turns.of(text).quote(text.index(words), words, last)


def test_sentence_from_the_middle_of_a_turn_gets_its_speaker_back() -> None:
    assert quoted(MEETING, "It is ready for the customers.") == ("Bo: It is ready for the customers.", "Bo")


def test_speaker_is_named_once() -> None:
    first = quoted(MEETING, "Bo: Um , we should ship the new box on Friday.")
    assert first == ("Bo: We should ship the new box on Friday.", "Bo")
    assert quoted(MEETING, "It is ready for the customers.", "Bo") == ("It is ready for the customers.", "Bo")
    assert quoted(MEETING, "Cy: I disagree with that plan.", "Bo") == ("Cy: I disagree with that plan.", "Cy")


def test_time_is_not_part_of_a_quotation() -> None:
    line = "[10:02] <cy> no, the migration failed on shard 7\n"
    assert quoted(CHAT, line) == ("cy: No, the migration failed on shard 7", "cy")


def test_lines_of_a_chat_can_be_selected_without_full_stops() -> None:
    lines = CHAT.splitlines(keepends=True)
    costs = word_costs(lines)
    assert [cost > 0 for cost in costs] == [False, True, True, False, True, False]
    assert not any(
        cost for cost in word_costs(["Six words and no full stop here\n", "One that has a full stop.\n"])[:1]
    )


@pytest.mark.parametrize(
    ("speech", "text"),
    [
        ("Uh , so we have , um , the the colour and the shape .", "So we have the colour and the shape."),
        ("I 've I 've never seen it .", "I've never seen it."),
        ("OK , so , we 're on .", "We're on."),
        ("by , uh , watching which one which one you are on", "By watching which one you are on"),
        ("{vocalsound} Mm - hmm . So you know , I think so too .", "So I think so too."),
        ("Yes , we accept .", "Yes, we accept."),
        ("No , we do not .", "No, we do not."),
        ("They know what you know about it .", "They know what you know about it."),
        ("The umbrella and the era are humming .", "The umbrella and the era are humming."),
        ("It costs 12 , 500 Euros ( or so ) .", "It costs 12, 500 Euros (or so)."),
    ],
)
def test_speech_becomes_readable(speech: str, text: str) -> None:
    assert readable(speech) == text


@given(st.text(alphabet="abu hmer,.-'{}[]()\n", max_size=80))
def test_readable_speech_stays_as_it_is(speech: str) -> None:
    once = readable(speech)
    assert len(once) <= len(speech)
    assert readable(readable(once)) == readable(once)
