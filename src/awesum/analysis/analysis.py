"""The analysis of a document: everything a system knows before it writes, as one value.

`Analyst` holds the two models that it takes, the sentence encoder and the extractor, and uses them for many documents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from awesum.analysis.conclusions import conclusions
from awesum.analysis.junk import in_blocks, without_junk
from awesum.analysis.salience.ratings import Query
from awesum.analysis.segmentation import Limits, measure, segment
from awesum.analysis.selection import REMEMBERED_SHARE, Selection, salient, select
from awesum.analysis.sentences import sentence_spans
from awesum.analysis.turns import Turns
from awesum.document import JUNK, Document, Segment, Sentence
from awesum.length import Length
from awesum.settings import CENTRALITY, EMBEDDED, SHIPPED
from awesum.summary import Quote

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerBase

    from awesum.analysis.embedding import SentenceEncoder
    from awesum.analysis.salience import Salience
    from awesum.analysis.salience.ratings import Ratings
    from awesum.analysis.tokens import PlainTokenizer

SHIPPED_EXTRACTOR = Path(__file__).parent / "salience" / "extractor.safetensors"
REDUNDANT_STEMS = 0.95
"""The cosine of the extractor's own vectors above which a sentence repeats a selected one. What it covers is known
besides, so this is for copies."""
_BULLET = re.compile(r"\s*(?:[•◦▪‣●○■□*–—-]\s+(?=\S))?")
Progress = Callable[[str, int, int], object]
"""Called with the stage, how much of it is done, and how much there is."""
Vectors = Mapping[str, "NDArray[np.float32]"]
"""Known vectors of sentences, by their text."""


def no_progress(stage: str, done: int, total: int) -> None:
    """Nobody is watching."""


@dataclass(frozen=True)
class Analysis:
    """A document in sentences and segments, with ratings and a selection."""

    document: Document
    sentences: Sequence[Sentence]
    vectors: NDArray[np.float32]
    """A unit vector for each sentence, (N, d)."""
    segments: Sequence[Segment]
    ratings: Ratings
    """The salience of each sentence, for `query` if there is one."""
    selection: Selection
    query: str | None = None

    @property
    def tokens(self) -> int:
        """The tokens of the document."""
        return sum(sentence.tokens for sentence in self.sentences)

    @cached_property
    def texts(self) -> list[str]:
        """Each sentence with the white space after it: together they are the document."""
        return [self.document.text[sentence.start : sentence.end] for sentence in self.sentences]

    @cached_property
    def turns(self) -> Turns:
        """Who says what, if it is a transcript."""
        return Turns.of(self.document.text)

    @cached_property
    def selectable(self) -> list[str]:
        """The texts, those empty that must not be selected: headings, and what nobody wants in a summary."""
        return without_junk(self.document, self.sentences, self.texts)

    @cached_property
    def salient(self) -> list[int]:
        """The salient tenth of the document, whatever the length of the summary."""
        return salient(self.selectable, self.sentences, self.vectors, self.ratings)

    @cached_property
    def remembered(self) -> dict[int, float]:
        """For a salient memory: the sentences that it may keep, and how salient each is among them, above 0 up to 1."""
        chosen = salient(self.selectable, self.sentences, self.vectors, self.ratings, REMEMBERED_SHARE)
        ranked = sorted(chosen, key=lambda index: float(self.ratings.scores[index]))
        return {index: rank / len(ranked) for rank, index in enumerate(ranked, 1)}

    def segment_text(self, number: int) -> str:
        """The text of a segment without junk, and without the white space around it."""
        segment = self.segments[number]
        junk = in_blocks(self.document, self.sentences[segment.first : segment.last], JUNK)
        if not any(junk):
            return self.document.text[segment.start : segment.end].strip()
        texts = self.texts[segment.first : segment.last]
        kept = "".join(text for text, is_junk in zip(texts, junk, strict=True) if not is_junk).strip()
        return kept or self.document.text[segment.start : segment.end].strip()

    def quote(self, index: int) -> Quote:
        """A sentence without the white space around it, and without the bullet of an item."""
        sentence = self.sentences[index]
        text = self.document.text[sentence.start : sentence.end]
        found = _BULLET.match(text)
        start = sentence.start + (found.end() if found else 0)
        quoted = text[start - sentence.start :].rstrip()
        return Quote(start, start + len(quoted), quoted)

    def plain(self, index: int) -> str:
        """A sentence on one line."""
        return " ".join(self.quote(index).text.split())

    def with_length(self, length: Length, *, spread: bool) -> Analysis:
        """The same document with the selection for another length."""
        selection = select(
            self.selectable,
            self.vectors,
            self.segments,
            self.ratings,
            length,
            spread=spread,
            concluding=None if self.query else conclusions(self.texts),
        )
        return replace(self, selection=selection)


@dataclass(frozen=True)
class _Reading:
    """What an analysis has in common for every query and length."""

    sentences: Sequence[Sentence]
    vectors: NDArray[np.float32]
    segments: Sequence[Segment]
    is_encoded: bool
    """Whether the vectors are the encoder's."""


