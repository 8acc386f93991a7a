"""Line numbers in the margin, as in court papers and bills: recognized by their counting, and left out."""

from __future__ import annotations

import re

LEAST = 8
"""Numbered lines of a page from which it shows that they are numbered."""
SHARE = 0.8
"""Of the lines of a page that are numbered, if any are."""

_NUMBERED = re.compile(r"\s*(\d{1,5})(?:\s+|$)")


def without_line_numbers(pages: list[list[str]]) -> tuple[list[list[str]], int]:
    """The pages without their line numbers, and how many there were."""
    left_out = 0
    cleaned: list[list[str]] = []
    for lines in pages:
        numbered = _numbered(lines)
        left_out += len(numbered)
        cleaned.append([_NUMBERED.sub("", line, count=1) if i in numbered else line for i, line in enumerate(lines)])
    return cleaned, left_out


def _numbered(lines: list[str]) -> set[int]:
    """The lines that start with a line number: most of them, each with the number after the last, or every fifth."""
    found = [(i, int(match[1])) for i, line in enumerate(lines) if (match := _NUMBERED.match(line))]
    for step in (1, 5):
        run: list[int] = []
        expected = None
        for i, number in found:
            if expected is None or number == expected or (number == step and run):
                run.append(i)
                expected = number + step
        filled = sum(bool(line.strip()) for line in lines)
        if len(run) >= LEAST and len(run) * step >= SHARE * filled:
            return set(run)
    return set()
