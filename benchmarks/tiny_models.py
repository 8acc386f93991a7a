"""Random models that run in milliseconds, one for each architecture that awesum builds on, and their tokenizers.

For tests and benchmarks. The weights are the same each time, and nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    LlamaConfig,
    LlamaForCausalLM,
    LongT5Config,
    LongT5ForConditionalGeneration,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
)

BART_TOKENS = ["<s>", "<pad>", "</s>", "<unk>"]
"""The special tokens of BART and RoBERTa, in their places."""
BART_TEMPLATE = "<s> $A </s>"
T5_TOKENS = ["<pad>", "</s>", "<unk>"]
T5_TEMPLATE = "$A </s>"
"""T5 marks the end of a text and not its beginning."""
FOUR_LAYERS: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
"""A Llama with layers enough for some to have a memory and some not."""
_NAMES = {"<s>": "bos_token", "</s>": "eos_token", "<pad>": "pad_token", "<unk>": "unk_token"}


def byte_level_tokenizer(
    texts: Iterable[str], special: list[str], vocab_size: int, template: str | None = None, **names: str
) -> PreTrainedTokenizerFast:
    """Byte-level BPE, trained on the texts. `names` says which special tokens are what, where that is not plain."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if template is not None:
        marks = [(token, tokenizer.token_to_id(token)) for token in special]
        tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=marks)
    known = {_NAMES[token]: token for token in special if token in _NAMES}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **known | names)


def tiny_llama(tokenizer: PreTrainedTokenizerFast, **changes: Any) -> LlamaForCausalLM:
    """Random weights with grouped heads. It writes nonsense, but ends sentences and answers now and then."""
    torch.manual_seed(0)
    options: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 48,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "initializer_range": 0.2,
        "tie_word_embeddings": False,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    model = LlamaForCausalLM(LlamaConfig(**options | changes)).eval()
    with torch.no_grad():
        model.lm_head.weight[tokenizer.convert_tokens_to_ids(".")] *= 2.5
        model.lm_head.weight[tokenizer.eos_token_id] *= 2.0
    return model


def tiny_bart(tokenizer: PreTrainedTokenizerFast, **changes: Any) -> BartForConditionalGeneration:
    """128 positions, so that segments have 64 to 96 tokens."""
    torch.manual_seed(0)
    options: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "d_model": 32,
        "encoder_layers": 3,
        "decoder_layers": 3,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "max_position_embeddings": 128,
        "init_std": 0.1,
    }
    return BartForConditionalGeneration(BartConfig(**options | changes))


def tiny_long_t5(tokenizer: PreTrainedTokenizerFast, **changes: Any) -> LongT5ForConditionalGeneration:
    """With transient-global attention."""
    torch.manual_seed(0)
    options: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 64,
        "num_layers": 2,
        "num_heads": 4,
        "encoder_attention_type": "transient-global",
        "decoder_start_token_id": tokenizer.pad_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
    return LongT5ForConditionalGeneration(LongT5Config(**options | changes))


def tiny_roberta(tokenizer: PreTrainedTokenizerFast, **changes: Any) -> RobertaModel:
    """An encoder of 128 tokens at most: two of its positions are not used."""
    torch.manual_seed(0)
    options: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 130,
    }
    return RobertaModel(RobertaConfig(**options | changes), add_pooling_layer=False)


def save_both(model: Any, tokenizer: PreTrainedTokenizerFast, folder: Path) -> Path:
    """The folder, with the model and its tokenizer in it: what `--model` and `--base` take."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
