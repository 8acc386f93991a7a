"""What the frozen layers compute is cached once and found again; nothing that went wrong on the way is used."""

from __future__ import annotations

import os
import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from awesum.errors import AwesumError
from awesum.models.adapter import AwesomeCausal
from awesum.models.arrays import ORIGIN
from awesum.recurrence import DocumentInputs
from awesum.recurrence.causal import Reading, train
from awesum.training import trunk
from awesum.training.trunk import TrunkCache, duration, existing, plan, read_now
from tests.models.adapters import FAMILIES, adapted, document, pretrained

SEGMENT = [1, 1, 5, 9, 12, 7, 30, 31]


@pytest.fixture
def model(request: pytest.FixtureRequest) -> AwesomeCausal:
    """A test may ask for other adapted tokens."""
    return adapted(pretrained(), trained=True, adapted_tokens=getattr(request, "param", "answer"))


@pytest.fixture
def asked(model: AwesomeCausal) -> list[int]:
    """How many tokens each look of the frozen layers was at."""
    looks: list[int] = []
    model.base.model.embed_tokens.register_forward_pre_hook(lambda _, given: looks.append(given[0].shape[1]))
    return looks


def alike(found: Reading, expected: Reading) -> None:
    for name, numbers in vars(expected).items():
        torch.testing.assert_close(getattr(found, name), numbers, rtol=2e-3, atol=2e-4)


def equal(found: Reading, expected: Reading) -> bool:
    return all(torch.equal(getattr(found, name), numbers) for name, numbers in vars(expected).items())


