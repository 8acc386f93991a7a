"""What was made of a segment is found again, and nothing that is written changes by it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from awesum.errors import AwesumError
from awesum.models.arrays import ORIGIN
from awesum.models.causal import ChatModel
from awesum.models.prefix_cache import PrefixCache
from tests.engine.test_causal_memory import MEMORIES, TOKENS, Make, documents, followed, make, slow

__all__ = ["make"]


@contextmanager
def keeping(chat: ChatModel, folder: Path) -> Iterator[list[int]]:
    """With a folder; tells how many tokens each look of the model was at."""
    looks: list[int] = []
    assert chat.adapter is not None
    chat.prefix_cache = PrefixCache(chat.adapter, folder)
    hook = chat.model.base_model.embed_tokens.register_forward_pre_hook(
        lambda _, given: looks.append(given[0].shape[1])
    )
    try:
        yield looks
    finally:
        hook.remove()
        chat.prefix_cache = None


def files(folder: Path) -> set[Path]:
    """Without the one that says what they come from."""
    return {path for path in folder.rglob("*") if path.is_file() and path.name != ORIGIN}


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("memory", MEMORIES)
def test_answers_are_those_without_it(memory: str, tokens: str, make: Make, tmp_path: Path) -> None:
    chat = make(memory, tokens)
    given = documents(chat)
    given[1] = [replace(prompt, known=()) if not number else prompt for number, prompt in enumerate(given[1])]
    expected = [slow(chat, prompts) for prompts in given]
    for _ in range(2):
        with keeping(chat, tmp_path) as looks:
            for side_by_side in (1, 3):
                assert followed(chat, given, side_by_side) == expected
    longest = max(len(prompt.tokens) - prompt.segment.stop for prompts in given for prompt in prompts)
    assert max(looks) <= max(longest, 8), "a segment was read again"


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("memory", ["attentive", "compressive"])
def test_segment_without_an_answer_is_all_that_is_read(memory: str, tokens: str, make: Make, tmp_path: Path) -> None:
    chat = make(memory, tokens)
    prompt = replace(documents(chat)[0][0], known=())
    with keeping(chat, tmp_path) as looks:
        followed(chat, [[prompt]], 1)
        assert looks == [prompt.segment.stop]
        followed(chat, [[prompt]], 1)
        assert looks == [prompt.segment.stop]


def test_adapters_and_questions_share_a_segment(make: Make, tmp_path: Path) -> None:
    """Of its keys and values there is one file; each memory adds what it takes, in each of its layers."""
    first = documents(make("none"))[0][0]
    other = replace(first, tokens=[*first.tokens[: first.segment.stop], 40, 41, 42])
    for memory, more in (("none", 1), ("attentive", 2), ("compressive", 2), ("none", 0)):
        before = files(tmp_path)
        chat = make(memory)
        assert chat.adapter is not None
        assert more <= 1 or len(chat.adapter.roles.remembering) == more
        with keeping(chat, tmp_path):
            followed(chat, [[first], [other]], 2)
        assert len(files(tmp_path) - before) == more, memory


def test_adapters_of_all_tokens_share_what_is_below_them(make: Make, tmp_path: Path) -> None:
    """The trunk's keys and values and its output, and nothing of the layers in which the segment reads a memory."""
    prompt = documents(make("none"))[0][0]
    for memory, tokens, more in (("none", "answer", 1), ("attentive", "all", 2), ("compressive", "all", 0)):
        before = files(tmp_path)
        chat = make(memory, tokens)
        with keeping(chat, tmp_path):
            followed(chat, [[prompt]], 1)
        assert len(files(tmp_path) - before) == more, memory
        for path in files(tmp_path) - before if tokens == "all" else ():
            assert np.load(path).shape[0] in (2, prompt.segment.stop)  # two layers below, or the segment's tokens


def test_other_weights_have_other_files(make: Make, tmp_path: Path) -> None:
    prompt = documents(make("none"))[0][0]
    chat = make("none", fresh=True)
    for count in (1, 2):
        with keeping(chat, tmp_path):
            followed(chat, [[prompt]], 1)
        assert len(files(tmp_path)) == count
        with torch.no_grad():
            chat.model.base_model.embed_tokens.weight[5] += 1


@pytest.mark.parametrize("damage", ["cut", "shape", "format"])
def test_damaged_file_is_made_again(damage: str, make: Make, tmp_path: Path) -> None:
    chat = make("none")
    prompts = documents(chat)[0][:1]
    expected = [slow(chat, prompts)]
    with keeping(chat, tmp_path):
        followed(chat, [prompts], 1)
        (path,) = files(tmp_path)
        whole = path.read_bytes()
        if damage == "cut":
            path.write_bytes(whole[:-9])
        else:
            numbers = np.load(path)
            np.save(path, numbers[:1] if damage == "shape" else numbers.astype(np.float16))
        assert followed(chat, [prompts], 1) == expected
        assert path.read_bytes() == whole


def test_folder_of_another_model_is_refused_in_one_line(make: Make, tmp_path: Path) -> None:
    chat = make("none", fresh=True)
    with keeping(chat, tmp_path):
        followed(chat, documents(chat)[:1], 1)
    (folder,) = tmp_path.iterdir()
    with torch.no_grad():
        chat.model.base_model.embed_tokens.weight[5] += 1
    with keeping(chat, tmp_path):
        followed(chat, documents(chat)[:1], 1)
    (other,) = set(tmp_path.iterdir()) - {folder}
    shutil.rmtree(other)
    folder.rename(other)
    assert chat.adapter is not None
    with pytest.raises(AwesumError, match="rename or delete that folder, or name another") as error:
        PrefixCache(chat.adapter, tmp_path)
    assert "\n" not in str(error.value)


def test_folder_that_cannot_be_written_is_reported_in_one_line(make: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    chat = make("none")
    with keeping(chat, tmp_path / "file"), pytest.raises(AwesumError, match="name another folder") as error:
        followed(chat, documents(chat)[:1], 1)
    assert "\n" not in str(error.value)
