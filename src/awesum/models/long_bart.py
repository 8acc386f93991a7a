"""BART whose decoder attends to a long input: the beams of a document share its keys and values.

The library repeats the encoder's output for each beam, projects it as often and copies all keys and values whenever
beams change places. For a long input this is most of the time and memory of writing. Here a document has them once; its
beams are further queries. Subclasses bring encoders of their own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import BartConfig, BartForConditionalGeneration, DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.models.bart.modeling_bart import BartAttention, shift_tokens_right

from awesum.compat import BeamHooks, ModelHooks


class BeamCache(EncoderDecoderCache):
    """The library's, with keys and values of the input once per document: these stay where beams change places."""

    beams = 1
    """Beams of a document."""
    pages = 1
    """Rows of a beam, one after the other for each page: (document, page, beam)."""
    index: Any = None
    """An index of the encoded tokens, if one is searched."""

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Only what was written moves with its beam."""
        if self.pages > 1:
            rows = beam_idx.view(-1, 1, self.beams)
            first = torch.arange(len(rows), device=rows.device).view(-1, 1, 1) * self.beams
            page = torch.arange(self.pages, device=rows.device).view(1, -1, 1)
            beam_idx = ((first * self.pages + page * self.beams) + rows - first).flatten()
        self.self_attention_cache.reorder_cache(beam_idx)


class SharedAttention(BartAttention):
    """Cross-attention of several rows per document to one set of keys and values."""

    def forward(
        self,
        hidden_states: torch.Tensor,
        key_value_states: torch.Tensor | None = None,
        past_key_values: Any = None,
        attention_mask: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, None]:
        """The library's; `key_value_states` has a row for each document, `hidden_states` as many as it has beams."""
        assert key_value_states is not None, "it attends to the input"
        rows, length, _ = hidden_states.shape
        documents = key_value_states.shape[0]
        # (D, H, beams * length, hd)
        queries = self.q_proj(hidden_states).view(documents, -1, self.num_heads, self.head_dim).transpose(1, 2)
        visible = None if attention_mask is None else attention_mask[:, :, :1]  # of the input, alike for all queries
        found = self.attend(queries, key_value_states, visible, past_key_values, **kwargs)
        return self.out_proj(found.transpose(1, 2).reshape(rows, length, -1)), None

    def attend(
        self, queries: torch.Tensor, states: torch.Tensor, visible: torch.Tensor | None, cache: Any, **kwargs: Any
    ) -> torch.Tensor:
        """What the queries find: (D, H, Q, hd)."""
        keys, values = self.source(states, cache)
        dropout = self.dropout if self.training else 0.0
        return nn.functional.scaled_dot_product_attention(queries, keys, values, visible, dropout)

    def source(self, states: torch.Tensor, cache: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of the input, computed once: (D, H, N, hd)."""
        if cache is not None and cache.is_updated.get(self.layer_idx):
            layer = cache.cross_attention_cache.layers[self.layer_idx]
            return layer.keys, layer.values
        keys, values = (
            projection(states).view(*states.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)
            for projection in (self.k_proj, self.v_proj)
        )
        if cache is not None:
            keys, values = cache.cross_attention_cache.update(keys, values, self.layer_idx)
            cache.is_updated[self.layer_idx] = True
        return keys, values


class LongBart(BeamHooks, ModelHooks, BartForConditionalGeneration):
    """BART with another encoder, and with cross-attention whose keys and values beams share."""

    undivided_inputs = ("encoder_outputs", "attention_mask")
    undivided = ("BartEncoderLayer", "BartDecoderLayer")
    attention_class: type[SharedAttention] = SharedAttention

    def __init__(self, config: BartConfig) -> None:
        super().__init__(config)
        self.model.encoder = self.make_encoder(config)
        for index, layer in enumerate(self.model.decoder.layers):
            layer.encoder_attn = self.attention_class(
                config.d_model,
                config.decoder_attention_heads,
                dropout=config.attention_dropout,
                is_decoder=True,
                config=config,
                layer_idx=index,
            )
        self.post_init()

    def make_encoder(self, config: Any) -> nn.Module:
        """The encoder."""
        return self.model.encoder

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.Tensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: Any = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> Seq2SeqLMOutput:
        """The library's, in which the encoder and the decoder take arguments of their own."""
        if labels is not None:
            use_cache = False
            if decoder_input_ids is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        if decoder_input_ids is None:
            decoder_input_ids = shift_tokens_right(
                input_ids, self.config.pad_token_id, self.config.decoder_start_token_id
            )
        if encoder_outputs is None:
            encoder_outputs = self.model.encoder(input_ids, attention_mask=attention_mask)
        hidden, cache = self.decode(
            decoder_input_ids,
            encoder_outputs[0],
            attention_mask,
            written_mask=decoder_attention_mask,
            past_key_values=past_key_values,
            use_cache=use_cache,
            **kwargs,
        )
        logits = self.lm_head(hidden) + self.final_logits_bias
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return Seq2SeqLMOutput(
            loss=loss, logits=logits, past_key_values=cache, encoder_last_hidden_state=encoder_outputs[0]
        )

    def decode(
        self,
        ids: torch.Tensor,
        states: torch.Tensor,
        mask: torch.Tensor | None,
        *,
        written_mask: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, Any]:
        """The decoder's hidden states, (rows, T, d), and its cache."""
        outputs = self.model.decoder(
            input_ids=ids,
            attention_mask=written_mask,
            encoder_hidden_states=states,
            encoder_attention_mask=mask,
            **kwargs,
        )
        return outputs[0], outputs.past_key_values

    @torch.no_grad()
    def generate(self, *args: Any, **kwargs: Any) -> Any:
        """The library's, with a cache that beams share."""
        kwargs.setdefault("past_key_values", self.new_cache())
        return super().generate(*args, **kwargs)

    def new_cache(self) -> BeamCache:
        """An empty cache."""
        return BeamCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
