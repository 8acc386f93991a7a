"""LongT5: local and transient global attention, pretrained on long texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from awesum.systems.long_input import LongInput, LongInputSettings
from awesum.systems.system import Taxonomy


@dataclass(frozen=True)
class LongT5Settings(LongInputSettings):
    """Size and attention are those of the pretrained model. The paper names neither: base and transient global are our
    choice; google/long-t5-tglobal-large is the next size."""

    default_base: ClassVar[str] = "google/long-t5-tglobal-base"
    defaults: ClassVar[Mapping[str, Any]] = {"max_tokens": 6144, "learning_rate": 1e-4}


class LongT5(LongInput):
    """The library's LongT5."""

    name = "long-t5"
    description = "LongT5: local and transient global attention, pretrained on long texts"
    paper = "Guo and others, 2022: LongT5"
    settings_class = LongT5Settings
    taxonomy = Taxonomy("x -> y", "full", "full", "full")
    model_class = "awesum.models.long_t5:LongT5"
    model_types = ("longt5",)
    bases = ("longt5",)
    growth = "in proportion to the tokens read, and faster where they are many (all attend to all global blocks)"
    refuses_float16 = "its hidden states overflow there, and the loss is not a number"