class Analyst:
    """A sentence encoder and an extractor. The shipped ones are loaded when they are first needed.

    The extractor reads words, not vectors, so any encoder goes with it.
    """

    def __init__(self, encoder: SentenceEncoder | str | None = None, extractor: Salience | None = None) -> None:
        """An encoder that is named is loaded when it is first needed, like the shipped one."""
        self._encoder, self._extractor = encoder, extractor
        self.keeps = 1
        """Documents of which sentences, vectors and segments are kept: the next query may be about one of them."""
        self._readings: dict[tuple[object, ...], _Reading] = {}  # those used last come last
        self._readings_lock = Lock()

    @classmethod
    def named(cls, encoder: str = "", extractor: str = "") -> Analyst:
        """With an encoder by name or folder (`embedded` or nothing: the embedded one), and an extractor by its path, or
        `centrality` (`shipped` or nothing: the shipped one)."""
        from awesum.analysis.salience.centrality import Centrality
        from awesum.analysis.salience.loading import load_extractor

        chosen: Salience | None = None
        if extractor not in ("", SHIPPED):
            chosen = Centrality() if extractor == CENTRALITY else load_extractor(extractor)
        return cls(encoder if encoder not in ("", EMBEDDED) else None, chosen)

    def with_extractor(self, extractor: Salience) -> Analyst:
        """The same encoder with another extractor."""
        return Analyst(self._encoder, extractor)

    @property
    def has_shipped_encoder(self) -> bool:
        """Whether the encoder is the embedded one."""
        return self._encoder is None

    @cached_property
    def encoder(self) -> SentenceEncoder:
        """The sentence encoder that segmentation and salience rest on."""
        from awesum.analysis.embedding import SentenceEncoder
        from awesum.weights import minilm_folder

        if isinstance(self._encoder, SentenceEncoder):
            return self._encoder
        return SentenceEncoder.load(self._encoder or minilm_folder())

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase | PlainTokenizer:
        """The encoder's tokenizer, without the encoder if that is not loaded."""
        if self._encoder is not None or "encoder" in vars(self):
            return self.encoder.tokenizer
        from awesum.analysis.tokens import PlainTokenizer
        from awesum.weights import minilm_folder

        return PlainTokenizer.load(minilm_folder())

    @cached_property
    def extractor(self) -> Salience:
        """The extractor, which scores sentences."""
        if self._extractor is not None:
            return self._extractor
        from awesum.analysis.salience.plain import PlainSalience

        return PlainSalience.load()

    def load(self) -> None:
        """Load both models now."""
        _ = self.encoder, self.extractor

    def fingerprint(self) -> list[str]:
        """Changes whenever an analysis would: of both models' weights, without loading the shipped ones."""
        from awesum.files import sha256
        from awesum.loading import weights_fingerprint
        from awesum.weights import MINILM_WHEEL

        encoder = MINILM_WHEEL.sha256 if self._encoder is None else weights_fingerprint(self.encoder.model)
        extractor = sha256(SHIPPED_EXTRACTOR) if self._extractor is None else self._extractor.name
        return [encoder, extractor]

    def analyse(
        self,
        document: Document,
        *,
        tokenizer: PreTrainedTokenizerBase | PlainTokenizer,
        limits: Limits,
        length: Length,
        spread: bool = True,
        query: str | None = None,
        known: Vectors | None = None,
        encode: bool = True,
        progress: Progress = no_progress,
    ) -> Analysis:
        """Read the whole document: every token of it passes through here.

        `known` has the vectors of sentences that need not be encoded again. Without `encode`, the extractor's own
        vectors serve where they can. `spread`: see `select`.
        """
        reading = self._read(document, tokenizer, limits, known or {}, encode or query is not None, progress)
        texts = [document.text[sentence.start : sentence.end] for sentence in reading.sentences]
        asked = Query(query, self.encoder.encode([query])[0]) if query else None
        ratings = self.extractor.rate(texts, reading.vectors, asked)
        if not reading.is_encoded:
            ratings = replace(ratings, redundant=REDUNDANT_STEMS)
        selection = select(
            without_junk(document, reading.sentences, texts),
            reading.vectors,
            reading.segments,
            ratings,
            length,
            spread=spread,
            concluding=None if query else conclusions(texts),
        )
        return Analysis(document, reading.sentences, reading.vectors, reading.segments, ratings, selection, query)

    def _read(
        self,
        document: Document,
        tokenizer: PreTrainedTokenizerBase | PlainTokenizer,
        limits: Limits,
        known: Vectors,
        encode: bool,
        progress: Progress,
    ) -> _Reading:
        """Sentences, vectors and segments; those of the last documents are kept."""
        key = (document.text, document.blocks, id(tokenizer), limits, encode)
        with self._readings_lock:
            if known_reading := self._readings.pop(key, None):
                self._readings[key] = known_reading
                return known_reading
        text = document.text
        sentences = measure(text, sentence_spans(text, document.blocks), tokenizer, limits.upper)
        own = None if encode else self.extractor.own_vectors([text[each.start : each.end] for each in sentences])
        vectors = self._encode(text, sentences, known, progress) if own is None else own
        if own is not None:
            total = sum(sentence.tokens for sentence in sentences)
            progress("reading", total, total)
        segments = segment(sentences, vectors, limits.lower, limits.upper)
        reading = _Reading(sentences, vectors, segments, is_encoded=own is None)
        with self._readings_lock:
            self._readings[key] = reading
            while len(self._readings) > self.keeps:
                del self._readings[next(iter(self._readings))]
        return reading

    def _encode(
        self, text: str, sentences: Sequence[Sentence], known: Vectors, progress: Progress
    ) -> NDArray[np.float32]:
        total = sum(sentence.tokens for sentence in sentences)
        done = read = 0

        def advance(count: int) -> None:
            nonlocal done, read
            read += sum(sentence.tokens for sentence in sentences[done : done + count])
            done += count
            progress("reading", read, total)

        progress("reading", 0, total)
        texts = [text[sentence.start : sentence.end] for sentence in sentences]
        unknown = [each for each in texts if each not in known]  # another tokenizer may split a long sentence elsewhere
        if len(unknown) == len(texts):
            return self.encoder.encode(texts, advance)
        encoded = iter(self.encoder.encode(unknown)) if unknown else iter(())
        return np.stack([known[each] if each in known else next(encoded) for each in texts])
