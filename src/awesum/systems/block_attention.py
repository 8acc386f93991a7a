"""BART whose encoder attends within staggered blocks and to global tokens: PEGASUS-X's scheme on BART's weights."""

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
class BlockAttentionSettings(LongInputSettings):
    """The blocks and the global tokens; the defaults are PEGASUS-X's."""

    defaults: ClassVar[Mapping[str, Any]] = {"max_tokens": 6144}

    block_size: int = setting(512, "tokens that attend to each other; every other layer is shifted by half of it")
    global_tokens: int = setting(128, "learned tokens that attend to all others and are seen by all others")

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 2, "block_size")
        at_least(self, 0, "global_tokens")
        if self.block_size % 2:
            raise AwesumError(
                f"block_size must be even, because layers are shifted by half of it, not {self.block_size}"
            )


class BlockAttention(LongInput):
    """The paper's BlockAttn."""

    name = "block-attention"
    description = "BART whose encoder attends within staggered blocks and to global tokens"
    paper = "Phang and others, 2022: PEGASUS-X"
    settings_class = BlockAttentionSettings
    taxonomy = Taxonomy("x -> y", "full", "full", "full")
    model_class = "awesum.models.block_attention:BlockBart"
    model_types = ("block-bart",)
    bases = ("bart", "block-bart")
