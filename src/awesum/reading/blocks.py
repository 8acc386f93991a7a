"""A text under construction: readers add it piece by piece, and each piece may be a block of the document."""

from __future__ import annotations

from awesum.document import Block, Kind


class Blocks:
    """Pieces of text, separated by blank lines, and what each of them is."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.length = 0
        self.found: list[Block] = []

    def add(self, text: str, kind: Kind | None = None, level: int = 0) -> None:
        """Add a piece, unless it is empty."""
        text = text.strip("\n").rstrip()  # the first line of a program may be indented
        if not text.strip():
            return
        start = self.next_start
        if self._parts:
            self._parts.append("\n\n")
        self._parts.append(text)
        self.length = start + len(text)
        if kind:
            self.found.append(Block(start, self.length, kind, level))

    @property
    def next_start(self) -> int:
        """Where the next piece will start."""
        return self.length + 2 if self._parts else 0

    @property
    def text(self) -> str:
        """All pieces."""
        return "".join(self._parts)
