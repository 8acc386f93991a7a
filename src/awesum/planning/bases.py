"""The configurations of pretrained models by name and by size, so that a plan needs neither weights nor the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from awesum.errors import AwesumError
from awesum.settings import SMOLLM2

_BART = {
    "model_type": "bart",
    "vocab_size": 50265,
    "max_position_embeddings": 1024,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "activation_dropout": 0.1,
}
_LED = {
    "model_type": "led",
    "vocab_size": 50265,
    "max_encoder_position_embeddings": 16384,
    "max_decoder_position_embeddings": 1024,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
}
_LONG_T5 = {
    "model_type": "longt5",
    "vocab_size": 32128,
    "d_kv": 64,
    "dropout_rate": 0.1,
    "feed_forward_proj": "gated-gelu",
    "encoder_attention_type": "transient-global",
    "local_radius": 127,
    "global_block_size": 16,
    "tie_word_embeddings": False,
    "decoder_start_token_id": 0,
}
_ROBERTA = {
    "model_type": "roberta",
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
}
_SMOLLM2 = {
    "model_type": "llama",
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}


def _layers(layers: int, size: int, heads: int, inner: int) -> dict[str, int]:
    halves = ("encoder", "decoder")
    return {
        "d_model": size,
        **{f"{half}_layers": layers for half in halves},
        **{f"{half}_attention_heads": heads for half in halves},
        **{f"{half}_ffn_dim": inner for half in halves},
    }


def _t5_layers(layers: int, size: int, heads: int, inner: int) -> dict[str, int]:
    return {"d_model": size, "num_layers": layers, "num_decoder_layers": layers, "num_heads": heads, "d_ff": inner}


def _roberta_layers(layers: int, size: int, heads: int) -> dict[str, int]:
    sizes = {"hidden_size": size, "intermediate_size": 4 * size}
    return {**sizes, "num_hidden_layers": layers, "num_attention_heads": heads}


KNOWN: dict[str, dict[str, Any]] = {
    "facebook/bart-base": {**_BART, **_layers(6, 768, 12, 3072)},
    "facebook/bart-large": {**_BART, **_layers(12, 1024, 16, 4096)},
    "allenai/led-base-16384": {**_LED, **_layers(6, 768, 12, 3072), "attention_window": [1024] * 6},
    "allenai/led-large-16384": {**_LED, **_layers(12, 1024, 16, 4096), "attention_window": [1024] * 12},
    "google/long-t5-tglobal-base": {**_LONG_T5, **_t5_layers(12, 768, 12, 2048)},
    "google/long-t5-tglobal-large": {**_LONG_T5, **_t5_layers(24, 1024, 16, 2816)},
    "FacebookAI/roberta-base": {**_ROBERTA, **_roberta_layers(12, 768, 12)},
    "FacebookAI/roberta-large": {**_ROBERTA, **_roberta_layers(24, 1024, 16)},
    SMOLLM2: _SMOLLM2,
}
"""As published with the weights, dropouts included; what is left out has the library's default."""
SIZES = ("base", "large")


def configuration(base: str, size: str | None = None) -> dict[str, Any]:
    """What config.json of a pretrained model says. Nothing is fetched: a name is known here, or was fetched before."""
    if size is not None:
        name = _of_size(base, size)
        return dict(KNOWN[name])
    if base in KNOWN:
        return dict(KNOWN[base])
    from awesum.loading import config_of

    try:
        is_folder = Path(base).is_dir()
        return config_of(Path(base) if is_folder else base, {"local_files_only": True, "trust_remote_code": False})
    except AwesumError:
        raise
    except Exception as error:  # the library raises a dozen kinds here, all of them meaning "it is not there"
        raise AwesumError(
            f"the configuration of {base} is not known here: give a folder with its config.json, one of "
            f"{', '.join(KNOWN)}, or --size {' or '.join(SIZES)} for a model of the same family"
        ) from error


def _of_size(base: str, size: str) -> str:
    if size not in SIZES:
        raise AwesumError(f"--size {size} is not known: say {' or '.join(SIZES)}")
    if base == SMOLLM2:
        raise AwesumError(f"{SMOLLM2} has one size: leave out --size, or give another --base")
    family = _family(base)
    return next(name for name in KNOWN if family in name and f"-{size}" in name)


def _family(base: str) -> str:
    for family in ("long-t5", "led", "roberta"):
        if family in base.rpartition("/")[2]:
            return f"/{family}"
    return "/bart"
