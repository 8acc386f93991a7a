"""Pages of text: their running heads, footers and page numbers, recognized by what repeats from page to page."""

from __future__ import annotations

import re
from collections import Counter

from awesum.reading.numbering import without_line_numbers

Place = tuple[int, int]
"""A page and a line on it, both counted from zero."""

EDGE_LINES = 2
"""Lines at the top and at the bottom of a page that may be running headers and footers."""

_PAGE_NUMBER = re.compile(
    r"[\W_]*(?:page|p\.|seite|página)?\s*(\d{1,5}|[ivxlc]{1,8})(?:\s*(?:of|/|von|de)\s*\d{1,5})?[\W_]*", re.I
)


def without_furniture(text: str) -> tuple[str, tuple[str, ...]]:
    """A plain text without line numbers, and, if form feeds part it into pages, without headers and footers."""
    pages = [page.split("\n") for page in text.split("\f")]
    unnumbered, numbers = without_line_numbers(pages)
    notes = (f"{numbers:,} line numbers were left out",) if numbers else ()
    stripped = [[" ".join(line.split()) for line in lines] for lines in unnumbered]
    left_out = furniture(stripped) if len(pages) > 2 else set()
    if left_out:
        notes = (*notes, describe(left_out, stripped))
    if not notes:
        return text, ()
    kept = [[line for j, line in enumerate(lines) if (i, j) not in left_out] for i, lines in enumerate(unnumbered)]
    return "\n".join("\n".join(lines) for lines in kept), notes


def describe(left_out: set[Place], pages: list[list[str]]) -> str:
    """A note on lines that were left out."""
    page, line = min(left_out)
    example = pages[page][line][:60]
    lines = "line" if len(left_out) == 1 else "lines"
    return f'{len(left_out)} {lines} of headers, footers or page numbers were left out, such as "{example}"'


def furniture(pages: list[list[str]]) -> set[Place]:
    """The lines at page edges that repeat from page to page or hold page numbers.

    A sentence with another number on each page is not one, nor are most lines of a document: receipts look alike, too.
    """
    edges = [place for i, lines in enumerate(pages) for place in _edges(i, lines)]
    first = {(i, next(j for j, line in enumerate(lines) if line)) for i, lines in enumerate(pages) if any(lines)}
    shapes = {(i, j): _shapes(pages[i][j], (i, j) in first) for i, j in edges}
    on_pages: dict[str, set[int]] = {}
    for i, j in edges:
        for shape in shapes[i, j]:
            on_pages.setdefault(shape, set()).add(i)
    enough = max(3.0, sum(map(any, pages)) / 2)
    # A page number has the same offset from the page index on other pages too; a number in a table does not.
    numbers = {(i, j): _page_numbers(pages[i][j]) for i, j in edges}
    ahead = Counter(difference for _, difference in {(i, n - i) for (i, _), found in numbers.items() for n in found})

    def is_furniture(i: int, j: int) -> bool:
        line = pages[i][j]
        if any(len(on_pages[shape]) >= enough for shape in shapes[i, j]):
            return True
        counting = max((ahead[number - i] for number in numbers[i, j]), default=0)
        return counting >= (2 if _PAGE_NUMBER.fullmatch(line) else enough) and not _is_sentence(line)

    found = {(i, j) for i, j in edges if is_furniture(i, j)}
    letters = sum(len(line) for lines in pages for line in lines)
    return found if 2 * sum(len(pages[i][j]) for i, j in found) <= letters else set()


def _shapes(line: str, is_first: bool) -> set[str]:
    """The line as it is; unless it is a sentence, with its numbers left open; and, of the first line of a page, whether
    it is all in capitals: the running head names the section, which changes."""
    shapes = {line.casefold()} | (set() if _is_sentence(line) else {re.sub(r"\d+", "#", line.casefold())})
    if is_first and line.isupper() and len(line.split()) > 1:
        shapes.add("CAPITALS")
    return shapes


def _is_sentence(line: str) -> bool:
    return line.endswith((".", "!", "?")) and len(line.split()) >= 6


def _edges(page: int, lines: list[str]) -> set[Place]:
    filled = [j for j, line in enumerate(lines) if line]
    return {(page, j) for j in filled[:EDGE_LINES] + filled[-EDGE_LINES:]}


def _page_numbers(line: str) -> set[int]:
    """The number on a line of its own, else those at its start and end, as in "Chapter 3: Tools   17"."""
    if found := _PAGE_NUMBER.fullmatch(line):
        return {int(found[1]) if found[1].isdecimal() else _roman(found[1].lower())}
    words = line.split()
    return {int(word) for word in (words[0], words[-1]) if word.isdecimal() and len(word) < 6}


def _roman(numeral: str) -> int:
    values = [{"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}[letter] for letter in numeral]
    return sum(-v if v < max(values[k:]) else v for k, v in enumerate(values))
