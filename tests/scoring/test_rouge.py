"""Integer counting against Google's package: the same numbers, to the last bit."""

from __future__ import annotations

import subprocess
import sys
from typing import Literal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenizers import DefaultTokenizer

from awesum.scoring.rouge import Index, NGrams, Vocabulary, common_subsequences, f_measure, overlap
from awesum.stems import stems
from tests.conftest import OTHER_SCRIPTS, topical_text

# Few words, so that texts repeat and share them; with endings that the stemmer removes, and punctuation.
FEW = ["the", "The", "sky", "skies", "running", "runs", "dying", "die", "it's", "7", "42nd,", "(x)", "国会", "İ"]
WORDS = st.lists(st.sampled_from(FEW))
TEXTS = WORDS.map(" ".join) | st.text(max_size=60)
N = st.sampled_from([1, 2])


def of(vocabulary: Vocabulary, text: str, n: Literal[1, 2]) -> NGrams:
    return NGrams.of(vocabulary.words(text), n)


@given(text=st.text() | WORDS.map(" ".join))
@example(text=topical_text(30) + OTHER_SCRIPTS)
@example(text="y" * 5000 + " " + "running" * 900)
def test_tokens_are_those_of_the_package(text: str) -> None:
    assert stems(text) == DefaultTokenizer(use_stemmer=True).tokenize(text)


@given(prediction=TEXTS, references=st.lists(TEXTS, max_size=6), n=N)
@example(prediction="", references=["", "the sky"], n=1)
@example(prediction="sky", references=["sky", "the sky", "国会"], n=2)  # one word has no pairs
@example(prediction="run run run", references=["run", "run run", "run run run run"], n=1)
@example(prediction=topical_text(5), references=[topical_text(40, seed=seed) for seed in range(5)], n=2)
def test_scores_are_those_of_the_package(prediction: str, references: list[str], n: Literal[1, 2]) -> None:
    vocabulary = Vocabulary()
    index = Index([of(vocabulary, text, n) for text in references])
    scorer = RougeScorer([f"rouge{n}"], use_stemmer=True)
    expected = [scorer.score(text, prediction)[f"rouge{n}"].fmeasure for text in references]
    assert index.scores(of(vocabulary, prediction, n)).tolist() == expected


def test_reversed_pair_is_a_different_pair() -> None:
    vocabulary = Vocabulary()
    index = Index([of(vocabulary, text, 2) for text in ("sky blue", "blue sky")])
    assert index.overlaps(of(vocabulary, "the blue sky", 2)).tolist() == [0, 1]


def test_repeated_words_count_with_multiplicity() -> None:
    vocabulary = Vocabulary()
    index = Index([of(vocabulary, text, 1) for text in ("tax tax tax bond", "bond", "tide")])
    assert index.overlaps(of(vocabulary, "tax tax bond bond", 1)).tolist() == [3, 1, 0]
    assert overlap(of(vocabulary, "tax tax tax bond", 1), of(vocabulary, "tax tax bond bond", 1)) == 3


@given(one=TEXTS, other=TEXTS, n=N)
@example(one="tax tax tax bond", other="tax tax bond bond", n=1)
@example(one="", other="", n=2)
def test_overlap_of_two_texts_matches_the_index(one: str, other: str, n: Literal[1, 2]) -> None:
    vocabulary = Vocabulary()
    left, right = of(vocabulary, one, n), of(vocabulary, other, n)
    assert [overlap(left, right)] == Index([right]).overlaps(left).tolist()
    assert overlap(left, right) == overlap(right, left)
    assert overlap(left, left) == left.total


def test_n_grams_are_counted() -> None:
    words = Vocabulary().words("tax bond tax bond tax")
    assert (NGrams.of(words, 1).counts.tolist(), NGrams.of(words, 1).total) == ([3, 2], 5)
    assert (NGrams.of(words, 2).counts.tolist(), NGrams.of(words, 2).total) == ([2, 2], 4)


@pytest.mark.parametrize(
    ("overlap", "predicted", "reference", "expected"), [(2, 4, 4, 0.5), (0, 4, 4, 0), (0, 0, 0, 0), (3, 3, 3, 1)]
)
def test_f_measure_of_single_numbers(overlap: int, predicted: int, reference: int, expected: float) -> None:
    assert f_measure(overlap, predicted, reference) == expected


def test_f_measure_of_many_at_once() -> None:
    assert f_measure(np.array([2, 0]), 4, np.array([4, 0])).tolist() == [0.5, 0.0]


def test_importing_does_not_load_the_rouge_packages() -> None:
    modules = "awesum.scoring.rouge, awesum.scoring.targets"
    code = f"import sys, {modules}; sys.exit('nltk' in sys.modules or 'rouge_score' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


WORDS = st.lists(st.lists(st.sampled_from("abcdef"), max_size=12), max_size=5)


@given(WORDS, WORDS)
def test_common_subsequences_are_those_of_the_package(reference: list[list[str]], prediction: list[list[str]]) -> None:
    from rouge_score.rouge_scorer import _summary_level_lcs

    hits = common_subsequences(reference, prediction)
    expected = _summary_level_lcs(reference, prediction)
    words = sum(map(len, reference)), sum(map(len, prediction))
    assert (hits / words[0], hits / words[1]) == (expected.recall, expected.precision) if all(words) else hits == 0
    assert float(f_measure(hits, words[1], words[0])) == expected.fmeasure
