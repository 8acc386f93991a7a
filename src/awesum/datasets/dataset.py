"""What is known of a public dataset: where the hub has it, how its rows read, and what the paper says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Figures:
    """A line of the paper's table of datasets."""

    train: int
    validation: int
    test: int
    document_words: int
    """On average, over all splits."""
    summary_words: int

    @property
    def documents(self) -> int:
        """Of all splits together."""
        return self.train + self.validation + self.test


def as_it_is(row: Row) -> Iterable[Row]:
    """For datasets whose columns have names that `rows.NAMES` knows."""
    return (row,)


@dataclass(frozen=True)
class Dataset:
    """One of the paper's datasets, by its public name. Nothing is fetched before its rows are asked for."""

    name: str
    repository: str
    """On the hub, in files that can be read without running anything of it."""
    paper: Figures
    note: str
    """Its licence, and what differs from what the paper used."""
    configuration: str | None = None
    folder: str | None = None
    """Inside the repository, where there are no configurations."""
    revision: str | None = None
    """A branch of the repository other than the main one."""
    rows: Callable[[Row], Iterable[Row]] = as_it_is
    """What one row of the hub is in our fields: `document`, `summary`, perhaps `id` and `query`; perhaps several."""
