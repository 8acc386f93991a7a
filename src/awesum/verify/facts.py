"""Figures, amounts and names: what a small model most often invents, checked against the source they should be in."""

from __future__ import annotations

import re

from awesum.analysis.language import capitalizes_nouns

_FIGURE = re.compile(r"\d[\d,.]*\d|\d")
_AMOUNT = re.compile(
    r"\b(?:(?:decade|dozen|hundred|thousand|million|billion|trillion|double|triple|quarter)[ds]?|century|centuries|percent"
    r"|half|twice|thirds?|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|sixty"
    r"|seventy|eighty|ninety)\b",
    re.IGNORECASE,
)
_DIGITS = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
    "ten": "10", "eleven": "11", "twelve": "12", "twenty": "20", "thirty": "30", "forty": "40", "fifty": "50",
}  # fmt: skip
_NAME = re.compile(r"(?<=[\w,;] )[^\W\d_][\w&'’-]*\w")


class Facts:
    """The figures, amounts and names of a source."""

    def __init__(self, source: str) -> None:
        self._text = source.lower()
        self._capital_nouns = capitalizes_nouns(source)
        self._figures = set(_FIGURE.findall(source))
        self._amounts = {_stem(word) for word in _AMOUNT.findall(self._text.replace("%", " percent "))}

    def supports(self, sentence: str) -> bool:
        """Whether every figure, amount and name of `sentence` is in the source."""
        return (
            all(figure in self._figures for figure in _FIGURE.findall(sentence))
            and all(
                _stem(word) in self._amounts or _DIGITS.get(word) in self._figures
                for word in _AMOUNT.findall(sentence.lower().replace("%", " percent "))
            )
            and all(name.lower() in self._text for name in self._names(sentence))
        )

    def _names(self, sentence: str) -> list[str]:
        """Words with a capital inside a sentence; where nouns have one too, those that follow each other, and
        abbreviations."""
        found = [match for match in _NAME.finditer(sentence) if match[0][0].isupper()]
        if self._capital_nouns:
            starts, ends = {match.start() for match in found}, {match.end() for match in found}
            found = [m for m in found if m.end() + 1 in starts or m.start() - 1 in ends or m[0][1:2].isupper()]
        return [match[0] for match in found]


def _stem(amount: str) -> str:
    """The same for `double`, `doubles` and `doubled`."""
    return amount.removesuffix("s").removesuffix("d")
