"""A split from its first row to its last, each row read, checked and forgotten: memory does not grow with the dataset.

The rule for bad rows. A row that is no example (see the kinds in `rows`), one whose summary is empty or longer than its
document, and one with the id of an earlier row are each said with file and line; then they are skipped and counted, or,
with `on_bad="refuse"`, the first of them ends the reading. A file that cannot be read to its end always ends it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal

from awesum.datasets import hub
from awesum.datasets.dataset import Dataset
from awesum.datasets.files import empty, lines
from awesum.datasets.rows import DUPLICATE, EMPTY_SUMMARY, LONG_SUMMARY, BadRow, Example, from_fields, parse
from awesum.datasets.sources import find

OnBad = Literal["skip", "refuse"]


def to_stderr(note: str) -> None:
    """Where it is said what was skipped, unless the caller has a better place."""
    print(f"awesum: {note}", file=sys.stderr, flush=True)


def examples(
    source: str | Path, split: str, *, on_bad: OnBad = "skip", say: Callable[[str], object] = to_stderr
) -> Stream:
    """The examples of a split, to be iterated over. Nothing is opened or fetched before that."""
    return Stream(find(source, split), split, on_bad, say)


class Stream(Iterable[Example]):
    """The good rows of a split, in order. Iterating again reads again."""

    def __init__(self, found: Path | Dataset, split: str, on_bad: OnBad, say: Callable[[str], object]) -> None:
        self.found = found
        self.split = split
        self.skipped: Counter[str] = Counter()
        """How many rows of each kind the last iteration has skipped so far."""
        self._on_bad = on_bad
        self._say = say

    def skipped_in_words(self) -> str:
        """For the end of a run."""
        return ", ".join(f"{number:,} × {kind}" for kind, number in sorted(self.skipped.items())) or "nothing"

    def __iter__(self) -> Iterator[Example]:
        self.skipped.clear()
        seen: set[int] = set()  # hashes of ids, not ids: 64 bits each, however long they are
        there_was_one = False
        for where, read in self._rows():
            there_was_one = True
            try:
                example = _checked(read(), seen, where)
            except BadRow as error:
                if self._on_bad == "refuse":
                    raise
                self.skipped[error.kind] += 1
                self._say(f"skipped: {error}")
            else:
                yield example
        if not there_was_one:
            raise empty(self._name)

    def _rows(self) -> Iterator[tuple[str, Callable[[], Example]]]:
        """Where each row stands, and how to read it."""
        if isinstance(self.found, Dataset):
            for number, row in enumerate(hub.rows(self.found, self.split), 1):
                where = f"{self._name}, row {number}"
                for fields in self.found.rows(row):
                    yield where, partial(from_fields, fields, where, number)
        else:
            for number, line in lines(self.found):
                yield f"{self._name}, line {number}", partial(parse, line, self._name, number)

    @property
    def _name(self) -> str:
        return f"{self.found.repository} ({self.split})" if isinstance(self.found, Dataset) else str(self.found)


def _checked(example: Example, seen: set[int], where: str) -> Example:
    """The example, if it is one to learn from and none of `seen`, which it is then added to."""
    if not example.summary.strip():
        raise BadRow(EMPTY_SUMMARY, f"{where} has an empty summary: remove the line, or give it its text")
    if len(example.summary) > len(example.document):
        message = (
            f"{where} has a summary of {len(example.summary):,} characters for a document of "
            f"{len(example.document):,}: see whether they were exchanged, or the document was cut"
        )
        raise BadRow(LONG_SUMMARY, message)
    if (digest := hash(example.id)) in seen:
        raise BadRow(DUPLICATE, f"{where} has the id {example.id!r} of an earlier row: give each row its own, or none")
    seen.add(digest)
    return example
