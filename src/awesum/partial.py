"""Parts kept on disk while a summary is being written, so that an interrupted run can be resumed.

One JSON line a part, beside the file that will hold the summary, removed once that is written. The first line says
which document, settings and system the parts belong to; those of another are never used.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from awesum import files
from awesum.document import Document
from awesum.errors import AwesumError
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
        except OSError:
            return []
        known = _key(first)
        if known is None:
            raise AwesumError(
                f"{self.path} is not of an interrupted run, and must not be written over: rename it, or give another -o"
            )
        if known != self.key:
            return []
        parts: list[Part] = []
        for line in lines:
            try:
                part = part_from_fields(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError):
                break
            if parts and part.segment <= parts[-1].segment:
                break
            parts.append(part)
        return parts

    def start(self, parts: list[Part]) -> None:
        """Start the file anew with the resumed parts."""
        if parts:
            files.write(self.path, "\n".join([json.dumps({"key": self.key}), *map(_line, parts)]) + "\n")
        else:
            self.path.unlink(missing_ok=True)

    def add(self, part: Part) -> None:
        """Keep a part, also if the power fails."""
        new = not self.path.exists()
        with self.path.open("ab") as file:
            start = json.dumps({"key": self.key}) + "\n" if new else ""
            file.write(f"{start}{_line(part)}\n".encode())
            file.flush()
            os.fsync(file.fileno())

    def remove(self) -> None:
        """The summary is written: there is nothing to resume."""
        self.path.unlink(missing_ok=True)


_START = '{"key": "'


def _key(line: str) -> str | None:
    """The key of our first line, or the beginning of one that was cut short; none if it is not ours."""
    if len(line) <= len(_START):
        return line if _START.startswith(line) else None
    key = line.removesuffix("}").removesuffix('"')[len(_START) :]
    return key if line.startswith(_START) and key.isalnum() else None


def _line(part: Part) -> str:
    return json.dumps(asdict(part), ensure_ascii=False)


def part_from_fields(fields: dict[str, Any]) -> Part:
    """A part from its JSON; an error if anything in it is not what it should be."""
    salient = [_quote(quote) for quote in fields["salient"]]
    sentences = [
        SummarySentence(
            _is(sentence["text"], str),
            _quote(sentence["source"]),
            _is(sentence["similarity"], float),
            _is(sentence["support"], float),
        )
        for sentence in fields["sentences"]
    ]
    pages = [_is(page, int) for page in fields["pages"]]
    segment, start, end = (_is(fields[name], int) for name in ("segment", "start", "end"))
    return Part(_is(fields["text"], str), segment, start, end, pages, salient, sentences)


def _quote(fields: dict[str, Any]) -> Quote:
    return Quote(_is(fields["start"], int), _is(fields["end"], int), _is(fields["text"], str))


def _is(value: Any, kind: type) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else kind):
        raise TypeError
    return value
