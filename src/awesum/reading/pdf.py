"""PDF: the text layer, page by page, with lines joined into paragraphs and headers, footers and page numbers removed.

No OCR: a scan without a text layer is refused, with advice on how to add one.
"""

from __future__ import annotations

import re
from collections import Counter

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.reading.source import Source

Place = tuple[int, int]
"""A page and a line on it, both counted from zero."""

EDGE_LINES = 2
"""Lines at the top and at the bottom of a page that may be running headers and footers."""
SHORT_LINE = 0.75
"""A line shorter than this fraction of a typical full line of its page ends a paragraph."""

_SOFT_HYPHEN = "\u00ad"
_PASSWORD_ERROR = 4  # FPDF_ERR_PASSWORD
_WORDS = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_LAST_WORD = re.compile(r"[^\W\d_]+$")
_FIRST_WORD = re.compile(r"[^\W\d_]+")
_BULLET = re.compile(r"[•◦▪‣●○■□–—*-]\s")
_OPENING = "\"'“‘«([¿¡"
_PAGE_NUMBER = re.compile(
    r"[\W_]*(?:page|p\.|seite|página)?\s*(\d{1,5}|[ivxlc]{1,8})(?:\s*(?:of|/|von|de)\s*\d{1,5})?[\W_]*", re.I
)
_NO_SPACES_BETWEEN = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]{2}")  # Chinese and Japanese


def read(source: Source) -> Document:
    """Read the text page by page, with lines joined into paragraphs."""
    pages = _page_lines(source)
    empty = [number for number, lines in enumerate(pages, 1) if not any(lines)]
    if len(empty) == len(pages):
        raise AwesumError(
            f"{source.path} is a scan without a text layer: "
            "run OCR on it first (for example `ocrmypdf scan.pdf text.pdf`) and read the result."
        )
    notes = []
    if empty:
        listed = ", ".join(map(str, empty[:10])) + (", ..." if len(empty) > 10 else "")
        notes.append(f"{len(empty)} of {len(pages)} pages have no text layer (scanned?): {listed}")
    if furniture := _furniture(pages):
        page, line = min(furniture)
        example = pages[page][line][:60]
        lines = "line" if len(furniture) == 1 else "lines"
        notes.append(f'{len(furniture)} {lines} of headers, footers or page numbers were left out, such as "{example}"')
    kept = [[line for j, line in enumerate(lines) if (i, j) not in furniture] for i, lines in enumerate(pages)]
    text, page_starts = _join(kept)
    return Document(text, path=source.path, page_starts=page_starts, notes=tuple(notes))


def _page_lines(source: Source) -> list[list[str]]:
    """The lines of each page, stripped. Empty lines are kept: they separate paragraphs."""
    import pypdfium2

    if b"%%EOF" not in source.data[-8192:] or _is_cut_short(source.data):
        # pdfium would repair it and read what is left; a summary of half a report must not pass for the whole.
        raise AwesumError(f"{source.path} is a PDF that was cut short (its end is missing): download it again.")
    try:
        pdf = pypdfium2.PdfDocument(source.data)
    except pypdfium2.PdfiumError as error:
        if error.err_code == _PASSWORD_ERROR:
            raise AwesumError(
                f"{source.path} is protected by a password: save a copy without one "
                "(for example `qpdf --decrypt --password=... in.pdf out.pdf`) and read that."
            ) from None
        raise AwesumError(
            f"{source.path} is a damaged PDF ({error}): download it again, or print it to a new PDF."
        ) from error
    with pdf:
        return [_lines_of(source, pdf, i) for i in range(len(pdf))]


def _is_cut_short(data: bytes) -> bool:
    """Whether a linearized PDF, which declares its length at the start, is shorter than that."""
    length = re.search(rb"/Linearized\b[^>]{0,200}?/L\s+(\d{1,15})", data[:2048])
    return length is not None and int(length[1]) > len(data)


def _lines_of(source: Source, pdf: object, index: int) -> list[str]:
    import pypdfium2

    assert isinstance(pdf, pypdfium2.PdfDocument)
    try:
        page = pdf[index]
        text_page = page.get_textpage()
        # The bounded call, because the plain one cannot return characters beyond U+FFFF.
        text = text_page.get_text_bounded()
        text_page.close()
        page.close()
    except pypdfium2.PdfiumError as error:
        raise AwesumError(f"{source.path}: page {index + 1} is damaged ({error}). Print it to a new PDF.") from error
    # pdfium joins hyphenated words and marks the joint with \x02 (or U+FFFE).
    text = re.sub("[\x02\ufffe]", f"{_SOFT_HYPHEN}\n", text)
    return [re.sub(r"\s+", " ", line).strip() for line in re.split(r"\r\n|\r|\n", text)]


# Page furniture ----------------------------------------------------------------------------------------------------


