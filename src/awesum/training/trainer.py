"""The library's Trainer with one thing of ours: a step is a document that goes by segment by segment.

Mixed precision, schedules, logging, checkpoints, resuming and several processes are the library's.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import PrinterCallback, ProgressCallback, Trainer
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from awesum.errors import AwesumError
from awesum.footprint import peak_memory
from awesum.models.adapter import AwesomeCausal
from awesum.models.bart import AwesomeBart
from awesum.recurrence import DocumentInputs, train

BUCKET = 2**25
"""Numbers of the gradient that are exchanged at a time."""
STATE = "trainer_state.json"
"""The file that the library writes last into a checkpoint: one without it, or with half of it, was not finished."""
UNSAVED = (OSError, RuntimeError, SafetensorError)
"""What a full disk may look like: torch and safetensors wrap it in errors of their own."""


def collate(documents: Sequence[DocumentInputs]) -> dict[str, Any]:
    """A batch is its documents as they are: each step pads what it needs."""
    return {"documents": list(documents)}


class AwesomeTrainer(Trainer):
    """Trains a model on `DocumentInputs` in memory that does not depend on how many segments they have.

    `pass_over` is one of the loops in `recurrence`: of an encoder with a decoder, or of a causal model.
    """

    def __init__(
        self,
        *args: Any,
        pass_over: Callable[..., torch.Tensor] = train,
        empty_targets: bool = True,
        label_smoothing: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, data_collator=collate, **kwargs)
        self._pass_over = pass_over
        self._how: dict[str, Any] = {"empty_targets": empty_targets, "label_smoothing": label_smoothing}
        self.tokens = 0
        """Tokens of segments and targets that this process has trained on."""
        self._started = time.perf_counter()
        self.remove_callback(ProgressCallback)
        self.remove_callback(PrinterCallback)  # which would take its place where there is no bar
        if not self.args.disable_tqdm:
            self.add_callback(Progress(self))

    def training_step(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> torch.Tensor:
        """One batch of documents, with a backward pass after each segment; gradients are exchanged once."""
        model.train()
        documents: list[DocumentInputs] = inputs["documents"]
        if not self.tokens:
            self._started = time.perf_counter()
        # The bare model: a wrapper for several processes would exchange gradients at every backward pass.
        bare: AwesomeBart | AwesomeCausal = self.accelerator.unwrap_model(model)
        batches = self.current_gradient_accumulation_steps

        def backward(loss: torch.Tensor) -> None:
            if not math.isfinite(float(loss.detach())):
                raise AwesumError(self._not_finite(documents))
            self.accelerator.backward(loss / batches)

        with self.accelerator.autocast():
            loss = self._pass_over(bare, documents, backward, **self._how)
        if self.accelerator.sync_gradients and self.accelerator.num_processes > 1:
            self._exchange_gradients(bare)
        self.tokens += sum(document.tokens for document in documents)
        return loss / batches

    def prediction_step(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The loss of a batch of documents."""
        with torch.no_grad(), self.accelerator.autocast():
            how = {**self._how, "label_smoothing": 0.0}
            bare = self.accelerator.unwrap_model(model)
            loss = self._pass_over(bare, inputs["documents"], lambda loss: None, **how)
        return loss, None, None

    def _exchange_gradients(self, model: torch.nn.Module) -> None:
        """The mean over the processes. A weight that one of them did not use (a document of one segment has nothing to
        update) takes part with zeros, so that all of them send the same."""
        bucket: list[torch.Tensor] = []
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        for number, parameter in enumerate(parameters):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            bucket.append(parameter.grad)
            if sum(gradient.numel() for gradient in bucket) >= BUCKET or number == len(parameters) - 1:
                mean = self.accelerator.reduce(torch.cat([gradient.flatten() for gradient in bucket]), "mean")
                for gradient, new in zip(bucket, mean.split([gradient.numel() for gradient in bucket]), strict=True):
                    gradient.copy_(new.view_as(gradient))
                bucket = []

    def _not_finite(self, documents: Sequence[DocumentInputs]) -> str:
        names = ", ".join(document.name for document in documents)
        last = last_checkpoint(Path(self.args.output_dir))
        kept = f"{last} is the last good checkpoint" if last else "there is no checkpoint yet"
        return (
            f"the loss is not a number at document {names}, step {self.state.global_step + 1}: {kept}; "
            "try a lower learning rate, float32, or take the document out"
        )

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """The library's figures, with tokens a second and peak memory."""
        if "loss" in logs:
            logs |= {"tokens_per_second": round(self.speed, 1), "peak_memory_bytes": peak(self.args.device)}
        super().log(logs, *args, **kwargs)

    @property
    def speed(self) -> float:
        """Tokens a second since training began, in all processes."""
        return self.tokens * self.args.world_size / max(time.perf_counter() - self._started, 1e-9)

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """Not counted: the library's estimate knows nothing of segments."""
        return 0

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        folder = Path(self.args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        try:
            super()._save_checkpoint(*args, **kwargs)
        except UNSAVED as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise self._unsaved(f"the checkpoint {folder}", error) from error

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """The library's, or of a causal model the adapter alone: the pretrained weights are where they were."""
        if not isinstance(self.model, AwesomeCausal):
            super()._save(output_dir, state_dict)
            return
        self.model.save_pretrained(output_dir or self.args.output_dir)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        if not isinstance(self.model, AwesomeCausal):
            super()._load_from_checkpoint(resume_from_checkpoint, model)
            return
        self.model.load_adapter(resume_from_checkpoint)

    def save_trained(self) -> None:
        """Save the model where training has ended."""
        try:
            self.save_model(self.args.output_dir)
        except UNSAVED as error:
            raise self._unsaved(f"the trained model in {self.args.output_dir}", error) from error

    def leave(self) -> None:
        """Part from the other processes, all at once: one whose threads still talk to them may die as it ends."""
        self.accelerator.wait_for_everyone()
        self.accelerator.end_training()

    def _unsaved(self, what: str, error: Exception) -> AwesumError:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        last = last_checkpoint(Path(self.args.output_dir))
        kept = f"{last} is whole" if last else "there is no earlier one"
        return AwesumError(f"cannot save {what} ({reason}): {kept}; make room and run the same command again")


def last_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that was written to its end."""
    whole = {
        int(path.name.rpartition("-")[2]): path
        for path in folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*")
        if path.name.rpartition("-")[2].isdecimal() and _is_whole(path)
    }
    return whole[max(whole)] if whole else None


def _is_whole(checkpoint: Path) -> bool:
    try:
        return isinstance(json.loads((checkpoint / STATE).read_text(encoding="utf-8")), dict)
    except (OSError, ValueError):
        return False


def peak(device: torch.device) -> int:
    """The most memory so far, in bytes: of the device, or of the process where that is the same."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_memory()


class Progress(ProgressCallback):
    """The library's bar, with loss, tokens a second and peak memory in it."""

    def __init__(self, trainer: AwesomeTrainer) -> None:
        super().__init__()
        self.trainer, self.loss = trainer, ""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Move on."""
        super().on_step_end(args, state, control, **kwargs)
        self._show()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Take the loss over into the bar; the lines that the library would write are in the checkpoint's history."""
        if logs and "loss" in logs:
            self.loss = f"{logs['loss']:.4g}"
            self._show()
        if logs and "eval_loss" in logs and self.training_bar is not None:
            note = f"step {state.global_step}: validation loss {logs['eval_loss']:.4f}"
            self.training_bar.write(note, file=sys.stderr)

    def _show(self) -> None:
        if self.training_bar is not None:
            self.training_bar.set_postfix_str(
                f"loss {self.loss or '-'}, {self.trainer.speed:,.0f} tokens/s, "
                f"peak {peak(self.trainer.args.device) / 1e9:.1f} GB"
            )
