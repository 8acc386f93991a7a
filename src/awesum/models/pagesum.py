"""PageSum: BART on pages that are encoded alone and decoded with one prefix; a learned confidence mixes the pages.

Of page p at step t the decoder has the hidden state h; its confidence is s = w h + b, the weight of the page the
softmax of s over the pages, and the next token comes from the weighted sum of the hidden states.
"""

from __future__ import annotations

from typing import Any

import torch
from huggingface_hub.dataclasses import strict
from torch import nn
from transformers import AutoConfig, AutoModelForSeq2SeqLM, BartConfig
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.bart.modeling_bart import BartEncoder

from awesum.models.long_bart import BeamCache, LongBart


@strict
class PageSumConfig(BartConfig):
    """BART's configuration, with pages."""

    model_type = "pagesum-bart"

    pages: int = 3
    page_size: int = 1024
    """Tokens of a page at most."""


class PageEncoder(BartEncoder):
    """BART's encoder on each page alone."""

    def forward(
        self, input_ids: torch.Tensor | None = None, attention_mask: torch.Tensor | None = None, **kwargs: Any
    ) -> BaseModelOutput:
        """(B, P, N) -> (B, P, N, d)."""
        assert input_ids is not None, "it reads tokens"
        mask = None if attention_mask is None else attention_mask.view_as(input_ids).flatten(0, 1)
        states = super().forward(input_ids.flatten(0, 1), attention_mask=mask).last_hidden_state
        return BaseModelOutput(last_hidden_state=states.unflatten(0, input_ids.shape[:2]))


class PageSumBart(LongBart):
    """BART whose input has a row of tokens for each page: (B, P, N)."""

    config_class = PageSumConfig
    new_weights = ("confidence",)

    def __init__(self, config: PageSumConfig) -> None:
        super().__init__(config)
        self.confidence = nn.Linear(config.d_model, 1)
        self.post_init()

    def make_encoder(self, config: Any) -> nn.Module:
        """Page by page."""
        return PageEncoder(config)

    def decode(
        self,
        ids: torch.Tensor,
        states: torch.Tensor,
        mask: torch.Tensor | None,
        *,
        written_mask: torch.Tensor | None = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, Any]:
        """The mixed hidden states, (rows, T, d). In the decoder the rows are (document, page, beam)."""
        documents, pages = states.shape[:2]
        beams = len(ids) // documents
        if isinstance(past_key_values, BeamCache):
            past_key_values.beams, past_key_values.pages = beams, pages
        hidden, cache = super().decode(
            self._per_page(ids, documents, pages),
            states.flatten(0, 1),
            None if mask is None else mask.view(states.shape[:3]).flatten(0, 1),
            written_mask=None if written_mask is None else self._per_page(written_mask, documents, pages),
            past_key_values=past_key_values,
            **kwargs,
        )
        hidden = hidden.view(documents, pages, beams, *hidden.shape[1:])  # (B, P, beams, T, d)
        weights = self.confidence(hidden).softmax(1)
        return (weights * hidden).sum(1).flatten(0, 1), cache

    def generate(self, *args: Any, attention_mask: torch.Tensor | None = None, **kwargs: Any) -> Any:
        """The library's, which takes no mask of pages: it gets their masks side by side."""
        mask = None if attention_mask is None else attention_mask.flatten(1)
        return super().generate(*args, attention_mask=mask, **kwargs)

    def _per_page(self, rows: torch.Tensor, documents: int, pages: int) -> torch.Tensor:
        """The same prefix for every page."""
        return rows.view(documents, 1, -1, rows.shape[-1]).expand(-1, pages, -1, -1).flatten(0, 2)


AutoConfig.register(PageSumConfig.model_type, PageSumConfig)
AutoModelForSeq2SeqLM.register(PageSumConfig, PageSumBart)
