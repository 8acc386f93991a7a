"""OCR of pages without a text layer, with Tesseract, if the user has it and `awesum[ocr]`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from awesum.reading import progress

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

RESOLUTION = 300
"""Dots per inch, which Tesseract is made for."""
MOST_PIXELS = 40_000_000
"""Of a page. A page may say that it is a kilometre wide."""
LANGUAGES = 4
"""Of those that are installed; more would only be slow."""


@cache
def is_available() -> bool:
    """Whether pages can be read with OCR."""
    import shutil
    from importlib.util import find_spec

    return shutil.which("tesseract") is not None and None not in (find_spec("pytesseract"), find_spec("PIL"))


def lines_of(pdf: PdfDocument, index: int) -> list[str]:
    """The lines of a page."""
    import pytesseract

    page = pdf[index]
    try:
        width, height = page.get_size()
        scale = min(RESOLUTION / 72, (MOST_PIXELS / max(width * height, 1.0)) ** 0.5)
        image = page.render(scale=scale, grayscale=True).to_pil()
    finally:
        page.close()
    text: str = pytesseract.image_to_string(image, lang=_languages())
    progress.step()
    return [" ".join(line.split()) for line in text.splitlines()]


@cache
def _languages() -> str:
    import pytesseract

    installed = [name for name in pytesseract.get_languages() if name != "osd"]
    first = sorted(installed, key=lambda name: (name != "eng", name))
    return "+".join(first[:LANGUAGES]) or "eng"