def _furniture(pages: list[list[str]]) -> set[Place]:
    """The lines at page edges that repeat from page to page or hold page numbers."""
    edges = [place for i, lines in enumerate(pages) for place in _edges(i, lines)]
    on_pages: dict[str, set[int]] = {}
    for i, j in edges:
        on_pages.setdefault(_shape(pages[i][j]), set()).add(i)
    enough = max(3.0, sum(map(any, pages)) / 2)
    # A page number has the same offset from the page index on other pages too; a number in a table does not.
    numbers = {(i, j): _page_numbers(pages[i][j]) for i, j in edges}
    ahead = Counter(difference for _, difference in {(i, n - i) for (i, _), found in numbers.items() for n in found})

    def is_furniture(i: int, j: int) -> bool:
        line = pages[i][j]
        counting = max((ahead[number - i] for number in numbers[i, j]), default=0)
        return len(on_pages[_shape(line)]) >= enough or counting >= (2 if _PAGE_NUMBER.fullmatch(line) else enough)

    return {(i, j) for i, j in edges if is_furniture(i, j)}


def _edges(page: int, lines: list[str]) -> set[Place]:
    filled = [j for j, line in enumerate(lines) if line]
    return {(page, j) for j in filled[:EDGE_LINES] + filled[-EDGE_LINES:]}


def _shape(line: str) -> str:
    return re.sub(r"\d+", "#", line.casefold())


def _page_numbers(line: str) -> set[int]:
    """The number on a line of its own, else those at its start and end, as in "Chapter 3: Tools   17"."""
    if found := _PAGE_NUMBER.fullmatch(line):
        return {int(found[1]) if found[1].isdecimal() else _roman(found[1].lower())}
    words = line.split()
    return {int(word) for word in (words[0], words[-1]) if word.isdecimal() and len(word) < 6}


def _roman(numeral: str) -> int:
    values = [{"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}[letter] for letter in numeral]
    return sum(-v if v < max(values[k:]) else v for k, v in enumerate(values))


# Lines to paragraphs -----------------------------------------------------------------------------------------------


def _join(pages: list[list[str]]) -> tuple[str, tuple[int, ...]]:
    """The text of all pages, and the offset of the first character of each."""
    vocabulary = {word.casefold() for lines in pages for line in lines for word in _WORDS.findall(line)}
    everywhere = _typical_length([line for lines in pages for line in lines])
    parts: list[str] = []
    length = 0
    page_starts: list[int] = []
    previous, ends_paragraph = "", True
    for lines in pages:
        filled = [line for line in lines if line]
        # A page with only a few lines says little about its line width.
        typical = _typical_length(lines) if len(filled) > 5 else everywhere
        waiting = True  # for the page's first line, where the page begins
        for line in lines:
            if not line:
                ends_paragraph = True
                continue
            if parts:
                parts[-1], separator = _connect(previous, line, ends_paragraph, vocabulary)
                length += len(parts[-1]) + len(separator)
                parts.append(separator)
            if waiting:
                page_starts.append(length)
                waiting = False
            parts.append(line)
            previous, ends_paragraph = line, len(line) < SHORT_LINE * typical
        if waiting:
            page_starts.append(-1)
    text = "".join(parts).rstrip(_SOFT_HYPHEN)
    return text, _fill_empty(page_starts, len(text))


def _typical_length(lines: list[str]) -> int:
    """The 90th percentile of the lengths of non-empty lines."""
    lengths = sorted(len(line) for line in lines if line)
    return lengths[len(lengths) * 9 // 10] if lengths else 0


def _connect(line: str, following: str, ends_paragraph: bool, vocabulary: set[str]) -> tuple[str, str]:
    """`line` without its line-break hyphen, if it has one, and the separator between it and the following line."""
    if line.endswith((_SOFT_HYPHEN, "-")) and (last := _LAST_WORD.search(line[-50:-1])):
        first = _FIRST_WORD.match(following)
        if first and (line[-1] == _SOFT_HYPHEN or following[0].islower()):
            return line[:-1] + _hyphen(last[0].casefold(), first[0], vocabulary), ""
        line = line[:-1] + "-"
    if _BULLET.match(following) or (ends_paragraph and _begins_anew(following)):
        return line, "\n\n"
    return line, "" if _NO_SPACES_BETWEEN.fullmatch(line[-1] + following[0]) else " "


def _begins_anew(line: str) -> bool:
    first = line.lstrip(_OPENING)[:1]
    return first.isdigit() or first == "§" or (first.isalpha() and not first.islower())


def _hyphen(first: str, second: str, vocabulary: set[str]) -> str:
    """`-` if the rest of the document spells this word with a hyphen, else nothing."""
    if not second[0].islower():
        return "-"
    second = second.casefold()
    return "-" if f"{first}-{second}" in vocabulary and f"{first}{second}" not in vocabulary else ""


def _fill_empty(page_starts: list[int], end: int) -> tuple[int, ...]:
    """Start each empty page where the next one starts."""
    filled = []
    for start in reversed(page_starts):
        end = start if start >= 0 else end
        filled.append(end)
    return tuple(reversed(filled))
