"""LED as the library has it, always with global attention on the first token; and how a BART becomes one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers import BartForConditionalGeneration, LEDForConditionalGeneration
from transformers.models.led.modeling_led import LEDEncoder, LEDEncoderBaseModelOutput

POSITIONS = 16_384
"""Of the encoder of a LED that was a BART; those beyond BART's are copies of the first, in their order."""
_RENAMED = (
    (r"^model\.", "led."),
    (r"(encoder\.layers\.\d+\.self_attn)\.q_proj", r"\1.longformer_self_attn.query"),
    (r"(encoder\.layers\.\d+\.self_attn)\.k_proj", r"\1.longformer_self_attn.key"),
    (r"(encoder\.layers\.\d+\.self_attn)\.v_proj", r"\1.longformer_self_attn.value"),
    (r"(encoder\.layers\.\d+\.self_attn)\.out_proj", r"\1.output"),
)
"""BART's names -> LED's."""
_OTHERWISE = ("model_type", "architectures", "max_position_embeddings", "_name_or_path")
"""Settings of BART that LED has not, or has in another way."""


class GlobalFirstEncoder(LEDEncoder):
    """LED's encoder, whose first token attends to all others and is seen by all. Without any, LED degenerates."""

    def forward(
        self, input_ids: Any = None, attention_mask: Any = None, global_attention_mask: Any = None, **kwargs: Any
    ) -> Any:
        """The library's, of tokens that are padded to a multiple of the window, and taken off again."""
        assert input_ids is not None, "it reads tokens"
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        if global_attention_mask is None:
            global_attention_mask = torch.zeros_like(input_ids)
            global_attention_mask[:, 0] = 1
        window, length = self.config.attention_window, input_ids.shape[1]
        missing = -length % (window if isinstance(window, int) else max(window))
        # The library pads too, but warns the user of it.
        ids, mask, is_global = (
            nn.functional.pad(each, (0, missing), value=filler)
            for each, filler in (
                (input_ids, self.config.pad_token_id),
                (attention_mask, 0),
                (global_attention_mask, 0),
            )
        )
        output = super().forward(ids, mask, is_global, **kwargs)
        states = output[0][:, :length]
        return LEDEncoderBaseModelOutput(last_hidden_state=states)


class Longformer(LEDForConditionalGeneration):
    """The library's LED, with the same weights."""

    convertible = BartForConditionalGeneration

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.led.encoder = GlobalFirstEncoder(config)
        self.post_init()

    @classmethod
    def converted_config(cls, bart: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a LED with the weights of a BART."""
        kept = {name: value for name, value in bart.items() if name not in _OTHERWISE}
        return kept | {
            "max_encoder_position_embeddings": POSITIONS,
            "max_decoder_position_embeddings": bart["max_position_embeddings"],
        }

    @classmethod
    @torch.no_grad()
    def convert(cls, bart: BartForConditionalGeneration, config: Any) -> Longformer:
        """A LED with the weights of a BART; those of global attention are copies of the others."""
        weights = {}
        for name, weight in bart.state_dict().items():
            for pattern, replacement in _RENAMED:
                name = re.sub(pattern, replacement, name)
            if name.endswith("embed_positions.weight"):
                weight = weight[2:]  # BART's first two are never used
                if "encoder" in name:
                    weight = weight[torch.arange(config.max_encoder_position_embeddings) % len(weight)]
            weights[name] = weight.clone()
            for part in ("query", "key", "value"):
                if f"longformer_self_attn.{part}." in name:
                    weights[name.replace(f".{part}.", f".{part}_global.")] = weight.clone()
        model = cls(config)
        model.load_state_dict(weights)
        model.generation_config = bart.generation_config
        return model.to(bart.dtype)
