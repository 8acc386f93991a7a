"""Unlimiformer: BART whose decoder retrieves, for each head and step, the encoded tokens that it attends to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from awesum.models.memory_settings import check_choices
from awesum.settings import setting
from awesum.systems.encoder_decoder import at_least
from awesum.systems.long_input import LongInput, LongInputSettings
from awesum.systems.system import Taxonomy


@dataclass(frozen=True)
class UnlimiformerSettings(LongInputSettings):
    """What the decoder attends to, in training and afterwards."""

    defaults: ClassVar[Mapping[str, Any]] = {"max_tokens": 2048}
    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "mode": ("truncated", "retrieval", "random-encoded", "alternating"),
        "search": ("exact", "faiss"),
    }

    mode: str = setting("retrieval", f"how it is trained: {', '.join(choices['mode'])}")
    retrieved: int = setting(1024, "encoded tokens that a head attends to")
    search: str = setting("exact", "exact, or faiss: an index, for very long documents (needs awesum[faiss])")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choices(self, self.choices)
        at_least(self, 1, "retrieved")


class Unlimiformer(LongInput):
    """All tokens are encoded, in overlapping windows; each head of each step sees the nearest of them."""

    name = "unlimiformer"
    description = "BART whose decoder retrieves the encoded tokens that each head attends to"
    paper = "Bertsch and others, 2023: Unlimiformer"
    settings_class = UnlimiformerSettings
    taxonomy = Taxonomy("x -> y", "full", "full", "full")
    model_class = "awesum.models.unlimiformer:UnlimiformerBart"
    training = "awesum.training.unlimiformer:UnlimiformerTraining"

    @property
    def _limit(self) -> int | None:
        """Training is limited, writing is not: that is what it is for."""
        return None
