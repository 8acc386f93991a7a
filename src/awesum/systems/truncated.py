"""BART on the first window of a document: what everything else is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from awesum.systems.long_input import LongInput, LongInputSettings
from awesum.systems.system import Taxonomy


@dataclass(frozen=True)
class TruncatedSettings(LongInputSettings):
    """Those of any encoder-decoder."""

    defaults: ClassVar[Mapping[str, Any]] = {"max_tokens": 1024}


class Truncated(LongInput):
    """The library's BART as it is. It cuts every document at its positions; that is what its name says."""

    name = "truncated"
    description = "BART on the first tokens of the document, as many as it has positions: a baseline"
    paper = "Lewis and others, 2020: BART"
    settings_class = TruncatedSettings
    taxonomy = Taxonomy("x_1 -> y", "beginning", "beginning", "full")
    model_class = "transformers:BartForConditionalGeneration"
    growth = "in proportion to the tokens read, of which there are at most its positions"
    layout_class = "awesum.compose.long_inputs:FirstWindow"
