"""A training run from beginning to end: check, load, train, save. What is trained is a `Trainable`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments, set_seed

from awesum import datasets
from awesum.analysis.analysis import Analyst
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience import Salience
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.trained import TrainedSalience
from awesum.errors import AwesumError
from awesum.files import cache_folder, check_writable
from awesum.loading import choose_device
from awesum.prepared.prepare import encoder_settings
from awesum.prepared.splits import PreparedSplit, has_split, is_prepared, prepared
from awesum.training import record
from awesum.training.examples import Examples
from awesum.training.settings import CENTRALITY, TrainingSettings, settings_class
from awesum.training.trainable import Report, make
from awesum.training.trainer import AwesomeTrainer, last_checkpoint, step_of
from awesum.weights import MINILM_WHEEL

Data = datasets.Examples | PreparedSplit


def _to_stderr(note: str) -> None:
    print(f"awesum: {note}", file=sys.stderr, flush=True)


def train(
    settings: TrainingSettings,
    options: Any = None,
    *,
    analyst: Analyst | None = None,
    quiet: bool = False,
    say: Report = _to_stderr,
) -> Path:
    """Train, resuming an interrupted run, and return the folder with the trained model.

    `options` are the system's own settings (its defaults, if left out). `analyst` stands for the encoder and the
    extractor of the settings.
    """
    options = settings_class(settings.system)() if options is None else options
    precision, reason = _precision(settings)
    extractor = _extractor(settings)
    trainable = make(settings.system, settings.base, options)  # checks all settings, loads nothing
    trainable.check_precision(precision)
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
    is_shipped = analyst is None and not settings.encoder
    analyst = analyst or Analyst(_encoder(settings), extractor)
    training, validation = _training(settings, None if is_shipped else analyst), _validation(settings)
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
    run = record.Record(
        output,
        settings,
        options,
        base_fingerprint=trainable.fingerprint(),
        documents=len(documents),
        validation_documents=len(measured or ()),
        precision=precision,
        earlier=earlier,
        resumed_at=step_of(checkpoint) if checkpoint else 0,
    )
    trainer = AwesomeTrainer(
        trainable=trainable,
        args=_arguments(settings, output, precision, bool(measured), quiet),
        train_dataset=documents,
        eval_dataset=measured,
        processing_class=trainable.tokenizer,
        callbacks=[run],
        empty_targets=settings.empty_targets,
        label_smoothing=settings.label_smoothing,
    )
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    trainer.save_trained()
    run.finish(trainer.state)
    trainer.leave()
    return output


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


def _extractor(settings: TrainingSettings) -> Salience | None:
    """The extractor that was asked for; None for the shipped one."""
    if not settings.extractor:
        return None
    return Centrality() if settings.extractor == CENTRALITY else TrainedSalience.load(settings.extractor)


def _encoder(settings: TrainingSettings) -> SentenceEncoder | None:
    """The sentence encoder that was asked for; None for the embedded one."""
    if not settings.encoder:
        return None
    return SentenceEncoder.load(settings.encoder)


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
        eval_strategy="epoch" if evaluate else "no",
        seed=settings.seed,
        disable_tqdm=quiet,
        report_to="none",
        remove_unused_columns=False,
        label_names=["documents"],
    )
