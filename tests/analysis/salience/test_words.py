"""The document as numbers, against a version that goes sentence by sentence."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from awesum.analysis.salience.words import (
    BUCKETS,
    LONGEST_HEADING,
    Words,
    pair_rows,
    pairs_of,
    stem_ids,
    stem_rows,
)
from awesum.length import count_words
from tests.conftest import OTHER_SCRIPTS, topical_text
from tests.reference import salience as reference

PIECES = [
    "The budget grew. ",
    "Budgets\n",
    "Costs of the harbour in 2010\n\n",
    "running runs ran (see below).”  \n ",
    "x",
    "",
    " \n",
    "Комитет принял решение. ",
    "\x00\x1b[31m",
    "²٣ ",
    "word " * LONGEST_HEADING,
    "word " * (LONGEST_HEADING + 1),
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=15).filter(lambda text: not is_cjk(text)), max_size=9)


def is_cjk(text: str) -> bool:
    """Whether words are not what white space separates."""
    return count_words(text) != len(text.split())


def per_sentence(values: np.ndarray, owners: np.ndarray, count: int) -> list[list[int]]:
    return [values[owners == index].tolist() for index in range(count)]


@given(texts=TEXTS)
@example(texts=topical_text(30).splitlines(keepends=True))
@example(texts=[])
@example(texts=["One"])
@example(texts=PIECES)
def test_words_match_the_reference(texts: list[str]) -> None:
    words, slow = Words.of(texts), reference.words(texts, LONGEST_HEADING)
    count = len(texts)
    assert len(words) == count
    assert per_sentence(words.ids, words.owners, count) == slow.stems
    assert words.ids.tolist() == [stem for stems in slow.stems for stem in stems]
    assert words.counts.tolist() == [len(stems) for stems in slow.stems]
    assert per_sentence(*words.pairs, count) == slow.pairs
    assert words.headings.tolist() == slow.headings
    assert words.heading_before.tolist() == slow.heading_before
    assert words.lengths.tolist() == [len(text.split()) for text in texts]
    assert words.breaks.tolist() == [_breaks(text) for text in texts]
    assert words.characters.tolist() == [len(text.strip()) or 1 for text in texts]
    assert words.digits.tolist() == [sum(character.isdigit() for character in text) for text in texts]
    assert words.capitals.tolist() == [sum(character.isupper() for character in text) for text in texts]


def _breaks(text: str) -> bool:
    """Whether a line ends in the white space after the text."""
    while text and text[-1].isspace():
        if text[-1] == "\n":
            return True
        text = text[:-1]
    return False


def test_same_stem_has_the_same_number_whatever_its_ending() -> None:
    assert len(set(stem_ids("budget Budgets BUDGETED").tolist())) == 1
    assert stem_ids("budget").tolist() == [zlib.crc32(b"budget")]
    assert stem_ids(OTHER_SCRIPTS).tolist() == stem_ids("").tolist() == []


def test_pair_is_ordered_and_within_a_sentence() -> None:
    words = Words.of(["Crane tide. ", "Tide crane. "])
    pairs, owners = words.pairs
    assert owners.tolist() == [0, 1], "the last stem of one sentence and the first of the next are no pair"
    crane, tide = (zlib.crc32(word) for word in (b"crane", b"tide"))
    assert pairs.tolist() == [crane << 32 | tide, tide << 32 | crane]
    assert pairs_of(words.ids[:0]).tolist() == pairs_of(words.ids[:1]).tolist() == []


@given(st.lists(st.integers(0, 2**32 - 1), max_size=20), st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_rows_match_the_arithmetic_of_unlimited_integers(stems: list[int], pairs: list[int]) -> None:
    assert stem_rows(np.array(stems, dtype=np.uint32)).tolist() == [stem % BUCKETS for stem in stems]
    expected = [pair * 0x9E3779B97F4A7C15 % 2**64 * BUCKETS >> 64 for pair in pairs]
    assert pair_rows(np.array(pairs, dtype=np.uint64)).tolist() == expected


@pytest.mark.parametrize("rows", ["stems", "pairs"])
def test_rows_are_spread_over_the_table(rows: str) -> None:
    ids = np.unique(stem_ids(" ".join(f"w{number}" for number in range(4000))))
    found = stem_rows(ids) if rows == "stems" else pair_rows(pairs_of(ids))
    expected = BUCKETS * (1 - np.exp(-len(found) / BUCKETS))  # as many different rows as chance gives
    assert len(np.unique(found)) > 0.97 * expected
    assert found.min() >= 0
    assert found.max() < BUCKETS