def files(folder: Path) -> list[Path]:
    """Without the one that says what they come from."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ORIGIN)


def in_one_line(error: pytest.ExceptionInfo[AwesumError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("memory", ["none", "attentive", "compressive"])
@pytest.mark.parametrize("layers", [2, 4, (0, 2)], ids=str)
@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "gemma2"])
def test_cached_is_what_is_computed(family: str, layers: Any, memory: str, tmp_path: Path) -> None:
    model = adapted(pretrained(family), memory=memory, memory_layers=layers)
    cache = TrunkCache(model, tmp_path)
    for request, target in (([4, 8], [20, 21, 2]), ([4, 8], [2]), ([4], [2])):
        expected = read_now(model, SEGMENT, request, target)
        assert expected.keys.shape[:2] == (4 - model.first, len(SEGMENT) + len(request) - 1)
        assert expected.states.shape[:2] == (len(model.roles.remembering), len(SEGMENT))
        for _ in range(2):  # computed, and read
            found = cache(SEGMENT, request, target)
            assert found.keys.dtype == model.base.dtype
            alike(found, expected)


@pytest.mark.parametrize("memory", ["none", "attentive", "compressive"])
@pytest.mark.parametrize("layers", [2, 4, (1, 3)], ids=str)
@pytest.mark.parametrize("family", ["llama", "mistral", "gemma3"])
def test_of_an_adapted_prompt_the_trunk_alone_is_cached(family: str, layers: Any, memory: str, tmp_path: Path) -> None:
    model = adapted(pretrained(family), memory=memory, memory_layers=layers, adapted_tokens="all")
    cache = TrunkCache(model, tmp_path)
    following = [([4, 8], [20, 21, 2]), ([4, 8], [2]), ([4], [2])]
    for request, target in following:
        expected = read_now(model, SEGMENT, request, target)
        assert expected.keys.shape == expected.values.shape == (4 - model.first, 0, 2, expected.keys.shape[3])
        assert expected.states.shape == (0, 0, 32)
        ids = torch.tensor([[*SEGMENT, *request, *target[:-1]]])
        torch.testing.assert_close(expected.trunk, model.trunk(ids)[0].detach())
        for _ in range(2):  # computed, and read
            alike(cache(SEGMENT, request, target), expected)
    assert len(files(tmp_path)) == 1 + 1 + 3  # of the segment, of a request of two tokens, of three answers
    cache = TrunkCache(model, tmp_path / "all")
    cache.fill(SEGMENT, following)
    for request, target in following:
        assert cache.has(SEGMENT, request, target)
        alike(cache(SEGMENT, request, target), read_now(model, SEGMENT, request, target))
    sizes = {path: size for each in following for path, size in cache.files(SEGMENT, *each)}
    numbers = [np.load(path, allow_pickle=False).nbytes for path in files(tmp_path / "all")]
    assert sum(sizes.values()) == sum(numbers)


def test_adapted_prompts_share_what_they_can_and_take_nothing_that_is_another_s(tmp_path: Path) -> None:
    """Of the same trunk, the answer's file serves both; a prompt's does not."""
    for tokens, memory, count in (("answer", "none", 3), ("all", "none", 5), ("all", "attentive", 5)):
        cache = TrunkCache(adapted(pretrained(), memory=memory, adapted_tokens=tokens), tmp_path)
        alike(cache(SEGMENT, [4, 8], [20, 2]), read_now(cache.model, SEGMENT, [4, 8], [20, 2]))
        assert len(files(tmp_path)) == count


def test_second_time_nothing_is_computed(model: AwesomeCausal, tmp_path: Path, asked: list[int]) -> None:
    first = TrunkCache(model, tmp_path)(SEGMENT, [4, 8], [2])
    assert asked == [8, 1, 1]
    cache = TrunkCache(model, tmp_path)
    assert cache.has(SEGMENT, [4, 8], [2])
    assert equal(cache(SEGMENT, [4, 8], [2]), first)
    assert asked == [8, 1, 1]
    assert not cache.has(SEGMENT, [4, 8], [5, 2])


def test_several_answers_after_a_segment_share_its_files(
    model: AwesomeCausal, tmp_path: Path, asked: list[int]
) -> None:
    cache = TrunkCache(model, tmp_path)
    following = [([4, 8], [20, 2]), ([4, 8], [2]), ([4, 9, 8], [21, 22, 2])]
    cache.fill(SEGMENT, following)
    assert asked == [8, 1, 2, 1, 1, 2, 3]
    assert len(files(tmp_path)) == 2 + 2 + 3  # of the segment, of two requests, of three answers
    for request, target in following:
        alike(cache(SEGMENT, request, target), read_now(model, SEGMENT, request, target))
    assert len(files(tmp_path)) == 7
    assert len(asked) == 7 + 6  # only what was compared with


def test_memories_share_what_they_have_in_common(tmp_path: Path) -> None:
    """What may be remembered differs, keys and values do not."""
    for memory, count in (("none", 3), ("attentive", 4), ("compressive", 5)):
        TrunkCache(adapted(pretrained(), memory=memory), tmp_path)(SEGMENT, [4, 8], [20, 2])
        assert len(files(tmp_path)) == count


def test_borders_are_part_of_the_name(model: AwesomeCausal, tmp_path: Path) -> None:
    cache = TrunkCache(model, tmp_path)
    cache([1, 5, 6], [7, 8], [9, 2])
    assert not cache.has([1, 5], [6, 7, 8], [9, 2])
    assert not cache.has([1, 5, 6], [7, 8, 9], [2])
    assert cache([1, 5], [6, 7, 8], [9, 2]).states.shape == (2, 2, 32)
    assert cache([1, 5, 6], [7, 8], [9, 2]).states.shape == (2, 3, 32)


def test_cache_is_in_half_precision(model: AwesomeCausal, tmp_path: Path) -> None:
    cache = TrunkCache(model, tmp_path)
    cache(SEGMENT, [4, 8], [20, 2])
    arrays = [np.load(path, allow_pickle=False) for path in files(tmp_path)]
    assert {array.dtype for array in arrays} == {np.dtype(np.float16)}
    width = 2 * 2 * 2 * 8  # keys and values of two layers, two heads of eight numbers
    assert sorted(array.shape for array in arrays) == [(1, width), (2, 32), (8, 2 * 32), (8, width)]
    assert sum(size for _, size in cache.files(SEGMENT, [4, 8], [20, 2])) == sum(array.nbytes for array in arrays)


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("kind", ["empty", "truncated", "garbage", "other rows", "pickled", "folder"])
def test_damaged_file_is_made_again(kind: str, which: int, model: AwesomeCausal, tmp_path: Path) -> None:
    cache = TrunkCache(model, tmp_path)
    expected = cache(SEGMENT, [4, 8], [2])
    path = files(tmp_path)[which]
    good = path.read_bytes()
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "truncated":
        path.write_bytes(good[:-20])
    elif kind == "garbage":
        path.write_bytes(os.urandom(len(good)))
    elif kind == "other rows":
        with path.open("wb") as file:
            np.save(file, np.zeros((4, 32), np.float16))
    elif kind == "pickled":
        with path.open("wb") as file:
            np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    else:
        path.unlink()
        path.mkdir()
        with pytest.raises(AwesumError) as error:
            cache(SEGMENT, [4, 8], [2])
        in_one_line(error)
        return
    assert equal(cache(SEGMENT, [4, 8], [2]), expected)
    assert path.read_bytes() == good


def test_interrupted_write_leaves_no_wrong_file(
    model: AwesomeCausal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = TrunkCache(model, tmp_path)
    save = np.save

    def half(file: Any, *args: Any, **kwargs: Any) -> None:
        save(file, *args, **kwargs)
        file.seek(60)
        file.truncate()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(trunk.np, "save", half)
        with pytest.raises(KeyboardInterrupt):
            cache(SEGMENT, [4], [2])
    assert not cache.has(SEGMENT, [4], [2])
    assert not [path for path in files(tmp_path) if path.suffix == ".npy"]
    alike(cache(SEGMENT, [4], [2]), read_now(model, SEGMENT, [4], [2]))


def test_interruption_between_segment_and_answer(
    model: AwesomeCausal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = TrunkCache(model, tmp_path)
    keep, kept = TrunkCache.keep, []

    def once(self: TrunkCache, *args: Any) -> None:
        if kept:
            raise KeyboardInterrupt
        kept.append(1)
        keep(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(TrunkCache, "keep", once)
        with pytest.raises(KeyboardInterrupt):
            cache(SEGMENT, [4], [2])
    assert len(files(tmp_path)) == 1
    assert not cache.has(SEGMENT, [4], [2])
    assert cache(SEGMENT, [4], [2]).trunk.shape == (1, 32)


def test_other_weights_have_another_folder(tmp_path: Path) -> None:
    one = TrunkCache(adapted(pretrained()), tmp_path)
    assert TrunkCache(adapted(pretrained(), trained=True, memory="none", update="full"), tmp_path).folder == one.folder
    others = [
        TrunkCache(adapted(pretrained(seed=1)), tmp_path),
        TrunkCache(adapted(pretrained(), memory_layers=3), tmp_path),
    ]
    assert len({cache.folder for cache in (one, *others)}) == 3
    one(SEGMENT, [4], [2])
    for cache in others:
        assert not cache.has(SEGMENT, [4], [2])


def test_cache_of_another_trunk_is_refused_in_one_line(tmp_path: Path) -> None:
    """A folder that was renamed, or copied from another machine; nothing in it is touched."""
    one, other = (TrunkCache(adapted(pretrained(seed=seed)), tmp_path) for seed in (0, 1))
    one(SEGMENT, [4], [2])
    before = {path: path.read_bytes() for path in one.folder.rglob("*") if path.is_file()}
    one.folder.rename(other.folder)
    with pytest.raises(AwesumError, match=r"was cached from model .*, not from model .*: rename or delete") as error:
        TrunkCache(other.model, tmp_path)
    assert str(other.folder) in in_one_line(error)
    other.folder.rename(one.folder)
    assert {path: path.read_bytes() for path in one.folder.rglob("*") if path.is_file()} == before
    TrunkCache(one.model, tmp_path)
    deeper = TrunkCache(adapted(pretrained(), memory_layers=3), tmp_path)
    one.folder.rename(deeper.folder)
    with pytest.raises(AwesumError, match=r"2 layers below.*, not from .*1 layers below"):
        TrunkCache(deeper.model, tmp_path)
    (deeper.folder / ORIGIN).unlink()  # as an older version left it
    TrunkCache(deeper.model, tmp_path)


@pytest.mark.parametrize("place", ["write", "move", "folder"])
def test_full_disk_is_reported_in_one_line(
    place: str, model: AwesomeCausal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    cache = TrunkCache(model, tmp_path)
    with monkeypatch.context() as patch:
        owner, name = {"write": (trunk.np, "save"), "move": (os, "replace"), "folder": (Path, "mkdir")}[place]
        patch.setattr(owner, name, full)
        with pytest.raises(AwesumError, match="No space left on device") as error:
            cache(SEGMENT, [4], [2])
    line = in_one_line(error)
    assert str(cache.folder) in line
    assert "AWESUM_CACHE" in line
    assert files(tmp_path) == []
    assert cache(SEGMENT, [4], [2]).trunk.shape == (1, 32)


@pytest.mark.parametrize("number", [70000.0, float("nan"), float("inf")])
def test_number_that_half_precision_cannot_hold_is_reported(
    number: float, model: AwesomeCausal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = AwesomeCausal.trunk

    def large(self: AwesomeCausal, *args: Any) -> torch.Tensor:
        found = real(self, *args).clone()
        found[0, 1, 3] = number
        return found

    monkeypatch.setattr(AwesomeCausal, "trunk", large)
    cache = TrunkCache(model, tmp_path)
    with pytest.raises(AwesumError, match="train without --freeze-trunk") as error:
        cache(SEGMENT, [4], [20, 2])
    in_one_line(error)
    assert not cache.has(SEGMENT, [4], [20, 2])


@pytest.mark.parametrize("model", ["answer", "all"], indirect=True)
def test_training_with_the_cache_is_training(model: AwesomeCausal, tmp_path: Path, asked: list[int]) -> None:
    batch = [document(3, 1), document(2, 2, empty=(0,))]
    cache = TrunkCache(model, tmp_path)
    losses, found = [], []
    for source in (cache, cache, lambda *each: read_now(model, *each)):
        model.zero_grad()
        asked.clear()
        losses.append(train(model, batch, lambda loss: loss.backward(), read=source))
        found.append(
            {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
        )
        assert bool(asked) == (True, False, True)[len(losses) - 1]
    assert torch.equal(losses[0], losses[1])
    torch.testing.assert_close(losses[0], losses[2], rtol=1e-3, atol=0)
    for name, gradient in found[2].items():
        scale = float(gradient.abs().max())
        torch.testing.assert_close(found[0][name], gradient, rtol=0, atol=0.02 * scale + 1e-6)


# -------------------------------------------------------------------------------------------------------------- plan


def texts() -> list[DocumentInputs]:
    return [document(3, 1), document(2, 2), document(4, 3)]


def tokens_of(documents: list[DocumentInputs]) -> int:
    return sum(document.tokens for document in documents)


def test_plan_reports_time_disk_and_memory(model: AwesomeCausal, tmp_path: Path) -> None:
    notes: list[str] = []
    cache = TrunkCache(model, tmp_path / "not" / "there")
    measured = [document(2, 9)]
    plan(cache, texts(), measured, 2.5, notes.append)
    assert len(notes) == 2
    tokens = tokens_of([*texts(), *measured])
    assert f"the frozen layers read {tokens:,} tokens once (0 are cached already)" in notes[0]
    assert "then 2.5 epochs of about" in notes[0]
    assert notes[0].endswith("in total")
    assert str(cache.folder) in notes[1]
    assert "free" in notes[1]
    assert "peak memory: about" in notes[1]
    assert all(weight.grad is None for weight in model.parameters()), "the trial leaves no trace"
    # What the trial has computed is there the next time.
    plan(cache, texts(), None, 1, notes.append)
    assert "(0 are cached already)" not in notes[2]
    for each in texts():
        for segment, request, target in zip(each.segments, each.requests, each.targets, strict=True):
            cache(segment, request, target)
    plan(cache, texts(), None, 1, notes.append)
    there = tokens_of(texts())
    assert f"read {there:,} tokens once ({there:,} are cached already): about 0 s" in notes[4]


def test_plan_changes_no_weight_and_no_chance(model: AwesomeCausal, tmp_path: Path) -> None:
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    chance = torch.random.get_rng_state()
    plan(TrunkCache(model, tmp_path), texts(), None, 1, lambda note: None)
    assert torch.equal(torch.random.get_rng_state(), chance)
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name])


def test_plan_refuses_where_there_is_no_room(
    model: AwesomeCausal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    cache = TrunkCache(model, tmp_path)
    needed = sum(
        {
            path: size
            for each in texts()
            for part in zip(each.segments, each.requests, each.targets, strict=True)
            for path, size in cache.files(*part)
        }.values()
    )
    notes: list[str] = []
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(10**9, 10**9, needed - 1))
    with pytest.raises(AwesumError, match="are needed: free some space there") as error:
        plan(cache, texts(), None, 1, notes.append)
    assert "--documents" in in_one_line(error)
    assert len(notes) == 2, "the figures are reported before"
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(10**9, 10**9, needed))
    plan(cache, texts(), None, 1, notes.append)


@pytest.mark.parametrize("memory", ["none", "attentive", "compressive"])
def test_plan_of_a_model_in_half_precision(memory: str, tmp_path: Path) -> None:
    """As machines with a GPU load it; what is trained stays in full precision."""
    model = adapted(pretrained().to(torch.bfloat16), memory=memory)
    notes: list[str] = []
    plan(TrunkCache(model, tmp_path), texts(), None, 1, notes.append)
    assert len(notes) == 2


def test_plan_of_a_model_without_layers_below_its_memory(tmp_path: Path) -> None:
    notes: list[str] = []
    plan(TrunkCache(adapted(pretrained(), memory_layers=4), tmp_path), texts(), None, 1, notes.append)
    assert "-1" not in notes[0]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0 s"), (89, "89 s"), (120, "2 min"), (5340, "89 min"), (7200, "2.0 h")]
)
def test_durations_in_a_suitable_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_nearest_folder_that_exists(tmp_path: Path) -> None:
    assert existing(tmp_path / "a" / "b") == tmp_path
    assert existing(tmp_path) == tmp_path
