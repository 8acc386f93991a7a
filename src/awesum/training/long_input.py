"""Training the encoder-decoders that read a document as one long input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from awesum import systems
from awesum.errors import AwesumError
from awesum.footprint import format_size
from awesum.models.long_input import decoder_window, load, make_blank
from awesum.recurrence.whole import Batch, padded, targets, weighted_loss
from awesum.settings import SMOLLM2
from awesum.training.trainable import OfOneModel, Report

if TYPE_CHECKING:
    from torch import nn

    from awesum.analysis.analysis import Analyst
    from awesum.compose.long_inputs import LongLayout
    from awesum.datasets import Example
    from awesum.prepared.shards import PreparedDocument
    from awesum.recurrence import DocumentInputs
    from awesum.recurrence.inputs import Backward
    from awesum.systems.long_input import LongInput, LongInputSettings

VERSION = 1
"""Of the inputs: to be raised when the same example would give others."""


class LongInputs:
    """Turns an example into the tokens that a model reads of it and those it should write. Needs no encoder."""

    def __init__(self, layout: LongLayout) -> None:
        self.layout = layout

    @property
    def key(self) -> list[Any]:
        """See `Inputs.key`."""
        return [VERSION, *self.layout.key]

    def __call__(self, example: Example | PreparedDocument) -> DocumentInputs:
        """See `Inputs.__call__`."""
        if not example.document.strip():
            raise AwesumError(f"{example.id} has no sentence: remove it from the data, or add its text")
        return self.layout.example(example.id, example.document.strip(), example.query, example.summary)


class LongInputTraining(OfOneModel):
    """All weights of an encoder-decoder, and those that its system adds."""

    goes_back_once = True

    def __init__(self, base: str, settings: LongInputSettings, system: str) -> None:
        kind: Any = systems.find(system)
        self.kind: type[LongInput] = kind
        if base == SMOLLM2:
            raise AwesumError(
                f"{base} is a causal model, and {system} takes {' or '.join(self.kind.bases)}: say --system adapter"
            )
        self.base, self.settings, self.system = base, settings, system
        self._longest = (0, 0)  # tokens and peak memory of the longest batch so far

    @cached_property
    def model(self) -> Any:
        """The model, in single precision whatever it was saved in: small updates would be rounded away."""
        model = load(self.kind.model_kind(), self.base, self.kind.check_base, **self.settings.model_config).float()
        model.config.system = self.system
        model.generation_config.update(**self.settings.generation(decoder_window(model.config)))
        if self.settings.gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        return model

    def make_blank(self, saved: Mapping[str, Any], max_tokens: int | None, precision: str = "float32") -> None:
        """See `Trainable.make_blank`."""
        self.kind.check_base(self.base, str(saved["model_type"]))
        kind, changes = self.kind.model_kind(), dict(self.settings.model_config)
        if hasattr(kind, "extend_positions"):
            changes["encoder_positions"] = max(max_tokens or 0, int(saved["max_position_embeddings"]))
        model = make_blank(kind, saved, changes)
        if self.settings.gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        vars(self)["model"] = model

    def check_precision(self, precision: str) -> None:
        """See `Trainable.check_precision`."""
        if precision == "float16" and self.kind.refuses_float16:
            raise AwesumError(
                f"{self.system} cannot train in float16 ({self.kind.refuses_float16}): say --precision bfloat16 or "
                "float32"
            )

    def describe(self) -> str:
        """See `Trainable.describe`."""
        own = ", ".join(f"{name}: {value}" for name, value in self.settings.model_config.items())
        return own or "nothing added"

    def inputs(self, analyst: Analyst, max_tokens: int | None, report: Report) -> LongInputs:
        """See `Trainable.inputs`. From here on, the model knows how much of a document it reads."""
        self.model.config.max_tokens = max_tokens
        if hasattr(self.model, "extend_positions"):
            self.model.extend_positions(max_tokens)
        return LongInputs(self._layout(max_tokens, report))

    def _layout(self, max_tokens: int | None, report: Report) -> LongLayout:
        kind = self.kind.layout_kind()
        return kind(self.tokenizer, self.model.config, max_tokens, report, may_cut=False)

    def loss(
        self,
        documents: Sequence[DocumentInputs],
        backward: Backward,
        *,
        empty_targets: bool = True,
        label_smoothing: float = 0.0,
    ) -> torch.Tensor:
        """See `Trainable.loss`."""
        device = self.model.device
        batch = padded(documents, self.model.config.pad_token_id, device)
        labels, weights = targets(documents, empty_targets, device)
        if not weights.any():
            return torch.zeros((), device=device)
        try:
            loss = self.backpropagate(batch, labels, weights, label_smoothing, backward)
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not isinstance(error, torch.OutOfMemoryError) and "allocate memory" not in str(error):
                raise
            raise AwesumError(self._too_long(documents)) from error
        self._measure(batch)
        return loss

    def backpropagate(
        self, batch: Batch, labels: torch.Tensor, weights: torch.Tensor, label_smoothing: float, backward: Backward
    ) -> torch.Tensor:
        """The loss of a batch, after its backward pass."""
        logits = self.model(input_ids=batch.ids, attention_mask=batch.mask, labels=labels).logits
        loss = weighted_loss(logits, labels, weights, label_smoothing)
        backward(loss)
        return loss.detach()

    def _measure(self, batch: Batch) -> None:
        from awesum.training.trainer import peak

        if batch.ids.numel() > self._longest[0]:
            self._longest = batch.ids.numel(), peak(batch.ids.device)

    def _too_long(self, documents: Sequence[DocumentInputs]) -> str:
        """What to say when memory is exhausted: an estimate, if shorter documents fitted."""
        tokens = sum(len(page) for document in documents for page in document.segments)
        names = ", ".join(document.name for document in documents)
        known, taken = self._longest
        estimate = "no shorter document was trained on before, so there is no estimate"
        if known:
            needed = format_size(round(taken * max(1.0, tokens / known)))
            estimate = (
                f"{known:,} tokens took {format_size(taken)}, and memory grows {self.kind.growth}, so expect about "
                f"{needed}"
            )
        return (
            f"{names}: {tokens:,} tokens need more memory than there is ({estimate}): lower --max-tokens, or say "
            "--gradient-checkpointing"
        )

    def new_weights(self) -> tuple[Sequence[nn.Parameter], float | None]:
        """See `Trainable.new_weights`."""
        new = getattr(self.model, "new_weights", ())
        return [weight for name, weight in self.model.named_parameters() if any(part in name for part in new)], None

    @contextmanager
    def writing(self, analyst: Analyst) -> Iterator[systems.System]:
        """See `Trainable.writing`: the model itself."""
        yield self.kind.around(self.model, self.tokenizer, self.base, analyst)

    def save(self, folder: str | Path) -> None:
        """See `Trainable.save`."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def load(self, checkpoint: str | Path) -> None:
        """See `Trainable.load`."""
        saved = self.model.__class__.from_pretrained(checkpoint, config=self.model.config, local_files_only=True)
        self.model.load_state_dict(saved.state_dict())
