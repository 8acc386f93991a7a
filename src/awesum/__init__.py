"""Summaries of documents of any length, on the machine you have, in memory that does not grow with the document.

from awesum import summarize
print(summarize("report.pdf", length="200w"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from awesum.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from awesum import systems
    from awesum.document import Document
    from awesum.errors import AwesumError
    from awesum.models.bart import AwesomeBart
    from awesum.models.bart_config import AwesomeConfig
    from awesum.settings import Settings, Style
    from awesum.summarizer import Source, Summarizer
    from awesum.summary import Part, Summary
    from awesum.systems.system import System

__all__ = [
    "AwesomeBart",
    "AwesomeConfig",
    "AwesumError",
    "Document",
    "Part",
    "Settings",
    "Summarizer",
    "Summary",
    "System",
    "__version__",
    "stream",
    "summarize",
    "systems",
]

# Names are looked up when they are first used: `import awesum` and `awesum --help` must not wait for torch.
_HOME = {
    "AwesomeBart": "awesum.models.bart",
    "AwesomeConfig": "awesum.models.bart_config",
    "AwesumError": "awesum.errors",
    "Document": "awesum.document",
    "Part": "awesum.summary",
    "Settings": "awesum.settings",
    "Summarizer": "awesum.summarizer",
    "Summary": "awesum.summary",
    "System": "awesum.systems.system",
}


def summarize(
    source: Source | None = None,
    *,
    text: str | None = None,
    length: str | int | None = None,
    query: str | None = None,
    style: Style | None = None,
    strict: bool = False,
    max_memory: str | None = None,
    model: str | None = None,
    system: str | System | None = None,
) -> Summary:
    """Summarize a path, an http(s) address, `-` (standard input), a `Document`, a binary file, or a `text`.

    See `Settings` for `length`, `query`, `style`, `strict` and `max_memory`, and `Summarizer` for `model` and `system`.
    The result prints as the summary; `parts`, `document` and `figures` say where it comes from and what it took. To
    summarize many documents, keep a `Summarizer`.
    """
    from awesum.summarizer import Summarizer

    return Summarizer(model, system=system).summarize(
        source, text=text, length=length, query=query, style=style, strict=strict, max_memory=max_memory
    )


def stream(
    source: Source | None = None,
    *,
    text: str | None = None,
    length: str | int | None = None,
    query: str | None = None,
    style: Style | None = None,
    strict: bool = False,
    max_memory: str | None = None,
    model: str | None = None,
    system: str | System | None = None,
) -> Iterator[Part]:
    """The parts of the summary one by one, each as soon as it is written; takes what `summarize` takes."""
    from awesum.summarizer import Summarizer

    return Summarizer(model, system=system).stream(
        source, text=text, length=length, query=query, style=style, strict=strict, max_memory=max_memory
    )


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "systems":
        return import_module("awesum.systems")
    if name not in _HOME:
        raise AttributeError(f"module 'awesum' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
