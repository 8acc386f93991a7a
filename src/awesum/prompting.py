"""The words around a segment: what the model is asked, when its answer is enough, and what is kept of the answer.

A model of 135 million parameters needs the request last, short, and with the points to be made; it echoes the request,
numbers its sentences and invents figures. What it writes is therefore tidied and checked here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from awesum.analysis.salience.text import NEXT, PREVIOUS
from awesum.analysis.sentences import ends_sentence, sentence_spans
from awesum.length import count_words

_BULLET = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.)])\s+", re.MULTILINE)
_MARKUP = re.compile(r"\*\*|__|^#+\s*", re.MULTILINE)
_LEAD_IN = re.compile(
    r"^\W*(?:(?:here (?:is|are)|sure|certainly|the following is)\b[^.:\n]*:"
    r"|rewrite the following[^.:\n]*:"
    r"|(?:the )?(?:summary|key points?|current chunk|main points?)(?: of [^.:\n]{0,60}| in [^.:\n]{0,40})?:)\s*",
    re.IGNORECASE,
)
_REQUEST = "Rewrite the following sentences"
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
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"(?<=[\w,;] )[A-Z][\w&'’-]*\w")


def ask(query: str | None, points: Sequence[str]) -> str:
    """The request that stands behind the segment."""
    about = f" that answers the question {query.strip()!r}" if query else ""
    sentences = " ".join(" ".join(point.split()) for point in points)
    return f"{_REQUEST} as one short, clear paragraph{about}: {sentences}"


def behind_segment(
    query: str | None, previous: Sequence[str] = (), following: Sequence[str] = (), points: Sequence[str] = ()
) -> str:
    """What stands behind a segment for a model that was trained to answer: salient sentences of others, the request
    with those of its own that are to be put in other words, if any.

    All of it stands behind, so that a causal model reads the segment once, whatever it is asked and told.
    """
    if points:
        request = ask(query, points)
    elif query:
        request = f"Summarize what the text above says about this: {query.strip()}"
    else:
        request = "Summarize the text above."
    blocks = [(PREVIOUS, " ".join(previous)), (NEXT, " ".join(following))]
    told = [f"{heading} {text}" for heading, text in blocks if text]
    return "".join(f"\n\n{block}" for block in (*told, request))


def enough_words(words: float) -> Callable[[str], bool]:
    """Enough once ending here comes closer to so many words than writing another sentence would."""
    return lambda text: sum(map(count_words, finished(text))) >= 0.8 * words


def enough_sentences(sentences: int) -> Callable[[str], bool]:
    """Enough with so many sentences."""
    return lambda text: len(finished(text)) >= sentences


def finished(text: str) -> list[str]:
    """The sentences that another one has begun behind: only then is it sure that a full stop was one."""
    return [text[start:end] for start, end in sentence_spans(text)[:-1]]


def tidy(text: str) -> list[str]:
    """The sentences of an answer without bullets, markup, lead-in, and none that repeats the request.

    An unfinished last one goes unless it is alone.
    """
    text = _LEAD_IN.sub("", _MARKUP.sub("", _BULLET.sub("", text.strip())))
    sentences = [" ".join(text[start:end].split()) for start, end in sentence_spans(text)]
    sentences = [sentence for sentence in sentences if sentence and _REQUEST not in sentence]
    if sentences and not ends_sentence(sentences[-1]):
        if len(sentences) > 1:
            return sentences[:-1]
        return [f"{sentences[0]} …"]
    return sentences


class Facts:
    """The figures, amounts and names of a source: what a small model most often invents."""

    def __init__(self, source: str) -> None:
        self._text = source.lower()
        self._figures = set(_FIGURE.findall(source))
        self._amounts = {_stem(word) for word in _AMOUNT.findall(self._text.replace("%", " percent "))}

    def bear_out(self, sentence: str) -> bool:
        """Whether every figure, amount and name of `sentence` stands in the source."""
        return (
            all(figure in self._figures for figure in _FIGURE.findall(sentence))
            and all(
                _stem(word) in self._amounts or _DIGITS.get(word) in self._figures
                for word in _AMOUNT.findall(sentence.lower().replace("%", " percent "))
            )
            and all(name.lower() in self._text for name in _NAME.findall(sentence))
        )


class Said:
    """What a summary has said so far, as runs of three words. A model that remembers tends to say it once more."""

    def __init__(self) -> None:
        self._runs: set[tuple[str, ...]] = set()

    def repeats(self, sentence: str) -> bool:
        """Whether most of a sentence was said before."""
        runs = _runs(sentence)
        return len(runs & self._runs) > len(runs) / 2

    def add(self, sentence: str) -> None:
        """A sentence of the summary."""
        self._runs |= _runs(sentence)


def _runs(sentence: str) -> set[tuple[str, ...]]:
    words = _WORD.findall(sentence.lower())
    return {tuple(words[at : at + 3]) for at in range(len(words) - 2)}


def is_borne_out(sentence: str, source: str) -> bool:
    """Whether every figure, amount and name of `sentence` stands in `source`."""
    return Facts(source).bear_out(sentence)


def _stem(amount: str) -> str:
    """The same for `double`, `doubles` and `doubled`."""
    return amount.removesuffix("s").removesuffix("d")
