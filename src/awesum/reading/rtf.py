"""RTF documents: their text, one line per paragraph."""

from __future__ import annotations

import re

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.reading.source import Source

_CODE_PAGE = re.compile(rb"\\ansicpg(\d{3,5})")
_PICTURES = re.compile(rb"\\(?:pict|objdata)\b")


def read(source: Source) -> Document:
    """Read an RTF document."""
    from striprtf.striprtf import rtf_to_text

    page = _CODE_PAGE.search(source.data, 0, 4096)
    encoding = f"cp{int(page[1])}" if page and page[1] != b"65001" else "cp1252" if not page else "utf-8"
    try:
        b"a".decode(encoding)
    except LookupError:
        encoding = "cp1252"
    try:
        # RTF is ASCII; other bytes are kept as they are, for programs that write them all the same.
        text: str = rtf_to_text(source.data.decode("latin-1"), encoding=encoding, errors="replace")
    except MemoryError:
        raise
    except Exception as error:  # the library lets any error of a broken file escape
        raise AwesumError(
            f"{source.path} is a damaged RTF document ({' '.join(str(error).split())[:200]}): open it in a word "
            "processor and save it as .docx."
        ) from error
    lines = (" ".join(line.split()) for line in text.split("\n"))
    # The library separates table cells by bars, and ends each row with one.
    kept = [line.rstrip("| ") for line in lines if line.strip("| ")]
    pictures = len(_PICTURES.findall(source.data))
    notes = (f"{pictures} pictures and embedded objects were not read",) if pictures else ()
    return Document("\n\n".join(kept), path=source.path, notes=notes)
