"""The paper's numbers, from `paper.yaml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from awesum.errors import AwesumError

FILE = Path(__file__).with_name("paper.yaml")
MEMORY = "memory"
"""The column of peak training memory."""
BEST, SE3 = "*", "†"
"""The paper's marks: better than all comparisons, better than Se3."""
BASELINE = "se3"
OURS = "awesome"


@dataclass(frozen=True)
class Number:
    """A number of a table, with its mark."""

    value: float
    mark: str = ""


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    key: str
    name: str
    """As in the paper."""
    group: str | None
    """The heading above it: the rows with one are AWESOME's, the others those that it is compared with."""
    numbers: Mapping[str, Number]
    """By column."""


@dataclass(frozen=True)
class Table:
    """A table of results."""

    dataset: str
    title: str
    columns: tuple[str, ...]
    """The names of our scores, without the memory."""
    rows: Mapping[str, Row]
    extractor_f1: float | None


@cache
def content() -> Any:
    """The whole file."""
    import yaml  # type: ignore[import-untyped]

    return yaml.safe_load(FILE.read_text(encoding="utf-8"))


def names() -> list[str]:
    """The datasets."""
    return list(content()["datasets"])


def significant() -> float:
    """Below this p-value a difference is marked."""
    return float(content()["significant"])


def column_title(column: str) -> str:
    """The heading of a column."""
    return str(content()["titles"][column])


def table(dataset: str) -> Table:
    """The table of results on a dataset."""
    if dataset not in names():
        from difflib import get_close_matches

        near = get_close_matches(dataset, names(), 1)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(names())}"
        raise AwesumError(f"the paper has no table for {dataset!r}: {hint} (--data names your copy of the data)")
    found = content()["datasets"][dataset]
    columns = tuple(found["columns"])
    rows = {
        key: Row(
            key,
            row["name"],
            content()["groups"].get(row.get("group")),
            dict(zip(columns, map(_number, row["numbers"]), strict=True)),
        )
        for key, row in found["rows"].items()
    }
    return Table(dataset, found["title"], columns[:-1], rows, found.get("extractor_f1"))


def _number(value: float | str) -> Number:
    match = re.fullmatch(rf"([\d.]+)([{BEST}{SE3}]?)", str(value))
    assert match, f"{FILE}: {value!r} is no number with a mark"
    return Number(float(match[1]), match[2])
