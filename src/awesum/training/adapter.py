"""Training an adapter for a causal model: the pretrained weights stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from awesum import loading
from awesum.compose.layouts import CausalLayout
from awesum.files import cache_folder
from awesum.models.adapter import AwesomeCausal
from awesum.models.adapter_config import AdapterConfig
from awesum.models.causal import blank, load_base
from awesum.recurrence import DocumentInputs
from awesum.recurrence.causal import Reader, train
from awesum.settings import SMOLLM2
from awesum.training.examples import SegmentInputs
from awesum.training.trainable import Report, Trainable
from awesum.training.trunk import CachedTeacher, TrunkCache, plan, read_now
from awesum.weights import SMOLLM2_WHEEL

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from awesum.analysis.analysis import Analyst
    from awesum.recurrence.inputs import Backward
    from awesum.systems.adapter import AdapterSettings


class AdapterTraining(Trainable):
    """The weights of an adapter. Only the adapter is saved."""

    def __init__(self, base: str, settings: AdapterSettings, system: str = "adapter") -> None:
        self.base, self.settings = base, settings
        self.config = AdapterConfig(base=base, system=system, **settings.adapter_config)

    @cached_property
    def _loaded(self) -> tuple[AwesomeCausal, PreTrainedTokenizerBase]:
        return load_base(self.base, self.config)

    @property
    def model(self) -> AwesomeCausal:
        """The pretrained model with its adapter."""
        return self._loaded[0]

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of the model."""
        return self._loaded[1]

    def make_blank(self, saved: Mapping[str, Any], max_tokens: int | None, precision: str = "float32") -> None:
        """See `Trainable.make_blank`. Only the weights that are trained are always in single precision."""
        dtype = torch.float32 if precision == "float32" else torch.bfloat16  # float16 is as large
        vars(self)["_loaded"] = (AwesomeCausal(blank(saved, dtype), self.config), None)
        vars(self)["_trunk_cache"] = None  # what it computes is not of these weights

    def fingerprint(self) -> str:
        """See `Trainable.fingerprint`."""
        return SMOLLM2_WHEEL.sha256 if self.base == SMOLLM2 else loading.fingerprint(self.base)

    def describe(self) -> str:
        """See `Trainable.describe`."""
        adapted = ", adapted tokens: all" if self.config.adapted_tokens == "all" else ""
        return (
            f"memory: {self.config.memory}, salient content: {self.config.salient}, update: {self.config.update}"
            f"{adapted}"
        )

    def inputs(self, analyst: Analyst, max_tokens: int | None, report: Report) -> SegmentInputs:
        """See `Trainable.inputs`."""
        self.report = report
        window = loading.window_of(self.model.base.config)
        layout = CausalLayout(self.tokenizer, self.config, window, report, end=self.model.end)
        return SegmentInputs(layout, analyst, max_tokens=max_tokens, report=report)

    @cached_property
    def _trunk_cache(self) -> TrunkCache | None:
        return TrunkCache(self.model, cache_folder() / "trunk") if self.settings.freeze_trunk else None

    @cached_property
    def _teacher(self) -> CachedTeacher | None:
        if not self.settings.distill:
            return None
        return CachedTeacher(self.model, loading.window_of(self.model.base.config), self._trunk_cache)

    def plan(
        self,
        documents: Sequence[DocumentInputs],
        validation: Sequence[DocumentInputs] | None,
        epochs: float,
        report: Report,
    ) -> None:
        """With a frozen trunk: report time, disk and memory, and refuse a disk that is too full."""
        if self._trunk_cache:
            plan(self._trunk_cache, documents, validation, epochs, report, self._teacher)

    def loss(
        self,
        documents: Sequence[DocumentInputs],
        backward: Backward,
        *,
        empty_targets: bool = True,
        label_smoothing: float = 0.0,
    ) -> torch.Tensor:
        """See `Trainable.loss`. The loss of validation is that of the targets alone, comparable with other runs."""
        read: Reader = self._trunk_cache or partial(read_now, self.model)
        return train(
            self.model,
            documents,
            backward,
            read=read,
            empty_targets=empty_targets,
            label_smoothing=label_smoothing,
            depth=self.noted(self.settings.memory_depth, documents),
            teacher=self._teacher if torch.is_grad_enabled() else None,
            distill=self.settings.distill,
        )

    def new_weights(self) -> tuple[Sequence[nn.Parameter], float | None]:
        """See `Trainable.new_weights`. A layer that changes as a whole begins as a copy of the pretrained one."""
        weights = self.model.new_weights().items()
        full = self.config.update == "full"
        return [
            weight
            for name, weight in weights
            if isinstance(weight, nn.Parameter) and not (full and ".answering." in f".{name}")
        ], self.settings.new_learning_rate

    def save(self, folder: str | Path) -> None:
        """See `Trainable.save`."""
        self.model.save_pretrained(folder)

    def load(self, checkpoint: str | Path) -> None:
        """See `Trainable.load`."""
        self.model.load_adapter(checkpoint)
