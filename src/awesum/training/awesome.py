"""Training BART with memory and salient content, or without (Se3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from awesum import systems
from awesum.compose.layouts import BartLayout
from awesum.errors import AwesumError
from awesum.loading import load_model_type
from awesum.models.bart import AwesomeBart
from awesum.models.bart_config import AwesomeConfig
from awesum.models.memory_settings import check_memory
from awesum.recurrence import DocumentInputs, train
from awesum.settings import SMOLLM2
from awesum.training.examples import SegmentInputs
from awesum.training.sharding import copy_weights
from awesum.training.trainable import OfOneModel, Report

if TYPE_CHECKING:
    import torch
    from torch import nn

    from awesum.analysis.analysis import Analyst
    from awesum.recurrence.inputs import Backward
    from awesum.systems.awesome import BartSettings


class AwesomeTraining(OfOneModel):
    """All weights of a BART, and those that its system adds."""

    def __init__(self, base: str, settings: BartSettings, system: str = "awesome") -> None:
        if base == SMOLLM2:
            raise AwesumError(f"{base} is a causal model, and {system} takes a BART: say --system adapter")
        self.base, self.settings, self.system = base, settings, system
        self.config = {"system": system, **settings.model_config}
        if "memory_size" in self.config:
            check_memory(self.config["memory"], self.config["memory_size"], self.config["compression_ratio"])

    @cached_property
    def model(self) -> AwesomeBart:
        """The model, in single precision whatever it was saved in: small updates would be rounded away."""
        systems.find(self.system).check_base(self.base, load_model_type(self.base))
        model = AwesomeBart.from_pretrained(self.base, **self.config).float()
        model.generation_config.update(**self.settings.generation(model.config.max_position_embeddings))
        if self.settings.gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        return model

    def make_blank(self, saved: Mapping[str, Any], max_tokens: int | None, precision: str = "float32") -> None:
        """See `Trainable.make_blank`."""
        systems.find(self.system).check_base(self.base, saved["model_type"])
        config = AwesomeConfig(**{**saved, "model_type": AwesomeConfig.model_type, **self.config})
        vars(self)["model"] = AwesomeBart(config)
        if self.settings.gradient_checkpointing:
            self.model.gradient_checkpointing_enable({"use_reentrant": False})

    def describe(self) -> str:
        """See `Trainable.describe`."""
        return f"memory: {self.model.config.memory}, salient content: {self.model.config.salient}"

    def inputs(self, analyst: Analyst, max_tokens: int | None, report: Report) -> SegmentInputs:
        """See `Trainable.inputs`."""
        self.report = report
        layout = BartLayout(self.tokenizer, self.model.config, report)
        return SegmentInputs(layout, analyst, max_tokens=max_tokens, report=report)

    def loss(
        self,
        documents: Sequence[DocumentInputs],
        backward: Backward,
        *,
        empty_targets: bool = True,
        label_smoothing: float = 0.0,
    ) -> torch.Tensor:
        """See `Trainable.loss`."""
        return train(
            self.model,
            documents,
            backward,
            trunk_batch=self.settings.trunk_batch,
            empty_targets=empty_targets,
            label_smoothing=label_smoothing,
            depth=self.noted(getattr(self.settings, "memory_depth", 1), documents),
        )

    def new_weights(self) -> tuple[Sequence[nn.Parameter], float | None]:
        """See `Trainable.new_weights`."""
        return list(self.model.new_weights().values()), getattr(self.settings, "new_learning_rate", None)

    @contextmanager
    def writing(self, analyst: Analyst) -> Iterator[systems.System]:
        """See `Trainable.writing`: the model itself."""
        kind: Any = systems.find(self.system)
        yield kind.around(self.model, self.tokenizer, self.base, analyst)

    def save(self, folder: str | Path) -> None:
        """See `Trainable.save`."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def load(self, checkpoint: str | Path) -> None:
        """See `Trainable.load`."""
        saved = AwesomeBart.from_pretrained(checkpoint, config=self.model.config)
        copy_weights(self.model, saved.state_dict())
