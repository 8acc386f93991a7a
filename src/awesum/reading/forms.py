"""Nested form XObjects of a PDF: a few of them, each drawn ten times by the next, are a page of a billion.

pdfium draws them all before anybody can ask. Forms are never inside compressed objects, so they can be found in the
bytes without a parser.
"""

from __future__ import annotations

import re
import zlib

from awesum.errors import AwesumError
from awesum.reading.source import Source

MOST_DRAWN = 1_000_000
"""Forms that a page may draw, those that others draw included."""
DEEPEST = 100
"""Forms that draw each other in a row."""
_LONGEST = 1 << 20
"""Bytes of a form's content that are looked at."""

_OBJECT = re.compile(rb"(\d{1,10})\s+\d{1,5}\s+obj\b")
_FORM = re.compile(rb"/Subtype\s*/Form\b")
_STREAM = re.compile(rb"\bstream\r?\n")
_XOBJECTS = re.compile(rb"/XObject\s*<<(.{0,20000}?)>>", re.S)
_XOBJECTS_ELSEWHERE = re.compile(rb"/(?:Resources|XObject)\s+(\d{1,10})\s+\d{1,5}\s+R")
_ENTRY = re.compile(rb"/([^\s/<>\[\]()]+)\s+(\d{1,10})\s+\d{1,5}\s+R")
_DRAWN = re.compile(rb"/([^\s/<>\[\]()]+)\s+Do\b")


def refuse_nested_forms(source: Source) -> None:
    """Refuse a PDF whose forms draw each other more often than any real one does."""
    data = source.data
    if len(_FORM.findall(data)) < 2:
        return
    drawn: dict[int, int] = {}  # form -> how many forms it draws, itself included
    calls = _calls(data)

    def expand(number: int, depth: int) -> int:
        if number not in calls or number in waiting:
            return 1
        if depth > DEEPEST:
            raise _bomb(source)
        if number not in drawn:
            waiting.add(number)
            drawn[number] = 1 + sum(times * expand(form, depth + 1) for form, times in calls[number].items())
            waiting.discard(number)
            if drawn[number] > MOST_DRAWN:
                raise _bomb(source)
        return drawn[number]

    waiting: set[int] = set()
    for number in calls:
        expand(number, 0)


def _bomb(source: Source) -> AwesumError:
    return AwesumError(
        f"{source.path} is a PDF bomb: its forms draw each other more than {MOST_DRAWN:,} times. Do not open it."
    )


def _calls(data: bytes) -> dict[int, dict[int, int]]:
    """For each form, by its object number: the forms that its content draws, and how often."""
    objects = [(match.start(), match.end(), int(match[1])) for match in _OBJECT.finditer(data)]
    starts = {number: start for _, start, number in objects}
    found: dict[int, dict[int, int]] = {}
    for index, (_, start, number) in enumerate(objects):
        end = objects[index + 1][0] if index + 1 < len(objects) else len(data)
        stream = _STREAM.search(data, start, end)
        if stream is None or not _FORM.search(data, start, stream.start()):
            continue
        dictionary = data[start : stream.start()]
        names = _names(dictionary, data, starts)
        content = _content(dictionary, data[stream.end() : end])
        calls: dict[int, int] = {}
        for drawn in _DRAWN.findall(content):
            if drawn in names:
                calls[names[drawn]] = calls.get(names[drawn], 0) + 1
        found[number] = calls
    return found


def _names(dictionary: bytes, data: bytes, starts: dict[int, int]) -> dict[bytes, int]:
    """The object number of each XObject that a form may draw, by its name."""
    here = dictionary
    for elsewhere in _XOBJECTS_ELSEWHERE.findall(dictionary):
        if (start := starts.get(int(elsewhere))) is not None:
            here += b" /XObject <<" + data[start : start + 20_000].partition(b"endobj")[0] + b">>"
    return {name: int(number) for entries in _XOBJECTS.findall(here) for name, number in _ENTRY.findall(entries)}


def _content(dictionary: bytes, stream: bytes) -> bytes:
    if b"FlateDecode" not in dictionary and b"/Fl " not in dictionary:
        return stream[:_LONGEST]
    try:
        return zlib.decompressobj().decompress(stream, _LONGEST)
    except zlib.error:
        return b""
