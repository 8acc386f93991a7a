"""The paper's tables: which step stands for a row, the longest input, and how agreement is counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from awesum.planning import paper
from awesum.planning.paper import Cell
from awesum.planning.plan import longest_multiple
from awesum.reproduce import paper as numbers


def test_every_row_and_threshold_of_the_paper_has_a_request() -> None:
    for dataset in numbers.names():
        thresholds = set(numbers.content()["datasets"][dataset]["thresholds"]) - set(paper.FLAT)
        rows = set(numbers.table(dataset).rows) | thresholds
        for row in rows:
            asked = paper.request(dataset, row)
            assert asked.attention == "eager"
            assert asked.settings["precision"] == "float32"
            assert asked.target_tokens == paper.target_tokens(dataset)


def test_targets_are_twice_the_average_summary_up_to_a_limit() -> None:
    assert paper.target_tokens("qmsum") == round(2 * 70 * 1.3)
    assert paper.target_tokens("govreport") == paper.LONGEST_TARGET


@pytest.mark.parametrize(
    "peak",
    [
        lambda n: 7 + 3 * n,
        lambda n: 7 + 2 * n + n * n,
        lambda n: 30 + n,
        lambda n: 5 + 4 * n * n,
        lambda n: max(26, 5 + 2 * n),  # the weights decide first, then the length
    ],
)
def test_longest_input_is_the_one_that_trying_all_would_find(peak: Callable[[int], int]) -> None:
    for limit in (1, 20, 27, 48, 100, 10_000):
        tried = max((n for n in range(1, 25) if peak(n) <= limit), default=0)
        assert longest_multiple(peak, limit, 24) == tried


def test_longest_input_needs_few_looks() -> None:
    looks = []

    def peak(n: int) -> int:
        looks.append(n)
        return 7_000 + 1_900 * n + 35 * n * n

    assert longest_multiple(peak, 27_000, 24) == 9
    assert len(looks) <= 5
    assert len(set(looks)) == len(looks)


def cells(**pairs: tuple[float, float]) -> list[Cell]:
    return [Cell("govreport", name, name, *pair, is_ours=name == "se3") for name, pair in pairs.items()]


def test_only_pairs_that_the_paper_separates_are_counted() -> None:
    assert paper.in_order(cells(se3=(10, 10), one=(10.5, 9), two=(20, 30))) == (2, 2)
    assert paper.in_order(cells(se3=(10, 10), two=(20, 9))) == (0, 1)


def test_table_says_how_far_it_is_from_the_papers() -> None:
    shown = paper.as_markdown("memory", cells(se3=(10, 11), long=(20, 30)))
    assert "| govreport | se3 | 10 | 11.0 | +10% |" in shown
    assert "mean absolute residual: 30.0%" in shown
    assert "rows of Se3 and AWESOME within 15%: 1 of 1" in shown
    assert "in the paper's order: 1 of 1 (govreport 1 of 1)" in shown
    assert "within 1 x 1,024 tokens: 1 of 2" in paper.as_markdown("truncation", cells(one=(6, 5), two=(8, 4)))
