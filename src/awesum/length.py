"""The length of a summary (`200w` words, `12s` sentences, `5%` of the document, `auto`), and how words are counted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from awesum.errors import AwesumError

# Scripts written without spaces are counted by character, as word processors do.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]|[^\s\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]+"
)
_LENGTH = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(w|words?|s|sentences?|%|)\s*", re.IGNORECASE)


MOST = 10**12
"""Words. More than all documents have: a length beyond it is a slip of the finger."""


def count_words(text: str) -> int:
    """Count words separated by white space; in Chinese, Japanese and Korean, count characters."""
    return sum(1 for _ in _WORD.finditer(text))


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."


@dataclass(frozen=True)
class Length:
    """The requested length of a summary, in the user's unit."""

    value: float
    unit: Literal["w", "s", "%", "auto"]
    """`auto` is the usual length for a document of this size; `value` is then ignored."""

    @classmethod
    def parse(cls, text: str) -> Length:
        """Parse `200w`, `12s`, `5%`, `auto`, or a bare number of words."""
        if text.strip().lower() == "auto":
            return cls(0.0, "auto")
        match = _LENGTH.fullmatch(text)
        if not match:
            raise AwesumError(
                f"cannot read the length {_short(text)!r}: write for example 200w (words), 12s (sentences), 5% or auto"
            )
        value, unit = float(match[1]), (match[2] or "w")[0].lower()
        if value > MOST:
            raise AwesumError(f"a length of {_short(text)!r} is more than any document has: give for example 200w")
        if value <= 0:
            raise AwesumError(f"a length of {_short(text)!r} leaves nothing to write: give for example 200w, 12s or 5%")
        if unit == "%" and value > 100:
            raise AwesumError(f"{_short(text)!r} is longer than the document itself: give at most 100%, for example 5%")
        if unit == "s" and value != int(value):
            raise AwesumError(f"cannot write {value} sentences: give a whole number, for example 12s")
        return cls(value, "w" if unit == "w" else "s" if unit == "s" else "%")

    def __str__(self) -> str:
        return "auto" if self.unit == "auto" else f"{self.value:g}{self.unit}"

    @property
    def in_sentences(self) -> bool:
        """Whether the length is in sentences rather than words."""
        return self.unit == "s"

    def amount(self, document_words: int, usual: float) -> float:
        """The target in words (or sentences) for a document of `document_words`; `usual` is the words of `auto`."""
        if self.unit == "auto":
            return max(1.0, usual)
        return max(1.0, document_words * self.value / 100) if self.unit == "%" else self.value
