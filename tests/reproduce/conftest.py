"""A tiny LongT5, beside the tiny BART of all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LongT5Config, LongT5ForConditionalGeneration, PreTrainedTokenizerFast


@pytest.fixture(scope="session")
def tiny_long_t5(tmp_path_factory: pytest.TempPathFactory, tiny_bart_tokenizer: PreTrainedTokenizerFast) -> Path:
    folder = tmp_path_factory.mktemp("tiny-long-t5")
    torch.manual_seed(0)
    config = LongT5Config(
        vocab_size=len(tiny_bart_tokenizer),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        encoder_attention_type="transient-global",
        decoder_start_token_id=1,
        pad_token_id=1,
        eos_token_id=2,
    )
    LongT5ForConditionalGeneration(config).save_pretrained(folder)
    tiny_bart_tokenizer.save_pretrained(folder)
    return folder
