"""Statistics of a dataset: counts and mean lengths of its splits, next to the paper's figures."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from awesum.datasets.dataset import Figures
from awesum.datasets.sources import PUBLIC, splits
from awesum.datasets.stream import Stream, examples


@dataclass
class SplitStatistics:
    """Sums over the examples of a split, so that splits can be added. Words are separated by white space."""

    split: str
    documents: int = 0
    document_words: int = 0
    summary_words: int = 0
    queries: int = 0
    """Examples with a query."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Invalid rows, by kind."""

    def __add__(self, other: SplitStatistics) -> SplitStatistics:
        return SplitStatistics(
            "all",
            self.documents + other.documents,
            self.document_words + other.document_words,
            self.summary_words + other.summary_words,
            self.queries + other.queries,
            self.skipped + other.skipped,
        )

    def average(self, words: int) -> float | None:
        """The mean per document; None without documents."""
        return words / self.documents if self.documents else None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "split": self.split,
            "documents": self.documents,
            "document_words": self.average(self.document_words),
            "summary_words": self.average(self.summary_words),
            "with_query": self.queries,
            "skipped": dict(sorted(self.skipped.items())),
        }


@dataclass(frozen=True)
class Statistics:
    """Statistics of the requested splits."""

    source: str
    splits: tuple[SplitStatistics, ...]
    paper: Figures | None
    """The paper's figures, if the dataset, or the folder, has the name of one of the paper's datasets."""

    @property
    def all(self) -> SplitStatistics:
        """The sum over the splits."""
        return sum(self.splits, SplitStatistics("all"))

    def as_dict(self) -> dict[str, Any]:
        """For JSON: stable names, means not rounded."""
        return {
            "source": self.source,
            "splits": [split.as_dict() for split in self.splits],
            "all": self.all.as_dict(),
            "paper": asdict(self.paper) if self.paper else None,
        }

    def table(self) -> str:
        """A table as plain text."""
        rows = [*self.splits]
        if len(rows) > 1 or self.paper:
            rows.append(self.all)
        lines = [["split", "documents", "document words", "summary words", "with query", "skipped"]]
        lines += [_cells(row) for row in rows]
        if self.paper:
            lines[0] += ["paper: documents", "document words", "summary words"]
            for row, line in zip(rows, lines[1:], strict=True):
                line += _paper_cells(self.paper, row.split)
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [
            "  ".join(
                cell.rjust(width) if number else cell.ljust(width)
                for number, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        text += [
            f"skipped in {split.split}: {number:,} × {kind}"
            for split in self.splits
            for kind, number in sorted(split.skipped.items())
        ]
        return "\n".join(text)


def measure(source: str | Path, chosen: Sequence[str] = (), *, quiet: bool = False) -> Statistics:
    """Compute the statistics of the chosen splits, or of all that exist, by reading them completely."""
    names = tuple(dict.fromkeys(chosen)) or splits(source) or ("train",)  # "train" leads to the error for no dataset
    streams = [examples(source, name) for name in names]  # a missing split is refused before any is read
    name = str(source) if str(source) in PUBLIC else Path(source).resolve().name
    paper = PUBLIC[name].paper if name in PUBLIC else None
    return Statistics(str(source), tuple(_measure_split(stream, quiet) for stream in streams), paper)


def _measure_split(stream: Stream, quiet: bool) -> SplitStatistics:
    from tqdm import tqdm

    result = SplitStatistics(stream.split)
    bar = tqdm(
        stream,
        desc=stream.split,
        unit=" documents",
        leave=False,
        file=sys.stderr,
        disable=quiet or not sys.stderr.isatty(),
    )
    for example in bar:
        result.documents += 1
        result.document_words += len(example.document.split())
        result.summary_words += len(example.summary.split())
        result.queries += example.query is not None
    result.skipped = stream.skipped.copy()
    return result


def _cells(split: SplitStatistics) -> list[str]:
    return [
        split.split,
        f"{split.documents:,}",
        _number(split.average(split.document_words)),
        _number(split.average(split.summary_words)),
        f"{split.queries:,}",
        f"{split.skipped.total():,}",
    ]


def _paper_cells(paper: Figures, split: str) -> list[str]:
    """The paper reports documents per split, but words over all splits."""
    if split == "all":
        return [f"{number:,}" for number in (paper.documents, paper.document_words, paper.summary_words)]
    number = {"train": paper.train, "validation": paper.validation, "test": paper.test}.get(split)
    return [_number(number), "", ""]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
