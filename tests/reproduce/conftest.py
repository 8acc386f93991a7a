"""A tiny LongT5 and a tiny RoBERTa, beside the tiny BART of all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import (
    LongT5Config,
    LongT5ForConditionalGeneration,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
)


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


@pytest.fixture(scope="session")
def tiny_roberta(tmp_path_factory: pytest.TempPathFactory, tiny_bart_tokenizer: PreTrainedTokenizerFast) -> Path:
    folder = tmp_path_factory.mktemp("tiny-roberta")
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=len(tiny_bart_tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=130,
    )
    RobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    tiny_bart_tokenizer.save_pretrained(folder)
    return folder
