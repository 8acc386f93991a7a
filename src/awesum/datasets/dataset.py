"""The description of a public dataset: its place on the hub, how to convert its rows, and the paper's figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Figures:
    """One line of the paper's table of datasets."""

    train: int
    validation: int
    test: int
    document_words: int
    """Mean over all splits."""
    summary_words: int

    @property
    def documents(self) -> int:
        """The total over all splits."""
        return self.train + self.validation + self.test


def as_it_is(row: Row) -> Iterable[Row]:
    """For datasets whose column names are all in `rows.NAMES`."""
    return (row,)


@dataclass(frozen=True)
class Dataset:
    """A public dataset. Nothing is fetched until its rows are read."""

    name: str
    repository: str
    """Its hub repository, which must be readable without running a loading script."""
    note: str
    """Its licence, and how it differs from the data used in the paper."""
    paper: Figures | None = None
    """The paper's figures, if the paper uses this dataset."""
    configuration: str | None = None
    folder: str | None = None
    """Folder in the repository, if there are no configurations."""
    revision: str | None = None
    """Branch of the repository, if not the main one."""
    rows: Callable[[Row], Iterable[Row]] = as_it_is
    """Converts a hub row to one or more rows with our fields: `document`, `summary` and optionally `id`, `query`."""
