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

_LEADER = r"(?:(?:\s?[.·_]){4,}|(?:\s?…){2,})\s*"
_PAGE = r"(?:\d{1,5}|[ivxlc]{1,8})"
_CONTENTS_LINE = re.compile(rf"\S.{{0,200}}?{_LEADER}{_PAGE}\s*", re.I)
_CONTENTS_INSIDE = re.compile(rf"{_LEADER}{_PAGE}\b")
_NUMBER = r"(?:\d{1,3}(?:\.\d{1,3}){0,4}\.?|[A-Z]\.|[IVX]{1,6}\.|§+\s?\d{1,4}[a-z]?)"
_NUMBERED_HEADING = re.compile(
    rf"(?:(?:chapter|section|part|appendix|annex|article|kapitel|abschnitt|teil)\s+\w{{1,6}}\b[.:]?|{_NUMBER}\s+[^\W\d_])"
    r".{0,90}",
    re.I,
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
_BULLET = re.compile(r"\s{0,12}(?:[•◦▪‣●○■□·–—*+-]|\(?[a-z0-9]{1,3}[.)])\s+\S", re.I)
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


def recognize_blocks(document: Document) -> Document:
    """The document with the blocks that show in its text, and notes on what will be kept out of the summary."""
    lines = list(_lines(document.text))
    known = list(document.blocks)
    junk = _merge([*_contents(lines), *_references(lines, known), *_boilerplate(document.text)], known)
    in_junk = _Taken(junk)
    blocks = [block for block in known if in_junk.is_free(block)]
    shown = _shown(lines, {block.kind for block in known})
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
        yield _Line(start, start + len(stripped), stripped, before.count("\n") > 1, after.count("\n") > 1)


# Junk --------------------------------------------------------------------------------------------------------------


def _contents(lines: list[_Line]) -> Iterator[Block]:
    index = 0
    while index < len(lines):
        line = lines[index]
        if is_contents_line(line.text) or len(_CONTENTS_INSIDE.findall(line.text)) > 1:
            yield Block(line.start, line.end, "contents")
        elif _CONTENTS_HEADING.fullmatch(line.text.rstrip(":. ")):
            entries = index + 1
            while entries < len(lines) and _is_entry(lines[entries], lines[entries + 1 : entries + 2]):
                entries += 1
            if entries - index > FEWEST_ENTRIES:
                for entry in lines[index:entries]:
                    yield Block(entry.start, entry.end, "contents")
                index = entries - 1
        index += 1


def _is_entry(line: _Line, following: list[_Line]) -> bool:
    """Whether a line may belong to a table of contents: a title, perhaps with its page, that no text follows."""
    if is_contents_line(line.text) or re.search(rf"\s{_PAGE}$", line.text):
        return len(line.text) < 200
    if _ENDS.search(line.text) or len(line.text.split()) > LONGEST_HEADING + 3:
        return False
    return not following or not (_ENDS.search(following[0].text) and len(following[0].text.split()) > LONGEST_HEADING)


def _references(lines: list[_Line], known: list[Block]) -> Iterator[Block]:
    headings = {block.start for block in known if block.kind == "heading"}
    index = 0
    while index < len(lines):
        if _REFERENCES_HEADING.fullmatch(lines[index].text):
            last = index + 1
            while last < len(lines) and not (lines[last].start in headings or _ends_references(lines[last])):
                last += 1
            entries = lines[index + 1 : last]
            alike = sum(bool(_CITATION.search(entry.text) or _YEAR.search(entry.text)) for entry in entries)
            if len(entries) >= FEWEST_ENTRIES and 2 * alike >= len(entries):
                for entry in entries:
                    yield Block(entry.start, entry.end, "references")
                index = last - 1
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
    for line in lines:
        kind: Kind | None = None
        if "heading" not in known and _is_heading(line):
            kind = "heading"
        elif "list" not in known and _BULLET.match(line.text):
            kind = "list"
        elif "table" not in known and _TABLE_ROW.fullmatch(line.text) and not _ENDS.search(line.text):
            kind = "table"
        if kind:
            level = 1 + line.text.split()[0].rstrip(".").count(".") if kind == "heading" else int(kind == "list")
            yield Block(line.start, line.end, kind, level)


def _is_heading(line: _Line) -> bool:
    words = line.text.split()
    if not line.after_gap or len(words) > LONGEST_HEADING or len(line.text) > 100 or _ENDS.search(line.text):
        return False
    if is_numbered_heading(line.text):
        return True
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
