"""Transcripts of chats and meetings: who says what, each turn a paragraph; turns that say nothing are left out."""

from __future__ import annotations

import re
from collections import Counter

from awesum.document import Document
from awesum.reading.blocks import Blocks

FEWEST_TURNS = 6
"""From which a text is a transcript, if most of its lines are turns."""
LONGEST_FILLER = 60
"""Characters of a turn that may say nothing."""
SHARE = 0.6
"""Of the lines of a transcript that begin a turn."""

_TIME = (
    r"(?:\[?\(?(?:\d{1,4}[./-]\d{1,2}[./-]\d{1,4},?\s*)?\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d{1,3})?"
    r"(?:\s?[AaPp]\.?[Mm]\.?)?\)?\]?\s*(?:[-–|]\s*)?)"
)
_NAME = r"[^\W\d_][\w .'’()/-]{0,39}"
_TURN = re.compile(rf"{_TIME}?(?:<(?P<nick>[^<>\s]{{1,30}})>\s*|(?P<name>{_NAME}?)\s*(?:{_TIME})?:\s+)(?P<said>.*)")
_NOT_A_NAME = re.compile(
    r"(?:from|to|cc|bcc|date|subject|re|fw|fwd|sent|note|notes|summary|abstract|title|author|authors|keywords|source|"
    r"figure|table|example|warning|url|http|https|tel|phone|fax|e-?mail|address|chapter|section|part|step|q|a)\b\.?$",
    re.I,
)
_FILLER = re.compile(
    r"(?:(?:u+h+|u+m+|hm+|mm+-?h?m*|uh-?huh|ah+|oh+|er+|eh|yes|yeah|yep|yup|no|nope|ok|okay|k|right|sure|great|cool|"
    r"nice|good|fine|perfect|agreed|exactly|absolutely|totally|indeed|true|lol|haha+|ha|ugh|wow|thanks|thank you|thx|"
    r"ty|cheers|sorry|hi|hello|hey|morning|good morning|good afternoon|bye|goodbye|see you|all|everyone|guys|please|"
    r"well|so|and|but|i see|got it|gotcha|np|same|me too|\+\s?1|-1|\{\w+\}|<[^<>]*>|\[[^\[\]]*\])"
    r"[\s.,!?…]+)+(?:[:;]-?[()DPp/|]\s)?",
    re.I,
)
_SYSTEM = re.compile(
    r"(?:\S+ ){0,2}(?:has )?(?:joined|left|changed the (?:subject|topic))(?: the (?:chat|meeting|channel|group))?\W*",
    re.I,
)


def find_turns(text: str) -> list[tuple[str, str]]:
    """The turns of a transcript, each with its speaker; none if the text is something else."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    matches = [_match(line) for line in lines]
    speakers = Counter(speaker for speaker, _ in filter(None, matches))
    returning = sum(times for times in speakers.values() if times > 1)
    is_transcript = returning >= FEWEST_TURNS and len(speakers) > 1 and returning >= SHARE * len(lines)
    if not is_transcript or len(speakers) > max(3, returning / 2):
        return []
    turns: list[tuple[str, str]] = []
    for line, match in zip(lines, matches, strict=True):
        if match:
            turns.append(match)
        elif turns:
            turns[-1] = turns[-1][0], f"{turns[-1][1]} {line}"
        else:
            turns.append(("", line))
    return turns


def _match(line: str) -> tuple[str, str] | None:
    match = _TURN.fullmatch(line)
    if not match:
        return None
    speaker = (match["nick"] or match["name"] or "").strip()
    if not speaker or len(speaker.split()) > 5 or _NOT_A_NAME.match(speaker):
        return None
    return speaker, match["said"].strip()


def from_turns(turns: list[tuple[str, str]], path: str, notes: tuple[str, ...] = ()) -> Document:
    """A document of turns: those of one speaker in a row together, those that say nothing left out."""
    blocks = Blocks()
    said: list[tuple[str, str]] = []
    fillers = 0
    for speaker, text in turns:
        if speaker and _says_nothing(text):
            fillers += 1
        elif said and speaker and said[-1][0] == speaker:
            said[-1] = speaker, f"{_ended(said[-1][1])} {text}"
        else:
            said.append((speaker, text))
    if not said:  # nothing but greetings: better those than nothing
        said, fillers = [turn for turn in turns if turn[1]], 0
    stops = sum(_ended(text) != text for speaker, text in said if speaker)
    for speaker, text in said:
        blocks.add(f"{speaker}: {_ended(text)}" if speaker else text, "turn" if speaker else None)
    if stops:
        notes = (*notes, f"{stops:,} turns that end without a full stop were given one")
    if fillers:
        notes = (*notes, f"{fillers:,} of {len(turns):,} turns say nothing (“okay”, “thanks”) and were left out")
    return Document(blocks.text, path=path, notes=notes, blocks=tuple(blocks.found))


def _says_nothing(text: str) -> bool:
    return len(text) < LONGEST_FILLER and bool(
        not text or _FILLER.fullmatch(f"{text} ") or _SYSTEM.fullmatch(text) or not any(map(str.isalnum, text))
    )


def _ended(text: str) -> str:
    """With a full stop, which people leave out in chats: without one it would not be a sentence."""
    return text if not text or not (text[-1].isalnum() or text[-1] in ")\"'”’") else f"{text}."
