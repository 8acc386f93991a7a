"""A training run from beginning to end: data, model, trainer, and the model that is kept."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments, set_seed

from awesum import datasets
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.trained import TrainedSalience
from awesum.errors import AwesumError
from awesum.files import cache_folder, check_writable
from awesum.loading import choose_device, load_tokenizer, window_of
from awesum.models.adapter import AdapterConfig, AwesomeCausal
from awesum.models.bart import AwesomeBart, AwesomeConfig
from awesum.models.causal import load_base
from awesum.preparation import CausalPreparation, Preparation, Prepared
from awesum.prepared.splits import PreparedSplit, has_split, is_prepared, prepared
from awesum.recurrence import causal
from awesum.recurrence import train as pass_over_segments
from awesum.settings import ADAPTER
from awesum.training.settings import TrainingSettings
from awesum.training.trainer import AwesomeTrainer, last_checkpoint
from awesum.training.trunk import TrunkCache, plan, read_now
from awesum.weights import MINILM_WHEEL, minilm_folder


def _to_stderr(note: str) -> None:
    print(note, file=sys.stderr)


def train(
    settings: TrainingSettings,
    *,
    encoder: SentenceEncoder | None = None,
    quiet: bool = False,
    say: Callable[[str], object] = _to_stderr,
) -> Path:
    """Train, going on where an interrupted run stopped, and return the folder with the trained model."""
    output = _writable(Path(settings.output))
    examples = _examples(settings, encoder)
    validation = _validation(settings)
    checkpoint = last_checkpoint(output)
    if checkpoint:
        _same_equipment(checkpoint, settings)
        say(f"going on from {checkpoint}")
    set_seed(settings.seed)
    precision, reason = _precision(settings)
    model: AwesomeBart | AwesomeCausal
    equipment: AwesomeConfig | AdapterConfig
    if settings.base:
        equipment = AdapterConfig(**settings.adapter)
        model, tokenizer = load_base(settings.base, equipment)
        if precision == "float32":
            model.float()
        options: dict[str, Any] = {"window": window_of(model.base.config), "end": model.end}
        kind: type[Preparation] = CausalPreparation
    else:
        model = AwesomeBart.from_pretrained(settings.model, **settings.equipment)
        tokenizer = load_tokenizer(settings.model)
        equipment = model.config
        _set_generation(model, settings)
        options, kind = {}, Preparation
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not weights:
        raise AwesumError("there is nothing to train: give the adapter a --memory, or its layers an --update")
    say(
        f"{sum(parameter.numel() for parameter in model.parameters()) / 1e6:,.1f}M parameters, "
        f"{sum(parameter.numel() for parameter in weights) / 1e6:,.1f}M of them trained, "
        f"memory: {equipment.memory}, salient content: {equipment.salient}, {precision} ({reason})"
    )
    preparation = kind(
        tokenizer,
        equipment,
        encoder or SentenceEncoder.load(minilm_folder()),
        TrainedSalience.load() if encoder is None else Centrality(),
        max_tokens=settings.max_tokens,
        say=say,
        **options,
    )
    folder = cache_folder() / "prepared"
    documents = Prepared(examples, preparation, folder)
    measured = Prepared(validation, preparation, folder) if validation else None
    trainer = AwesomeTrainer(
        model=model,
        args=_arguments(settings, precision, bool(validation), quiet),
        train_dataset=documents,
        eval_dataset=measured,
        processing_class=tokenizer,
        pass_over=_loop(model, settings, documents, measured, say),
        empty_targets=settings.empty_targets,
        label_smoothing=settings.label_smoothing,
    )
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    trainer.save_trained()
    trainer.leave()
    return output


def _loop(
    model: AwesomeBart | AwesomeCausal,
    settings: TrainingSettings,
    documents: Prepared,
    measured: Prepared | None,
    say: Callable[[str], object],
) -> Callable[..., torch.Tensor]:
    """The loop that passes over the documents."""
    if isinstance(model, AwesomeBart):
        return partial(pass_over_segments, trunk_batch=settings.trunk_batch)
    if not settings.freeze_trunk:
        return partial(causal.train, read=partial(read_now, model))
    cache = TrunkCache(model, cache_folder() / "trunk")
    plan(cache, documents, measured, settings.epochs, say)
    return partial(causal.train, read=cache)


def _writable(folder: Path) -> Path:
    try:
        check_writable(folder, is_folder=True)
    except OSError as error:
        raise AwesumError(f"cannot write to {folder} ({error.strerror}): give another folder as output") from error
    return folder


def _examples(settings: TrainingSettings, encoder: SentenceEncoder | None) -> datasets.Examples | PreparedSplit:
    """What to train on: a dataset, or what `awesum data prepare` has made of one."""
    if not is_prepared(settings.data):
        return datasets.load(settings.data, "train")[: settings.documents]
    split = prepared(settings.data, "train")
    if encoder is None and split.encoder["sha256"] != MINILM_WHEEL.sha256:
        raise AwesumError(
            f"the vectors in {split.folder} are of {split.encoder['name']}, and training reads with the embedded "
            "encoder: prepare the documents without --encoder"
        )
    return split.head(settings.documents)


def _validation(settings: TrainingSettings) -> datasets.Examples | PreparedSplit | None:
    """The validation split, if there is one."""
    if is_prepared(settings.data):
        there = has_split(settings.data, "validation")
        return prepared(settings.data, "validation").head(settings.validation_documents) if there else None
    if Path(settings.data).expanduser().is_file() or "validation" not in datasets.splits(settings.data):
        return None
    return datasets.load(settings.data, "validation")[: settings.validation_documents]


def _same_equipment(checkpoint: Path, settings: TrainingSettings) -> None:
    name = ADAPTER if settings.base else "config.json"
    try:
        saved = json.loads((checkpoint / name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AwesumError(f"{checkpoint} has no readable {name}: remove that folder and run again") from error
    wanted = json.loads(json.dumps(settings.adapter if settings.base else settings.equipment))
    for name, value in wanted.items():
        if saved.get(name) != value:
            raise AwesumError(
                f"{checkpoint} was trained with {name}={saved.get(name)!r}, not {value!r}: "
                "give another output folder, or the same settings"
            )


def _set_generation(model: AwesomeBart, settings: TrainingSettings) -> None:
    """How the trained model writes, kept with it."""
    longest = min(settings.max_part, model.config.max_position_embeddings)
    model.generation_config.update(
        num_beams=settings.num_beams,
        no_repeat_ngram_size=settings.no_repeat_ngram,
        max_length=longest,
        early_stopping=True,
    )


def _precision(settings: TrainingSettings) -> tuple[str, str]:
    if settings.precision != "auto":
        if settings.precision == "float16" and not torch.cuda.is_available():
            raise AwesumError("precision=float16 needs a GPU, and there is none: say float32, bfloat16 or auto")
        return settings.precision, "as asked for"
    _, dtype, reason = choose_device()
    return str(dtype).removeprefix("torch."), reason


def _arguments(settings: TrainingSettings, precision: str, evaluate: bool, quiet: bool) -> TrainingArguments:
    options: dict[str, Any] = {}
    if settings.gradient_checkpointing:
        options |= {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}}
    return TrainingArguments(
        output_dir=settings.output,
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
        use_cpu=not torch.cuda.is_available(),
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
        **options,
    )
