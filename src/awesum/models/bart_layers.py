"""BART's layers with memories and salient vectors.

What a layer reads and writes during a segment goes through it as a `Pass`: the layer itself keeps no state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import torch
from torch import nn
from transformers import EncoderDecoderCache
from transformers.models.bart.modeling_bart import BartAttention, BartDecoderLayer, BartEncoderLayer

from awesum.memory import Memory, MemoryState, Recollection, Source
from awesum.memory.attention import all_joined, attend_to_both, merged, split
from awesum.models.bart_config import AwesomeConfig


@dataclass(frozen=True)
class Salient:
    """Encoder outputs at the salient tokens of other segments: extra keys and values for the encoder."""

    vectors: torch.Tensor
    """(B, S, d)."""
    mask: torch.Tensor
    """(B, S)."""


@dataclass
class Pass:
    """What the layers of an encoder or a decoder read and write during one segment."""

    memory: Mapping[int, Recollection] = field(default_factory=dict)
    ahead: Mapping[int, Recollection] = field(default_factory=dict)
    salient: Salient | None = None
    written: dict[int, torch.Tensor] = field(default_factory=dict)
    """By layer: the hidden states to write, (B, N, d)."""

    @property
    def stops_gradient(self) -> bool:
        """Whether what is written is detached from the layers that compute it."""
        return all(recollection.stops_gradient for recollection in self.memory.values())


class AwesomeAttention(BartAttention):
    """BART's attention, with extra keys and values that every query sees."""

    def source(self, states: torch.Tensor, mask: torch.Tensor | None) -> Source:
        """The keys and values of `states`."""
        return Source(split(self.k_proj(states), self.num_heads), split(self.v_proj(states), self.num_heads), mask)

    def forward(
        self,
        hidden_states: torch.Tensor,
        key_value_states: torch.Tensor | None = None,
        past_key_values: Any = None,
        attention_mask: torch.Tensor | None = None,
        extra: Source | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The library's; with `extra`, self-attention to the segment and to `extra` in one softmax."""
        if extra is None:
            return super().forward(hidden_states, key_value_states, past_key_values, attention_mask, **kwargs)
        queries = split(self.q_proj(hidden_states), self.num_heads)
        own = self.source(hidden_states, None)
        keys, values = own.keys, own.values
        if past_key_values is not None:
            cache = past_key_values
            cache = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
            keys, values = cache.update(keys, values, self.layer_idx)
        visible = self._visible(attention_mask, queries.shape[2], keys.shape[2], queries.device)
        if (queries.shape[2] == 1 and not self.training) or queries.shape[0] != extra.keys.shape[0]:
            found = attend_to_both(queries, extra, keys, values, visible)
        else:
            found = nn.functional.scaled_dot_product_attention(
                queries,
                torch.cat([extra.keys, keys], 2),
                torch.cat([extra.values, values], 2),
                attn_mask=_joint_mask(extra, visible, queries, keys),
                dropout_p=self.dropout if self.training else 0.0,
            )
        return self.out_proj(merged(found)), None

    def _visible(self, mask: torch.Tensor | None, queries: int, keys: int, device: torch.device) -> torch.Tensor | None:
        """What of the segment each query sees, as a boolean mask; the library omits the mask where it can."""
        if mask is not None:
            return mask if mask.dtype == torch.bool else mask == 0
        if self.is_causal and queries > 1:
            return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)[None, None]
        return None


def _joint_mask(
    extra: Source, visible: torch.Tensor | None, queries: torch.Tensor, keys: torch.Tensor
) -> torch.Tensor | None:
    if extra.mask is None and visible is None:
        return None
    documents, _, length, _ = queries.shape
    to_extra = queries.new_ones(documents, extra.keys.shape[2], dtype=torch.bool) if extra.mask is None else extra.mask
    to_own = queries.new_ones(1, 1, 1, keys.shape[2], dtype=torch.bool) if visible is None else visible
    return torch.cat(
        [
            to_extra[:, None, None, :].expand(-1, -1, length, -1),
            to_own.expand(documents, 1, length, -1),
        ],
        -1,
    )


