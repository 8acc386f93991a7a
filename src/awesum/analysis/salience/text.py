"""Salient content added as text: the paper's three headings around the current segment."""

from __future__ import annotations

from collections.abc import Sequence

PREVIOUS, CURRENT, NEXT = "Previous important sentences:", "Current chunk:", "Next important sentences:"


def augment(segment: str, previous: Sequence[str] = (), following: Sequence[str] = ()) -> str:
    """The segment with the selected sentences of other segments before and after it; empty blocks get no heading."""
    blocks = [(PREVIOUS, " ".join(previous)), (CURRENT, segment), (NEXT, " ".join(following))]
    return "\n\n".join(f"{heading} {text}" for heading, text in blocks if text)
