"""A summary of one sentence names the conclusion."""

from __future__ import annotations

import numpy as np
import pytest

from awesum.analysis.conclusions import conclusions
from awesum.analysis.salience.ratings import Ratings
from awesum.analysis.selection import CONCLUSION, select
from awesum.document import Segment
from awesum.length import Length

STUDY = [
    "Background\n",
    "The old bridge was built in 1931 and carries 9,000 cars a day.\n",
    "Repairs have cost two million euros since the year 2015.\n",
    "Options\n",
    "Option A is to repair the bridge once more for 4 million euros.\n",
    "Option B is a new bridge for 11 million euros.\n",
    "Recommendation\n",
    "The town should build the new bridge before the winter of 2026.\n",
    "Appendix\n",
    "The traffic was counted on three days in May and in June.\n",
]


def chosen(length: str) -> list[str]:
    ratings = Ratings(np.linspace(0.2, 0.1, len(STUDY), dtype=np.float32), 30.0)
    vectors = np.eye(len(STUDY), dtype=np.float32)
    segments = [Segment(0, len(STUDY), 0, 1, 1)]
    selection = select(
        STUDY, vectors, segments, ratings, Length.parse(length), spread=False, concluding=conclusions(STUDY)
    )
    return [STUDY[index] for index in selection.selected]


def test_sentences_under_a_heading_of_conclusions_are_conclusions() -> None:
    assert [found > 0 for found in conclusions(STUDY)] == [False] * 7 + [True, False, False]


@pytest.mark.parametrize("length", ["1s", "12w"])
def test_shortest_summary_is_the_conclusion(length: str) -> None:
    assert chosen(length) == [STUDY[7]]


def test_longer_summary_goes_by_its_ratings() -> None:
    assert CONCLUSION / 3 > 0.1, "or the test above would say nothing"
    assert STUDY[7] not in chosen("4s")


def test_conclusion_that_says_so_itself_is_surer_than_one_under_a_heading() -> None:
    heading, stated, other = conclusions(["Conclusions\n", "We recommend the new bridge.", "It is a long bridge."])
    assert heading == 0
    assert stated == 1
    assert 0 < other < conclusions(["We recommend the new bridge."])[0] < 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We therefore recommend that the council approve the plan.", True),
        ("The committee has concluded that no fraud occurred.", True),
        ("Overall, costs fell by a third.", True),
        ("The plan should be approved by June.", True),
        ("It is recommended that the valves be replaced.", True),
        ("The committee met on three days in May.", False),
        ("The recommended dose was given to each of them.", False),
        ("Costs fell by a third in 2019.", False),
    ],
)
def test_conclusion_is_recognized_by_its_words(text: str, expected: bool) -> None:
    assert (conclusions([text])[0] > 0) == expected


def test_short_document_keeps_the_conclusion_that_says_so_itself() -> None:
    stated = [*STUDY[:7], "We recommend the new bridge, which the town should build before 2026.\n", *STUDY[8:]]

    def is_selected(texts: list[str]) -> bool:
        scores = np.full(len(texts), 0.2, dtype=np.float32)
        scores[7] = 0.05
        ratings = Ratings(scores, 30.0)
        vectors = np.eye(len(texts), dtype=np.float32)
        segments = [Segment(0, len(texts), 0, 1, 1)]
        return (
            7
            in select(
                texts, vectors, segments, ratings, Length.parse("4s"), spread=False, concluding=conclusions(texts)
            ).selected
        )

    assert is_selected(stated)
    assert not is_selected([*stated, *(f"The traffic of street {n} was counted on three days.\n" for n in range(250))])
