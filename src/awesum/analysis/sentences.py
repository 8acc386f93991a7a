"""Sentences as character spans that tile the text: every character is in exactly one sentence.

nupunkt, built for long formal text full of abbreviations, headings and lists, finds the boundaries. This module adds
what nupunkt leaves to its caller: other scripts, overlong sentences, and texts of any size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

Span = tuple[int, int]

LONGEST = 6_000
"""Characters. No real sentence is this long; a table, a list of numbers or a line of base64 may be, and is split, so
that no later stage ever meets a word of ten million characters."""

WINDOW = 10 * LONGEST
"""Characters passed to nupunkt at once: some of its steps are quadratic in the length."""
MARGIN = 500
"""Boundaries in the last characters of a window are not trusted: the text after the window might change them."""

_GAP = re.compile(r"(?<=\S)\s{200,}")  # never inside a sentence, and slow in nupunkt
_NO_WORD = re.compile(r"(?<!\S)\S{200,}(?=\S{20})")  # base64, rows of dots, CJK: slow too, and of no use to nupunkt
_LINE_END = re.compile(r"\n\s*")
_CONTINUED_LINE = re.compile(r"\S[^\S\n]*\n[^\S\n]*(\S)")
# Full stops unknown to nupunkt: Chinese and Japanese, Arabic and Urdu, Devanagari, Armenian, Ethiopic.
_OTHER_STOPS = re.compile(r"(?:[。！？｡]|．(?!\d))+[”’」』）】》〉]*\s*|[؟۔।॥։።]+\s+")
_WORD = re.compile(r"\w")
_SENTENCE_END = re.compile(r"[.!?…。！？｡؟۔।॥։።][\"'”’)\]」』》]*$")


def sentence_spans(text: str) -> list[Span]:
    """Split `text` into sentences: consecutive spans from the first character to the last."""
    if not text:
        return []
    # A sentence is identified by its first character, never white space, and extends to the start of the next one.
    starts = list(_sentence_starts(text))
    return list(pairwise([0, *starts[1:], len(text)]))


def ends_sentence(text: str) -> bool:
    """Whether `text` ends like a sentence, unlike a heading or a table cell."""
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
            # The last sentence may continue beyond the window, so the next window starts with it. It has at most
            # LONGEST characters, so each window still advances well past the previous one.
            settled = [s for s in starts if s <= WINDOW - MARGIN]
            yield from (start + s for s in settled[:-1])
            start += settled[-1]


def _starts_in_window(window: str, line_breaks: bool) -> list[int]:
    """The starts of the sentences in `window`, which does not start with white space; at least one."""
    from nupunkt import sentence_spans as nupunkt_spans

    masked = _NO_WORD.sub(lambda match: "x" * len(match[0]), window)
    starts = [start for start, _ in nupunkt_spans(masked, paragraph_breaks=True)]
    boundaries = (_OTHER_STOPS, _LINE_END) if line_breaks else (_OTHER_STOPS,)
    stops = {match.end() for boundary in boundaries for match in boundary.finditer(window)} - {len(window)}
    starts = _with_words(window, sorted({0, *starts, *stops}))
    return list(_split_long(window, starts))


def _is_wrapped(text: str, sample: int = 200_000) -> bool:
    """Whether lines are wrapped to a width, so that line breaks mean nothing: many lines then start in lower case."""
    breaks: list[str] = _CONTINUED_LINE.findall(text, 0, sample)
    return sum(character.islower() for character in breaks) > 0.2 * len(breaks)


def _between_gaps(text: str) -> Iterator[Span]:
    """The spans of text between very long runs of white space; none starts or ends with white space."""
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    for gap in _GAP.finditer(text, start, end):
        yield start, gap.start()
        start = gap.end()
    if start < end:
        yield start, end


def _with_words(window: str, starts: list[int]) -> list[int]:
    """Drop the starts of spans without a word (dashes, asterisks, stray quotes): they join the previous sentence."""
    worded = [start for start, end in pairwise([*starts, len(window)]) if _WORD.search(window, start, end)]
    return [0, *worded[1:]]


def _split_long(window: str, starts: list[int]) -> Iterator[int]:
    """Split overlong sentences after white space if there is any, else at the limit."""
    for start, next_start in pairwise([*starts, len(window)]):
        yield start
        end = start + len(window[start:next_start].rstrip())
        while end - start > LONGEST:
            space = max(window.rfind(space, start + LONGEST // 2, start + LONGEST) for space in " \n\t")
            start = space + 1 if space >= 0 else start + LONGEST
            while window[start].isspace():
                start += 1
            yield start
