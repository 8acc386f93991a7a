"""What the user may say about a summary: one set of names for the command line, Python and the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from awesum.errors import AwesumError
from awesum.footprint import parse_size
from awesum.length import Length

Style = Literal["abstract", "extract"]

EXTRACT = "extract"
"""The name of the system that summarizes if nobody names a system, a model or a style."""
AWESUM = "awesum"
"""The name of the model that writes if nobody names another: the embedded one, with the shipped adapter."""
SMOLLM2 = "smollm2"
"""The name of the embedded model as it is."""
EMBEDDED = "embedded"
"""The name of the embedded sentence encoder."""
CENTRALITY = "centrality"
"""The name of the extractor that needs no training."""
EXACT = "exact"
"""The name of a verifier that needs no model: exact checks alone."""
ADAPTER = "adapter.json"
"""The file that makes a folder an adapter of a causal model."""


def setting(default: Any, help: str) -> Any:
    """A field of a settings dataclass, with the text that the command line shows for its flag."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class Settings:
    """What the user may say about a summary. The command line, Python and the result share these names."""

    length: str | int | None = None
    """Words (`200w`), sentences (`12s`), share of the document (`5%`), or `auto`: as long as people write summaries of
    such a document. Without it, 200 words; or whatever a model that was trained to decide has learned to write."""
    query: str | None = None
    """What the summary shall be about; without it, whatever the document is about."""
    style: Style | None = None
    """`extract` copies the selected sentences, `abstract` has a model write. Without it, whatever the system does, and
    `extract` if no system or model was named: a copied sentence is true, a written one may not be."""
    max_memory: str | None = None
    """The most memory to take, as `2GB`: decides how many segments are written at the same time."""
    strict: bool = False
    """Whether a written sentence has to be fully supported by its source to be kept."""

    def __post_init__(self) -> None:
        for name in ("query", "max_memory"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, str):
                raise AwesumError(f"{name}={given!r} is not a text: give a str, or leave it out")
        if self.length is not None:
            object.__setattr__(self, "length", _length(self.length))
        if self.style is not None and self.style not in get_args(Style):
            raise AwesumError(f"there is no style {self.style!r}: say {' or '.join(get_args(Style))}")
        if not isinstance(self.strict, bool):
            raise AwesumError(f"strict={self.strict!r} is neither True nor False")
        if self.max_memory is not None:
            parse_size(self.max_memory)
        if self.query is not None and not self.query.strip():
            raise AwesumError("the query is empty: say what the summary shall be about, or leave --query out")


def _length(given: object) -> str:
    """A length as text: a number means words."""
    if isinstance(given, bool) or not isinstance(given, str | int):
        raise AwesumError(f"length={given!r} is not a length: give for example 200 (words), '12s', '5%' or 'auto'")
    text = str(given)
    Length.parse(text)
    return f"{given}w" if isinstance(given, int) else text
