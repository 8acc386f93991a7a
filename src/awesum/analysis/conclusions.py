"""Conclusions: the sentences that say what a document comes to. Judged by their words and their heading, in English.

A summary of a sentence or two has no room for how a conclusion was reached, so it should be the conclusion.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from awesum.analysis.sentences import ends_sentence
from awesum.length import count_words

LONGEST_HEADING = 8
"""Words in the longest heading of conclusions."""
_HEADING = re.compile(
    r"\b(conclusions?|concluding|recommendations?|decisions?|resolutions?|outcome|key findings|bottom line)\b",
    re.IGNORECASE,
)
_STATED = re.compile(
    r"""\b(we|i|the\ (board|committee|council|court|panel|commission|authors?|report|study|review|team|group|staff))\ 
        ((therefore|thus|also|further|strongly|have|has|had|are|is|was|were)\ ){0,2}
        (recommend|conclud|propos|advis|decid|agree|found|find|ruled|resolved|making)
    |\b(is|are|was|were)\ (therefore\ )?(recommended|proposed|advised|concluded|decided|agreed)\b
    |\b(in\ (conclusion|summary|short|sum)|to\ (conclude|sum\ up)|overall),
    |\bshould\ (be\ )?(approv|adopt|accept|reject|choos|select)""",
    re.VERBOSE | re.IGNORECASE,
)


def conclusions(texts: Sequence[str]) -> list[float]:
    """How surely each sentence of a document is a conclusion, from 0 to 1.

    A third if it stands under a heading of conclusions, two thirds if it says so itself.
    """
    found = []
    under = False
    for text in texts:
        if count_words(text) <= LONGEST_HEADING and not ends_sentence(text):
            under = _HEADING.search(text) is not None
            found.append(0.0)
        else:
            found.append((under + 2 * (_STATED.search(" ".join(text.split())) is not None)) / 3)
    return found
