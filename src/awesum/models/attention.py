"""The attention of causal models: the library's, with groups of heads folded, and with extra keys of a memory."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from awesum import compat
from awesum.memory import Source
from awesum.memory.attention import attend_to_both

FEW = 16
"""Up to this many queries a row, a memory is not copied; with more, materializing the scores costs more than that."""
BLOCK = 128
"""Queries of a prompt whose scores are computed at a time. Measured: 96 to 256 make little difference."""
GROUPED = "awesum_grouped"
"""Its name in the library's registry of attentions."""


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    extra: Source | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The library's SDPA attention, without copying keys and values for each query head while decoding.

    The heads of a group share their keys and values. Treated as more query positions of one head, they give the same
    result and move a third of the memory (for SmolLM2's groups of three). A prompt is read by the library, or by
    `_causal` where that is faster: its only mask is the order of the tokens, which is lost when heads become positions.

    `extra` are the keys and values of a memory, which every query sees.
    """
    if extra is not None:
        if kwargs.get("softcap") is None and query.shape[2] <= FEW and not torch.is_grad_enabled():
            return _with_memory(query, key, value, attention_mask, extra, scaling), None
        attention_mask = _mask_with_memory(query, key, attention_mask, extra)
        key, value = torch.cat([extra.keys, key], 2), torch.cat([extra.values, value], 2)
    if kwargs.get("softcap") is not None:
        return _capped(query, key, value, attention_mask, scaling, kwargs["softcap"]), None
    batch, heads, length, size = query.shape
    groups = key.shape[1]
    scaling = size**-0.5 if scaling is None else scaling
    is_plain = kwargs.get("position_bias") is None
    is_prompt = attention_mask is None and 1 < length == key.shape[2] and kwargs.get("is_causal") is not False
    by_products = is_plain and _is_faster_by_products(query)
    if is_prompt and by_products:
        return _causal(query, key, value, scaling), None
    is_foldable = length == 1 if attention_mask is None else attention_mask.shape[1:3] == (1, length)
    if heads == groups or not (is_foldable and is_plain):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    folded = query.reshape(batch, groups, heads // groups * length, -1)
    mask = None if attention_mask is None else attention_mask.repeat(1, 1, heads // groups, 1)
    if by_products and mask is not None and mask.dtype == torch.bool:
        output = _few(folded, key, value, mask, scaling)
    else:
        output = torch.nn.functional.scaled_dot_product_attention(folded, key, value, attn_mask=mask, scale=scaling)
    return output.reshape(batch, heads, length, -1).transpose(1, 2), None


def _is_faster_by_products(query: torch.Tensor) -> bool:
    """Whether attention as products of matrices is faster than torch's fused one, which is slow in bfloat16 on a
    processor that has no tiles for it: it takes twice as long for a prompt of 580 tokens, and for a step of 16 rows."""
    is_slow = query.device.type == "cpu" and query.dtype == torch.bfloat16 and not compat.has_amx()
    return is_slow and not torch.is_grad_enabled()


def _causal(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> torch.Tensor:
    """Each token attends to those up to itself: block by block, so that most of what is masked is not computed."""
    batch, heads, length, size = query.shape
    shared = heads // key.shape[1]
    query = query.reshape(batch * heads, length, size)
    key, value = (each.repeat_interleave(shared, 1).reshape(batch * heads, length, size) for each in (key, value))
    later = query.new_full((BLOCK, BLOCK), torch.finfo(query.dtype).min).triu_(1)
    output = torch.empty_like(query)
    for start in range(0, length, BLOCK):
        end = min(start + BLOCK, length)
        mask = torch.cat([query.new_zeros(end - start, start), later[: end - start, : end - start]], 1)
        keys = key[:, :end].transpose(1, 2)
        scores = torch.baddbmm(mask.expand(batch * heads, -1, -1), query[:, start:end], keys, alpha=scaling)
        output[:, start:end] = scores.softmax(-1) @ value[:, :end]
    return output.view(batch, heads, length, size).transpose(1, 2)


def _few(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, scaling: float
) -> torch.Tensor:
    """A few queries of many keys: keys times queries is three times as fast as queries times keys."""
    scores = (key @ query.transpose(2, 3)).transpose(2, 3).float() * scaling
    scores = scores.where(mask, torch.finfo(torch.float32).min)
    return scores.softmax(-1).to(value.dtype) @ value


def _capped(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scaling: float | None,
    cap: float,
) -> torch.Tensor:
    """Attention with capped scores, as in Gemma 2; written out, because the fast attention cannot cap."""
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = query @ key.transpose(2, 3) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    scores = torch.tanh(scores / cap) * cap
    if mask is None:
        mask = torch.ones(scores.shape[2:], dtype=torch.bool, device=key.device).tril(key.shape[2] - query.shape[2])
    lowest = torch.finfo(scores.dtype).min  # not infinite: a query of padding sees no key at all
    scores = scores.masked_fill(~mask, lowest) if mask.dtype == torch.bool else scores + mask
    return (scores.float().softmax(-1).to(value.dtype) @ value).transpose(1, 2)


def _with_memory(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    extra: Source,
    scaling: float | None,
) -> torch.Tensor:
    """One softmax over a memory and the layer's own keys, without copying either: a memory may be large."""
    batch, heads, length, size = query.shape
    groups = key.shape[1]
    folded = query.reshape(batch, groups, heads // groups * length, size)
    own = _seen(query, key, mask).repeat(1, 1, heads // groups, 1)
    if scaling is not None:
        folded = folded * (scaling * size**0.5)
    found = attend_to_both(folded, extra, key, value, own)
    return found.reshape(batch, heads, length, size).transpose(1, 2)


def _mask_with_memory(query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, extra: Source) -> torch.Tensor:
    """What the queries see of a memory and, after it, of the layer's own keys."""
    own = _seen(query, key, mask)
    there = own.new_ones(len(own), extra.keys.shape[2]) if extra.mask is None else extra.mask
    return torch.cat([there[:, None, None, :].expand(-1, -1, own.shape[2], -1), own], -1)


def _seen(query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Which of the layer's own keys each query sees: (B, 1, Q, K)."""
    rows, _, length, _ = query.shape
    if mask is None:
        mask = torch.ones(length, key.shape[2], dtype=torch.bool, device=key.device).tril(key.shape[2] - length)
    elif mask.dtype != torch.bool:
        mask = mask == 0
    return mask.expand(rows, 1, length, key.shape[2])


AttentionInterface.register(GROUPED, grouped_attention)
AttentionMaskInterface.register(GROUPED, sdpa_mask)
