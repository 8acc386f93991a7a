"""A progress bar on stderr, where there is somebody to see it."""

from __future__ import annotations

import sys
from typing import Any

UNITS = {
    "reading": "token", "writing": "part", "predicting": "document", "summarizing": "document", "fetching": "byte",
}  # fmt: skip


class Bar:
    """One bar at a time; a new stage replaces the bar of the last."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self._stage = ""
        self._bar: Any = None

    def show(self, stage: str, done: int, total: int) -> None:
        """Move the bar to `done` of `total`."""
        if self.quiet or not sys.stderr.isatty():
            return
        if stage != self._stage or self._bar is None:
            self.close()
            from tqdm import tqdm

            self._bar = tqdm(
                total=total,
                initial=done,  # what was done before says nothing about the time that is left
                desc=stage,
                unit=f" {UNITS[stage]}s",
                unit_scale=stage in ("reading", "fetching"),
                leave=False,
                file=sys.stderr,
            )
            self._stage = stage
        self._bar.total = total  # an estimate may have become better
        self._bar.update(done - self._bar.n)

    def clear(self) -> None:
        """Make way for a line of the result, which may go to the same screen."""
        if self._bar is not None:
            self._bar.clear()

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
