"""Structure that shows in a text: headings, lists, tables; and what nobody wants in a summary.

A reader knows the structure of its format; this module finds what shows in the text alone, in whatever format it came.
Tables of contents, lists of references and phrases that come with the form are marked, not removed: whoever selects
sentences leaves them out (see `awesum.document.JUNK`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from awesum.document import JUNK, Block, Document, Kind

LONGEST_HEADING = 12
"""Words."""
FEWEST_ENTRIES = 3
"""Lines that make a table of contents, or a list of references."""
MOST_FAILURES = 30
"""Headings of references without any, after which no more are looked for: each is a look at the rest of the text."""
LONGEST_ENTRY, LONGEST_REFERENCE = 200, 1_000
"""Characters. A longer line is a text."""

# A leader is matched from its first dot, and whole: a page of nothing but dots would take hours otherwise.
_LEADER = r"(?<![\s.·_…])(?:(?:\s?[.·_]){4,}+|(?:\s?…){2,}+)\s*+"
_PAGE = r"(?:\d{1,5}|[ivxlc]{1,8})"
_CONTENTS_LINE = re.compile(rf"\S.{{0,200}}?{_LEADER}{_PAGE}\s*", re.I)
_CONTENTS_INSIDE = re.compile(rf"{_LEADER}{_PAGE}\b")
_NUMBER = r"(?:\d{1,3}(?:\.\d{1,3}){0,4}\.?|[A-Z]\.|[IVX]{1,6}\.|§+\s?\d{1,4}[a-z]?)"
_NUMBERED_HEADING = re.compile(
    rf"(?:(?:chapter|section|part|appendix|annex|article|kapitel|abschnitt|teil)\s+\w{{1,6}}\b[.:]?|{_NUMBER}\s+[^\W\d_])"
    r".{0,90}",
    re.I,
)
_NUMBERED_QUESTION = re.compile(r"\d{1,3}\.(?:\d{1,3}\.?)*\s+[(“\"]?[^\W\d_].{3,150}\?")
"""2.1 What is new?"""
_NUMBERED_ENTRY = re.compile(
    r"(?:(?:chapter|part|appendix|section)\s+)?(?:\d{1,3}|[A-Z]|[IVX]{1,5})(?:\.\d{1,3})*\.?\s+\S", re.I
)
_CONTENTS_HEADING = re.compile(
    r"(?:table of )?contents|list of (?:figures|tables)|inhalt(?:sverzeichnis)?|table des matières|sommaire|índice|"
    r"indice|sommario|inhoud(?:sopgave)?|目录|目次",
    re.I,
)
_REFERENCES_HEADING = re.compile(
    rf"(?:{_NUMBER}\s+)?(?:references(?: cited)?|bibliography|works cited|literature(?: cited)?|endnotes|"
    r"literatur(?:verzeichnis)?|quellen(?:verzeichnis)?|références|bibliographie|referencias|bibliografía|"
    r"riferimenti bibliografici|bibliografia|参考文献)\s*:?",
    re.I,
)
_AFTER_REFERENCES = re.compile(
    r"(?:appendi(?:x|ces)|annex|acknowledge?ments?|about the authors?|supplement|anhang)\b", re.I
)
_CITATION = re.compile(
    r"^\s*(?:\[\d{1,4}\]|\(\d{1,4}\)|\d{1,4}\.)\s|\bet al\b|\bdoi\b|https?://|\bpp?\.\s?\d|\bvol\.\s?\d|\bISBN\b|"
    r"\b[A-Z]\.(?:\s?[A-Z]\.)?,|\bIn:\s|\bpress\b|\bproceedings\b|\bjournal\b",
    re.I,
)
_YEAR = re.compile(r"\b(?:1[5-9]|20)\d\d[a-z]?\b")
_NUMBERED_CITATION = re.compile(r"\[\d{1,4}\]\s.{20,}", re.S)
_BULLET = re.compile(r"(?:[•◦▪‣●○■□·–—*+-]|(?P<number>\(?(?:\d{1,3}|[a-z]|[ivx]{1,5})[.)]))\s+\S", re.I)
_TABLE_ROW = re.compile(r"[^|\n]*\|[^|\n]*\|.*|.*\S\s{3,}\S.*\S\s{3,}\S.*")
_ENDS = re.compile(r"[.!?…。！？｡؟۔।॥։።,;:][\"'”’)\]」』》]*$")
_INNER = r"[^()]{0,300}(?:\([^()]{0,100}\)[^()]{0,300}){0,3}"
_CREDIT = re.compile(
    rf"\((?:contributed|patch|patches|implemented|suggested|written|reported|based on){_INNER}\)\.?", re.I
)
_TRACKER = re.compile(r"\b(?:bpo|gh|issue|PR|#)\s?-?#?\d{2,}|\bby\s", re.I)
_BOILERPLATE = re.compile(
    r"^[^\S\n]*(?:"
    r"this page (?:is |was |has been )?(?:intentionally|deliberately) left blank\.?"
    r"|(?:©|\(c\)|copyright\b).{0,150}\b(?:19|20)\d\d\b.{0,150}"
    r"|all rights reserved\b.{0,100}"
    r"|.{0,60}\bcreated using (?:sphinx|doxygen)\b.{0,60}"
    r"|(?:last )?updated on\b.{0,60}"
    r"|this (?:e-?mail|message)(?: and any attachments?)? (?:is|are|may be|may contain|contains)\b.{0,400}"
    r"|if you (?:are not|have received this).{0,300}"
    r"|(?:please )?(?:consider the environment before printing).{0,100}"
    r"|(?:we use cookies|accept (?:all )?cookies|this (?:web)?site uses cookies)\b.{0,300}"
    r"|(?:subscribe|sign up)\b.{0,60}\b(?:newsletter|updates|now)\b.{0,100}"
    r"|(?:share this|print this|follow us on|click here|back to top|skip to (?:main )?content)\b.{0,100}"
    r"|sent from my \w+.{0,30}"
    r"|in witness whereof\b.{0,300}"
    r"|permission is (?:hereby )?granted\b[^\n]*(?:\n[^\S\n]*\S[^\n]*){0,20}"
    r"|(?:signed|signature|by|name|title|date|place)\b[^\n_]{0,80}:[^\S\n]*_{4,}.{0,200}"
    r")[^\S\n]*$",
    re.I | re.M,
)
_PRODUCED = re.compile(
    r"\bproduced by [^\n]{0,200}?(?:\n[^\n]{0,200}?)?\bdistributed\s+proofread(?:ing|ers)\s+team\b(?:\s+at)?(?:\s+https?://\S+)?\.?"
    r"|\[transcriber['’]s note:?[^\[\]]{0,2000}\]",
    re.I,
)
"""What Project Gutenberg puts into a book; its licence, before and after the book, has marks of its own."""
_BOOK_STARTS = re.compile(r"^\*\*\* ?START OF (?:THE|THIS) PROJECT GUTENBERG E-?BOOK[^\n]*$", re.I | re.M)
_BOOK_ENDS = re.compile(r"^\*\*\* ?END OF (?:THE|THIS) PROJECT GUTENBERG E-?BOOK", re.I | re.M)
_NAMES: dict[Kind, tuple[str, str]] = {
    "contents": ("line of a table of contents", "lines of tables of contents"),
    "references": ("reference", "references"),
    "boilerplate": ("boilerplate phrase", "boilerplate phrases"),
}


@dataclass(frozen=True)
class _Line:
    """A line of the text without the white space around it."""

    start: int
    end: int
    text: str
    after_gap: bool
    """Whether a blank line, or nothing, comes before it."""
    before_gap: bool
    indent: int
    """White space before it."""


def recognize_blocks(document: Document, *, junk_only: bool = False) -> Document:
    """The document with the blocks that show in its text, and notes on what will be kept out of the summary.

    With `junk_only`, headings, lists and tables are not looked for.
    """
    lines = list(_lines(document.text))
    known = list(document.blocks)
    junk = _merge([*_contents(lines), *_references(lines, known), *_boilerplate(document.text)], known)
    in_junk = _Taken(junk)
    blocks = [block for block in known if in_junk.is_free(block)]
    shown = [] if junk_only else _shown(lines, {block.kind for block in known})
    taken = _Taken(blocks + junk)
    blocks = sorted(
        [*junk, *blocks, *(block for block in shown if taken.is_free(block))], key=lambda block: block.start
    )
    counts = Counter(block.kind for block in blocks if block.kind in JUNK)
    found = [f"{counts[kind]:,} {names[counts[kind] > 1]}" for kind, names in _NAMES.items() if counts[kind]]
    notes = (f"kept out of the summary: {', '.join(found)}",) if found else ()
    return replace(document, blocks=tuple(blocks), notes=(*document.notes, *notes))


def is_contents_line(line: str) -> bool:
    """Whether a line is one of a table of contents: a title, dots, a page number."""
    return _CONTENTS_LINE.fullmatch(line) is not None


def is_numbered_heading(line: str) -> bool:
    """Whether a line is a heading with a number: `3.2 Results`, but not `3 ships left the harbour.`"""
    if line.endswith("?"):
        return _NUMBERED_QUESTION.fullmatch(line) is not None
    if not _NUMBERED_HEADING.fullmatch(line) or len(line.split()) > LONGEST_HEADING or _ENDS.search(line):
        return False
    words = line.split()
    first = words[1] if len(words) > 1 else ""
    return bool(first) and not first[0].islower()


def _lines(text: str) -> Iterator[_Line]:
    found = [match for match in re.finditer(r"[^\n]+", text) if match[0].strip()]
    for number, match in enumerate(found):
        stripped = match[0].strip()
        start = match.start() + len(match[0]) - len(match[0].lstrip())
        before = text[found[number - 1].end() : match.start()] if number else "\n\n"
        after = text[match.end() : found[number + 1].start()] if number + 1 < len(found) else "\n\n"
        indent = len(match[0]) - len(match[0].lstrip())
        yield _Line(start, start + len(stripped), stripped, before.count("\n") > 1, after.count("\n") > 1, indent)


# Junk --------------------------------------------------------------------------------------------------------------


def _contents(lines: list[_Line]) -> Iterator[Block]:
    found: set[int] = set()
    for index, line in enumerate(lines):
        if is_contents_line(line.text) or _is_joined_contents(line.text):
            # A line or two before it are the beginning of a long title, or a chapter.
            near = [before for before in range(max(0, index - 3), index) if before in found]
            found |= {*range(near[-1] if near else index, index), index}
        elif index not in found and _CONTENTS_HEADING.fullmatch(line.text.rstrip(":. ")):
            last = max(_last_entry(lines, index), _last_numbered_entry(lines, index))
            if last - index >= FEWEST_ENTRIES:
                found.update(range(index, last + 1))
    for index in sorted(found):
        yield Block(lines[index].start, lines[index].end, "contents")


def _last_entry(lines: list[_Line], heading: int) -> int:
    """The last line after a heading of contents that may be one of its entries."""
    last = heading
    while last + 1 < len(lines) and _is_entry(lines[last + 1], lines[last + 2 : last + 3]):
        last += 1
    return last


def _last_numbered_entry(lines: list[_Line], heading: int) -> int:
    """The same where entries have numbers, which may be long and end like questions. The first one that comes again is
    the heading of the first chapter."""
    last = index = heading
    while index + 1 < len(lines) and last - index <= FEWEST_ENTRIES:
        index += 1
        line = lines[index]
        if index > heading + 1 and line.text == lines[heading + 1].text:
            break
        if _NUMBERED_ENTRY.match(line.text) and len(line.text) < LONGEST_ENTRY:
            last = index
        elif line.after_gap or index - last > FEWEST_ENTRIES or last == heading:
            break
        else:
            last = index  # the rest of a title
    return last


def _is_joined_contents(line: str) -> bool:
    """Whether a line is several of a table of contents, and not a long text that has some dots in it."""
    return (found := len(_CONTENTS_INSIDE.findall(line))) > 1 and len(line) < LONGEST_ENTRY * found


def _is_entry(line: _Line, following: list[_Line]) -> bool:
    """Whether a line may belong to a table of contents: a title, perhaps with its page, that no text follows."""
    if is_contents_line(line.text) or re.search(rf"\s{_PAGE}$", line.text):
        return len(line.text) < 200
    if _ENDS.search(line.text) or len(line.text.split()) > LONGEST_HEADING + 3:
        return False
    return not following or not (_ENDS.search(following[0].text) and len(following[0].text.split()) > LONGEST_HEADING)


def _references(lines: list[_Line], known: list[Block]) -> Iterator[Block]:
    headings = {block.start for block in known if block.kind == "heading"}
    index = failures = 0
    while index < len(lines):
        if failures < MOST_FAILURES and _REFERENCES_HEADING.fullmatch(lines[index].text):
            last = index + 1
            while last < len(lines) and not (lines[last].start in headings or _ends_references(lines[last])):
                last += 1
            entries = [entry for entry in lines[index + 1 : last] if len(entry.text) <= LONGEST_REFERENCE]
            alike = sum(bool(_CITATION.search(entry.text) or _YEAR.search(entry.text)) for entry in entries)
            if len(entries) >= FEWEST_ENTRIES and 2 * alike >= len(entries):
                for entry in entries:
                    yield Block(entry.start, entry.end, "references")
                index = last - 1
            else:
                failures += 1
        elif _NUMBERED_CITATION.fullmatch(lines[index].text) and _YEAR.search(lines[index].text):
            last = index
            while last < len(lines) and _NUMBERED_CITATION.fullmatch(lines[last].text):
                last += 1
            if last - index >= 2 * FEWEST_ENTRIES:
                for entry in lines[index:last]:
                    yield Block(entry.start, entry.end, "references")
                index = last - 1
        index += 1


def _ends_references(line: _Line) -> bool:
    return (
        line.after_gap
        and len(line.text.split()) <= LONGEST_HEADING
        and (
            _AFTER_REFERENCES.match(line.text) is not None
            or (is_numbered_heading(line.text) and not _CITATION.search(line.text) and not _YEAR.search(line.text))
        )
    )


def _boilerplate(text: str) -> Iterator[Block]:
    for match in _CREDIT.finditer(text):
        if _TRACKER.search(match[0]):
            yield Block(match.start(), match.end(), "boilerplate")
    for match in _PRODUCED.finditer(text):
        yield Block(match.start(), match.end(), "boilerplate")
    yield from _around_book(text)
    for match in _BOILERPLATE.finditer(text):
        stripped = match[0].strip()
        start = match.start() + len(match[0]) - len(match[0].lstrip())
        yield Block(start, start + len(stripped), "boilerplate")


def _around_book(text: str) -> Iterator[Block]:
    """The licence of Project Gutenberg, before and after a book: each paragraph of it."""
    start, end = _BOOK_STARTS.search(text), _BOOK_ENDS.search(text)
    for first, last in ((0, start.end() if start else 0), (end.start() if end else len(text), len(text))):
        for match in re.finditer(r"\S[^\n]*(?:\n[^\S\n]*\S[^\n]*)*", text[first:last]):
            yield Block(first + match.start(), first + len(match[0].rstrip()) + match.start(), "boilerplate")


def _merge(junk: list[Block], known: list[Block]) -> list[Block]:
    """Junk that a reader or a rule has found, in order, without overlaps: the first and longest comes first."""
    merged: list[Block] = []
    for block in sorted([*junk, *(block for block in known if block.kind in JUNK)], key=lambda b: (b.start, -b.end)):
        if not merged or block.start >= merged[-1].end:
            merged.append(block)
    return merged


# Headings, lists, tables -------------------------------------------------------------------------------------------


def _shown(lines: list[_Line], known: set[Kind]) -> Iterator[Block]:
    """The headings, lists and tables of a text whose reader knows of none."""
    item: _Line | None = None  # of a list, that goes on
    for index, line in enumerate(lines):
        kind: Kind | None = None
        previous = lines[index - 1] if index else None
        item = None if line.after_gap and not _BULLET.match(line.text) else item
        if "heading" not in known and _is_heading(line):
            kind, item = "heading", None
        elif "list" not in known and _is_item(line, previous, item):
            kind, item = "list", line
        elif item and not line.after_gap and line.indent > item.indent:
            continue  # a line of the item above, which `_end_of_item` has found
        elif "table" not in known and _TABLE_ROW.fullmatch(line.text) and not _ENDS.search(line.text):
            kind = "table"
        if kind:
            end = {"list": _end_of_item, "heading": _end_of_heading}.get(kind, _end_of_line)(lines, index)
            level = 1 + line.text.split()[0].rstrip(".").count(".") if kind == "heading" else int(kind == "list")
            yield Block(line.start, end, kind, level)


def _is_item(line: _Line, previous: _Line | None, item: _Line | None) -> bool:
    """Whether a line begins an item of a list. `12. The` does so only where no sentence goes on."""
    bullet = _BULLET.match(line.text)
    if not bullet:
        return False
    return (
        not bullet["number"]
        or line.after_gap
        or item is not None
        or previous is None
        or bool(_ENDS.search(previous.text))
    )


def _end_of_item(lines: list[_Line], index: int) -> int:
    """Where an item ends: its further lines are indented more than its first."""
    last = index
    while last + 1 < len(lines):
        following = lines[last + 1]
        if following.after_gap or following.indent <= lines[index].indent or _BULLET.match(following.text):
            break
        last += 1
    return lines[last].end


def _end_of_heading(lines: list[_Line], index: int) -> int:
    """Where a heading ends: one with a number may go on in the next line, if a gap comes after that."""
    following = lines[index + 1] if index + 1 < len(lines) else None
    if (
        following is None
        or following.after_gap
        or not following.before_gap
        or not is_numbered_heading(lines[index].text)
    ):
        return lines[index].end
    return following.end if len(following.text.split()) <= LONGEST_HEADING else lines[index].end


def _end_of_line(lines: list[_Line], index: int) -> int:
    return lines[index].end


def _is_heading(line: _Line) -> bool:
    words = line.text.split()
    if line.after_gap and is_numbered_heading(line.text):
        return True
    if not line.after_gap or len(words) > LONGEST_HEADING or len(line.text) > 100 or _ENDS.search(line.text):
        return False
    letters = [character for character in line.text if character.isalpha()]
    if len(letters) > 2 and all(map(str.isupper, letters)):
        return True
    is_title = bool(letters) and not letters[0].islower() and not _BULLET.match(line.text)
    return is_title and line.before_gap and "|" not in line.text


class _Taken:
    """Where blocks are, in order: whether another one has room."""

    def __init__(self, blocks: list[Block]) -> None:
        self._blocks = sorted(blocks, key=lambda block: block.start)
        self._starts = [block.start for block in self._blocks]

    def is_free(self, block: Block) -> bool:
        at = bisect_left(self._starts, block.end)
        return at == 0 or self._blocks[at - 1].end <= block.start
