"""PageSum: pages encoded alone and decoded with one prefix, their hidden states mixed by a learned confidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from awesum.settings import setting
from awesum.systems.encoder_decoder import at_least
from awesum.systems.long_input import LongInput, LongInputSettings
from awesum.systems.system import Taxonomy


@dataclass(frozen=True)
class PageSumSettings(LongInputSettings):
    """The pages; the defaults are the paper's for GovReport."""

    defaults: ClassVar[Mapping[str, Any]] = {"max_tokens": None}

    pages: int = setting(3, "pages, over which the sentences of a document are split evenly")
    page_size: int = setting(1024, "maximum tokens of a page; the rest of it is cut, and reported")

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "pages")
        at_least(self, 3, "page_size")


class PageSum(LongInput):
    """One more weight vector than BART."""

    name = "pagesum"
    description = "BART on each page, their decoders' states mixed by a learned confidence"
    paper = "Liu and others, 2022: PageSum"
    settings_class = PageSumSettings
    taxonomy = Taxonomy("x -> y", "page", "full + salient", "full")
    model_class = "awesum.models.pagesum:PageSumBart"
    layout_class = "awesum.compose.long_inputs:Pages"
    model_types = ("pagesum-bart",)
    bases = ("bart", "pagesum-bart")
    growth = "in proportion to the pages"
