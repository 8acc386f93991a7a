"""How a slow but steady reader (OCR) shows that it has not got stuck: the time limit then counts from its last step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_report: Callable[[], object] = lambda: None  # noqa: E731


@contextmanager
def reporting(report: Callable[[], object]) -> Iterator[None]:
    """Call `report` at each step of a reader in here."""
    global _report
    before, _report = _report, report
    try:
        yield
    finally:
        _report = before


def step() -> None:
    """A page is done."""
    _report()
