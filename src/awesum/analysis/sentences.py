"""Sentences as character spans that tile the text: no character is lost, none is in two sentences.

nupunkt finds the boundaries (it is made for long formal text full of abbreviations, headings and lists); around it
stand the few things it leaves to its caller: other scripts, sentences too long to be one, and texts of any size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

Span = tuple[int, int]

LONGEST = 6_000
"""Characters. No sentence is this long; a table, a list of numbers or a line of base64 is, and is split here, so that
no later stage ever meets a word of ten million characters."""

WINDOW = 10 * LONGEST
"""Characters that nupunkt sees at once: some of its steps take time that grows with the square of what it is given."""
MARGIN = 500
"""Characters before the end of a window within which no boundary is trusted: what follows might change it."""

_GAP = re.compile(r"(?<=\S)\s{200,}")  # never inside a sentence, and costly to nupunkt
_NO_WORD = re.compile(r"(?<!\S)\S{200,}(?=\S{20})")  # base64, rows of dots, CJK: costly too, and of no use to nupunkt
_LINE_END = re.compile(r"\n\s*")
_CONTINUED_LINE = re.compile(r"\S[^\S\n]*\n[^\S\n]*(\S)")
# Full stops that nupunkt does not know: Chinese and Japanese, Arabic and Urdu, Devanagari, Armenian, Ethiopic.
_OTHER_STOPS = re.compile(r"(?:[。！？｡]|．(?!\d))+[”’」』）】》〉]*\s*|[؟۔।॥։።]+\s+")
_WORD = re.compile(r"\w")
_SENTENCE_END = re.compile(r"[.!?…。！？｡؟۔।॥։።][\"'”’)\]」』》]*$")


def sentence_spans(text: str) -> list[Span]:
    """Split `text` into sentences: consecutive spans from the first character to the last."""
    if not text:
        return []
    # A sentence is known by its first character, which is not white space; it lasts until the next one begins.
    starts = list(_sentence_starts(text))
    return list(pairwise([0, *starts[1:], len(text)]))


def ends_sentence(text: str) -> bool:
    """Whether `text` ends as a sentence does; a heading or the cell of a table does not."""
    return _SENTENCE_END.search(text.rstrip()) is not None


def _sentence_starts(text: str) -> Iterator[int]:
    line_breaks = not _is_wrapped(text)
    for start, end in _between_gaps(text):
        while start < end:
            stop = min(start + WINDOW, end)
            starts = _starts_in_window(text[start:stop], line_breaks)
            if stop == end:
                yield from (start + s for s in starts)
                break
            # What begins last may go on behind the window: begin the next window with it. It is at most LONGEST long,
            # so that each window gets well ahead of the one before.
            settled = [s for s in starts if s <= WINDOW - MARGIN]
            yield from (start + s for s in settled[:-1])
            start += settled[-1]


def _starts_in_window(window: str, line_breaks: bool) -> list[int]:
    """Where sentences begin in `window`, at least one; it begins with no white space."""
    from nupunkt import sentence_spans as nupunkt_spans

    masked = _NO_WORD.sub(lambda match: "x" * len(match[0]), window)
    starts = [start for start, _ in nupunkt_spans(masked, paragraph_breaks=True)]
    boundaries = (_OTHER_STOPS, _LINE_END) if line_breaks else (_OTHER_STOPS,)
    stops = {match.end() for boundary in boundaries for match in boundary.finditer(window)} - {len(window)}
    starts = _with_words(window, sorted({0, *starts, *stops}))
    return list(_split_long(window, starts))


def _is_wrapped(text: str, sample: int = 200_000) -> bool:
    """Whether lines are broken to a width, so that a line end means nothing. Then many lines go on in lower case."""
    breaks: list[str] = _CONTINUED_LINE.findall(text, 0, sample)
    return sum(character.islower() for character in breaks) > 0.2 * len(breaks)


def _between_gaps(text: str) -> Iterator[Span]:
    """The stretches of text between very long runs of white space, none of which begins or ends with white space."""
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    for gap in _GAP.finditer(text, start, end):
        yield start, gap.start()
        start = gap.end()
    if start < end:
        yield start, end


def _with_words(window: str, starts: list[int]) -> list[int]:
    """Leave out the starts of dashes, stars, stray quotes...: what has no word in it belongs to the sentence before."""
    worded = [start for start, end in pairwise([*starts, len(window)]) if _WORD.search(window, start, end)]
    return [0, *worded[1:]]


def _split_long(window: str, starts: list[int]) -> Iterator[int]:
    """Split over-long sentences behind white space where there is any, and anywhere else where there is none."""
    for start, next_start in pairwise([*starts, len(window)]):
        yield start
        end = start + len(window[start:next_start].rstrip())
        while end - start > LONGEST:
            space = max(window.rfind(space, start + LONGEST // 2, start + LONGEST) for space in " \n\t")
            start = space + 1 if space >= 0 else start + LONGEST
            while window[start].isspace():
                start += 1
            yield start
