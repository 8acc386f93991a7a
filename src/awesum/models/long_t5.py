"""LongT5 as the library has it. A configuration that does not say how a summary starts gets T5's way."""

from __future__ import annotations

from typing import Any

from transformers import LongT5ForConditionalGeneration


class LongT5(LongT5ForConditionalGeneration):
    """The library's LongT5, with the same weights."""

    def __init__(self, config: Any) -> None:
        if getattr(config, "decoder_start_token_id", None) is None:
            config.decoder_start_token_id = config.pad_token_id
        super().__init__(config)
