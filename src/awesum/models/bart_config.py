"""The settings of AWESOME: BART's own, and those of its memories and its salient content."""

from __future__ import annotations

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, BartConfig

from awesum import memory as memories
from awesum.errors import AwesumError
from awesum.memory import Memory
from awesum.models.memory_settings import (
    MEMORY_FORMAT,
    NO_MEMORY,
    check_choices,
    check_memory,
    current,
    memory_choices,
    memory_layers,
)

CHOICES: dict[str, tuple[str, ...]] = {
    "salient": ("none", "text", "key-value"),
    "memory_direction": ("forward", "both"),
}


@strict
class AwesomeConfig(BartConfig):
    """BART's configuration and what AWESOME adds to it."""

    model_type = "awesome-bart"

    system: str = "awesome"
    """The system that was trained: `awesome`, or `se3` for one without memory."""
    memory: str = "attentive"
    """`none` (Se3), or a kind of memory: `attentive`, `attentive-literal`, `compressive`, `salient`."""
    memory_format: int = MEMORY_FORMAT
    """Of the saved settings: older ones call `attentive` what is now `attentive-literal`."""
    memory_layers: int | str | list[int] | tuple[int, ...] = 3
    """How many of the last layers of encoder and decoder have a memory; `all`; or their numbers."""
    memory_size: int = 1024
    """Slots of a memory."""
    compression_ratio: int = 5
    """Hidden states that a compressive memory compresses into one."""
    memory_direction: str = "forward"
    """`both`: the encoder has a second memory, which runs from the last segment to the first."""
    salient: str = "none"
    """How a segment sees the salient sentences of other segments: `none`, as `text`, or as `key-value` vectors."""
    salient_size: int = 1024
    """Tokens of salient content, as key-value vectors."""

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        self.check()

    def check(self) -> None:
        """Refuse invalid values, in one line."""
        check_choices(self, {"memory": memory_choices(), **CHOICES})
        for name in ("memory_size", "compression_ratio", "salient_size"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise AwesumError(f"{name} must be a whole number, 1 or more, not {value!r}")
        heads = max(int(self.encoder_attention_heads or 0), int(self.decoder_attention_heads or 0))
        check_memory(self.memory, self.memory_size, self.compression_ratio, heads)
        for layers in (self.encoder_layers, self.decoder_layers):
            self.layers_with_memory(int(layers or 0))

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """The library's, from settings as they were saved by this version or an older one."""
        if config_dict.get("model_type") == cls.model_type:
            config_dict = current(config_dict)
        return super().from_dict(config_dict, **kwargs)

    def layers_with_memory(self, layers: int) -> tuple[int, ...]:
        """The numbers of those of an encoder's or a decoder's `layers` that have a memory."""
        return memory_layers(self.memory_layers, layers) if self.memory != NO_MEMORY else ()

    def make_memory(self, heads: int) -> Memory:
        """A new memory for a layer with `heads` attention heads."""
        return memories.make(
            self.memory,
            size=self.d_model,
            heads=heads,
            slots=self.memory_size,
            ratio=self.compression_ratio,
            dropout=self.attention_dropout,
        )


AutoConfig.register(AwesomeConfig.model_type, AwesomeConfig)