class SalientProjection(nn.Linear):
    """Projects salient vectors before they become keys and values. Starts as the identity."""

    def starting_values(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The identity."""
        return [(self.weight, torch.eye(*self.weight.shape))]


class _MemoryLayer:
    """What encoder and decoder layers have in common: their memories, and BART's feed-forward sublayer."""

    layer_idx: int
    memory: Memory | None
    ahead: Memory | None
    salient_projection: SalientProjection | None
    # The library's:
    self_attn: AwesomeAttention
    self_attn_layer_norm: nn.LayerNorm
    activation_fn: Callable[[torch.Tensor], torch.Tensor]
    fc1: nn.Linear
    fc2: nn.Linear
    final_layer_norm: nn.LayerNorm
    dropout: float
    activation_dropout: float
    training: bool

    def recall(self, memory: Memory, state: MemoryState) -> Recollection:
        """What the layer reads during the next segment."""
        return memory.recall(state, self.self_attn)

    def _recollections(self, given: Pass) -> list[tuple[Memory, Recollection]]:
        named = ((self.memory, given.memory), (self.ahead, given.ahead))
        return [(memory, of[self.layer_idx]) for memory, of in named if memory is not None and self.layer_idx in of]

    def _extra(self, given: Pass) -> Source | None:
        """Extra keys and values for the self-attention: salient vectors, and those of the memories."""
        sources = []
        if given.salient is not None and self.salient_projection is not None:
            sources.append(self.self_attn.source(self.salient_projection(given.salient.vectors), given.salient.mask))
        found = (memory.extra(recollection) for memory, recollection in self._recollections(given))
        return all_joined([*sources, *(source for source in found if source is not None)])

    def _self_attention(self, hidden: torch.Tensor, mask: torch.Tensor | None, given: Pass, **kwargs: Any) -> Any:
        """BART's self-attention sublayer; records what to write to memory and adds what is read from it."""
        found, _ = self.self_attn(hidden, attention_mask=mask, extra=self._extra(given), **kwargs)
        output = self.self_attn_layer_norm(hidden + self._dropout(found))
        if self.memory is not None:
            written = self.memory.to_write(hidden, output)
            # Detached: the graph of gradient checkpointing holds `given`, so `given` must not hold the graph.
            given.written[self.layer_idx] = written.detach() if given.stops_gradient else written
        reads = (memory.read(output, recollection) for memory, recollection in self._recollections(given))
        read = [each for each in reads if each is not None]
        return output + self._dropout(reduce(torch.add, read)) if read else output

    def _feed_forward(self, hidden: torch.Tensor) -> torch.Tensor:
        inner = self.activation_fn(self.fc1(hidden))
        inner = nn.functional.dropout(inner, p=self.activation_dropout, training=self.training)
        hidden = self.final_layer_norm(hidden + self._dropout(self.fc2(inner)))
        if hidden.dtype == torch.float16:
            limit = torch.finfo(torch.float16).max - 1000
            hidden = hidden.clamp(-limit, limit)
        return hidden

    def _dropout(self, states: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(states, p=self.dropout, training=self.training)


class AwesomeEncoderLayer(_MemoryLayer, BartEncoderLayer):
    """BART's encoder layer with up to two memories and salient vectors, as configured."""

    def __init__(self, config: AwesomeConfig, layer_idx: int) -> None:
        super().__init__(config, layer_idx)
        self.layer_idx = layer_idx
        heads = config.encoder_attention_heads
        self.self_attn = AwesomeAttention(
            config.d_model, heads, config.attention_dropout, config=config, layer_idx=layer_idx
        )
        has_memory = layer_idx in config.layers_with_memory(config.encoder_layers)
        self.memory = config.make_memory(heads) if has_memory else None
        self.ahead = config.make_memory(heads) if has_memory and config.memory_direction == "both" else None
        self.salient_projection = None
        if config.salient == "key-value":
            self.salient_projection = SalientProjection(config.d_model, config.d_model, bias=False)

    def forward(self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None, given: Pass) -> torch.Tensor:
        """One segment, or one batch of them, through the layer."""
        return self._feed_forward(self._self_attention(hidden_states, attention_mask, given))


class AwesomeDecoderLayer(_MemoryLayer, BartDecoderLayer):
    """BART's decoder layer with a memory, as configured."""

    def __init__(self, config: AwesomeConfig, layer_idx: int) -> None:
        super().__init__(config, layer_idx)
        self.layer_idx = layer_idx
        heads = config.decoder_attention_heads
        self.self_attn = AwesomeAttention(
            config.d_model,
            heads,
            config.attention_dropout,
            is_decoder=True,
            is_causal=True,
            config=config,
            layer_idx=layer_idx,
        )
        has_memory = layer_idx in config.layers_with_memory(config.decoder_layers)
        self.memory = config.make_memory(heads) if has_memory else None
        self.ahead = self.salient_projection = None

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = True,
        given: Pass | None = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """The library's, with `given` for the memories."""
        hidden = self._self_attention(
            hidden_states, attention_mask, given or Pass(), past_key_values=past_key_values, **kwargs
        )
        if encoder_hidden_states is not None:
            found, _ = self.encoder_attn(
                hidden,
                key_value_states=encoder_hidden_states,
                attention_mask=encoder_attention_mask,
                past_key_values=past_key_values,
                **kwargs,
            )
            hidden = self.encoder_attn_layer_norm(hidden + self._dropout(found))
        return self._feed_forward(hidden)
