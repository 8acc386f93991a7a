"""What the tests of systems that read a document as one input have in common: tiny models and four documents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.tiny_models import T5_TEMPLATE, T5_TOKENS, byte_level_tokenizer, save_both, tiny_bart, tiny_long_t5
from transformers import PreTrainedTokenizerFast

from tests.conftest import topical_text
from tests.training.runs import write

OWN: dict[str, tuple[str, ...]] = {
    "truncated": (),
    "extract-abstract": (),
    "block-attention": ("--block-size", "32", "--global-tokens", "4"),
    "longformer": ("--window", "32"),
    "long-t5": (),
    "unlimiformer": ("--retrieved", "20"),
    "pagesum": ("--pages", "2", "--page-size", "100"),
    "cached": ("--chunk-size", "60"),
}
TARGETS = ["The rocket cost 7 dollars.", "The harbour was grafting.", "A fever of apples.", "Bees docking, 99 bonds."]
SIZE = {
    "d_model": 48,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96,
    "dropout": 0.0,
}


@pytest.fixture(scope="module")
def bart(tmp_path_factory: pytest.TempPathFactory, tiny_bart_tokenizer: PreTrainedTokenizerFast) -> Path:
    """Without dropout, to learn by heart faster."""
    return save_both(tiny_bart(tiny_bart_tokenizer, **SIZE), tiny_bart_tokenizer, tmp_path_factory.mktemp("bart"))


@pytest.fixture(scope="module")
def long_t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With T5's special tokens: one after a text, none before it."""
    tokenizer = byte_level_tokenizer([topical_text(200, seed=2)], T5_TOKENS, 400, T5_TEMPLATE)
    model = tiny_long_t5(
        tokenizer,
        d_model=48,
        d_kv=12,
        d_ff=96,
        local_radius=15,
        global_block_size=8,
        dropout_rate=0.0,
        feed_forward_proj="gated-gelu",
    )
    return save_both(model, tokenizer, tmp_path_factory.mktemp("long-t5"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four documents of 60 to 450 tokens."""
    folder = tmp_path_factory.mktemp("data")
    rows = [
        {"id": f"report {number}", "document": topical_text(2 + 4 * number, seed=number), "summary": target}
        for number, target in enumerate(TARGETS)
    ]
    for split in ("train", "test"):
        write(folder / f"{split}.jsonl", rows)
    return folder


@pytest.fixture
def base(bart: Path, long_t5: Path) -> Callable[[str], str]:
    return lambda system: str(long_t5 if system == "long-t5" else bart)
