"""CachED: BART on chunks that the decoder attends to together, trained with the gradients cached between the two."""

from __future__ import annotations

from dataclasses import dataclass

from awesum.settings import setting
from awesum.systems.encoder_decoder import at_least
from awesum.systems.long_input import LongInput, LongInputSettings
from awesum.systems.system import Taxonomy


@dataclass(frozen=True)
class CachedSettings(LongInputSettings):
    """The chunks."""

    chunk_size: int = setting(1024, "tokens that are encoded together")

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "chunk_size")


class Cached(LongInput):
    """No new weights: a BART in the end."""

    name = "cached"
    description = "BART on chunks that the decoder attends to together, trained chunk by chunk in small memory"
    paper = "Saxena and others, 2025: CachED"
    settings_class = CachedSettings
    taxonomy = Taxonomy("x -> y", "chunk", "full", "full")
    model_class = "awesum.models.cached:CachedBart"
    training = "awesum.training.cached:CachedTraining"
    growth = "by the encoder's output and the decoder's keys and values, in proportion to the tokens read"
