"""A page of a PDF as people see it: its size, its image, and the boxes of a passage on it.

This runs in the process that reads (`child`), because drawing a stranger's page is as dangerous as reading it. Boxes
are fractions of the page's width and height, from its top left corner, so that they fit an image of any size.
"""

from __future__ import annotations

import ctypes
import io
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""

LARGEST = 2400
"""Pixels of the longer side of an image, whatever size a page declares."""
MOST_PAGES = 20_000
"""Pages whose size is looked at; there are no longer documents."""
ALIKE = 0.9
"""The share of a passage's characters that have to be found on the page for it to count as located."""
_FINE, _FAR = 1_000_000, 1000
"""Steps across a page, because pdfium converts positions to whole numbers; and points between those converted."""


@dataclass(frozen=True)
class Passage:
    """A stretch of text on a page, counted from 0; which `occurrence` of that text it is on the page, also from 0."""

    page: int
    text: str
    occurrence: int = 0


def sizes(file: str) -> list[tuple[float, float]]:
    """Width and height of each page in points, as they are shown."""
    with _opened(file) as pdf:
        return [_size(pdf, index) for index in range(min(len(pdf), MOST_PAGES))]


def draw(file: str, index: int, width: int) -> bytes:
    """A page as a JPEG image of about `width` pixels."""
    with _opened(file) as pdf, _page(pdf, index) as page:
        across, down = (max(side, 1.0) for side in page.get_size())
        scale = min(width / across, LARGEST / across, LARGEST / down)
        image = page.render(scale=scale, may_draw_forms=False).to_pil()
        data = io.BytesIO()
        image.save(data, "jpeg", quality=90, subsampling=0)  # ten times as fast as PNG: somebody waits for it
        return data.getvalue()


def locate(file: str, passages: Iterable[Passage]) -> list[list[Box] | None]:
    """The boxes of each passage, one for each of its lines; None for one that cannot be found on its page."""
    by_page: dict[int, list[tuple[int, Passage]]] = {}
    for place, passage in enumerate(passages):
        by_page.setdefault(passage.page, []).append((place, passage))
    found: dict[int, list[Box] | None] = {}
    with _opened(file) as pdf:
        for index, wanted in by_page.items():
            with _page(pdf, index) as page:
                characters = _Characters(page)
                found |= {place: characters.locate(passage) for place, passage in wanted}
                characters.close()
    return [found[place] for place in range(len(found))]


def significant(text: str) -> tuple[str, list[int]]:
    """The characters by which a passage is recognized, and where each stands: no white space, no hyphens, and what a
    font or a reader may spell in several ways (ligatures, widths) in one."""
    kept: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        if character.isspace() or unicodedata.category(character) in ("Pd", "Cf", "Cc", "Cn"):
            continue
        for part in unicodedata.normalize("NFKC", character):
            if not part.isspace():
                kept.append(part)
                places.append(place)
    return "".join(kept), places


class _Characters:
    """The significant characters of a page, and where each stands."""

    def __init__(self, page: PdfPage) -> None:
        import pypdfium2.raw as pdfium

        self._text_page = page.get_textpage()
        self._to_fractions = _Fractions(page)
        codes = [pdfium.FPDFText_GetUnicode(self._text_page, index) for index in range(self._text_page.count_chars())]
        # Half of a character beyond U+FFFF is no character.
        self._text, self._places = significant(
            "".join(" " if 0xD800 <= code <= 0xDFFF else chr(code) for code in codes)
        )

    def close(self) -> None:
        """Give back what pdfium holds."""
        self._text_page.close()

    def locate(self, passage: Passage) -> list[Box] | None:
        """The boxes of a passage."""
        wanted, _ = significant(passage.text)
        if not wanted:
            return None
        at = -1
        for _ in range(passage.occurrence + 1):
            following = self._text.find(wanted, at + 1)
            if following < 0:
                break
            at = following
        if at >= 0:
            return self._boxes(self._places[at : at + len(wanted)])
        # The reader has left something out in the middle: a line number, the foot of a column.
        blocks = SequenceMatcher(None, self._text, wanted, autojunk=False).get_matching_blocks()
        if sum(block.size for block in blocks) < ALIKE * len(wanted):
            return None
        return self._boxes([place for block in blocks for place in self._places[block.a : block.a + block.size]])

    def _boxes(self, places: Sequence[int]) -> list[Box] | None:
        import pypdfium2.raw as pdfium

        boxes: list[Box] = []
        rectangle = pdfium.FS_RECTF()
        for place in places:
            if pdfium.FPDFText_GetLooseCharBox(self._text_page, place, ctypes.byref(rectangle)):
                box = self._to_fractions(rectangle.left, rectangle.top, rectangle.right, rectangle.bottom)
                if box[0] < box[2] and box[1] < box[3]:
                    boxes.append(box)
        return _lines(boxes) or None


