"""Subtitles (SRT, WebVTT): what is said, without numbers, times and markup, joined into sentences."""

from __future__ import annotations

import re

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.reading.source import Source
from awesum.reading.text import decode
from awesum.reading.transcript import from_turns
from awesum.summary import count

_SOUND = re.compile(r"\[[^\[\]]{0,80}\]|\([A-Z][A-Z\s]{2,60}\)|[♪♫#]+")
_SPEAKER = re.compile(r"<v(?:\.[\w.]+)?\s+([^<>]{1,60})>")
_VOICE_END = re.compile(r"</v>")
_TURN = re.compile(r"(?:-\s*)?([A-Z][A-Z .'-]{1,30}|>>\s*[\w .'-]{0,30}):\s+")
PAUSE = 4_000
"""Milliseconds of silence that end a paragraph."""


def read(source: Source) -> Document:
    """Read subtitles."""
    import pysubs2

    text, notes = decode(source.data, source.charset)
    kind = "vtt" if text.lstrip("\ufeff \n").startswith("WEBVTT") or source.suffix == ".vtt" else "srt"
    try:
        events = pysubs2.SSAFile.from_string(text.lstrip("\ufeff"), format_=kind).events
    except MemoryError:
        raise
    except Exception as error:  # the library lets any error of a broken file escape
        raise AwesumError(
            f"{source.path} is a damaged subtitle file ({' '.join(str(error).split())[:200]}): save it as text."
        ) from error
    turns: list[tuple[str, str]] = []
    last, end, sounds = "", 0, 0
    for event in events:
        raw = event.text.replace("\\N", "\n")
        voice = _SPEAKER.search(raw)
        said, found = _SOUND.subn(" ", _VOICE_END.sub("", _SPEAKER.sub("", raw)))
        said = " ".join(re.sub(r"<[^<>]{1,40}>|\{\\[^{}]*\}", "", said).split())
        sounds += found
        speaker = voice[1].strip() if voice else ""
        if not speaker and (named := _TURN.match(said)):
            speaker, said = named[1].strip("> ").title(), said[named.end() :]
        if not said or said == last:  # a line that stays on the screen is written again
            continue
        is_new = not turns or (speaker and speaker != turns[-1][0]) or event.start - end > PAUSE
        if is_new:
            turns.append((speaker, said))
        else:
            turns[-1] = turns[-1][0], f"{turns[-1][1]} {said}"
        last, end = said, event.end
    if not turns:
        raise AwesumError(f"{source.path} contains no subtitles: there is no text to summarize.")
    left_out = [f"left out: the times of {count(len(events), 'subtitle')}"]
    if sounds:
        left_out.append(f"left out: {count(sounds, 'description')} of sounds")
    return from_turns(turns, source.path, (*notes, *left_out))
