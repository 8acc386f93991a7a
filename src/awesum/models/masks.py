"""Attention masks: which keys each query sees, in the form that the library's models take."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig


def layer_kinds(config: PretrainedConfig) -> set[str]:
    """The kinds of attention layers a model has; inferred, as the library does, where the config does not list them."""
    kinds = getattr(config, "layer_types", None)
    if kinds is not None:
        return set(kinds)
    if getattr(config, "sliding_window", None) is not None:
        return {"sliding_attention"}
    return {"full_attention" if getattr(config, "attention_chunk_size", None) is None else "chunked_attention"}


def visible(
    config: PretrainedConfig, queries: torch.Tensor, keys: torch.Tensor, there: torch.Tensor | None = None
) -> torch.Tensor | dict[str, torch.Tensor]:
    """Which keys each query sees: those up to its own position, and in layers with a window those within it.

    `queries` and `keys` are positions, (B, Q) and (B, K) or (K,); `there` says which keys are tokens, (B, K). A model
    with both kinds of layers takes a mask for each kind; with one kind it takes that mask alone.
    """
    config = config.get_text_config()
    kinds = layer_kinds(config)
    own = queries[:, None, :, None]  # (B, 1, Q, 1)
    keys = keys[..., None, None, :]
    full = keys <= own
    if there is not None:
        full = full & there[:, None, None, :]
    masks = {"full_attention": full}
    if "sliding_attention" in kinds:
        masks["sliding_attention"] = full & (keys > own - config.sliding_window)
    return masks if len(kinds) > 1 else masks[next(iter(kinds))]
