"""Parts kept on disk while a summary is being written, so that an interrupted run goes on where it stopped.

One JSON line a part, beside the file that is to hold the summary, removed when that is written. A first line says which
document and settings the parts belong to; those of another are never taken.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from awesum import files
from awesum.document import Document
from awesum.settings import Settings
from awesum.summary import Part, Quote, SummarySentence


def fingerprint(document: Document, settings: Settings, model: str) -> str:
    """The same for the same text, settings and model, and for nothing else."""
    from awesum import __version__

    known = json.dumps([__version__, model, asdict(settings), document.path], sort_keys=True)
    return hashlib.sha256(known.encode() + document.text.encode("utf-8", "surrogatepass")).hexdigest()


class PartialSummary:
    """The parts that are done, on disk. Nothing is written before there is a part to keep."""

    def __init__(self, target: Path, key: str) -> None:
        self.path = target.with_name(target.name + ".partial.jsonl")
        self.key = key

    def parts(self) -> list[Part]:
        """What an earlier run over the same document left; a line that it did not finish writing is passed over."""
        try:
            first, *lines = self.path.read_text(encoding="utf-8", errors="replace").split("\n")
            if json.loads(first) != {"key": self.key}:
                return []
        except (OSError, ValueError):
            return []
        parts: list[Part] = []
        for line in lines:
            try:
                parts.append(_part(json.loads(line)))
            except (ValueError, TypeError, KeyError):
                break
        return parts

    def start(self, parts: list[Part]) -> None:
        """Begin the file anew with the parts that are taken over."""
        if parts:
            files.write(self.path, "\n".join([json.dumps({"key": self.key}), *map(_line, parts)]) + "\n")
        else:
            self.path.unlink(missing_ok=True)

    def add(self, part: Part) -> None:
        """Keep a part."""
        new = not self.path.exists()
        with self.path.open("a", encoding="utf-8") as file:
            if new:
                file.write(json.dumps({"key": self.key}) + "\n")
            file.write(_line(part) + "\n")

    def remove(self) -> None:
        """The summary is written: nothing is left to go on with."""
        self.path.unlink(missing_ok=True)


def _line(part: Part) -> str:
    return json.dumps(asdict(part), ensure_ascii=False)


def _part(fields: dict[str, object]) -> Part:
    salient = [Quote(**quote) for quote in fields.pop("salient")]  # type: ignore[attr-defined]
    sentences = [
        SummarySentence(sentence["text"], Quote(**sentence["source"]), sentence["similarity"])
        for sentence in fields.pop("sentences")  # type: ignore[attr-defined]
    ]
    return Part(salient=salient, sentences=sentences, **fields)  # type: ignore[arg-type]
