"""Work in several processes: results in order, bounded look-ahead, errors passed on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing import active_children

import pytest

from awesum.errors import AwesumError
from awesum.workers import AHEAD, work, work_resiliently


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


def deadly(numbers: list[int]) -> list[int]:
    if 3 in numbers:
        os.kill(os.getpid(), signal.SIGKILL)
    return [number * number for number in numbers]


def load_deadly() -> Callable[[list[int]], list[int]]:
    return deadly


def test_workers_that_die_are_replaced_and_their_items_divided() -> None:
    def after_death(numbers: list[int]) -> list[list[int]]:
        return [[number] for number in numbers] if len(numbers) > 1 else [[-number for number in numbers]]

    items = [[1, 2], [3, 4], [5, 6], [7]]
    results = list(work_resiliently(load_deadly, items, 2, after_death))
    assert sorted(number for result in results for number in result) == [1, 4, 9, 16, 25, 36, 49]
    assert not active_children()


def test_items_that_kill_every_worker_end_the_work() -> None:
    with pytest.raises(AwesumError, match="fewer --workers"):
        list(work_resiliently(load_deadly, [[3]], 1, lambda numbers: [numbers]))
    assert not active_children()


def test_resilient_work_passes_errors_on_and_can_be_closed() -> None:
    with pytest.raises(AwesumError, match="a thousand is too much"):
        list(work_resiliently(load, [1, 1_000], 2, lambda number: []))
    results = work_resiliently(load, range(1, 100), 2, lambda number: [])
    next(results)
    results.close()
    assert not active_children()
    assert list(work_resiliently(load, [], 2, lambda number: [])) == []
