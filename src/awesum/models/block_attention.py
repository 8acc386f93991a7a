"""Block attention: BART whose encoder attends within staggered blocks and to global tokens (PEGASUS-X's scheme).

What PEGASUS-X leaves to a model that is not its own, and what we do:
- BART normalizes after each sublayer, so both streams, the text's and the global tokens', share its layer norms.
- Positions beyond BART's begin again: position p starts as p modulo 1,024, in a table of its own that is trained.
- Global tokens have no positions. They start as the embeddings of random words and go through the same norm.
- The decoder attends to the text, not to the global tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from huggingface_hub.dataclasses import strict
from torch import nn
from transformers import AutoConfig, AutoModelForSeq2SeqLM, BartConfig
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.bart.modeling_bart import (
    BartAttention,
    BartEncoder,
    BartEncoderLayer,
    BartLearnedPositionalEmbedding,
)

from awesum.compat import ModelHooks
from awesum.models.long_bart import LongBart

POSITIONS = 16_384
"""Of an encoder whose input has no limit."""


@strict
class BlockConfig(BartConfig):
    """BART's configuration, with blocks."""

    model_type = "block-bart"

    block_size: int = 512
    """Tokens that attend to each other."""
    global_tokens: int = 128
    """Learned tokens that attend to all others and are seen by all others."""
    encoder_positions: int | None = None
    """Positions of the encoder; BART's own, until they are extended."""

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        self.encoder_positions = self.encoder_positions or self.max_position_embeddings