class _Fractions:
    """From the coordinates of a page to fractions of what is shown of it, turned as it is shown."""

    def __init__(self, page: PdfPage) -> None:
        (self._x, self._y), right, up = (_shown(page, *point) for point in ((0, 0), (_FAR, 0), (0, _FAR)))
        self._right = (right[0] - self._x) / _FAR, (right[1] - self._y) / _FAR
        self._up = (up[0] - self._x) / _FAR, (up[1] - self._y) / _FAR

    def __call__(self, left: float, top: float, right: float, bottom: float) -> Box:
        one, other = self._point(left, top), self._point(right, bottom)
        (west, east), (north, south) = sorted((one[0], other[0])), sorted((one[1], other[1]))
        return west, north, east, south

    def _point(self, x: float, y: float) -> tuple[float, float]:
        return self._x + x * self._right[0] + y * self._up[0], self._y + x * self._right[1] + y * self._up[1]


def _shown(page: PdfPage, x: float, y: float) -> tuple[float, float]:
    import pypdfium2.raw as pdfium

    across, down = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDF_PageToDevice(page, 0, 0, _FINE, _FINE, 0, x, y, ctypes.byref(across), ctypes.byref(down))
    return across.value / _FINE, down.value / _FINE


def _lines(boxes: Sequence[Box]) -> list[Box]:
    """One box for each line of characters that follow each other."""
    lines: list[Box] = []
    for box in boxes:
        if lines and _is_same_line(lines[-1], box):
            last = lines[-1]
            lines[-1] = min(last[0], box[0]), min(last[1], box[1]), max(last[2], box[2]), max(last[3], box[3])
        else:
            lines.append(box)
    return [_rounded(line) for line in lines]


def _is_same_line(line: Box, box: Box) -> bool:
    """Whether a character goes on with a line: beside it (above it, on a page that is turned), and not far away."""
    height, width = line[3] - line[1], line[2] - line[0]
    shared_height = min(line[3], box[3]) - max(line[1], box[1])
    shared_width = min(line[2], box[2]) - max(line[0], box[0])
    if width >= height or shared_height >= shared_width:
        beside = shared_height > 0.3 * min(height, box[3] - box[1])
        return beside and -0.01 < box[0] - line[2] + height < 0.06 + height
    return shared_width > 0.3 * min(width, box[2] - box[0])


def _rounded(box: Box) -> Box:
    left, top, right, bottom = (round(min(max(side, 0.0), 1.0), 5) for side in box)
    return left, top, right, bottom


def _size(pdf: PdfDocument, index: int) -> tuple[float, float]:
    import pypdfium2

    try:
        width, height = pdf.get_page_size(index)
    except pypdfium2.PdfiumError:
        return 0.0, 0.0  # a damaged page: the reader has said so
    return round(width, 2), round(height, 2)


@contextmanager
def _opened(file: str) -> Iterator[PdfDocument]:
    import pypdfium2

    from awesum.errors import AwesumError

    try:
        pdf = pypdfium2.PdfDocument(file)
    except pypdfium2.PdfiumError as error:
        raise AwesumError(f"the pages of this PDF cannot be shown ({error}): read its text instead") from error
    with pdf:
        yield pdf


@contextmanager
def _page(pdf: PdfDocument, index: int) -> Iterator[Any]:
    import pypdfium2

    from awesum.errors import AwesumError

    try:
        page = pdf[index]
    except (IndexError, pypdfium2.PdfiumError) as error:
        raise AwesumError(f"page {index + 1} cannot be shown ({error}): read its text instead") from error
    try:
        yield page
    finally:
        page.close()
