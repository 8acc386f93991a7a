"""What the tests of whole runs have in common: a cache of their own, a quiet library, float32, and a way to run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from benchmarks.tiny_models import FOUR_LAYERS, save_both, tiny_llama
from transformers import PreTrainedTokenizerFast
from transformers.utils import logging as library_logging

import awesum.models.causal
import awesum.training.run
from awesum.analysis.embedding import SentenceEncoder
from tests.training.runs import Go, go_with


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is prepared belongs to the test."""
    monkeypatch.setenv("AWESUM_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def quiet_library() -> Iterator[None]:
    """It would show a bar for each file that it writes."""
    library_logging.disable_progress_bar()
    yield
    library_logging.enable_progress_bar()


@pytest.fixture(scope="module")
def float32() -> Iterator[None]:
    """Whatever the machine is fast with, so that results can be compared."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (awesum.models.causal, awesum.training.run):
            patch.setattr(module, "choose_device", lambda: (torch.device("cpu"), torch.float32, "in tests"))
        yield


@pytest.fixture
def go(tiny_encoder: SentenceEncoder) -> Go:
    return go_with(tiny_encoder)


@pytest.fixture(scope="module")
def causal_base(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: PreTrainedTokenizerFast) -> Path:
    """A Llama to train an adapter for."""
    model = tiny_llama(tiny_tokenizer, **FOUR_LAYERS, max_position_embeddings=640)
    return save_both(model, tiny_tokenizer, tmp_path_factory.mktemp("causal-base"))
