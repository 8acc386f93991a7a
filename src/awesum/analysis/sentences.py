"""Sentences as character spans that tile the text: every character is in exactly one sentence.

nupunkt, built for long formal text full of abbreviations, headings and lists, finds the boundaries. This module adds
what nupunkt leaves to its caller: other scripts, overlong sentences, and texts of any size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

from awesum.document import Block

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
_GREEK = r"\u0370-\u03ff\u1f00-\u1fff"
# Full stops unknown to nupunkt: Chinese and Japanese, Arabic and Urdu, Devanagari, Armenian, Ethiopic; and the question
# mark of Greek, which looks like a semicolon.
_OTHER_STOPS = re.compile(
    rf"(?:[。！？｡]|．(?!\d))+[”’」』）】》〉]*\s*|[؟۔।॥։።]+\s+|(?<=[{_GREEK}])[;\u037e][”’»]*\s+(?=[«“Α-ΩΆ-Ώ])"
)
_CAPITALS = r"[A-ZÀ-Þ][A-ZÀ-Þ'’&-]*"
_TITLE = re.compile(rf"(?=[A-ZÀ-Þ'’&,: -]{{15}})(?:{_CAPITALS}[,:]?[^\S\n]+){{3,15}}(?=[A-ZÀ-Þ][a-zß-ÿ])")
"""A title in capitals before a sentence on the same line: `CULTURAL EXCHANGE BY KEITH LAUMER It was ...`."""
_WORD = re.compile(r"\w")
_NOT_SPACE = re.compile(r"\S")
_ABBREVIATED = re.compile(r"(?:^|[\s(])(?:z\.\s?B|d\.\s?h|u\.\s?a|i\.\s?d\.\s?R|bzw|vgl|evtl|ggf|inkl|Mio|Mrd)\.\s+$")
_ORDINAL = re.compile(r"\b(?:am|vom|zum|bis|den|der|dem|des|im|seit|ab|und|Ende|Anfang)\s+\d{1,2}\.\s+$", re.I)
_SENTENCE_END = re.compile(rf"(?:[.!?…。！？｡؟۔।॥։።]|(?<=[{_GREEK}])[;\u037e])[\"'”’)\]」』》]*$")


SHORT_TURN = 300
"""Characters. What somebody says in a conversation is one sentence, with its speaker, unless it is longer."""


def sentence_spans(text: str, blocks: Sequence[Block] = ()) -> list[Span]:
    """Split `text` into sentences: consecutive spans from the first character to the last.

    A block (a heading, an item of a list) never shares a sentence with what is before or after it.
    """
    if not text:
        return []
    # A sentence is identified by its first character, never white space, and extends to the start of the next one.
    starts = list(_sentence_starts(text))
    if blocks:
        starts = _at_blocks(text, starts, blocks)
    titles = (match.end() for match in map(partial(_TITLE.match, text), starts) if match)
    starts = sorted({*starts, *titles})
    return list(pairwise([0, *starts[1:], len(text)]))


def _at_blocks(text: str, starts: list[int], blocks: Sequence[Block]) -> list[int]:
    """The starts of sentences, with one at each end of a block, and none inside a heading or a short turn."""
    whole = [block for block in blocks if block.kind == "heading" or _is_short_turn(block)]
    kept, at = list[int](), 0
    for start in starts:
        while at < len(whole) and whole[at].end <= start:
            at += 1
        if at == len(whole) or start <= whole[at].start:
            kept.append(start)
    new = set(kept)
    for block in blocks:
        new.add(block.start)
        following = _NOT_SPACE.search(text, block.end)
        if following and _WORD.search(text, block.end, block.end + LONGEST):
            new.add(following.start())
    return sorted(new)


def _is_short_turn(block: Block) -> bool:
    return block.kind == "turn" and block.end - block.start <= SHORT_TURN


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
    starts = [start for start in starts if not _is_inside(window, start)]
    boundaries = (_OTHER_STOPS, _LINE_END) if line_breaks else (_OTHER_STOPS,)
    stops = {match.end() for boundary in boundaries for match in boundary.finditer(window)} - {len(window)}
    starts = _with_words(window, sorted({0, *starts, *stops}))
    return list(_split_long(window, starts))


def _is_inside(window: str, start: int) -> bool:
    """Whether a full stop before `start` belongs to a date or an abbreviation of a language with capital nouns.

    The splitter knows English, where a capital letter after a full stop begins a sentence. In "am 3. Oktober" and
    "z. B. Kosten" it does not.
    """
    before = window[max(0, start - 40) : start]
    if "\n\n" in before[-4:]:
        return False
    return _ABBREVIATED.search(before) is not None or _ORDINAL.search(before) is not None


def _is_wrapped(text: str, sample: int = 200_000) -> bool:
    """Whether lines are wrapped to a width, so that line breaks mean nothing: many lines then start in lower case."""
    breaks: list[str] = _CONTINUED_LINE.findall(text, 0, sample)
    caseless = sum(character.isalpha() and character.lower() == character.upper() for character in breaks)
    if 2 * caseless <= len(breaks):
        return sum(character.islower() for character in breaks) > 0.2 * len(breaks)
    # A script without capitals: wrapped lines are about as long as each other, and most do not end a sentence.
    lines = [line.strip() for line in text[:sample].split("\n") if line.strip()]
    widths = sorted(map(len, lines))
    full = [line for line in lines if len(line) > 0.8 * widths[len(widths) * 9 // 10]] if lines else []
    ended = sum(_SENTENCE_END.search(line) is not None for line in full)
    return len(full) > 0.6 * len(lines) and len(breaks) > 0.3 * len(lines) and ended < 0.5 * len(full)


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
