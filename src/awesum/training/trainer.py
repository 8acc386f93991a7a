"""The library's Trainer with one change: a training step takes documents through the model segment by segment.

Mixed precision, schedules, logging, checkpoints, resuming and several processes are the library's.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from safetensors import SafetensorError
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, EvalLoopOutput

from awesum.compat import TrainerHooks
from awesum.errors import AwesumError
from awesum.footprint import peak_memory
from awesum.recurrence import DocumentInputs, train
from awesum.training.backward_step import step_in_backward
from awesum.training.offload import Offload
from awesum.training.sharding import gathered, is_sharded, release, whole
from awesum.training.trainable import Trainable
from awesum.training.validation import BEST, Scores, mean

BUCKET = 2**25
"""Gradient values exchanged between processes at a time."""
STATE = "trainer_state.json"
"""The file that the library writes last: a checkpoint without it, or with a broken one, is incomplete."""
UNSAVED = (OSError, RuntimeError, SafetensorError)
"""The errors of a full disk, some of them wrapped by torch and safetensors."""


class OfThisProcess(AwesumError):
    """An error that the other processes of a run do not know of: it is printed by whichever has it."""


def collate(documents: Sequence[DocumentInputs]) -> dict[str, Any]:
    """A batch is a list of documents: each step pads what it needs."""
    return {"documents": list(documents)}


class AwesomeTrainer(TrainerHooks, Trainer):
    """Trains a model on `DocumentInputs`, in memory that does not depend on their number of segments.

    Give a `trainable`; or, for a model alone, `model` and `pass_over`, one of the loops in `recurrence`.
    """

    def __init__(
        self,
        *args: Any,
        trainable: Trainable | None = None,
        pass_over: Callable[..., torch.Tensor] = train,
        empty_targets: bool = True,
        label_smoothing: float = 0.0,
        validate: Callable[[int, int], list[Scores]] | None = None,
        offload: bool = False,
        step_in_backward: bool = False,
        **kwargs: Any,
    ) -> None:
        """`validate` takes the number of this process and of all processes, and scores its share of the validation
        documents."""
        if trainable is not None:
            kwargs["model"] = trainable.model
        super().__init__(*args, data_collator=collate, **kwargs)
        self._trainable, self._offload, self._step_in_backward = trainable, offload, step_in_backward
        self._loss = partial(pass_over, self.model) if trainable is None else trainable.loss
        self._options: dict[str, Any] = {"empty_targets": empty_targets, "label_smoothing": label_smoothing}
        self._validate = validate
        self.memory = TrainingMemory(self.args.device)
        self.tokens = self._batches = 0
        """Tokens and batches that this process has trained on."""
        self._training = 0.0
        """Seconds that these batches took, without preparing them and without the optimizer."""
        self._started = time.perf_counter()
        self.remove_callback(ProgressCallback)
        self.remove_callback(PrinterCallback)  # the library adds it where there is no bar
        if not self.args.disable_tqdm:
            self.add_callback(Progress(self))

    def create_optimizer(self, *args: Any, **kwargs: Any) -> Any:
        """The library's, with groups of their own for the new weights if these have another learning rate."""
        is_there = self.optimizer is not None
        optimizer = super().create_optimizer(*args, **kwargs)
        weights, rate = self._trainable.new_weights() if self._trainable else ((), None)
        if not is_there and rate is not None:
            new = {id(weight) for weight in weights}
            for group in list(optimizer.param_groups):
                theirs = [weight for weight in group["params"] if id(weight) in new]
                group["params"] = [weight for weight in group["params"] if id(weight) not in new]
                if theirs:
                    optimizer.add_param_group({**group, "params": theirs, "lr": rate})
        if not is_there and self._step_in_backward:
            step_in_backward(optimizer)
        return optimizer

    def training_step(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> torch.Tensor:
        """One batch of documents, with a backward pass after each segment and one exchange of gradients."""
        model.train()
        documents: list[DocumentInputs] = inputs["documents"]
        if not self.tokens:
            self._started = time.perf_counter()
        batches = self.current_gradient_accumulation_steps
        started = time.perf_counter()

        def backward(loss: torch.Tensor) -> None:
            if not math.isfinite(float(loss.detach())):
                raise OfThisProcess(self._not_finite(documents))
            self.accelerator.backward(loss / batches)

        # The model itself: the wrapper for several processes would exchange gradients at every backward pass.
        bare, is_last = self.accelerator.unwrap_model(model), self.accelerator.sync_gradients
        offloading = Offload() if self._offload else nullcontext()
        with gathered(bare, exchange=is_last), self.accelerator.autocast(), offloading:
            loss = self._loss(documents, backward, **self._options)
        if is_last and self.accelerator.num_processes > 1 and not is_sharded(bare):
            self._exchange_gradients(bare)
        self.tokens += sum(document.tokens for document in documents)
        self._batches += 1
        self._training += time.perf_counter() - started  # a backward pass waits for its loss, so nothing is pending
        return loss / batches

    def prediction_step(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The loss of a batch of documents."""
        bare = self.accelerator.unwrap_model(model)
        with gathered(bare, exchange=False), torch.no_grad(), self.accelerator.autocast():
            options = {**self._options, "label_smoothing": 0.0}
            loss = self._loss(inputs["documents"], lambda loss: None, **options)
        release(bare)
        return loss, None, None

    def evaluation_loop(self, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any) -> EvalLoopOutput:
        """The library's, plus ROUGE of what the model writes. Training goes on as if there had been none: what it takes
        of the GPU does not count, and the random numbers that it draws come again."""
        with self.memory.paused(), torch.random.fork_rng():
            output = super().evaluation_loop(*args, metric_key_prefix=metric_key_prefix, **kwargs)
            if self._validate is not None:
                scores = mean(self._scores(self._validate))
                output.metrics.update({f"{metric_key_prefix}_{name}": value for name, value in scores.items()})
        return output

    def _scores(self, validate: Callable[[int, int], list[Scores]]) -> list[Scores]:
        self.accelerator.unwrap_model(self.model).eval()
        with torch.no_grad(), self.accelerator.autocast():
            own = validate(self.args.process_index, self.args.world_size)
        return gather_object(own) if self.args.world_size > 1 else own

    def _exchange_gradients(self, model: torch.nn.Module) -> None:
        average_gradients(model, partial(self.accelerator.reduce, reduction="mean"))

    def _not_finite(self, documents: Sequence[DocumentInputs]) -> str:
        names = ", ".join(document.name for document in documents)
        last = last_checkpoint(Path(self.args.output_dir))
        kept = f"{last} is the last good checkpoint" if last else "there is no checkpoint yet"
        return (
            f"the loss is not a number at document {names}, step {self.state.global_step + 1}: {kept}; "
            "try a lower learning rate, float32, or take the document out"
        )

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """The library's figures, plus speed and peak memory; also at the end of a run that is too short for a log."""
        if "loss" in logs or "train_loss" in logs:
            logs |= {
                "tokens_per_second": round(self.speed, 1),
                "batches_per_second": round(self._batches * self.args.world_size / max(self._training, 1e-9), 4),
                "peak_memory_bytes": self.memory.peak,
            }
            if self.memory.on_gpu:
                logs["peak_memory_reserved_bytes"] = self.memory.peak_reserved
        super().log(logs, *args, **kwargs)

    @property
    def speed(self) -> float:
        """Tokens a second since training began, in all processes."""
        return self.tokens * self.args.world_size / max(time.perf_counter() - self._started, 1e-9)

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """Not counted: the library's estimate does not know segments."""
        return 0

    def save_checkpoint(self, save: Callable[[], None]) -> None:
        """Leave no half-written checkpoint if the disk is full."""
        folder = Path(self.args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        try:
            save()
        except UNSAVED as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise self._unsaved(f"the checkpoint {folder}", error) from error

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """The library's. Sharded weights are saved whole, so that one process can load them."""
        bare = self.accelerator.unwrap_model(self.model)
        if not is_sharded(bare):
            super().save_model(output_dir, _internal_call)
            return
        with whole(bare):
            if self.args.should_save:
                self._save(output_dir)

    def save_weights(self, folder: str, save: Callable[[], None]) -> None:
        """Save what was trained as its system wants it, or as a checkpoint has it."""
        if self._trainable is None:
            save()
        elif Path(folder).name.startswith(PREFIX_CHECKPOINT_DIR):
            self._trainable.save_checkpoint(folder)
        else:
            self._trainable.save(folder)

    def load_weights(self, folder: str, load: Callable[[], None]) -> None:
        """The counterpart of `save_weights`."""
        if self._trainable is None:
            load()
            return
        with whole(self._trainable.model):
            self._trainable.load(folder)

    def save_trained(self) -> None:
        """Save the trained model in the output folder: that of the best checkpoint, if there was anything to choose."""
        if self._trainable and self._validate and (step := self.state.best_global_step):
            best = Path(self.args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{step}"
            if step != self.state.global_step and best.is_dir():
                self._trainable.load(best)
        try:
            self.save_model(self.args.output_dir)
        except UNSAVED as error:
            raise self._unsaved(f"the trained model in {self.args.output_dir}", error) from error

    def leave(self) -> None:
        """Leave the process group, all processes at once: one that exits early can crash the others' threads."""
        self.accelerator.wait_for_everyone()
        self.accelerator.end_training()

    def _unsaved(self, what: str, error: Exception) -> AwesumError:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        last = last_checkpoint(Path(self.args.output_dir))
        kept = f"{last} is whole" if last else "there is no earlier one"
        return AwesumError(f"cannot save {what} ({reason}): {kept}; make room and run the same command again")


def average_gradients(model: torch.nn.Module, average: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Average the gradients over the processes with `average`, which does so for one tensor.

    A weight that a process did not use (a document of one segment updates no memory) counts as zero, so that all
    processes send the same weights.
    """
    bucket: list[torch.Tensor] = []
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for number, parameter in enumerate(parameters):
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        bucket.append(parameter.grad)
        if sum(gradient.numel() for gradient in bucket) >= BUCKET or number == len(parameters) - 1:
            mean: Any = average(torch.cat([gradient.flatten() for gradient in bucket]))
            for gradient, new in zip(bucket, mean.split([gradient.numel() for gradient in bucket]), strict=True):
                gradient.copy_(new.view_as(gradient))
            bucket = []


def last_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint."""
    found = [path for path in folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*") if path.name.rpartition("-")[2].isdecimal()]
    return max(filter(_is_whole, found), key=step_of, default=None)


def step_of(checkpoint: Path) -> int:
    """The number of steps after which a checkpoint was saved."""
    return int(checkpoint.name.rpartition("-")[2])


def _is_whole(checkpoint: Path) -> bool:
    try:
        return isinstance(json.loads((checkpoint / STATE).read_text(encoding="utf-8")), dict)
    except (OSError, ValueError):
        return False


def peak(device: torch.device) -> int:
    """Peak memory so far, in bytes: of the GPU, or without one of the process."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_memory()


class TrainingMemory:
    """Peak memory of training, in bytes: allocated and reserved on a GPU, or else resident memory of the process.

    The peak of resident memory cannot be set back: it includes what evaluations take.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.on_gpu = device, device.type == "cuda"
        self._before = (0, 0)
        if self.on_gpu:
            torch.cuda.reset_peak_memory_stats(device)

    @property
    def peak(self) -> int:
        """Allocated on the GPU, or resident."""
        return max(self._before[0], peak(self.device))

    @property
    def peak_reserved(self) -> int:
        """Reserved on the GPU."""
        return max(self._before[1], torch.cuda.max_memory_reserved(self.device)) if self.on_gpu else 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What is allocated meanwhile does not count."""
        if self.on_gpu:
            self._before = (self.peak, self.peak_reserved)
        yield
        if self.on_gpu:
            torch.cuda.reset_peak_memory_stats(self.device)


class KeepBest(TrainerCallback):
    """Saves a checkpoint whenever an evaluation is the best so far, evaluates at the end, and stops early if asked to.

    It keeps no state of its own: what it decides follows from the log, which a resumed run has.
    """

    def __init__(self, patience: int | None = None) -> None:
        self.patience = patience

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The last weights may be the best; and a run that was killed while it stopped has nothing left to do."""
        if state.global_step >= state.max_steps:
            control.should_evaluate = True
        if self._is_over(state):
            control.should_training_stop = True

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The evaluation is in the log already."""
        if self._since_best(state) == 0:
            control.should_save = True
        if self._is_over(state):
            control.should_training_stop = control.should_save = True

    def _is_over(self, state: Any) -> bool:
        return self.patience is not None and self._since_best(state) >= self.patience

    @staticmethod
    def _since_best(state: Any) -> int:
        """Evaluations since the best one."""
        values = [line[f"eval_{BEST}"] for line in state.log_history if f"eval_{BEST}" in line]
        return len(values) - 1 - values.index(max(values)) if values else -1


class Progress(ProgressCallback):
    """The library's progress bar, with loss, tokens a second and peak memory."""

    def __init__(self, trainer: AwesomeTrainer) -> None:
        super().__init__()
        self.trainer, self.loss = trainer, ""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Advance."""
        super().on_step_end(args, state, control, **kwargs)
        self._show()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Show the loss in the bar, not as the library's lines; those are in the checkpoint's log history."""
        if logs and "loss" in logs:
            self.loss = f"{logs['loss']:.4g}"
            self._show()
        if logs and "eval_loss" in logs and self.training_bar is not None:
            note = f"step {state.global_step}: validation loss {logs['eval_loss']:.4f}"
            if "eval_rouge-1" in logs:
                note += ", ROUGE-1, -2, -L " + ", ".join(f"{100 * logs[f'eval_rouge-{n}']:.2f}" for n in "12l")
            self.training_bar.write(note, file=sys.stderr)

    def _show(self) -> None:
        if self.training_bar is not None:
            self.training_bar.set_postfix_str(
                f"loss {self.loss or '-'}, {self.trainer.speed:,.0f} tokens/s, "
                f"peak {self.trainer.memory.peak / 1e9:.1f} GB"
            )
