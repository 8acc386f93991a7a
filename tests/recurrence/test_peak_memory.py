"""The loop holds no more for many segments than for few, and leaves nothing on disk."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from awesum.models.bart import AwesomeEncoder
from awesum.recurrence import generate, train
from tests.graphs import Kept, counting, saved_bytes
from tests.recurrence.models import EVERYTHING, KINDS, alike, named, tiny


@pytest.mark.parametrize("direction", ["forward", "both"])
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_peak_does_not_depend_on_the_number_of_segments_at_any_depth(depth: int, direction: str) -> None:
    """Bytes that the graph holds at each backward pass: the same from some segment on, and hardly more with more depth,
    because all updates but the last are computed again."""
    held: dict[int, list[int]] = {}
    for of in (depth, depth + 1):
        model = tiny(memory="attentive", memory_direction=direction)
        with saved_bytes() as total:
            found: list[int] = []

            def backward(loss: torch.Tensor, found: list[int] = found, total: list[int] = total) -> None:
                found.append(total[0])
                loss.backward()

            train(model, [alike(12)], backward, depth=of)
        held[of] = found
    assert len(set(held[depth][depth + 1 : 11 - depth])) == 1
    if depth > 1:
        assert held[depth + 1][6] <= 1.02 * held[depth][6]


def live_bytes() -> int:
    gc.collect()
    found = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in gc.get_objects()
        if type(tensor) is torch.Tensor
    }
    return sum(found.values())


@pytest.mark.usefixtures("nothing_older")
@pytest.mark.parametrize(
    ("variant", "together"),
    [*((variant, 1) for variant in KINDS), *((variant, 2) for variant in (KINDS[1], *EVERYTHING))],
    ids=lambda value: named(value) if isinstance(value, dict) else str(value),
)
def test_memory_does_not_grow_with_the_document(variant: dict[str, Any], together: int) -> None:
    model = tiny(**variant)
    held: dict[int, list[tuple[int, int, int]]] = {}
    for segments in (6, 12):
        steps = held.setdefault(segments, [])
        with counting() as kept:

            def backward(loss: torch.Tensor, kept: Kept = kept, steps: list[Any] = steps) -> None:
                before = len(kept)
                loss.backward()
                steps.append((before, len(kept), live_bytes()))

            train(model, [alike(segments)], backward, trunk_batch=together)
            model.zero_grad()
            assert len(kept) == 0  # nothing is left
    assert len(held[12]) == 12
    # The second step is the first that has something to update, and the last has nothing after it, so that its group
    # is another; those between are alike, pair by pair.
    short, long = held[6], held[12]
    for at in range(2, 12 - together):
        assert long[at][:2] == short[2 + at % 2][:2]
    for from_end in range(1, together + 1):
        assert long[-from_end][:2] == short[-from_end][:2]
    assert max(size for _, _, size in long) <= max(size for _, _, size in short)


@pytest.mark.usefixtures("nothing_older")
def test_growing_memory_would_show() -> None:
    """The counters of the test above are not blind: a consumer that keeps its losses is seen to."""
    model = tiny(memory="attentive")
    counts: list[int] = []
    kept_losses: list[torch.Tensor] = []
    with counting() as kept:

        def hold(loss: torch.Tensor) -> None:
            kept_losses.append(loss)
            counts.append(len(kept))

        train(model, [alike(5)], hold)
    assert counts == sorted(set(counts))


@pytest.fixture
def shelves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the states of the memory from the end wait."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def files(folder: Path) -> int:
    return len(list(folder.glob("awesum-ahead-*/*")))


def test_states_from_the_end_wait_on_disk_and_are_gone_when_read(shelves: Path) -> None:
    seen: list[int] = []

    def backward(loss: torch.Tensor) -> None:
        loss.backward()
        seen.append(files(shelves))

    train(tiny(memory="attentive", memory_direction="both"), [alike(4)], backward)
    assert seen == [3, 2, 1, 0]
    assert not list(shelves.iterdir())


def test_states_from_the_end_are_gone_after_an_error(shelves: Path) -> None:
    def fail(loss: torch.Tensor) -> None:
        assert files(shelves) == 3
        raise ArithmeticError("not a number")

    with pytest.raises(ArithmeticError):
        train(tiny(memory="attentive", memory_direction="both"), [alike(4)], fail)
    assert not list(shelves.iterdir())


def test_states_from_the_end_are_gone_when_the_reader_stops(shelves: Path) -> None:
    parts = generate(tiny(memory="attentive", memory_direction="both"), [alike(4)], max_length=4, num_beams=1)
    next(parts)
    assert files(shelves) == 3
    parts.close()
    assert not list(shelves.iterdir())


def test_states_from_the_end_are_gone_after_an_error_while_they_are_made(
    shelves: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny(memory="attentive", memory_direction="both").train()

    def fail(*args: object, **kwargs: object) -> None:
        raise MemoryError

    monkeypatch.setattr(AwesomeEncoder, "look_ahead", fail)
    with pytest.raises(MemoryError):
        train(model, [alike(4)], lambda loss: None)
    assert not list(shelves.iterdir())
    assert model.training
