"""What training needs of a system. `run` and `trainer` know nothing else of what they train."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from awesum import loading, systems
from awesum.models.memory_settings import beyond_document

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PreTrainedTokenizerBase

    from awesum.analysis.analysis import Analyst
    from awesum.recurrence import DocumentInputs
    from awesum.recurrence.inputs import Backward
    from awesum.training.examples import Inputs

Report = Callable[[str], object]
"""Takes a line that the user should see."""


class Trainable(ABC):
    """A pretrained model with what a system adds to it.

    Making one checks the settings of its system and loads nothing; the model is loaded when it is first needed, with
    the new weights that the seed gives it.
    """

    settings: Any = None
    """The system's own settings."""
    goes_back_once: bool = False
    """Whether a batch has a single backward pass."""
    report: Report | None = None
    """Where to say what only the documents tell."""

    def noted(self, depth: int | None, documents: Sequence[DocumentInputs]) -> int | None:
        """The depth of the memory; the first time that documents have too few segments for it, that is reported."""
        longest = max(documents, key=lambda document: len(document.segments))
        note = beyond_document(depth, longest.name, len(longest.segments))
        if note and self.report:
            self.report(note)
            self.report = None
        return depth

    @property
    @abstractmethod
    def model(self) -> nn.Module:
        """What is trained. Its weights are those that have a gradient."""

    @property
    @abstractmethod
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of the model."""

    def check_precision(self, precision: str) -> None:  # noqa: B027
        """Refuse a number format that the model cannot be trained in."""

    def make_blank(self, saved: Mapping[str, Any], max_tokens: int | None, precision: str = "float32") -> None:
        """Give `model` the configuration of a pretrained model and none of its weights, to be traced.

        `precision` is that of the computations; it decides the number format of weights that are not trained.
        """
        raise NotImplementedError(f"{type(self).__name__} needs the pretrained weights")

    def new_weights(self) -> tuple[Sequence[nn.Parameter], float | None]:
        """The weights that the pretrained model does not have, and their peak learning rate, if it is another one."""
        return (), None

    @abstractmethod
    def fingerprint(self) -> str:
        """Changes whenever the pretrained weights do; for a model on the hub that was never fetched, its name."""

    @abstractmethod
    def describe(self) -> str:
        """What the system adds to the pretrained model, in a few words."""

    @abstractmethod
    def inputs(self, analyst: Analyst, max_tokens: int | None, report: Report) -> Inputs:
        """What turns an example into the model's inputs, using at most `max_tokens` tokens of the document."""

    def plan(  # noqa: B027
        self,
        documents: Sequence[DocumentInputs],
        validation: Sequence[DocumentInputs] | None,
        epochs: float,
        report: Report,
    ) -> None:
        """Called before training: report how long it will take, or refuse what cannot work."""

    @abstractmethod
    def loss(
        self,
        documents: Sequence[DocumentInputs],
        backward: Backward,
        *,
        empty_targets: bool = True,
        label_smoothing: float = 0.0,
    ) -> torch.Tensor:
        """One pass over a batch: the mean of the documents' losses, whose shares go to `backward` as they come."""

    @contextmanager
    def writing(self, analyst: Analyst) -> Iterator[systems.System]:
        """The system with the weights as they are now, to see what it writes. Here by way of the disk."""
        with TemporaryDirectory(prefix="awesum-") as folder:
            self.save(folder)
            yield systems.load(folder, analyst=analyst)

    @abstractmethod
    def save(self, folder: str | Path) -> None:
        """Save the trained model, for the system to write with."""

    def save_checkpoint(self, folder: str | Path) -> None:
        """Save the weights for `load`."""
        self.save(folder)

    @abstractmethod
    def load(self, checkpoint: str | Path) -> None:
        """Continue with the weights of a checkpoint."""


def has_blank(trainable: Trainable) -> bool:
    """Whether it can be made without the pretrained weights, and so be planned."""
    trained = getattr(trainable, "trained", trainable)  # what LoRA trains
    return type(trained).make_blank is not Trainable.make_blank


def make(system: str, base: str, settings: Any) -> Trainable:
    """What trains a system: `base` with the system's own `settings`."""
    module, name = systems.find(system).training.split(":")
    trainable: Trainable = getattr(import_module(module), name)(base, settings, system)
    return trainable


class OfOneModel(Trainable):
    """A `Trainable` whose base is one model, with a tokenizer of its own."""

    base: str
    """The pretrained model: a folder, or a name on the hub."""

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of the model."""
        return loading.load_tokenizer(self.base)

    def fingerprint(self) -> str:
        """See `Trainable.fingerprint`."""
        return loading.fingerprint(self.base)
