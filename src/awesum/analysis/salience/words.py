"""The sentences of a document as numbers: stems, word pairs, and what can be counted in each sentence.

The extractor reads a document in this form: one pass over the text serves its features, its embeddings and the choice
of sentences. A stem is represented by its CRC-32, so no vocabulary has to be kept; collisions are rarer than typos.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from awesum.analysis.sentences import ends_sentence
from awesum.length import count_words
from awesum.stems import stems

if TYPE_CHECKING:
    from numpy.typing import NDArray

BUCKETS = 2**15
"""Rows of the tables of stems and of pairs; several rare ones share a row."""
LONGEST_HEADING = 12
"""Words in the longest heading."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: its multiples are spread evenly


@dataclass(frozen=True)
class Words:
    """A document's sentences as arrays, one entry per sentence except in `ids`."""

    ids: NDArray[np.uint32]
    """The stems of all sentences, in order."""
    counts: NDArray[np.int32]
    """Stems."""
    lengths: NDArray[np.int32]
    """Words separated by white space: what a length is counted in."""
    ends: NDArray[np.bool_]
    """Whether it ends like a sentence."""
    breaks: NDArray[np.bool_]
    """Whether a line ends after it."""
    characters: NDArray[np.int32]
    digits: NDArray[np.int32]
    capitals: NDArray[np.int32]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Words:
        """`texts` are the sentences including the white space after each."""
        found = [stem_ids(text) for text in texts]

        def each(values: Sequence[int]) -> NDArray[np.int32]:
            return np.array(values, dtype=np.int32)

        return cls(
            ids=np.concatenate([np.zeros(0, dtype=np.uint32), *found]),
            counts=each([len(ids) for ids in found]),
            lengths=each([count_words(text) for text in texts]),
            ends=np.array([ends_sentence(text) for text in texts], dtype=bool),
            breaks=np.array(["\n" in text[len(text.rstrip()) :] for text in texts], dtype=bool),
            characters=each([max(len(text.strip()), 1) for text in texts]),
            digits=each([sum(map(str.isdigit, text)) for text in texts]),
            capitals=each([sum(map(str.isupper, text)) for text in texts]),
        )

    def __len__(self) -> int:
        return len(self.counts)

    @cached_property
    def owners(self) -> NDArray[np.int64]:
        """The sentence of each stem."""
        return np.repeat(np.arange(len(self)), self.counts)

    @cached_property
    def pairs(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The pairs of adjacent stems, as numbers, and the sentence of each."""
        inside = self.owners[:-1] == self.owners[1:]
        return pairs_of(self.ids)[inside], self.owners[:-1][inside]

    @cached_property
    def headings(self) -> NDArray[np.bool_]:
        """Whether a sentence is a heading: short, and without a full stop."""
        return (self.lengths <= LONGEST_HEADING) & ~self.ends

    @cached_property
    def heading_before(self) -> NDArray[np.int64]:
        """The number of the last heading before each sentence; -1 if there is none."""
        last = np.maximum.accumulate(np.where(self.headings, np.arange(len(self)), -1))
        return np.concatenate([[-1], last[:-1]]).astype(np.int64)[: len(self)]


def stem_ids(text: str) -> NDArray[np.uint32]:
    """The stems of a text as numbers."""
    return np.array([zlib.crc32(stem.encode()) for stem in stems(text)], dtype=np.uint32)


def pairs_of(ids: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """The pairs of adjacent stems, the first in the upper half of each number."""
    wide = ids.astype(np.uint64)
    return (wide[:-1] << np.uint64(32)) | wide[1:]


def stem_rows(ids: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The row of each stem in a table."""
    return (ids % np.uint32(BUCKETS)).astype(np.int64)


def pair_rows(pairs: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The row of each pair in a table."""
    return ((pairs * _GOLDEN) >> np.uint64(64 - (BUCKETS - 1).bit_length())).astype(np.int64)
