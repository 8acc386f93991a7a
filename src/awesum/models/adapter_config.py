"""The settings of an adapter, and its settings file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from awesum import memory as memories
from awesum.errors import AwesumError
from awesum.memory import Memory
from awesum.models import memory_settings
from awesum.settings import ADAPTER

CHOICES = {
    "adapted_tokens": ("answer", "all"),
    "salient": ("none", "text", "rewrite"),
    "update": ("none", "low-rank", "full"),
}
OLD_NAMES = {"salient": {"points": "rewrite"}}
"""Values in an older adapter.json, and what they are called now."""


@dataclass(frozen=True)
class AdapterConfig:
    """The settings of an adapter, saved with it as adapter.json."""

    base: str = ""
    """The pretrained model that it belongs to: `smollm2`, a folder, or a name on the hub."""
    base_sha256: str = ""
    """Hash of that model's weights: with others the adapter would be silently wrong. Empty for the shipped adapter,
    whose model is checked separately."""
    memory: str = "attentive"
    """`none` (Se3), or a kind of memory: `attentive`, `attentive-literal`, `compressive`, `salient`."""
    memory_format: int = memory_settings.MEMORY_FORMAT
    """Of the saved settings: older ones call `attentive` what is now `attentive-literal`."""
    memory_layers: int | str | Sequence[int] = 3
    """How many of the last layers have a memory; `all`; or their numbers."""
    memory_size: int = 256
    """Slots of a memory."""
    compression_ratio: int = 5
    """Hidden states that a compressive memory compresses into one."""
    adapted_tokens: str = "answer"
    """Which tokens read the memories and pass through the updated layers: those of the `answer`, or `all`, the
    segment's too (the paper's encoder memory)."""
    salient: str = "none"
    """The salient sentences in a segment's request: `none`, those of other segments as `text`, or the segment's own, to
    `rewrite`."""
    salient_size: int = 256
    """Tokens of salient text."""
    update: str = "low-rank"
    """How the layers change for adapted tokens: `none`, `low-rank` updates of their matrices, or `full`."""
    update_layers: int = 3
    """How many of the last layers change."""
    rank: int = 64
    """Of a low-rank update."""
    ending: float = 0.5
    """An answer ends once the probability of its end reaches this. The likeliest token is a poor guide: the end is one
    token and its alternatives are many, so a model that always takes the likeliest ends too early."""
    system: str = "adapter"
    """The system that was trained."""

    def __post_init__(self) -> None:
        memory_settings.check_choices(
            self, {"memory": memory_settings.memory_choices(), **CHOICES}, " for a causal model"
        )
        if isinstance(self.memory_layers, list):  # from JSON
            object.__setattr__(self, "memory_layers", tuple(self.memory_layers))
        layers = self.memory_layers if isinstance(self.memory_layers, tuple) else (self.memory_layers,)
        if self.memory_layers != "all" and not all(type(layer) is int for layer in layers):
            raise AwesumError(
                f"memory_layers={self.memory_layers!r}: give a number of last layers, 'all', or a list of layers"
            )
        for name in ("memory_size", "compression_ratio", "salient_size", "update_layers", "rank"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise AwesumError(f"{name} must be a whole number, 1 or more, not {value!r}, for a causal model")
        if not 0 < self.ending <= 1:
            raise AwesumError(f"ending={self.ending!r} is a probability: give a number above 0, and at most 1")
        memory_settings.check_memory(self.memory, self.memory_size, self.compression_ratio)

    def make_memory(self, size: int, heads: int) -> Memory:
        """A new memory for a layer of this hidden size, with `heads` attention heads."""
        memory_settings.check_memory(self.memory, self.memory_size, self.compression_ratio, heads)
        return memories.make(self.memory, size=size, heads=heads, slots=self.memory_size, ratio=self.compression_ratio)


def read_config(folder: str | Path) -> AdapterConfig:
    """The settings of a saved adapter."""
    path = Path(folder) / ADAPTER
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(saved, dict):
            raise TypeError("settings are missing")
        renamed = {name: new.get(saved[name], saved[name]) for name, new in OLD_NAMES.items() if name in saved}
        return AdapterConfig(**{**memory_settings.current(saved), **renamed})
    except (OSError, ValueError, TypeError) as error:
        raise AwesumError(f"cannot read {path} ({error}): copy or train the adapter again") from error


def is_adapter(folder: str | Path) -> bool:
    """Whether a folder holds an adapter."""
    return (Path(folder) / ADAPTER).is_file()
