"""A training run from beginning to end: check, load, train, save. What is trained is a `Trainable`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments, set_seed
from transformers.training_args import OptimizerNames

from awesum import datasets
from awesum.analysis.analysis import Analyst
from awesum.errors import AwesumError
from awesum.files import cache_folder, check_writable
from awesum.footprint import format_size
from awesum.loading import choose_device
from awesum.models.long_input import decoder_window
from awesum.prepared.prepare import encoder_settings
from awesum.prepared.splits import PreparedSplit, has_split, is_prepared, prepared
from awesum.training import record
from awesum.training.backward_step import check_step_in_backward
from awesum.training.examples import Examples
from awesum.training.lora import with_lora
from awesum.training.settings import TrainingSettings, settings_class
from awesum.training.trainable import Report, Trainable, has_blank, make
from awesum.training.trainer import AwesomeTrainer, KeepBest, TrainingMemory, last_checkpoint, step_of
from awesum.training.validation import BEST, Scores, rouge
from awesum.verify.verifier import Verifier
from awesum.weights import MINILM_WHEEL

Data = datasets.Examples | PreparedSplit
LONGEST_INPUT = 51_200
"""Tokens of a document to plan for, if documents are not limited."""
SEEN = 1000
"""Documents that are looked at for the longest."""


@dataclass(frozen=True)
class Coming:
    """A run that is about to begin, for whoever plans its memory."""

    settings: TrainingSettings
    options: Any
    """The system's own settings."""
    trainable: Trainable
    precision: str
    parameters: int
    input_tokens: int
    """Of the longest document, ..."""
    target_tokens: int
    """... the longest reference summary, ..."""
    segment_tokens: int | None
    """... and the longest segment."""


Planner = Callable[[Coming, Report], int | None]
"""Reports the peak memory of a run, in bytes, and returns it; raises if there is too little memory."""


def is_first_process() -> bool:
    """Whether this is the process that prints, of those that `torchrun` or `accelerate launch` started."""
    return os.environ.get("RANK", "0") == "0"


def _to_stderr(note: str) -> None:
    if is_first_process():
        print(f"awesum: {note}", file=sys.stderr, flush=True)


def train(
    settings: TrainingSettings,
    options: Any = None,
    *,
    analyst: Analyst | None = None,
    quiet: bool = False,
    say: Report = _to_stderr,
    planner: Planner | None = None,
) -> Path:
    """Train, resuming an interrupted run, and return the folder with the trained model.

    `options` are the system's own settings (its defaults, if left out). `analyst` stands for the encoder and the
    extractor of the settings. `planner` says before the first step how much memory the run will take.
    """
    options = settings_class(settings.system)() if options is None else options
    precision, reason = _precision(settings)
    chosen = Analyst.named(settings.encoder, settings.extractor)
    trainable = with_lora(make(settings.system, settings.base, options), settings)  # checks all, loads nothing
    trainable.check_precision(precision)
    check_step_in_backward(trainable, settings)
    _check_packages(settings)
    output = _writable(Path(settings.output).expanduser())
    earlier, checkpoint = record.read(output), last_checkpoint(output)
    if checkpoint and not earlier:
        raise AwesumError(
            f"{output} has checkpoints but no {record.FILE}: give another --output, or delete that folder"
        )
    if earlier and (checkpoint or record.is_finished(earlier)):
        record.check_same(output, earlier, settings, options)
        record.check_base(output, earlier, settings.base, trainable.fingerprint())
        if _is_done(output, earlier, settings, checkpoint):
            say(f"{output} is trained already with these settings: nothing to do")
            return output
    else:
        earlier = None
    is_shipped = analyst is None and chosen.has_shipped_encoder
    analyst = analyst or chosen
    if not is_shipped:
        _ = analyst.encoder  # one that cannot be loaded is reported now
    training, validation = _training(settings, None if is_shipped else analyst), _validation(settings)
    if settings.evaluate_every and not validation:
        raise AwesumError(f"--evaluate-every needs a validation split, and {settings.data} has none: leave it out")
    if checkpoint:
        say(f"resuming from {checkpoint}")
    set_seed(settings.seed)
    model = trainable.model
    if precision == "float32":
        model.float()
    weights = sum(weight.numel() for weight in model.parameters())
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    say(
        f"{settings.system}: {weights / 1e6:,.1f}M parameters, {trained / 1e6:,.1f}M of them trained, "
        f"{trainable.describe()}, {precision} ({reason})"
    )
    inputs = trainable.inputs(analyst, settings.max_tokens, say)
    cache = cache_folder() / "inputs"
    documents = Examples(training, inputs, cache)
    measured = Examples(validation, inputs, cache) if validation else None
    trainable.plan(documents, measured, settings.epochs, say)
    planned = None
    if planner and has_blank(trainable):
        planned = planner(_coming(settings, options, trainable, precision, training, inputs), say)
    run = record.Record(
        output,
        settings,
        options,
        base_fingerprint=trainable.fingerprint(),
        documents=len(documents),
        validation_documents=len(measured or ()),
        precision=precision,
        device=_device_name(),
        earlier=earlier,
        resumed_at=step_of(checkpoint) if checkpoint else 0,
        planned=planned,
    )
    trainer = AwesomeTrainer(
        trainable=trainable,
        args=_arguments(settings, output, precision, bool(measured), quiet),
        train_dataset=documents,
        eval_dataset=measured,
        processing_class=trainable.tokenizer,
        callbacks=[run, *([KeepBest(settings.patience)] if settings.evaluate_every else [])],
        empty_targets=settings.empty_targets,
        label_smoothing=settings.label_smoothing,
        offload=settings.offload,
        step_in_backward=settings.step_in_backward,
        validate=partial(_validate, trainable, analyst, validation) if settings.evaluate_every and validation else None,
    )
    if _wants_shards() and not torch.cuda.is_available():
        say("FSDP needs GPUs, and there are none: each process trains with whole weights (DDP)")
    try:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        trainer.save_trained()
        run.finish(trainer.state)
        if planned is not None:
            say(_beside(trainer.memory, planned))
        trainer.leave()
    except RuntimeError as error:
        if trainer.args.world_size == 1 or not _LOST.search(str(error)):
            raise
        last = last_checkpoint(output)
        kept = f"{last} is the last checkpoint, and" if last else "there is no checkpoint yet;"
        raise AwesumError(
            f"another of the {trainer.args.world_size} processes of this run has ended: {kept} the same command resumes"
        ) from error
    return output


