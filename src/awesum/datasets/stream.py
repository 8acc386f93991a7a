"""Stream a split row by row, checking each: RAM does not grow with the dataset.

Invalid rows (see the kinds in `rows`), rows whose summary is empty or longer than the document, and rows with the id
of an earlier one are reported with file and line, skipped and counted; with `on_bad="refuse"`, the first of them raises
an error. A file that cannot be read to its end always raises an error.
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
    """Print a note to stderr: the default for reporting skipped rows."""
    print(f"awesum: {note}", file=sys.stderr, flush=True)


def examples(
    source: str | Path,
    split: str,
    *,
    on_bad: OnBad = "skip",
    say: Callable[[str], object] = to_stderr,
    needs_summary: bool = True,
) -> Stream:
    """The valid examples of a split. Nothing is opened or fetched before iteration; `say` receives each report.

    Without `needs_summary`, a row may lack a summary, or have one that is longer than its document.
    """
    return Stream(find(source, split), split, on_bad, say, needs_summary)


class Stream(Iterable[Example]):
    """The valid rows of a split, in order. Each iteration reads the split again."""

    def __init__(
        self,
        found: Path | Dataset,
        split: str,
        on_bad: OnBad,
        say: Callable[[str], object],
        needs_summary: bool = True,
    ) -> None:
        self.found = found
        self.split = split
        self.skipped: Counter[str] = Counter()
        """Rows skipped so far by the latest iteration, by kind."""
        self._on_bad = on_bad
        self._say = say
        self._needs_summary = needs_summary

    def skipped_in_words(self) -> str:
        """A summary of the skipped rows for the end of a run: `2 × no summary`."""
        return ", ".join(f"{number:,} × {kind}" for kind, number in sorted(self.skipped.items())) or "nothing"

    def __iter__(self) -> Iterator[Example]:
        self.skipped.clear()
        seen: set[int] = set()  # hashes of ids rather than ids: 64 bits each, whatever their length
        is_empty = True
        for where, read in self._rows():
            is_empty = False
            try:
                example = _checked(read(), seen, where, self._needs_summary)
            except BadRow as error:
                if self._on_bad == "refuse":
                    raise
                self.skipped[error.kind] += 1
                self._say(f"skipped: {error}")
            else:
                yield example
        if is_empty:
            raise empty(self._name)

    def _rows(self) -> Iterator[tuple[str, Callable[[], Example]]]:
        """The place of each row, for error messages, and a function that parses it."""
        if isinstance(self.found, Dataset):
            for number, row in enumerate(hub.rows(self.found, self.split), 1):
                where = f"{self._name}, row {number}"
                for fields in self.found.rows(row):
                    yield where, partial(from_fields, fields, where, number, self._needs_summary)
        else:
            for number, line in lines(self.found):
                yield f"{self._name}, line {number}", partial(parse, line, self._name, number, self._needs_summary)

    @property
    def _name(self) -> str:
        return f"{self.found.repository} ({self.split})" if isinstance(self.found, Dataset) else str(self.found)


def _checked(example: Example, seen: set[int], where: str, needs_summary: bool) -> Example:
    """Check an example against the rules above, and add its id to `seen`."""
    if needs_summary and not example.summary.strip():
        raise BadRow(EMPTY_SUMMARY, f"{where} has an empty summary: remove the line, or add the text")
    if needs_summary and len(example.summary) > len(example.document):
        message = (
            f"{where} has a summary of {len(example.summary):,} characters for a document of "
            f"{len(example.document):,}: check whether they were swapped, or the document was cut"
        )
        raise BadRow(LONG_SUMMARY, message)
    if (digest := hash(example.id)) in seen:
        raise BadRow(DUPLICATE, f"{where} has the id {example.id!r} of an earlier row: make ids unique, or remove them")
    seen.add(digest)
    return example
