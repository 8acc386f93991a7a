"""The scores of every summary in a file, one line per document: for inspection, and to resume an interrupted run.

The first line identifies the texts and metrics; a file of other scores is neither used nor overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isfinite, nan
from pathlib import Path

from awesum import files
from awesum.datasets.files import unreadable
from awesum.errors import AwesumError


class ScoresFile:
    """A file of scores that grows by one line per document."""

    def __init__(self, path: Path, key: str) -> None:
        self.path = path
        self.key = key

    def read(self, ids: Sequence[str], systems: Sequence[str], fields: Sequence[str]) -> list[list[list[float]]]:
        """The scores of an earlier run: documents by systems by fields. An unfinished last line is removed."""
        try:
            content = b"" if files.is_special(self.path) else self.path.read_bytes()
        except FileNotFoundError:
            content = b""
        except OSError as error:
            raise unreadable(self.path, error) from error
        *complete, unfinished = content.split(b"\n")
        try:
            rows = [json.loads(line) for line in complete]
            if rows and rows[0] != {"key": self.key}:
                raise ValueError
            start = b'{"key": "'
            if not rows and not (start.startswith(unfinished) or unfinished.startswith(start)):
                raise ValueError  # one line without an end that we did not begin
            found = [
                [[_number(row["scores"][system][field]) for field in fields] for system in systems] for row in rows[1:]
            ]
            if [row["id"] for row in rows[1:]] != list(ids[: len(found)]):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise AwesumError(
                f"{self.path} contains something other than the scores of these summaries by these metrics: "
                "give another file, or delete it"
            ) from error
        if unfinished:
            with self.path.open("r+b") as file:
                file.truncate(len(content) - len(unfinished))
        if not rows:
            self._append(json.dumps({"key": self.key}))
        return found

    def add(self, name: str, scores: dict[str, dict[str, float]]) -> None:
        """Append the scores of one document, by system and by name. NaN and infinity become null."""
        clean = {
            system: {score: value if isfinite(value) else None for score, value in row.items()}
            for system, row in scores.items()
        }
        self._append(json.dumps({"id": name, "scores": clean}, ensure_ascii=False))

    def _append(self, line: str) -> None:
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise AwesumError(
                f"cannot write the scores to {self.path} ({error.strerror or error}): give another file with --scores"
            ) from error


def _number(value: float | None) -> float:
    """NaN for null; raises an error for anything else that is not a number."""
    return nan if value is None else float(value)
