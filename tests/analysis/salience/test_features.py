"""Each column computed by hand for a document of two headings and three paragraphs; finite values for any text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from awesum.analysis.salience.features import LONGEST_HEADING, NAMES, features
from tests.analysis.salience.test_centrality import unit_vectors
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
VECTORS = np.array([[1, 0], [0, 1], [0.6, 0.8], [0.8, 0.6], [0, 1], [1, 0], [-1, 0]], dtype=np.float32)


def column(name: str, query: np.ndarray | None = None) -> np.ndarray:
    return features(TEXTS, VECTORS, query)[:, NAMES.index(name)]


def logs(*counts: float) -> list[float]:
    return np.log1p(counts).tolist()


def cosines(other: list[float]) -> np.ndarray:
    return VECTORS @ (np.array(other) / np.linalg.norm(other))


# Words of four letters: budget office | budget office grew | paid | costs | budget office paid harbour | nobody knew |
COMMON = {
    "common_words": [np.log(3), 2 * np.log(3) / 3, np.log(2), 0, (2 * np.log(3) + np.log(2)) / 4, 0, 0],
    "most_common_word": [np.log(3), np.log(3), np.log(2), 0, np.log(3), 0, 0],
}
BY_HAND = {
    "words": np.array(logs(2, 6, 3, 1, 6, 2, 3)) / 3,
    "is_heading": [1, 0, 0, 1, 0, 0, 0],
    "ends": [0, 1, 1, 0, 1, 1, 1],
    "digits": [0, 4 / 31, 0, 0, 0, 0, 0],
    "capitals": [2 / 13, 1 / 31, 4 / 12, 1 / 5, 1 / 35, 1 / 12, 1 / 10],
    "place": np.arange(7) / 7,
    "from_start": np.array(logs(*range(7))) / 6,
    "from_end": np.array(logs(*range(6, -1, -1))) / 6,
    "in_paragraph": logs(0, 0, 1, 0, 0, 1, 2),
    "paragraph_left": logs(0, 1, 0, 0, 2, 1, 0),
    "since_heading": np.array(logs(0, 0, 1, 2, 0, 1, 2)) / 3,
    "common_words": np.array(COMMON["common_words"]) / 3,
    "most_common_word": np.array(COMMON["most_common_word"]) / 3,
    "new_words": [1, 1 / 3, 1, 1, 1 / 4, 1, 0],
    "common_pairs": [np.log(3), np.log(3) / 2, 0, 0, np.log(3) / 3, 0, 0],
    "in_opening": [1, 2 / 3, 0, 0, 2 / 4, 0, 0],
    "like_document": cosines([2.4, 3.4]),
    "like_opening": [1, 0, 0.6, 0.8, 0, 1, -1],
    "like_heading": [1, 0, 0.6, 0.8, 0.6, 0.8, -0.8],
    "like_last": [0, 0, 0.8, 0.96, 0.6, 0, -1],
    "like_next": [0, 0.8, 0.96, 0.6, 0, -1, 0],
    "sentences": logs(*[7] * 7) / np.array(6),
    "length": logs(*[23] * 7) / np.array(9),
    "asked": [0] * 7,
    "like_query": [0] * 7,
    "central": cosines([2.4, 3.4]) + 0.2 * np.exp(-np.arange(7) / 7 / 0.05),
}
OF_THE_QUERY = ("asked", "like_query", "central")


@pytest.mark.parametrize("name", NAMES)
def test_column_matches_the_values_computed_by_hand(name: str) -> None:
    np.testing.assert_allclose(column(name), BY_HAND[name], atol=1e-6)


def test_query_changes_only_the_query_columns() -> None:
    query = np.array([0.6, 0.8], dtype=np.float32)
    plain, asked = features(TEXTS, VECTORS), features(TEXTS, VECTORS, query)
    own = [number for number, name in enumerate(NAMES) if name in OF_THE_QUERY]
    np.testing.assert_array_equal(np.delete(plain, own, axis=1), np.delete(asked, own, axis=1))
    assert (plain[:, own] != asked[:, own]).any(axis=0).all()
    np.testing.assert_array_equal(column("asked", query), np.ones(7))
    np.testing.assert_allclose(column("like_query", query), VECTORS @ query, atol=1e-6)


def test_opening_is_a_share_of_the_document() -> None:
    texts = ["Budget first. ", "Harbour second. ", *["Harbour budget later. "] * 38]
    in_opening = features(texts, unit_vectors(40, 0))[:, NAMES.index("in_opening")]
    np.testing.assert_allclose(in_opening, [1, 1] + [2 / 3] * 38, atol=1e-6)  # two sentences of forty


def test_heading_has_few_words_and_no_stop() -> None:
    texts = ["word " * LONGEST_HEADING, "word " * (LONGEST_HEADING + 1), "word " * LONGEST_HEADING + "."]
    assert features(texts, unit_vectors(3, 0))[:, NAMES.index("is_heading")].tolist() == [1, 0, 0]


def test_document_without_sentences_has_no_rows() -> None:
    rows = features([], np.zeros((0, 2), dtype=np.float32))
    assert rows.shape == (0, len(NAMES))
    assert rows.dtype == np.float32


def test_single_sentence_is_first_and_last_and_like_itself() -> None:
    (row,) = features(["The budget office grew."], VECTORS[2:3])
    found = dict(zip(NAMES, row.tolist(), strict=True))
    same = ("ends", "new_words", "in_opening", "like_document", "like_opening", "like_heading")
    assert [found[name] for name in same] == pytest.approx([1] * len(same))
    places = ("place", "from_start", "from_end", "in_paragraph", "paragraph_left", "like_last", "like_next")
    assert [found[name] for name in places] == [0] * len(places)


def test_other_scripts_are_supported() -> None:
    texts = ["国会は予算案を可決した。", "国会\n", "Комитет принял решение."]
    rows = features(texts, unit_vectors(3, 0))
    assert rows[:, NAMES.index("ends")].tolist() == [1, 0, 1]
    assert rows[:, NAMES.index("is_heading")].tolist() == [0, 1, 0]
    assert rows[2, NAMES.index("capitals")] == pytest.approx(1 / 23)


@given(
    texts=st.lists(st.text(max_size=12) | st.sampled_from([*TEXTS, "", "\n", "\x00\x1b[31m", "²٣"]), max_size=8),
    asked=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@example(texts=["\x00\x07\x1b", "\x85\u2028", "\ud800"], asked=True, seed=0)
@example(texts=OTHER_SCRIPTS.split(), asked=False, seed=0)
def test_any_text_has_finite_features_of_the_order_of_one(texts: list[str], asked: bool, seed: int) -> None:
    vectors = unit_vectors(len(texts), seed) if texts else np.zeros((0, 5), dtype=np.float32)
    rows = features(texts, vectors, unit_vectors(1, seed)[0] if asked else None)
    assert rows.shape == (len(texts), len(NAMES))
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    assert (np.abs(rows) < 4).all()


@pytest.mark.parametrize("vectors", [np.zeros((2, 3)), np.array([[1, 0, 0], [-1, 0, 0]])])
def test_vectors_that_are_zero_or_cancel_out_give_finite_features(vectors: np.ndarray) -> None:
    assert np.isfinite(features(["One. ", "Two."], vectors.astype(np.float32))).all()


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)
