"""The words of a text as ROUGE compares them: lower case, stemmed."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

STEMS = 2**17
"""Words whose stems are cached. A novel has a tenth of that; the limit keeps a large dataset from filling RAM."""


def stems(text: str) -> list[str]:
    """The stemmed words of `text`. Only a-z and digits count: text in other scripts has none."""
    from rouge_score.tokenize import tokenize

    found: list[str] = tokenize(text, _stemmer())
    return found


class _Stemmer:
    """The stemmer of `rouge_score`, cached: stemming takes nearly all of the time."""

    def __init__(self) -> None:
        from nltk.stem.porter import PorterStemmer

        self.stem: Any = lru_cache(STEMS)(PorterStemmer().stem)


@cache
def _stemmer() -> _Stemmer:
    return _Stemmer()
