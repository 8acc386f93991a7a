"""The paper's model: BART that goes from segment to segment with external memory and global salient content."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from awesum.errors import AwesumError
from awesum.models.memory_settings import (
    MEMORY_DEPTH,
    NO_MEMORY,
    check_choices,
    check_memory_training,
    memory_choices,
)
from awesum.settings import Settings, setting
from awesum.systems.encoder_decoder import EncoderDecoder, WritingSettings, at_least
from awesum.systems.system import Taxonomy

if TYPE_CHECKING:
    from awesum.analysis.analysis import Analysis
    from awesum.analysis.segmentation import Limits
    from awesum.compose.layouts import BartLayout
    from awesum.compose.plan import Plan
    from awesum.engine.engine import Engine
    from awesum.models.bart import AwesomeBart
    from awesum.models.bart_config import AwesomeConfig

SIDE_BY_SIDE = 4
"""Documents that are written at the same time."""


@dataclass(frozen=True)
class BartSettings(WritingSettings):
    """How a BART is trained from segment to segment, and how it writes afterwards."""

    changeable: ClassVar[tuple[str, ...]] = ("trunk_batch", "gradient_checkpointing")

    trunk_batch: int = setting(1, "segments whose layers below the memory run together")

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "trunk_batch")

    @property
    def model_config(self) -> dict[str, Any]:
        """What it adds to the pretrained model, as `AwesomeConfig` names it."""
        return {"memory": NO_MEMORY}


@dataclass(frozen=True)
class AwesomeSettings(BartSettings):
    """What AWESOME adds to BART."""

    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "memory": memory_choices(),
        "memory_direction": ("forward", "both"),
        "salient": ("none", "text", "key-value"),
    }

    memory: str = setting("attentive", f"external memory: {', '.join(memory_choices())}")
    memory_layers: int | str | tuple[int, ...] = setting(
        3, "layers with a memory: how many of the last, all, or numbers such as 9,11"
    )
    memory_size: int = setting(1024, "slots of a memory")
    compression_ratio: int = setting(5, "hidden states that a compressive memory merges into one")
    memory_direction: str = setting("forward", "forward, or both: the encoder also remembers from the end")
    memory_depth: int | None = setting(1, MEMORY_DEPTH)
    new_learning_rate: float | None = setting(None, "peak learning rate of the new weights (default: learning_rate)")
    salient: str = setting("none", "salient sentences of other segments: none, text or key-value")
    salient_size: int = setting(1024, "tokens of salient content as key-value vectors")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choices(self, self.choices)
        at_least(self, 1, "memory_size", "compression_ratio", "salient_size")
        check_memory_training(self.memory, self.memory_depth, self.new_learning_rate)
        if self.memory_depth is None and self.gradient_checkpointing:
            raise AwesumError(
                "gradient_checkpointing forgets what memory_depth=all has to keep: leave it out, or give a number"
            )

    @property
    def model_config(self) -> dict[str, Any]:
        """What it adds to the pretrained model, as `AwesomeConfig` names it."""
        own = {field.name for field in fields(self)} - {field.name for field in fields(BartSettings)}
        return {name: getattr(self, name) for name in sorted(own - {"memory_depth", "new_learning_rate"})}


class Awesome(EncoderDecoder):
    """`AwesomeBart` as `awesum train` saves it, or a plain BART, which then goes without memory (Se3)."""

    name = "awesome"
    description = "BART with external memory and global salient content, segment by segment"
    paper = "Cao and Wang, 2023: AWESOME"
    settings_class: ClassVar[type | None] = AwesomeSettings
    training = "awesum.training.awesome:AwesomeTraining"
    model_types: ClassVar[tuple[str, ...]] = ("bart", "awesome-bart")
    bases = ("bart", "awesome-bart")
    taxonomy = Taxonomy("x_i -> y_i", "segment + memory", "segment + salient", "segment + memory")

    @cached_property
    def config(self) -> AwesomeConfig:
        """The configuration, without the weights."""
        from awesum.models.bart import load_config

        return load_config(self.model)

    @property
    def limits(self) -> Limits:
        """The limits of a segment."""
        return self._layout([]).limits

    def _layout(self, notes: list[str]) -> BartLayout:
        from awesum.compose.layouts import BartLayout

        return BartLayout(self.tokenizer, self.config, notes.append)

    def _load_writer(self) -> AwesomeBart:
        from awesum.models.bart import load_recurrent

        return load_recurrent(self.model)

    def plan(self, analysis: Analysis, settings: Settings, notes: list[str]) -> Plan:
        """The document whole, answered segment by segment."""
        from awesum.compose.plan import WholeDocument

        return WholeDocument(
            analysis,
            self.analyst.encoder,
            self._layout(notes),
            analysis.salient if self.config.salient != "none" else [],
            verifier=self.verifier,
            has_length=settings.length is not None,
            strict=settings.strict,
        )

    def engine(self, settings: Settings) -> Engine:
        """As many documents as the memory limit has room for."""
        from awesum.engine.seq2seq import Seq2SeqEngine

        model = self.writer
        config, generation = model.config, model.generation_config
        beams, longest = generation.num_beams or 1, generation.max_length or 1024
        per_document = beams * longest * 2 * config.decoder_layers * config.d_model * model.dtype.itemsize
        return Seq2SeqEngine(model, self.tokenizer, self._rows(settings, per_document, SIDE_BY_SIDE))
