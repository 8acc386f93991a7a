"""Extract, then abstract: BART on the sentences that the extractor selects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from awesum.systems.long_input import LongInput, LongInputSettings
from awesum.systems.system import Taxonomy


@dataclass(frozen=True)
class ExtractAbstractSettings(LongInputSettings):
    """Those of any encoder-decoder."""

    defaults: ClassVar[Mapping[str, Any]] = {"max_tokens": 1024}


class ExtractAbstract(LongInput):
    """The extractor reads the whole document, the abstractor as many of its sentences as BART has room for. In training
    the sentences are the oracle's."""

    name = "extract-abstract"
    description = "BART on the sentences that the extractor selects; trained on the oracle's"
    paper = "Pilault and others, 2020: extract, then abstract"
    settings_class = ExtractAbstractSettings
    taxonomy = Taxonomy("x_e -> y", "extracted", "salient", "full")
    model_class = "transformers:BartForConditionalGeneration"
    layout_class = "awesum.compose.long_inputs:Extracted"
    growth = "in proportion to the tokens of the abstractor, of which there are at most its positions"
