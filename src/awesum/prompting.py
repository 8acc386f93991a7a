"""The words around a segment: what the model is asked, when its answer is enough, and what is kept of the answer.

A model of 135 million parameters needs the request last, short, and with the points to be made; it echoes the request,
numbers its sentences and invents figures. What it writes is therefore tidied and checked here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from awesum.length import count_words
from awesum.reading.sentences import ends_sentence, sentence_spans

_BULLET = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.)])\s+", re.MULTILINE)
_MARKUP = re.compile(r"\*\*|__|^#+\s*", re.MULTILINE)
_LEAD_IN = re.compile(
    r"^\W*(?:(?:here (?:is|are)|sure|certainly|the following is)\b[^.:\n]*:"
    r"|rewrite the following[^.:\n]*:"
    r"|(?:the )?(?:summary|key points?|current chunk|main points?)(?: of [^.:\n]{0,60}| in [^.:\n]{0,40})?:)\s*",
    re.IGNORECASE,
)
_FIGURE = re.compile(r"\d[\d,.]*\d|\d")
_NAME = re.compile(r"(?<=[\w,;] )[A-Z][\w&'’-]*\w")


def ask(query: str | None, points: Sequence[str]) -> str:
    """The request that stands behind the segment."""
    about = f" that answers the question {query.strip()!r}" if query else ""
    sentences = " ".join(" ".join(point.split()) for point in points)
    return f"Rewrite the following sentences as one short, clear paragraph{about}: {sentences}"


def enough_words(words: float) -> Callable[[str], bool]:
    """Enough once ending here comes closer to so many words than writing another sentence would."""
    return lambda text: sum(map(count_words, _finished(text))) >= 0.8 * words


def enough_sentences(sentences: int) -> Callable[[str], bool]:
    """Enough with so many sentences."""
    return lambda text: len(_finished(text)) >= sentences


def _finished(text: str) -> list[str]:
    """The sentences that another one has begun behind: only then is it sure that a full stop was one."""
    return [text[start:end] for start, end in sentence_spans(text)[:-1]]


def tidy(text: str) -> list[str]:
    """The sentences of an answer without bullets, markup, lead-in; an unfinished last one goes unless it is alone."""
    text = _LEAD_IN.sub("", _MARKUP.sub("", _BULLET.sub("", text.strip())))
    sentences = [" ".join(text[start:end].split()) for start, end in sentence_spans(text)]
    sentences = [sentence for sentence in sentences if sentence]
    if sentences and not ends_sentence(sentences[-1]):
        if len(sentences) > 1:
            return sentences[:-1]
        return [f"{sentences[0]} …"]
    return sentences


def is_borne_out(sentence: str, source: str) -> bool:
    """Whether every figure and every name of `sentence` stands in `source`: what a small model most often invents."""
    lowered = source.lower()
    figures = set(_FIGURE.findall(source))
    return all(figure in figures for figure in _FIGURE.findall(sentence)) and all(
        name.lower() in lowered for name in _NAME.findall(sentence)
    )
