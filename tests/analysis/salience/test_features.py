"""Each column computed by hand for a document of two headings and three paragraphs; finite values for any text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from awesum.analysis.salience.features import DOCUMENT_NAMES, NAMES, document_features, features, mentioned
from awesum.analysis.salience.words import BUCKETS, Words, stem_ids, stem_rows
from tests.conftest import OTHER_SCRIPTS

TEXTS = [
    "Budget Office\n\n",
    "The budget office grew in 2010. ",
    "It paid USA.\n",
    "Costs\n",
    "The budget office paid the harbour. ",
    "Nobody knew. ",
    "So it was.\n",
]
RARITY = np.ones(BUCKETS, dtype=np.float32)
for stem, value in (("the", 0.5), ("budget", 2.0), ("harbour", 3.0)):
    RARITY[stem_rows(stem_ids(stem))] = value
QUERY = stem_ids("Budgets of the harbour?")


def column(name: str, query: np.ndarray | None = None) -> np.ndarray:
    return features(Words.of(TEXTS), RARITY, query)[:, NAMES.index(name)]


def logs(*counts: float) -> np.ndarray:
    return np.log1p(np.array(counts))


L2, L3, R2, R3 = np.log(2), np.log(3), np.sqrt(2), np.sqrt(3)
# Stems: budget offic | the budget offic grew in 2010 | it paid usa | cost | the budget offic paid the harbour |
# nobodi knew | so it was. Three times: budget, offic, the. Twice: it, paid; and the pair "the budget".
SIZES = np.sqrt([5, 8.25, 3, 1, 15.5, 2, 3])  # of the rarities of each sentence
BY_HAND = {
    "words": logs(2, 6, 3, 1, 6, 2, 3) / 3,
    "is_heading": [1, 0, 0, 1, 0, 0, 0],
    "ends": [0, 1, 1, 0, 1, 1, 1],
    "digits": [0, 4 / 31, 0, 0, 0, 0, 0],
    "capitals": [2 / 13, 1 / 31, 4 / 12, 1 / 5, 1 / 35, 1 / 12, 1 / 10],
    "place": np.arange(7) / 7,
    "words_before": np.array([0, 2, 8, 11, 12, 18, 20]) / 23,
    "from_start": logs(*range(7)) / 6,
    "from_end": logs(*range(6, -1, -1)) / 6,
    "in_paragraph": logs(0, 0, 1, 0, 0, 1, 2),
    "paragraph_left": logs(0, 1, 0, 0, 2, 1, 0),
    "since_heading": logs(0, 0, 1, 2, 0, 1, 2) / 3,
    "section_left": logs(0, 2, 1, 0, 2, 1, 0) / 3,
    "section": [0.5, 0.5, 0.5, 1, 1, 1, 1],
    "sections": logs(*[2] * 7) / 4,
    "common_words": np.array([L3, L3 / 2, 2 * L2 / 3, 0, (4 * L3 + L2) / 6, 0, L2 / 3]) / 3,
    "common_rare_words": np.array([1.5 * L3, 3.5 * L3 / 6, 2 * L2 / 3, 0, (4 * L3 + L2) / 6, 0, L2 / 3]) / 3,
    "rare_words": np.array([3 / 2, 6.5 / 6, 1, 1, 8 / 6, 1, 1]) / 8,
    "new_words": [1, 4 / 6, 1, 1, 1 / 6, 1, 2 / 3],
    "common_pairs": [L3, (L2 + L3) / 5, 0, 0, (L2 + L3) / 5, 0, 0],
    "repeated_pairs": [1, 2 / 5, 0, 0, 2 / 5, 0, 0],
    "like_document": 4
    * np.array([5 * R3, 5.25 * R3 + 3, 2 * R2 + 1, 1, 5.5 * R3 + R2 + 9, 2, 2 + R2])
    / SIZES
    / np.sqrt(37.75),
    "like_opening": 4 * np.array([5, 5, 0, 0, 5, 0, 0]) / SIZES / np.sqrt(5),
    "like_ending": 4 * np.array([0, 0, 1, 0, 0, 0, 3]) / SIZES / R3,
    "like_headings": 4 * np.array([5, 5, 0, 1, 5, 0, 0]) / SIZES / np.sqrt(6),
    "sentences": logs(*[7] * 7) / 6,
    "length": logs(*[23] * 7) / 9,
    "asked": [0] * 7,
    "like_query": [0] * 7,
}
OF_THE_QUERY = ("asked", "like_query")


@pytest.mark.parametrize("name", NAMES)
def test_column_matches_the_values_computed_by_hand(name: str) -> None:
    np.testing.assert_allclose(column(name), BY_HAND[name], atol=1e-5)


def test_query_changes_only_the_query_columns() -> None:
    plain, asked = (features(Words.of(TEXTS), RARITY, query) for query in (None, QUERY))
    own = [number for number, name in enumerate(NAMES) if name in OF_THE_QUERY]
    np.testing.assert_array_equal(np.delete(plain, own, axis=1), np.delete(asked, own, axis=1))
    np.testing.assert_array_equal(column("asked", QUERY), np.ones(7))
    # the, budget | the, budget, the, harbour
    np.testing.assert_allclose(column("like_query", QUERY), np.array([2, 2.5, 0, 0, 6, 0, 0]) / SIZES / 3, atol=1e-6)


def test_query_without_words_is_no_query() -> None:
    np.testing.assert_array_equal(
        features(Words.of(TEXTS), RARITY, stem_ids("国会？")), features(Words.of(TEXTS), RARITY)
    )


def test_opening_and_ending_are_shares_of_the_document() -> None:
    texts = ["Crane. ", "Tide. ", *["Quay. "] * 36, "Berth. ", "Anchor."]
    rows = features(Words.of(texts), np.ones(BUCKETS, dtype=np.float32))
    first, last = (np.flatnonzero(rows[:, NAMES.index(name)]) for name in ("like_opening", "like_ending"))
    assert (first.tolist(), last.tolist()) == ([0, 1], [38, 39])  # two sentences of forty


def test_document_without_sentences_has_no_rows() -> None:
    rows = features(Words.of([]), RARITY)
    assert rows.shape == (0, len(NAMES))
    assert rows.dtype == np.float32


def test_single_sentence_is_first_and_last_and_like_itself() -> None:
    (row,) = features(Words.of(["The budget office grew."]), RARITY)
    found = dict(zip(NAMES, row.tolist(), strict=True))
    likeness = ("like_document", "like_opening", "like_ending")
    assert [found[name] for name in likeness] == pytest.approx([4] * 3, rel=1e-4)
    assert (found["ends"], found["new_words"], found["like_headings"]) == (1, 1, 0)
    places = ("place", "words_before", "from_start", "from_end", "in_paragraph", "paragraph_left", "since_heading")
    assert [found[name] for name in places] == [0] * len(places)


@given(
    texts=st.lists(st.text(max_size=12) | st.sampled_from([*TEXTS, "", "\n", "\x00\x1b[31m", "²٣"]), max_size=8),
    asked=st.booleans(),
)
@example(texts=["\x00\x07\x1b", "\x85\u2028", "\ud800"], asked=True)
@example(texts=OTHER_SCRIPTS.split(), asked=False)
@example(texts=["the " * 20], asked=True)
def test_any_text_has_finite_features_of_the_order_of_one(texts: list[str], asked: bool) -> None:
    words = Words.of(texts)
    rows = features(words, RARITY, QUERY if asked else None)
    assert rows.shape == (len(texts), len(NAMES))
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    likeness = [name.startswith("like_") for name in NAMES]
    assert (np.abs(rows[:, ~np.array(likeness)]) < 4).all()
    assert np.isfinite(document_features(words, asked=asked)).all()


# -------------------------------------------------------------------------------------------------- the whole document


def of_document(texts: list[str], name: str) -> float:
    return float(document_features(Words.of(texts))[DOCUMENT_NAMES.index(name)])


def test_document_matches_the_values_computed_by_hand() -> None:
    expected = {
        "words": np.log(24) / 9,
        "first_words": np.log(24) / 8,
        "sentences": np.log(8) / 6,
        "sections": np.log(3) / 4,
        "paragraphs": np.log(5) / 6,
        "digits": 40 / 118,
        "asked": 0,
    }
    found = document_features(Words.of(TEXTS))
    np.testing.assert_allclose(found, [expected[name] for name in DOCUMENT_NAMES], atol=1e-6)
    asked = document_features(Words.of(TEXTS), asked=True)
    assert (np.flatnonzero(found != asked) == [DOCUMENT_NAMES.index("asked")]).all()


def test_mentioned_is_the_share_of_the_query_by_rarity() -> None:
    rarity = np.ones(BUCKETS, dtype=np.float32)
    rarity[stem_rows(stem_ids("harbour"))] = 3
    words = Words.of(["The harbour is old. ", "It has a crane. ", "The harbour has a crane, a crane. ", "Nothing. "])
    shares = mentioned(words, rarity, stem_ids("crane harbour crane"))
    np.testing.assert_allclose(shares, [0.75, 0.25, 1, 0], atol=1e-6)
    assert not mentioned(words, rarity, stem_ids("")).any()


def test_length_of_a_document_counts_twice_up_to_a_limit() -> None:
    short, long, longer = ([f"{'word ' * count}."] for count in (100, 5_000, 50_000))
    assert of_document(short, "first_words") < of_document(long, "first_words") == of_document(longer, "first_words")
    assert of_document(long, "words") < of_document(longer, "words")


@pytest.mark.parametrize("names", [NAMES, DOCUMENT_NAMES])
def test_names_are_unique(names: tuple[str, ...]) -> None:
    assert len(set(names)) == len(names)
