"""The language of a text, by a small statistical model; English, which most texts are in, shows in its small words."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

SAMPLE = 20_000
"""Characters that are looked at."""
FEWEST_LETTERS = 40
"""From which a guess is worth something."""
SUREST = 0.9
"""The probability from which the guess is believed; below it, the language is unknown."""

ENGLISH_SHARE = 0.06
"""Of the words of a text that are among the small words of English, from which it is English. They are about 0.14 of an
English text, and none of any other; the model takes a second to load, and is not asked then."""

CAPITAL_SHARE = 0.1
"""Of the words of a text that are among the small words of German, from which its nouns have capital letters. They are
about 0.25 of a German text."""

_GERMAN = frozenset(
    "und das ist nicht eine einen einer eines einem mit für auf dem wurde wurden werden wird sind auch sich bei zum "
    "zur nach haben soll aus durch oder wie über".split()
)
_PERHAPS_GERMAN = frozenset("der die des den von im ein zu am hat an".split())
"""German, but also a part of names, or words of other languages."""
_SMALL_WORDS = frozenset("the and that with for was this from which are have been will".split())
_WORD = re.compile(r"[^\W\d_]+")
_NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek",
    "en": "English", "es": "Spanish", "fa": "Persian", "fi": "Finnish", "fr": "French", "he": "Hebrew", "hi": "Hindi",
    "hr": "Croatian", "hu": "Hungarian", "id": "Indonesian", "it": "Italian", "ja": "Japanese", "ko": "Korean",
    "nb": "Norwegian", "nl": "Dutch", "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian",
    "ru": "Russian", "sk": "Slovak", "sr": "Serbian", "sv": "Swedish", "th": "Thai", "tr": "Turkish", "uk": "Ukrainian",
    "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip


def detect(text: str) -> str | None:
    """The ISO 639 code of the language of a text; none if it does not show."""
    sample = text[:SAMPLE]
    if sum(map(str.isalpha, sample)) < FEWEST_LETTERS:
        return None
    words = _WORD.findall(sample.lower())
    if sum(word in _SMALL_WORDS for word in words) > ENGLISH_SHARE * len(words):
        return "en"
    code, probability = _identifier().classify(sample)
    return str(code) if probability >= SUREST else None


def capitalizes_nouns(text: str) -> bool:
    """Whether a text is in a language that writes every noun with a capital letter, which then tells no name."""
    words = _WORD.findall(text[:SAMPLE].lower())
    sure = sum(word in _GERMAN for word in words)
    found = sure + sum(word in _PERHAPS_GERMAN for word in words)
    return sure > 0 and found > 1 and found >= CAPITAL_SHARE * len(words)


def name(code: str) -> str:
    """The English name of a language."""
    return _NAMES.get(code, f"the language {code!r}")


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
