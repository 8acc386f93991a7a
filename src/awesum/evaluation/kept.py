"""The scores of every summary on disk, a line a document: to be looked at, and to go on from after an interruption.

The first line says which texts and measures they are of; those of others are never taken, and never written over.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isfinite, nan
from pathlib import Path

from awesum.datasets.files import unreadable
from awesum.errors import AwesumError


class Kept:
    """A file of scores that grows by a line for each document."""

    def __init__(self, path: Path, key: str) -> None:
        self.path = path
        self.key = key

    def read(self, ids: Sequence[str], systems: Sequence[str], fields: Sequence[str]) -> list[list[list[float]]]:
        """What an earlier run has left: documents by systems by fields. A line that it did not finish is removed."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            content = b""
        except OSError as error:
            raise unreadable(self.path, error) from error
        *whole, unfinished = content.split(b"\n")
        try:
            rows = [json.loads(line) for line in whole]
            if rows and rows[0] != {"key": self.key}:
                raise ValueError
            found = [
                [[_number(row["scores"][system][field]) for field in fields] for system in systems] for row in rows[1:]
            ]
            if [row["id"] for row in rows[1:]] != list(ids[: len(found)]):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise AwesumError(
                f"{self.path} holds something else than the scores of these summaries by these measures: "
                "give another file, or delete it"
            ) from error
        if unfinished:
            self.path.write_bytes(content[: len(content) - len(unfinished)])
        if not rows:
            self._append(json.dumps({"key": self.key}))
        return found

    def add(self, name: str, scores: dict[str, dict[str, float]]) -> None:
        """Keep the scores of one document, by system and by name. What is no number becomes null, which JSON has."""
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
    """Null is what is no number; whatever else is none is an error."""
    return nan if value is None else float(value)
