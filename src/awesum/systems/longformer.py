"""LED: a sliding window in the encoder, and global attention on the first token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from awesum.errors import AwesumError
from awesum.settings import setting
from awesum.systems.encoder_decoder import at_least
from awesum.systems.long_input import LongInput, LongInputSettings
from awesum.systems.system import Taxonomy


@dataclass(frozen=True)
class LongformerSettings(LongInputSettings):
    """The window; the defaults are those of LED-large."""

    default_base: ClassVar[str] = "allenai/led-large-16384"
    defaults: ClassVar[Mapping[str, Any]] = {"max_tokens": 8192}

    window: int = setting(1024, "tokens that each token attends to, half of them on each side")

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 2, "window")
        if self.window % 2:
            raise AwesumError(f"window must be even, because half of it lies on each side, not {self.window}")

    @property
    def model_config(self) -> dict[str, Any]:
        """As `LEDConfig` names it."""
        return {"attention_window": self.window}


class Longformer(LongInput):
    """The library's LED, from a pretrained one or converted from any BART."""

    name = "longformer"
    description = "LED: sliding windows and a global first token, pretrained or converted from a BART"
    paper = "Beltagy and others, 2020: Longformer"
    settings_class = LongformerSettings
    taxonomy = Taxonomy("x -> y", "full", "full", "full")
    model_class = "awesum.models.longformer:Longformer"
    model_types = ("led",)
    bases = ("led", "bart")
