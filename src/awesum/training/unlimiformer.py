"""Training Unlimiformer in its four modes: truncated, retrieval, random-encoded and alternating."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from awesum.models.unlimiformer import RANDOM, RETRIEVED
from awesum.recurrence.inputs import Backward
from awesum.recurrence.whole import Batch, weighted_loss
from awesum.training.long_input import LongInputTraining
from awesum.training.trainable import Report

if TYPE_CHECKING:
    from awesum.compose.long_inputs import LongLayout


class UnlimiformerTraining(LongInputTraining):
    """What each mode attends to. Validation retrieves in every mode, and so does the trained model."""

    def _layout(self, max_tokens: int | None, report: Report) -> LongLayout:
        """In mode `truncated`, documents are cut at the first window."""
        if self._mode == "truncated":
            window: int = self.model.config.max_position_embeddings
            max_tokens = min(max_tokens or window, window)
        return super()._layout(max_tokens, report)

    @property
    def _mode(self) -> str:
        mode: str = self.model.config.mode
        return mode

    def backpropagate(
        self, batch: Batch, labels: torch.Tensor, weights: torch.Tensor, label_smoothing: float, backward: Backward
    ) -> torch.Tensor:
        """See `LongInputTraining.backpropagate`."""
        logits = self.model(
            input_ids=batch.ids, attention_mask=batch.mask, labels=labels, attend_to=self._attended()
        ).logits
        loss = weighted_loss(logits, labels, weights, label_smoothing)
        backward(loss)
        return loss.detach()

    def _attended(self) -> str:
        """What the next pass attends to; alternating begins with retrieval."""
        if not self.model.training or self._mode in ("truncated", "retrieval"):
            return RETRIEVED
        if self._mode == "random-encoded":
            return RANDOM
        passes = getattr(self.model.config, "training_passes", 0)
        self.model.config.training_passes = passes + 1  # saved with a checkpoint, so that a resumed run keeps its turn
        return RANDOM if passes % 2 else RETRIEVED

    def load(self, checkpoint: str | Path) -> None:
        """See `Trainable.load`."""
        super().load(checkpoint)
        saved = type(self.model.config).from_pretrained(checkpoint)
        self.model.config.training_passes = getattr(saved, "training_passes", 0)
