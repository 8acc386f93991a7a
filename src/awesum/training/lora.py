"""LoRA for a BART, through `peft`: low-rank updates of its attentions learn, and its own weights stay as they are.

What the system adds to the pretrained model is trained in full. The trained model has the updates merged into its
weights, so that it is a model like any other; checkpoints have only what is trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from awesum.compat import real_tensors
from awesum.errors import AwesumError
from awesum.training.settings import TrainingSettings
from awesum.training.trainable import Report, Trainable

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from awesum.analysis.analysis import Analyst
    from awesum.recurrence import DocumentInputs
    from awesum.recurrence.inputs import Backward
    from awesum.systems import System
    from awesum.training.examples import Inputs

FILE = "lora.safetensors"
UPDATED = ("q_proj", "v_proj")
"""The projections that LoRA updates: those of its paper, which peft has for BART too."""
SCALE = 2
"""An update is scaled by this, whatever its rank: alpha is twice the rank."""


def with_lora(trainable: Trainable, settings: TrainingSettings) -> Trainable:
    """The same with LoRA, if the settings ask for it."""
    if not settings.lora_rank:
        return trainable
    if settings.system == "adapter":
        raise AwesumError("an adapter has low-rank updates of its own: say --update low-rank --rank N, not --lora-rank")
    if not find_spec("peft"):
        raise AwesumError("--lora-rank needs the package peft: pip install 'awesum[lora]', or leave it out")
    return Lora(trainable, settings)


class Lora(Trainable):
    """Another `Trainable`, whose pretrained weights stay as they are."""

    def __init__(self, trained: Trainable, settings: TrainingSettings) -> None:
        self.trained, self.rank, self.base = trained, settings.lora_rank, settings.base
        self.settings, self.goes_back_once = trained.settings, trained.goes_back_once

    @cached_property
    def model(self) -> nn.Module:
        """The model with its updates, which start at zero."""
        from peft import LoraConfig, inject_adapter_in_model

        model = self.trained.model
        new = {id(weight) for weight in self.trained.new_weights()[0]}
        chosen = [
            name
            for name, module in model.named_modules()
            if name.rpartition(".")[2] in UPDATED and not any(id(weight) in new for weight in module.parameters())
        ]
        if not chosen:
            raise AwesumError(
                f"{self.base} has no {' or '.join(UPDATED)}, which LoRA updates: take a BART, or leave out --lora-rank"
            )
        config = LoraConfig(r=self.rank, lora_alpha=SCALE * self.rank, lora_dropout=0.0, target_modules=chosen)
        inject_adapter_in_model(config, model)
        for weight in model.parameters():
            if id(weight) in new:
                weight.requires_grad_(True)
        return model

    def make_blank(self, saved: Mapping[str, Any], max_tokens: int | None, precision: str = "float32") -> None:
        """See `Trainable.make_blank`."""
        self.trained.make_blank(saved, max_tokens, precision)
        known = {id(weight) for weight in self.trained.model.parameters()}
        with real_tensors():  # peft moves the updates with `Module.to`, which refuses tensors without contents
            model = self.model
        for module in model.modules():
            for name, weight in list(module.named_parameters(recurse=False)):
                if id(weight) not in known:
                    setattr(module, name, nn.Parameter(torch.zeros(weight.shape)))

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """See `Trainable.tokenizer`."""
        return self.trained.tokenizer

    def check_precision(self, precision: str) -> None:
        """See `Trainable.check_precision`."""
        self.trained.check_precision(precision)

    def new_weights(self) -> tuple[Sequence[nn.Parameter], float | None]:
        """See `Trainable.new_weights`. The updates learn at the rate of the weights that they update."""
        return self.trained.new_weights()

    def fingerprint(self) -> str:
        """See `Trainable.fingerprint`."""
        return self.trained.fingerprint()

    def describe(self) -> str:
        """See `Trainable.describe`."""
        return f"{self.trained.describe()}, LoRA of rank {self.rank}"

    def inputs(self, analyst: Analyst, max_tokens: int | None, report: Report) -> Inputs:
        """See `Trainable.inputs`."""
        return self.trained.inputs(analyst, max_tokens, report)

    def plan(
        self,
        documents: Sequence[DocumentInputs],
        validation: Sequence[DocumentInputs] | None,
        epochs: float,
        report: Report,
    ) -> None:
        """See `Trainable.plan`."""
        self.trained.plan(documents, validation, epochs, report)

    def loss(self, documents: Sequence[DocumentInputs], backward: Backward, **options: Any) -> torch.Tensor:
        """See `Trainable.loss`."""
        return self.trained.loss(documents, backward, **options)

    @contextmanager
    def writing(self, analyst: Analyst) -> Iterator[System]:
        """See `Trainable.writing`."""
        with self.trained.writing(analyst) as system:
            yield system

    def save(self, folder: str | Path) -> None:
        """Save a model with the updates merged into its weights. It cannot be trained on afterwards."""
        from peft.tuners.lora import LoraLayer

        places = [(name, module) for name, module in self.model.named_modules() if isinstance(module, LoraLayer)]
        for name, module in places:
            module.merge()
            parent, _, last = name.rpartition(".")
            setattr(self.model.get_submodule(parent), last, module.get_base_layer())
        self.trained.save(folder)

    def save_checkpoint(self, folder: str | Path) -> None:
        """Save what is trained."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        trained = {name: weight.detach().contiguous() for name, weight in self._trained().items()}
        save_file(trained, Path(folder) / FILE, {"format": "pt"})

    def load(self, checkpoint: str | Path) -> None:
        """See `Trainable.load`."""
        path = Path(checkpoint) / FILE
        if not path.is_file():
            raise AwesumError(f"{checkpoint} has no {FILE}: delete it, and the same command resumes without it")
        saved, there = load_file(path), self._trained()
        if saved.keys() != there.keys():
            raise AwesumError(f"{path} has other weights than those that are trained: delete that checkpoint")
        with torch.no_grad():
            for name, weight in there.items():
                weight.copy_(saved[name])

    def _trained(self) -> dict[str, nn.Parameter]:
        return {name: weight for name, weight in self.model.named_parameters() if weight.requires_grad}
