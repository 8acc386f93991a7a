"""Tokens without a tokenizer, for models that keep theirs to themselves: a server, or a GGUF file.

Segments and budgets need to know about how long a text is for the model, not which tokens it becomes. The estimate is
on the safe side: the vocabularies of common models make fewer tokens of nearly every text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_PIECE = re.compile(
    r"\s*(?:[A-Za-z]{1,8}|[0-9]{1,3}|[\u00c0-\u024f\u0370-\u04ff]{1,2}|(?P<wide>[^\x00-\u058f])|[^\s])|\s+"
)
"""A token with the white space before it: up to eight Latin letters, three digits, two letters with accents or of a
related alphabet, or any other character; those of other scripts (`wide`) are two tokens each."""


class ApproximateTokenizer:
    """Stands in for a tokenizer where texts are only measured: offsets, and numbers that mean nothing."""

    def __call__(self, texts: str | Sequence[str], **options: Any) -> dict[str, Any]:
        """As a tokenizer is called; what `options` ask for is always there."""
        if isinstance(texts, str):
            offsets = self.offsets(texts)
            return {"offset_mapping": offsets, "input_ids": list(range(len(offsets)))}
        found = [self.offsets(text) for text in texts]
        return {"offset_mapping": found, "input_ids": [list(range(len(each))) for each in found]}

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Where each token is. Two tokens of one character have the same place."""
        return [match.span() for match in _PIECE.finditer(text) for _ in range(2 if match["wide"] else 1)]

    def count(self, text: str) -> int:
        """The tokens of a text."""
        return len(self.offsets(text))