class BlockSelfAttention(BartAttention):
    """BART's self-attention with its weights, in blocks."""

    def forward(
        self, text: torch.Tensor, extra: torch.Tensor, mask: torch.Tensor, *, shift: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The text, (B, N, d), and the global tokens, (B, G, d), after attention. `mask` (B, N) is true for tokens.

        Blocks begin `shift` tokens before the text.
        """
        size, length, count = self.config.block_size, text.shape[1], extra.shape[1]
        behind = -(shift + length) % size
        documents, blocks = len(text), (shift + length + behind) // size
        padded = (0, 0, shift, behind)
        queries, keys, values = (
            nn.functional.pad(self._heads(projection(text)), padded).view(documents, self.num_heads, blocks, size, -1)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )  # (B, H, blocks, K, hd)
        is_text = nn.functional.pad(mask, (shift, behind)).view(-1, 1, blocks, size)
        if not count:
            return self._joined(self._attend(queries, keys, values, is_text), slice(shift, shift + length)), extra
        of_extra, *known = (self._heads(projection(extra)) for projection in (self.q_proj, self.k_proj, self.v_proj))
        # Global tokens stand before each block, so that its tokens see them.
        keys, values = (
            torch.cat([each[:, :, None].expand(-1, -1, blocks, -1, -1), of_text], 3)
            for each, of_text in zip(known, (keys, values), strict=True)
        )
        is_extra = is_text.new_ones(documents, 1, blocks, count)
        found = self._attend(queries, keys, values, torch.cat([is_extra, is_text], 3))
        # They themselves attend to all blocks, and to each other once: no second copy of the text's keys and values.
        is_extra = is_extra.logical_and(torch.arange(blocks, device=mask.device)[:, None] == 0)
        seen = torch.cat([is_extra, is_text], 3).flatten(2)[:, :, None]
        of_all = self._attend(
            of_extra[:, :, None], keys.flatten(2, 3)[:, :, None], values.flatten(2, 3)[:, :, None], seen
        )
        return self._joined(found, slice(shift, shift + length)), self._joined(of_all, slice(None))

    def _heads(self, states: torch.Tensor) -> torch.Tensor:
        return states.view(*states.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)  # (B, H, N, hd)

    def _attend(
        self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, seen: torch.Tensor
    ) -> torch.Tensor:
        """(B, H, blocks, Q, hd) of queries, keys and values in blocks; `seen` (B, 1, blocks, K) is alike for all heads.

        A head in a block is a head to the kernel.
        """
        # Not a boolean mask: a block of nothing but padding would have nothing to attend to.
        mask = torch.zeros(seen.shape, dtype=queries.dtype, device=seen.device)
        mask = mask.masked_fill(~seen, torch.finfo(queries.dtype).min).expand(-1, self.num_heads, -1, -1).flatten(1, 2)
        dropout = self.dropout if self.training else 0.0
        found = nn.functional.scaled_dot_product_attention(
            queries.flatten(1, 2), keys.flatten(1, 2), values.flatten(1, 2), mask[:, :, None], dropout
        )
        return found.view(len(found), self.num_heads, -1, *found.shape[2:])

    def _joined(self, found: torch.Tensor, part: slice) -> torch.Tensor:
        """The heads side by side and the blocks one after the other, projected: (B, N, d)."""
        states = found.flatten(2, 3).transpose(1, 2).flatten(2)
        return self.out_proj(states[:, part])


class BlockEncoderLayer(BartEncoderLayer):
    """BART's encoder layer for two streams, the text and the global tokens. Odd layers are shifted by half a block."""

    def __init__(self, config: BlockConfig, layer_idx: int) -> None:
        super().__init__(config, layer_idx)
        self.self_attn = BlockSelfAttention(
            config.d_model,
            config.encoder_attention_heads,
            config.attention_dropout,
            config=config,
            layer_idx=layer_idx,
        )
        self.shift = config.block_size // 2 if layer_idx % 2 else 0

    def forward(self, text: torch.Tensor, extra: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Both streams through the layer."""
        found = self.self_attn(text, extra, mask, shift=self.shift)
        text, extra = (
            self._feed_forward(self.self_attn_layer_norm(stream + self._dropout(new)))
            for stream, new in zip((text, extra), found, strict=True)
        )
        return text, extra

    def _feed_forward(self, hidden: torch.Tensor) -> torch.Tensor:
        inner = self.activation_fn(self.fc1(hidden))
        inner = nn.functional.dropout(inner, p=self.activation_dropout, training=self.training)
        return self.final_layer_norm(hidden + self._dropout(self.fc2(inner)))

    def _dropout(self, states: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(states, p=self.dropout, training=self.training)


class BlockEncoder(ModelHooks, BartEncoder):
    """BART's encoder in blocks."""

    undivided = ("BlockEncoderLayer",)

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        self.layers: Any = nn.ModuleList([BlockEncoderLayer(config, index) for index in range(config.encoder_layers)])
        self.embed_positions = BartLearnedPositionalEmbedding(config.encoder_positions, config.d_model)
        self.global_tokens = nn.Parameter(torch.empty(config.global_tokens, config.d_model))
        self.post_init()

    def forward(
        self, input_ids: torch.Tensor | None = None, attention_mask: torch.Tensor | None = None, **kwargs: Any
    ) -> BaseModelOutput:
        """The text's hidden states, (B, N, d)."""
        assert input_ids is not None, "it reads tokens"
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        embedded = self.embed_tokens(input_ids)
        text = self._start(embedded + self.embed_positions(input_ids))
        extra = self._start(self.global_tokens[None].expand(len(input_ids), -1, -1))
        for layer in self.layers:
            if not (self.training and torch.rand([]) < self.layerdrop):  # drawn as the library draws it
                text, extra = layer(text, extra, mask.bool())
        return BaseModelOutput(last_hidden_state=text)

    @torch.no_grad()
    def start_weights(self, module: nn.Module) -> None:
        """Global tokens that were not loaded, in a model that is made from its configuration."""
        if module is self:
            init.normal_(self.global_tokens, std=self.config.init_std)

    def _start(self, embedded: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(self.layernorm_embedding(embedded), p=self.dropout, training=self.training)


class BlockBart(LongBart):
    """BART with block attention. With no global tokens and a text of half a block it is BART, number for number."""

    config_class = BlockConfig
    new_weights = ("encoder.global_tokens",)
    undivided = ("BlockEncoderLayer", "BartDecoderLayer")

    def make_encoder(self, config: Any) -> nn.Module:
        """In blocks."""
        return BlockEncoder(config)

    @torch.no_grad()
    def start_new_weights(self) -> None:
        """In a model that was a BART: global tokens start as the embeddings of random words."""
        words = torch.randint(self.config.vocab_size, (self.config.global_tokens,))
        embedded = self.model.shared(words.to(self.model.shared.weight.device))
        self.model.encoder.global_tokens.copy_(embedded)

    @torch.no_grad()
    def extend_positions(self, tokens: int | None) -> None:
        """Let the encoder read so many tokens: further positions start as copies of the first, in their order."""
        encoder, wanted, known = self.model.encoder, tokens or POSITIONS, self.config.encoder_positions
        if wanted <= known:
            return
        old = encoder.embed_positions
        new = BartLearnedPositionalEmbedding(wanted, self.config.d_model).to(old.weight)
        offset = old.offset
        new.weight[:offset] = old.weight[:offset]
        new.weight[offset:] = old.weight[offset:][torch.arange(wanted, device=old.weight.device) % known]
        encoder.embed_positions = new
        self.config.encoder_positions = wanted


AutoConfig.register(BlockConfig.model_type, BlockConfig)
AutoModelForSeq2SeqLM.register(BlockConfig, BlockBart)
