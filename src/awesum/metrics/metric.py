"""The protocol of all metrics: what a metric needs, what its scores are called, and how to read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, Protocol

Better = Literal["higher", "lower", "neither"]
Need = Literal["document", "reference", "model", "english"]
"""`english` is spaCy with its English pipeline, an optional extra."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A summary, and the texts to compare it with."""

    prediction: str
    references: tuple[str, ...] = ()
    document: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """A number that a metric gives each summary, and how to read it."""

    name: str
    """In `--json` and in Python, such as `rouge-1`."""
    title: str
    """The heading of its column, such as `R-1`."""
    better: Better
    low: float = 0.0
    high: float = inf
    scale: float = 1.0
    """Factor in tables: 100 for scores that are usually given as percentages."""
    decimals: int = 2
    """Decimals in tables."""
    settings: str = ""
    """In words, so that others can reproduce the number."""


@dataclass(frozen=True, slots=True)
class Option:
    """A setting of a metric, from which the command line makes a flag."""

    name: str
    """The keyword argument of the metric's `load`, such as `model`."""
    flag: str
    """The flag of `awesum evaluate`, such as `--nli-model`."""
    metavar: str
    help: str
    default: str | None = None
    """The value if the flag is not given, as on the command line; None if the metric cannot do without."""
    parse: Callable[[str], Any] = str
    """Converts the value of the flag, or raises an `AwesumError` that names the flag."""
    is_model: bool = False
    """Whether the value is a model, given as a folder or a hub name."""


class Metric(Protocol):
    """A metric. If it does not apply to a summary it gives NaN, which is left out of the mean and counted.

    The class may also declare `options`, a tuple of `Option`, and have a method `notes() -> list[str]` that reports, at
    the end of a run, anything it had to cut or skip.
    """

    name: str
    """In `--metrics`."""
    scores: tuple[Score, ...]
    needs: frozenset[Need]

    def measure(self, sample: Sample) -> Mapping[str, float]:
        """The scores of one summary, by name. The summary is never empty."""
        ...
