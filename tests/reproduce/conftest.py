"""A tiny LongT5 and a tiny RoBERTa, beside the tiny BART of all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.tiny_models import save_both, tiny_long_t5, tiny_roberta
from transformers import PreTrainedTokenizerFast


@pytest.fixture(scope="session")
def tiny_long_t5_folder(tmp_path_factory: pytest.TempPathFactory, tiny_bart_tokenizer: PreTrainedTokenizerFast) -> Path:
    return save_both(tiny_long_t5(tiny_bart_tokenizer), tiny_bart_tokenizer, tmp_path_factory.mktemp("tiny-long-t5"))


@pytest.fixture(scope="session")
def tiny_roberta_folder(tmp_path_factory: pytest.TempPathFactory, tiny_bart_tokenizer: PreTrainedTokenizerFast) -> Path:
    return save_both(tiny_roberta(tiny_bart_tokenizer), tiny_bart_tokenizer, tmp_path_factory.mktemp("tiny-roberta"))
