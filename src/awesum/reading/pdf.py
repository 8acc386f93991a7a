"""PDF: the text layer, page by page, with lines joined into paragraphs and headers, footers and page numbers removed.

Pages without a text layer are left to `ocr`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.reading import ocr
from awesum.reading.forms import refuse_nested_forms
from awesum.reading.numbering import without_line_numbers
from awesum.reading.pages import describe, furniture
from awesum.reading.source import Source
from awesum.reading.structure import LONGEST_HEADING, is_contents_line, is_numbered_heading

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

SHORT_LINE = 0.75
"""A line shorter than this fraction of a typical full line of its page ends a paragraph."""

CUT_LINE = 0.5
"""A line of at least this fraction, in the middle of a sentence, is short because the next word did not fit."""

_SOFT_HYPHEN = "\u00ad"
_PASSWORD_ERROR = 4  # FPDF_ERR_PASSWORD
_WORDS = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_LAST_WORD = re.compile(r"[^\W\d_]+$")
_FIRST_WORD = re.compile(r"[^\W\d_]+")
_BULLET = re.compile(r"[•◦▪‣●○■□–—*-]\s")
_CUT_ADDRESS = re.compile(r"https?://(?:\S*[./_?&=#-])?$")
_REST_OF_ADDRESS = re.compile(r"[\w-]+[./=#?&]\S|[a-z][\w-]*[).,]*$|[a-z][\w-]*/")
_OPENING = "\"'“‘«([¿¡"
_NO_SPACES_BETWEEN = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]{2}")  # Chinese and Japanese


def read(source: Source) -> Document:
    """Read the text page by page, with lines joined into paragraphs."""
    import pypdfium2

    if b"%%EOF" not in source.data[-8192:] or _is_cut_short(source.data):
        # pdfium would repair it and read what is left; a summary of half a report must not pass for the whole.
        raise AwesumError(f"{source.path} is a PDF that was cut short (its end is missing): download it again.")
    refuse_nested_forms(source)
    try:
        pdf = pypdfium2.PdfDocument(source.data)
    except pypdfium2.PdfiumError as error:
        if error.err_code == _PASSWORD_ERROR:
            raise AwesumError(
                f"{source.path} is protected by a password: save a copy without one "
                "(for example `qpdf --decrypt --password=... in.pdf out.pdf`) and read that."
            ) from None
        raise _damaged(source, error) from error
    with pdf:
        pages, notes = _page_lines(source, pdf)
    pages, numbers = without_line_numbers(pages)
    if numbers:
        notes.append(f"{numbers:,} line numbers were left out")
    if left_out := furniture(pages):
        notes.append(describe(left_out, pages))
    kept = [[line for j, line in enumerate(lines) if (i, j) not in left_out] for i, lines in enumerate(pages)]
    text, page_starts = _join(kept)
    return Document(text, path=source.path, page_starts=page_starts, notes=tuple(notes))


def _page_lines(source: Source, pdf: PdfDocument) -> tuple[list[list[str]], list[str]]:
    """The lines of each page, stripped, and notes on the pages that have none. Empty lines separate paragraphs."""
    import pypdfium2

    pages: list[list[str]] = []
    damaged: list[int] = []
    error: object = None
    for index in range(len(pdf)):
        try:
            pages.append(_lines_of(pdf, index))
        except pypdfium2.PdfiumError as failure:
            pages.append([])
            damaged.append(index)
            error = failure
    if 2 * len(damaged) > len(pages):  # what is left is not the document
        raise _damaged(source, f"{len(damaged)} of {len(pages)} pages cannot be read; {error}")
    notes = [_noted(damaged, len(pages), "are damaged and were not read")] if damaged else []
    empty = [index for index, lines in enumerate(pages) if not any(lines) and index not in set(damaged)]
    if not empty:
        return pages, notes
    if not ocr.is_available():
        if len(empty) + len(damaged) == len(pages):
            raise AwesumError(
                f"{source.path} is a scan without a text layer: install Tesseract and `pip install 'awesum[ocr]'`, or "
                "run OCR on it first (for example `ocrmypdf scan.pdf text.pdf`)."
            )
        return pages, [*notes, _noted(empty, len(pages), "have no text layer (scanned?) and were not read")]
    for index in empty:
        pages[index] = ocr.lines_of(pdf, index)
    if not any(any(lines) for lines in pages):
        raise AwesumError(f"{source.path} is a scan in which OCR finds no text: check that its pages are not blank.")
    return pages, [*notes, _noted(empty, len(pages), "have no text layer and were read with OCR, which makes mistakes")]


def _noted(indices: list[int], total: int, what: str) -> str:
    listed = ", ".join(str(index + 1) for index in indices[:10]) + (", ..." if len(indices) > 10 else "")
    return f"{len(indices)} of {total} pages {what}: {listed}"


def _damaged(source: Source, error: object) -> AwesumError:
    return AwesumError(f"{source.path} is a damaged PDF ({error}): download it again, or print it to a new PDF.")


def _is_cut_short(data: bytes) -> bool:
    """Whether a linearized PDF, which declares its length at the start, is shorter than that."""
    length = re.search(rb"/Linearized\b[^>]{0,200}?/L\s+(\d{1,15})", data[:2048])
    return length is not None and int(length[1]) > len(data)


def _lines_of(pdf: PdfDocument, index: int) -> list[str]:
    page = pdf[index]
    try:
        text_page = page.get_textpage()
        try:
            # The bounded call, because the plain one cannot return characters beyond U+FFFF.
            text = text_page.get_text_bounded()
        finally:
            text_page.close()
    finally:
        page.close()
    # pdfium joins hyphenated words and marks the joint with \x02 (or U+FFFE).
    text = re.sub("[\x02\ufffe]", f"{_SOFT_HYPHEN}\n", text)
    return [re.sub(r"\s+", " ", line).strip() for line in re.split(r"\r\n|\r|\n", text)]


# Lines to paragraphs -----------------------------------------------------------------------------------------------


def _join(pages: list[list[str]]) -> tuple[str, tuple[int, ...]]:
    """The text of all pages, and the offset of the first character of each."""
    vocabulary = {word.casefold() for lines in pages for line in lines for word in _WORDS.findall(line)}
    everywhere = _typical_length([line for lines in pages for line in lines])
    parts: list[str] = []
    length = 0
    page_starts: list[int] = []
    previous, ends_paragraph = "", True
    words = 0  # of the paragraph, so far
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
                words = 0 if "\n" in separator else words
                length += len(parts[-1]) + len(separator)
                parts.append(separator)
            if waiting:
                page_starts.append(length)
                waiting = False
            parts.append(line)
            alone = is_contents_line(line) or is_numbered_heading(line)
            words += len(line.split())
            is_short = len(line) < SHORT_LINE * typical and not (
                len(line) >= CUT_LINE * typical and words > LONGEST_HEADING and _breaks_off(line)
            )
            previous, ends_paragraph = line, is_short or alone
        if waiting:
            page_starts.append(-1)
    text = "".join(parts).rstrip(_SOFT_HYPHEN)
    return text, _fill_empty(page_starts, len(text))


def _breaks_off(line: str) -> bool:
    """Whether a line ends inside a sentence. A row of a table does not: it has many figures."""
    words = line.split()
    figures = sum(any(map(str.isdigit, word)) for word in words)
    return (line[-1].isalpha() or line[-1] == ",") and 3 * figures <= len(words)


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
    if _BULLET.match(following) or is_contents_line(following) or is_contents_line(line):
        return line, "\n\n"
    if (ends_paragraph or is_numbered_heading(following)) and _begins_anew(following):
        return line, "\n\n"
    if _CUT_ADDRESS.search(line) and _REST_OF_ADDRESS.match(following):
        return line, ""
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
