"""Parts kept on disk while a summary is being written, so that an interrupted run can be resumed.

One JSON line a part, beside the file that will hold the summary, removed once that is written. The first line says
which document, settings and system the parts belong to; those of another are never used.
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


def fingerprint(document: Document, settings: Settings, system: str) -> str:
    """The same for the same text, settings and system (its fingerprint), and for nothing else."""
    from awesum.version import __version__

    known = json.dumps([__version__, system, asdict(settings), document.path], sort_keys=True)
    return hashlib.sha256(known.encode() + document.text.encode("utf-8", "surrogatepass")).hexdigest()


class PartialSummary:
    """The parts that are done, on disk. Nothing is written before there is a part to keep."""

    def __init__(self, target: Path, key: str) -> None:
        self.path = files.sibling(target, ".partial.jsonl")
        self.key = key

    def parts(self) -> list[Part]:
        """The parts that an interrupted run over the same document left; an unfinished last line is skipped."""
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
        """Start the file anew with the resumed parts."""
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
        """The summary is written: there is nothing to resume."""
        self.path.unlink(missing_ok=True)


def _line(part: Part) -> str:
    return json.dumps(asdict(part), ensure_ascii=False)


def _part(fields: dict[str, object]) -> Part:
    salient = [Quote(**quote) for quote in fields.pop("salient")]  # type: ignore[attr-defined]
    sentences = [
        SummarySentence(sentence["text"], Quote(**sentence["source"]), sentence["similarity"], sentence["support"])
        for sentence in fields.pop("sentences")  # type: ignore[attr-defined]
    ]
    return Part(salient=salient, sentences=sentences, **fields)  # type: ignore[arg-type]
