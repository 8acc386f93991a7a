"""A worker without models, and corpora to run it on."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from awesum.corpus import rows
from awesum.corpus.source import Batch
from awesum.corpus.worker import Outcome
from awesum.document import Document
from awesum.errors import AwesumError
from awesum.settings import Settings
from awesum.summary import Figures, Part, Quote, Summary, SummarySentence

DEADLY = "DEADLY"
"""A document with this word kills the worker."""


class Fake:
    """Summarizes by the first three words, and notes each document that it has seen in a file."""

    def __init__(self, log: Path, seconds: float = 0.0, broken: bool = False) -> None:
        self.log, self.seconds = log, seconds
        if broken:
            raise AwesumError("the weights are missing")

    def __call__(self, batch: Batch) -> Outcome:
        made = []
        for item in batch.items:
            with self.log.open("a") as log:
                log.write(f"{item.id}\n")
            if item.error is not None:
                made.append(rows.failed(item, item.error, Settings()))
                continue
            text = item.text if item.text is not None else Path(item.file).read_text()
            if DEADLY in text:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(self.seconds)
            made.append(rows.written(item, summary(text)))
        return Outcome(rows.to_bytes(made), len(made), batch.size, batch.skipped, batch.seconds, 0.0)


def summary(text: str) -> Summary:
    start = " ".join(text.split()[:3])
    quote = Quote(0, len(start), start)
    part = Part(start, 0, 0, len(text), [], [quote], [SummarySentence(start, quote, 1.0)])
    return Summary([part], Document(text), len(text.split()), [], Figures(1, 0.0, 1), {"length": "3w"})


def texts(number: int) -> list[str]:
    """Short texts of several lengths, no two alike."""
    return [f"Text {each} says {'word ' * (each * 7 % 40 + 1)}and ends." for each in range(number)]


def write_lines(path: Path, values: Iterable[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


def documents(number: int) -> list[dict[str, Any]]:
    return [{"id": f"d{each}", "text": text} for each, text in enumerate(texts(number))]
