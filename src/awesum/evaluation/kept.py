"""The scores of every summary on disk, a line a document: to be looked at, and to go on from after an interruption.

The first line says which texts and measures they are of; those of others are never taken, and never written over.
"""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path

from awesum.datasets.files import unreadable
from awesum.errors import AwesumError


class Kept:
    """A file of scores that grows by a line for each document."""

    def __init__(self, path: Path, key: str) -> None:
        self.path = path
        self.key = key

    def read(self, documents: int) -> list[list[dict[str, float]]]:
        """What an earlier run has left, in the order of the documents; a line that it did not finish is removed."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            self._append(json.dumps({"key": self.key}))
            return []
        except OSError as error:
            raise unreadable(self.path, error) from error
        *whole, unfinished = content.split(b"\n")
        try:
            rows = [json.loads(line) for line in whole]
            if not rows or rows[0] != {"key": self.key} or len(rows) > documents + 1:
                raise ValueError
            found = [list(row["scores"].values()) for row in rows[1:]]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise AwesumError(
                f"{self.path} holds something else than the scores of these summaries by these measures: "
                "give another file, or delete it"
            ) from error
        if unfinished:
            self.path.write_bytes(content[: len(content) - len(unfinished)])
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
