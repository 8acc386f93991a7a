"""Turns: who says what in a transcript, and speech made readable.

A transcript has a speaker's name before each turn (`Ana: ...`, `[10:02] <ana> ...`). A sentence that is quoted from the
middle of a turn has lost its speaker, and speech has hesitations that nobody reads: `Turns.quote` gives the one back
and leaves the others out. In any other text nothing changes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass

FEWEST_TURNS = 6
"""Lines with a speaker that make a transcript, ..."""
LEAST_SHARE = 0.5
"""... the share of all lines that they are, ..."""
TURNS_EACH = 2.0
"""... and the turns of each speaker, on average: definitions and settings have colons too, but each name once."""
_TURN = re.compile(
    r"^[^\S\n]*(?:\[[\d:. ]+\]\s*|\(?\d{1,2}:\d\d(?::\d\d)?\)?\s+)?"  # the time
    r"(?:<(?P<nick>[^<>\n]{1,40})>|(?P<name>[^\W\d_][\w.'’&/()\- ]{0,40}?)[^\S\n]*:)[^\S\n]+",
    re.MULTILINE,
)
_FIELD = re.compile(
    r"from|to|cc|bcc|date|sent|subject|re|fwd|reply-to|message-id|attachments?|note|figure|table|source|https?",
    re.IGNORECASE,
)
"""What stands before a colon in mails and notes, and is nobody's name."""
_MARK = re.compile(r"\s[:;]-?[()DPp](?=[.\s]|$)|\{[^{}\n]*\}|\[(?:[a-z]+ ?){1,3}\]|<(?:[a-z]+ ?){1,3}>")
_FILLER = r"(?:m+ ?- ?h+m+|u+h+ ?- ?h+u+h+|u+h+m*|u+m+|e+r+m*|m+h?m+|hm+|a+h+|oh+)"
_ASIDE = re.compile(rf"\s*,\s*(?:{_FILLER}|you know|i mean)\s*,\s*", re.IGNORECASE)
_HESITATION = re.compile(rf"(?<!\S)(?:{_FILLER}(?=\s*[,.]|\s|$)|(?:you know|i mean)(?=\s*,))\s*[,.]?\s*", re.IGNORECASE)
_OPENING = re.compile(r"^(?:(?:ok(?:ay)?|yeah|well|so|alright)\s*[,.]\s*)+", re.IGNORECASE)
_REPEATED = re.compile(r"\b([\w']+(?:[ ][\w']+){0,2})(?:,)?\s+\1\b", re.IGNORECASE)
_LOOSE = re.compile(r"\s+([,.;:!?)])|([(])\s+|\s+('(?:s|re|ve|ll|d|m|t)\b|n't\b)")


@dataclass(frozen=True)
class Turns:
    """The turns of a transcript: where each begins, and whose it is."""

    starts: tuple[int, ...] = ()
    said_from: tuple[int, ...] = ()
    """Where what is said begins, after the name."""
    speakers: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> Turns:
        """The turns of a text; none if it is not a transcript."""
        found = [match for match in _TURN.finditer(text) if not _FIELD.fullmatch(match["name"] or "")]
        lines = sum(1 for line in text.split("\n") if line.strip())
        speakers = [(match["nick"] or match["name"]).strip() for match in found]
        if len(found) < FEWEST_TURNS or len(found) < LEAST_SHARE * lines:
            return cls()
        if len(found) < TURNS_EACH * len(Counter(speakers)):
            return cls()
        return cls(tuple(match.start() for match in found), tuple(match.end() for match in found), tuple(speakers))

    def __bool__(self) -> bool:
        return bool(self.starts)

    def said(self, start: int, text: str) -> str:
        """What is said in a sentence, readable; in any other text than a transcript, the sentence as it is."""
        number = self._number(start, text)
        if number < 0:
            return text
        words = text[max(0, self.said_from[number] - start) :]
        return readable(words) or words.strip()

    def quote(self, start: int, text: str, last_speaker: str | None = None) -> tuple[str, str | None]:
        """A sentence as it can be read, and its speaker, who is named if that is not `last_speaker`."""
        number = self._number(start, text)
        if number < 0:
            return text, None
        said, speaker = self.said(start, text), self.speakers[number]
        return (said if speaker == last_speaker else f"{speaker}: {said}"), speaker

    def _number(self, start: int, text: str) -> int:
        """The turn that a sentence ends in; -1 for none."""
        return bisect_right(self.starts, start + len(text.rstrip()) - 1) - 1


def readable(speech: str) -> str:
    """Speech without hesitations, repeated words and marks of noises, with the usual spacing."""
    text = " ".join(_MARK.sub(" ", speech).split())
    text = _LOOSE.sub(lambda match: match[1] or match[2] or match[3], _HESITATION.sub("", _ASIDE.sub(" ", text)))
    previous = None
    while previous != text:
        previous, text = text, _REPEATED.sub(r"\1", text)
    text = _OPENING.sub("", text.lstrip(" ,.;-"))
    return text[:1].upper() + text[1:]
