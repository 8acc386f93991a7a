"""What the systems that read a document as one long input have in common. Not a system itself.

Such a system says which model it is, how a document becomes the model's input, and which pretrained models it takes;
everything else is here, in `training.long_input` and in `models.long_input`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from awesum.settings import Settings
from awesum.systems.encoder_decoder import EncoderDecoder, WritingSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from awesum.analysis.analysis import Analysis
    from awesum.analysis.segmentation import Limits
    from awesum.compose.long_inputs import LongLayout
    from awesum.compose.plan import Plan
    from awesum.engine.engine import Engine

SIDE_BY_SIDE = 4
"""Documents that are written at the same time, ..."""
TOGETHER = 2_000_000_000
"""... as long as their keys and values take no more bytes than this together."""
UNLIMITED = 10**9
"""Tokens of a segment: the document is one."""


@dataclass(frozen=True)
class LongInputSettings(WritingSettings):
    """How an encoder-decoder is trained on whole documents, and how it writes afterwards."""

    defaults: ClassVar[Mapping[str, Any]] = {}
    """Settings of every system that start at another value here."""

    @property
    def model_config(self) -> dict[str, Any]:
        """What it adds to the pretrained model, as the model's configuration names it."""
        common = {field.name for field in fields(LongInputSettings)}
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in common}


class LongInput(EncoderDecoder):
    """An encoder-decoder that reads as much of the document as it may, and writes the summary in one go."""

    model_class: ClassVar[str]
    """`module:class` of the model."""
    layout_class: ClassVar[str] = "awesum.compose.long_inputs:LongLayout"
    """`module:class` of how a document becomes the model's input."""
    training = "awesum.training.long_input:LongInputTraining"
    bases: ClassVar[tuple[str, ...]] = ("bart",)
    growth: ClassVar[str] = "in proportion to the tokens read"
    """How the peak memory of training grows with the length of the document."""
    refuses_float16: ClassVar[str] = ""
    """Why it cannot compute in float16, if it cannot."""

    @classmethod
    def model_kind(cls) -> Any:
        """The class of the model."""
        return _imported(cls.model_class)

    @classmethod
    def layout_kind(cls) -> type[LongLayout]:
        """The class of the layout."""
        kind: type[LongLayout] = _imported(cls.layout_class)
        return kind

    @cached_property
    def config(self) -> Any:
        """The configuration, without the weights."""
        from awesum.models.long_input import load_config

        return load_config(self.model_kind(), self.model, self.check_base)

    def _load_writer(self) -> PreTrainedModel:
        from awesum.loading import choose_device
        from awesum.models.long_input import load

        model = load(self.model_kind(), self.model, self.check_base, dtype=self._number_format()[0])
        return model.to(choose_device()[0]).eval()

    def _number_format(self) -> tuple[Any, str]:
        import torch

        dtype, reason = super()._number_format()
        if self.refuses_float16 and dtype == torch.float16:
            return torch.float32, f"{self.name} in float16: {self.refuses_float16}"
        return dtype, reason

    @property
    def limits(self) -> Limits:
        """The document is one segment."""
        from awesum.analysis.segmentation import Limits

        return Limits(UNLIMITED, UNLIMITED)

    def plan(self, analysis: Analysis, settings: Settings, notes: list[str]) -> Plan:
        """The document as one input, answered in one go."""
        from awesum.compose.long_inputs import OneAnswer

        return OneAnswer(
            analysis,
            self.analyst.encoder,
            self.layout_kind()(self.tokenizer, self.config, self._limit, notes.append),
            verifier=self.verifier,
            has_length=settings.length is not None,
            strict=settings.strict,
        )

    @property
    def _limit(self) -> int | None:
        """Tokens of a document to read: as many as it was trained on."""
        limit: int | None = getattr(self.config, "max_tokens", None)
        return limit

    def engine(self, settings: Settings) -> Engine:
        """As many documents as the memory limit has room for."""
        from awesum.engine.long_input import LongInputEngine
        from awesum.models.long_input import bytes_per_document

        per_document = bytes_per_document(self.writer, self._limit)
        most = max(1, min(SIDE_BY_SIDE, TOGETHER // per_document))
        return LongInputEngine(self.writer, self.tokenizer, self._rows(settings, per_document, most))


def _imported(path: str) -> Any:
    module, name = path.split(":")
    return getattr(import_module(module), name)
