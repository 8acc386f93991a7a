"""A draft is what a model wrote. Here it becomes sentences, and it is decided when a draft is long enough.

A small model echoes the request, numbers its sentences and leaves the last one unfinished; that is tidied up here.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from awesum.analysis.sentences import ends_sentence, sentence_spans
from awesum.compose.requests import REQUEST
from awesum.length import count_words

CUT_OFF = "…"
"""The end of a sentence that a model did not finish."""
_BULLET = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.)])\s+", re.MULTILINE)
_MARKUP = re.compile(r"\*\*|__|^#+\s*", re.MULTILINE)
_LEAD_IN = re.compile(
    r"^\W*(?:(?:here (?:is|are)|sure|certainly|the following is)\b[^.:\n]*:"
    r"|rewrite the following[^.:\n]*:"
    r"|(?:the )?(?:summary|key points?|current chunk|main points?)(?: of [^.:\n]{0,60}| in [^.:\n]{0,40})?:)\s*",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")


def enough_words(words: float) -> Callable[[str], bool]:
    """Enough once stopping here comes closer to `words` than another sentence would."""
    return lambda text: sum(map(count_words, finished(text))) >= 0.8 * words


def enough_sentences(sentences: int) -> Callable[[str], bool]:
    """Enough with this many sentences."""
    return lambda text: len(finished(text)) >= sentences


def finished(text: str) -> list[str]:
    """The sentences after which another has begun: only then is it certain that a full stop was one."""
    return [text[start:end] for start, end in sentence_spans(text)[:-1]]


def tidy(text: str) -> list[str]:
    """The sentences of a draft without bullets, markup and lead-in, and without any that repeats the request.

    An unfinished last sentence is dropped unless it is the only one.
    """
    text = _LEAD_IN.sub("", _MARKUP.sub("", _BULLET.sub("", text.strip())))
    sentences = [" ".join(text[start:end].split()) for start, end in sentence_spans(text)]
    sentences = [sentence for sentence in sentences if sentence and REQUEST not in sentence]
    if sentences and not ends_sentence(sentences[-1]):
        if len(sentences) > 1:
            return sentences[:-1]
        return [f"{sentences[0]} {CUT_OFF}"]
    return sentences


def is_cut_off(sentence: str) -> bool:
    """Whether a model did not finish a sentence, or a character in it."""
    return sentence.endswith(CUT_OFF) or "\ufffd" in sentence


class RepetitionFilter:
    """What a summary has said so far, as word trigrams. A model with a memory tends to say it again."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, ...]] = set()

    def repeats(self, sentence: str) -> bool:
        """Whether most of a sentence was said before."""
        trigrams = _trigrams(sentence)
        return len(trigrams & self._seen) > len(trigrams) / 2

    def add(self, sentence: str) -> None:
        """Remember a sentence of the summary."""
        self._seen |= _trigrams(sentence)


def _trigrams(sentence: str) -> set[tuple[str, ...]]:
    words = _WORD.findall(sentence.lower())
    return {tuple(words[at : at + 3]) for at in range(len(words) - 2)}
