"""A tiny model with random weights as a GGUF file: the same weights that the built-in engine runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFWriter, TokenType
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast


def write_gguf(
    path: Path, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, *, template: str | None = None, **more: Any
) -> Path:
    """Write a Llama as llama.cpp takes it; without a chat template if `template` is empty."""
    config = model.config
    writer = GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(more.get("window", config.max_position_embeddings))
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(float(getattr(config, "rope_theta", 10000.0) or 10000.0))
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    _add_tokenizer(writer, tokenizer, config.vocab_size)
    if template is None:
        template = tokenizer.chat_template
    if template:
        writer.add_chat_template(template)
    for name, tensor in _tensors(model).items():
        writer.add_tensor(name, tensor.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokenizer(writer: GGUFWriter, tokenizer: PreTrainedTokenizerFast, size: int) -> None:
    inner = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    words = {number: word for word, number in tokenizer.get_vocab().items()}
    special = set(tokenizer.all_special_ids)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([words.get(number, f"[unused{number}]") for number in range(size)])
    writer.add_token_types([TokenType.CONTROL if number in special else TokenType.NORMAL for number in range(size)])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in inner["merges"]])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_add_bos_token(False)


def _tensors(model: LlamaForCausalLM) -> dict[str, torch.Tensor]:
    weights = {name: tensor.detach().float() for name, tensor in model.state_dict().items()}
    config = model.config
    names = {
        "token_embd.weight": "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
        "output.weight": "lm_head.weight",
    }
    parts = {
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    for layer in range(config.num_hidden_layers):
        for theirs, ours in parts.items():
            names[f"blk.{layer}.{theirs}.weight"] = f"model.layers.{layer}.{ours}.weight"
    found = {theirs: weights[ours] for theirs, ours in names.items()}
    for name in found:
        heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}.get(name.split(".")[-2])
        if heads:  # llama.cpp turns neighbouring numbers, the library halves
            rows, columns = found[name].shape
            found[name] = found[name].view(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)
    return found