def _coming(
    settings: TrainingSettings, options: Any, trainable: Trainable, precision: str, training: Data, inputs: Any
) -> Coming:
    """What is known of a run before its first step. The longest documents are those with the most characters."""
    config: Any = getattr(trainable.model, "config", None)
    window = decoder_window(config) or 10**9
    layout = getattr(inputs, "layout", None)
    limits = getattr(layout, "limits", None)
    parameters = sum(weight.numel() for weight in trainable.model.parameters())
    read = getattr(layout, "limit", None) or settings.max_tokens  # the model's positions may be fewer
    longest_input, longest_target = read or LONGEST_INPUT, window
    if not isinstance(training, PreparedSplit):  # its documents come with all their vectors
        some = [training[number] for number in range(0, len(training), -(-len(training) // SEEN))]
        document, summary = (max((getattr(each, name) for each in some), key=len) for name in ("document", "summary"))
        count = partial(_tokens, trainable.tokenizer)
        longest_input = min(longest_input, count(document[: 8 * longest_input]))
        longest_target = min(longest_target, count(summary))
    return Coming(
        settings, options, trainable, precision, parameters, max(1, longest_input), max(1, longest_target),
        limits.upper if limits else None,
    )  # fmt: skip


def _tokens(tokenizer: Any, text: str) -> int:
    return len(tokenizer(text, verbose=False).input_ids)


def _beside(memory: TrainingMemory, planned: int) -> str:
    """The measured peak and the planned one."""
    measured = format_size(memory.peak)
    if memory.on_gpu:
        return f"peak memory: {measured} measured, {format_size(planned)} planned"
    return f"peak memory: {measured} resident, Python and its libraries included; {format_size(planned)} planned"


_LOST = re.compile(r"peer|gloo|NCCL|ProcessGroup|Broken pipe|Socket", re.IGNORECASE)
"""In the error of a process that cannot reach another one."""


def _wants_shards() -> bool:
    return os.environ.get("ACCELERATE_USE_FSDP", "").lower() in ("1", "true", "yes")


def _is_done(output: Path, earlier: dict[str, Any], settings: TrainingSettings, checkpoint: Path | None) -> bool:
    """Whether there is nothing left to train; raises if there is, but no checkpoint to resume from."""
    if not record.is_finished(earlier) or not any(output.glob("*.safetensors")):
        return False
    if settings.epochs == earlier["settings"]["epochs"]:
        return True
    if checkpoint is None:
        raise AwesumError(
            f"{output} has no checkpoint from which to train for {settings.epochs:g} epochs: give another --output, or "
            "delete that folder to train anew"
        )
    return False


def _writable(folder: Path) -> Path:
    try:
        check_writable(folder, is_folder=True)
    except OSError as error:
        raise AwesumError(f"cannot write to {folder} ({error.strerror}): give another --output folder") from error
    return folder


def _training(settings: TrainingSettings, analyst: Analyst | None) -> Data:
    """The documents to train on. `analyst` is given if its encoder is not the embedded one."""
    if not is_prepared(settings.data):
        return datasets.load(settings.data, "train")[: settings.documents]
    split = prepared(settings.data, "train")
    sha256 = encoder_settings(analyst.encoder)["sha256"] if analyst else MINILM_WHEEL.sha256
    if split.encoder["sha256"] != sha256:
        wanted = settings.encoder or ("another encoder" if analyst else "the embedded encoder")
        raise AwesumError(
            f"the vectors in {split.folder} were computed by {split.encoder['name']}, and training uses {wanted}: "
            "prepare the documents again with the same --encoder as here"
        )
    return split.head(settings.documents)


def _validation(settings: TrainingSettings) -> Data | None:
    """The validation split, if there is one."""
    if is_prepared(settings.data):
        there = has_split(settings.data, "validation")
        return prepared(settings.data, "validation").head(settings.validation_documents) if there else None
    if Path(settings.data).expanduser().is_file() or "validation" not in datasets.splits(settings.data):
        return None
    return datasets.load(settings.data, "validation")[: settings.validation_documents]


def _validate(trainable: Trainable, analyst: Analyst, validation: Data, process: int, processes: int) -> list[Scores]:
    """ROUGE of each document of this process's share."""
    with trainable.writing(analyst) as system:
        system.verifier = Verifier()  # what it writes is scored as it is, so nothing need be verified with a model
        return rouge(system, [validation[number] for number in range(process, len(validation), processes)])


def _check_packages(settings: TrainingSettings) -> None:
    """Refuse, before anything is loaded, what is not installed."""
    if settings.report_to != "none" and not find_spec(settings.report_to):
        raise AwesumError(
            f"--report-to {settings.report_to} needs the package: pip install {settings.report_to}, or say none"
        )
    known = [name.value for name in OptimizerNames]
    if settings.optim not in known:
        near = get_close_matches(settings.optim, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(known)}"
        raise AwesumError(f"there is no optimizer {settings.optim!r}: {hint}")
    try:
        arguments = TrainingArguments(
            output_dir=settings.output,
            optim=settings.optim,
            report_to="none",
            use_cpu=choose_device()[0].type == "cpu",
        )
        AwesomeTrainer.get_optimizer_cls_and_kwargs(arguments)
    except (ImportError, ValueError, RuntimeError, AssertionError) as error:
        package = "bitsandbytes" if not find_spec("bitsandbytes") and _is_of_bitsandbytes(settings.optim) else ""
        advice = f"pip install {package}, or choose" if package else "choose"
        raise AwesumError(
            f"--optim {settings.optim} cannot be used here ({(str(error).splitlines() or ['no reason given'])[0]}): "
            f"{advice} another, such as adamw_torch or adafactor"
        ) from error


def _is_of_bitsandbytes(optim: str) -> bool:
    return any(part in optim for part in ("bnb", "paged", "lion", "ademamix")) or optim == "adamw_8bit"


def _device_name() -> str:
    """What trains: the name of the GPU, or the type of the device."""
    device = choose_device()[0]
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _precision(settings: TrainingSettings) -> tuple[str, str]:
    """The number format to train in, and the reason."""
    if settings.precision != "auto":
        if settings.precision == "float16" and not torch.cuda.is_available():
            raise AwesumError("precision=float16 needs a CUDA device, and there is none: say float32, bfloat16 or auto")
        return settings.precision, "as asked for"
    device, dtype, reason = choose_device()
    if device.type == "mps":
        return "float32", f"{reason}, which has no mixed precision for training"
    return str(dtype).removeprefix("torch."), reason


def _arguments(
    settings: TrainingSettings, output: Path, precision: str, evaluate: bool, quiet: bool
) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(output),
        learning_rate=settings.learning_rate,
        num_train_epochs=settings.epochs,
        warmup_steps=settings.warmup_steps,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.accumulation,
        max_grad_norm=settings.clipping,
        weight_decay=settings.weight_decay,
        bf16=precision == "bfloat16",
        fp16=precision == "float16",
        use_cpu=choose_device()[0].type == "cpu",
        save_strategy="steps",
        save_steps=settings.save_steps,
        save_total_limit=settings.keep,
        logging_steps=settings.log_steps,
        logging_nan_inf_filter=False,
        eval_strategy=("steps" if settings.evaluate_every else "epoch") if evaluate else "no",
        eval_steps=settings.evaluate_every,
        metric_for_best_model=BEST if settings.evaluate_every else None,
        greater_is_better=True if settings.evaluate_every else None,
        optim=settings.optim,
        seed=settings.seed,
        disable_tqdm=quiet,
        report_to=settings.report_to,
        run_name=output.name,
        remove_unused_columns=False,
        label_names=["documents"],
    )
