"""Work in several processes: results in order, bounded look-ahead, errors passed on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from multiprocessing import active_children

import pytest

from awesum.errors import AwesumError
from awesum.workers import AHEAD, work


def slow_at_first(number: int) -> int:
    if number == 0:
        time.sleep(0.5)
    if number == 1_000:
        raise AwesumError("a thousand is too much")
    if number == 2_000:
        os._exit(3)
    return number * number


def load() -> Callable[[int], int]:
    return slow_at_first


def test_results_are_in_order_and_look_ahead_is_bounded() -> None:
    taken: list[int] = []
    ahead: list[int] = []

    def items() -> Iterator[int]:
        for number in range(40):
            taken.append(number)
            yield number

    results = []
    for result in work(load, items(), 2):
        ahead.append(len(taken) - len(results))
        results.append(result)
    assert results == [number * number for number in range(40)]
    assert max(ahead) <= 2 * AHEAD
    assert not active_children()


@pytest.mark.parametrize(("number", "why"), [(1_000, "a thousand is too much"), (2_000, "a worker process ended")])
def test_errors_end_all_processes(number: int, why: str) -> None:
    with pytest.raises(AwesumError, match=why):
        list(work(load, [1, number, 2, 3], 2))
    assert not active_children()


def test_closing_ends_all_processes() -> None:
    results = work(load, range(1, 100), 2)
    assert next(results) == 1
    results.close()
    assert not active_children()


def test_nothing_is_loaded_without_items() -> None:
    def never() -> Callable[[int], int]:
        raise AssertionError

    assert list(work(never, [], 2)) == []
    assert list(work(never, [], 1)) == []
    assert list(work(load, [1, 2], 1)) == [1, 4]
