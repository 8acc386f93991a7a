"""Summaries of documents of any length, on the machine you have, in memory that does not grow with the document.

from awesum import summarize
print(summarize("report.pdf", length="200w"))
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from awesum.document import Document
    from awesum.errors import AwesumError
    from awesum.settings import Settings
    from awesum.summarizer import Summarizer
    from awesum.summary import Part, Summary

__version__ = "0.1.0"
__all__ = ["AwesumError", "Document", "Part", "Settings", "Summarizer", "Summary", "stream", "summarize"]

# Names are looked up when they are first used: `import awesum` and `awesum --help` must not wait for torch.
_HOME = {
    "AwesumError": "awesum.errors",
    "Document": "awesum.document",
    "Part": "awesum.summary",
    "Settings": "awesum.settings",
    "Summarizer": "awesum.summarizer",
    "Summary": "awesum.summary",
}


def summarize(source: str | Path | Document, *, model: str = "awesum", **settings: Any) -> Summary:
    """Summarize a file, an http(s) address, `-` (standard input) or a `Document`; see `Settings` for the rest.

    The result prints as the summary; `parts`, `document` and `figures` say where it comes from and what it took.
    To summarize many documents, keep a `Summarizer`.
    """
    from awesum.summarizer import Summarizer

    return Summarizer(model).summarize(source, **settings)


def stream(source: str | Path | Document, *, model: str = "awesum", **settings: Any) -> Iterator[Part]:
    """The parts of the summary one by one, each as soon as it is written; takes what `summarize` takes."""
    from awesum.summarizer import Summarizer

    return Summarizer(model).stream(source, **settings)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'awesum' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
