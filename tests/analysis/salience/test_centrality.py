from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.ratings import Query, usual_words
from tests.reference import salience as reference


def unit_vectors(count: int, seed: int, size: int = 5) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, size)) + 0.3
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def score(vectors: np.ndarray, centrality: Centrality | None = None, query: np.ndarray | None = None) -> np.ndarray:
    """Scores with placeholder texts: centrality ignores the words."""
    asked = None if query is None else Query("Why?", query)
    return (centrality or Centrality()).rate(["Some words."] * len(vectors), vectors, asked).scores


@given(count=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
def test_product_with_the_mean_is_the_mean_cosine_with_all_sentences_up_to_scale(count: int, seed: int) -> None:
    vectors = unit_vectors(count, seed)
    scores = score(vectors, Centrality(opening=0))
    scale = np.linalg.norm(vectors.mean(axis=0))
    np.testing.assert_allclose(scores * scale, reference.mean_cosines(vectors), atol=1e-5)


def test_opening_gets_a_bonus_that_decays() -> None:
    vectors = np.array([[1, 0]] * 50, dtype=np.float32)
    scores = score(vectors, Centrality(opening=0.2))
    assert np.all(np.diff(scores) <= 0)
    np.testing.assert_allclose([scores[0], scores[-1]], [1.2, 1.0], atol=1e-4)


def test_query_ranks_similar_sentences_first() -> None:
    vectors = unit_vectors(30, seed=3)
    plain, pulled = score(vectors), score(vectors, query=vectors[20])
    assert pulled.argmax() == 20
    assert plain.argmax() != 20


def test_one_score_per_sentence_even_for_none() -> None:
    assert score(np.zeros((0, 5), dtype=np.float32)).shape == (0,)
    assert score(unit_vectors(1, 0)).shape == (1,)


def test_vectors_that_cancel_out_still_get_finite_scores() -> None:
    assert np.isfinite(score(np.array([[1, 0], [-1, 0]], dtype=np.float32))).all()


def test_name_changes_with_the_settings() -> None:
    assert Centrality().name == Centrality().name
    assert len({Centrality().name, Centrality(opening=0.3).name, Centrality(query_weight=0.3).name}) == 3


def test_ratings_are_the_scores_and_the_usual_length_of_the_words() -> None:
    vectors = unit_vectors(20, 0)
    ratings = Centrality().rate(["Some words. "] * 20, vectors)
    np.testing.assert_array_equal(ratings.scores, Centrality().scores(vectors))
    assert ratings.usual_words == usual_words(40)
    assert ratings.coverage is None


@given(words=st.integers(0, 10**6))
def test_usual_length_grows_to_a_limit_and_is_never_more_than_the_document(words: int) -> None:
    assert (usual_words(words) > 0) == (words > 0)
    assert usual_words(words) <= words
    assert usual_words(words) <= usual_words(words + 1)
    assert usual_words(words) <= usual_words(4000) == usual_words(8000)


def test_usual_length_of_a_few_documents() -> None:
    assert [round(usual_words(words)) for words in (0, 1, 30, 1000, 9000)] == [0, 1, 30, 247, 547]
