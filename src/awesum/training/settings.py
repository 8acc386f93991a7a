"""The settings of a training run: one set of names for recipes (YAML), the command line and Python.

`TrainingSettings` has what every system has; what belongs to one system is in its own dataclass, `settings_class`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, asdict, dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar

from awesum import systems
from awesum.errors import AwesumError
from awesum.settings import CENTRALITY, EMBEDDED, SHIPPED, SMOLLM2, setting
from awesum.training.recipes import read

DEFAULT_SYSTEM = "awesome"
RENAMED = {"model": "base"}
"""Settings of older recipes and commands, and what they are called now."""

REPORTERS = ("none", "tensorboard", "wandb")

_ONE_OR_MORE = (
    "batch_size", "accumulation", "max_tokens", "documents", "save_steps", "keep", "log_steps", "evaluate_every",
    "patience",
)  # fmt: skip
_ZERO_OR_MORE = (
    "warmup_steps", "clipping", "label_smoothing", "weight_decay", "validation_documents", "seed", "lora_rank",
)  # fmt: skip


@dataclass(frozen=True)
class TrainingSettings:
    """What can be set for every system. The defaults are the paper's recipe for GovReport."""

    changeable: ClassVar[tuple[str, ...]] = ("output", "save_steps", "keep", "log_steps", "report_to")
    """Settings that may change when a run is resumed: they change no result."""

    data: str = setting(
        "", "a folder with train.jsonl and validation.jsonl, a public name such as govreport, or a prepared dataset"
    )
    output: str = setting("", "folder for checkpoints, run.json and the trained model")
    system: str = setting("", "the system to train: see `awesum systems` (default: the one for --base)")
    base: str = setting("", "the pretrained model: smollm2, a folder, or a name on the hub (default: the system's)")
    encoder: str = setting("", f"sentence encoder: a folder, a name on the hub, or {EMBEDDED} (default: {EMBEDDED})")
    extractor: str = setting(
        "",
        f"from `awesum extractor train` or `--system extractor`, {CENTRALITY}, or {SHIPPED} (default: {SHIPPED})",
    )
    learning_rate: float = setting(5e-5, "peak learning rate")
    epochs: float = setting(3.0, "passes over the data")
    warmup_steps: int = setting(300, "steps until the peak learning rate is reached")
    batch_size: int = setting(1, "documents per batch")
    accumulation: int = setting(8, "batches per step")
    clipping: float = setting(1.0, "gradients are clipped to this norm")
    label_smoothing: float = setting(0.0, "probability that goes to all other tokens")
    weight_decay: float = setting(0.0, "as in AdamW")
    max_tokens: int | None = setting(51_200, "tokens of a document to train on, or all; what is left out is reported")
    empty_targets: bool = setting(True, "whether a segment without a target teaches the model to stay silent")
    documents: int | None = setting(None, "train on the first N documents only")
    validation_documents: int | None = setting(None, "validate on the first N documents only")
    evaluate_every: int | None = setting(
        None,
        "steps between evaluations: ROUGE of the summaries that the model writes for the validation documents; the "
        "checkpoint with the best is the result (default: the loss alone, after each epoch)",
    )
    patience: int | None = setting(
        None, "stop early after N evaluations without a better ROUGE (default: train to the end)"
    )
    optim: str = setting(
        "adamw_torch_fused",
        "optimizer, by the library's name: adafactor, adamw_8bit and paged_adamw_8bit (with bitsandbytes), ...",
    )
    offload: bool = setting(False, "keep what the backward pass needs in RAM, not on the GPU: slower, and smaller")
    step_in_backward: bool = setting(
        False, "take the optimizer's step in the backward pass, so that gradients are never all in memory"
    )
    lora_rank: int = setting(0, "train LoRA of this rank instead of all weights of a BART; 0: all weights")
    precision: str = setting("auto", "auto, float32, bfloat16 or float16")
    save_steps: int = setting(100, "steps between checkpoints")
    keep: int = setting(2, "number of checkpoints to keep")
    log_steps: int = setting(10, "steps between entries of the loss history")
    report_to: str = setting("none", "where the library also sends what is logged: none, tensorboard or wandb")
    seed: int = setting(0, "seed of data order, dropout and new weights")

    def __post_init__(self) -> None:
        object.__setattr__(self, "system", self.system or system_for(self.base))
        object.__setattr__(self, "base", self.base or settings_class(self.system).default_base)
        for names, least in ((_ONE_OR_MORE, 1), (_ZERO_OR_MORE, 0)):
            for name in names:
                value = getattr(self, name)
                if value is not None and not value >= least:
                    raise AwesumError(f"{name} must be {least} or more, not {value}")
        if not self.label_smoothing < 1:
            raise AwesumError(f"label_smoothing must be less than 1, not {self.label_smoothing}")
        for name in ("learning_rate", "epochs"):
            if not getattr(self, name) > 0:
                raise AwesumError(f"{name} must be more than 0, not {getattr(self, name)}")
        if self.precision not in ("auto", "float32", "bfloat16", "float16"):
            raise AwesumError(f"precision={self.precision!r} is not one of auto, float32, bfloat16, float16")
        if self.step_in_backward and (self.accumulation != 1 or self.clipping or self.precision == "float16"):
            raise AwesumError(
                "step_in_backward takes a step as soon as a gradient is there, so none can be accumulated, clipped or "
                "scaled: say --accumulation 1 --clipping 0, and float32 or bfloat16"
            )
        if self.report_to not in REPORTERS:
            raise AwesumError(f"report_to={self.report_to!r} is not one of {', '.join(REPORTERS)}")
        if self.patience is not None and self.evaluate_every is None:
            raise AwesumError("patience counts evaluations: say how often to evaluate with --evaluate-every STEPS")
        for name in ("data", "output"):
            if not getattr(self, name):
                raise AwesumError(f"training needs {name}: give --{name}, or write it into the recipe")


def trainable() -> list[str]:
    """The names of the systems that train."""
    return [name for name in systems.names() if systems.find(name).trains()]


def system_for(base: str) -> str:
    """The system to train if only the pretrained model is named."""
    if not base:
        return DEFAULT_SYSTEM
    if base == SMOLLM2:
        return "adapter"
    kind = systems.kind_of(base)
    return kind.name if kind.trains() else "adapter"


def owners(name: str) -> list[str]:
    """The systems that have a setting of this name."""
    return [system for system in trainable() if name in own_fields(system)]


def settings_class(system: str) -> Any:
    """The dataclass of a system's own settings."""
    found = systems.find(system).settings_class
    if found is None:
        raise AwesumError(f"{system} does not train: choose from {', '.join(trainable())}")
    return found


def own_fields(system: str) -> dict[str, Field[Any]]:
    """A system's own settings, by name."""
    return {field.name: field for field in fields(settings_class(system))}


def read_settings(recipe: str | Path | None, changes: Mapping[str, Any]) -> tuple[TrainingSettings, Any]:
    """The settings of a recipe with some of them changed: those of every system, and those of its system.

    Raises `AwesumError` in one line, with the near miss, for a setting that does not exist or a value that does not
    fit. Nothing is loaded or fetched, except the configuration of a pretrained model whose system is not named.
    """
    values = {**(read(recipe) if recipe is not None else {}), **changes}
    for old, new in RENAMED.items():
        if old in values:
            raise AwesumError(f"the setting {old} was renamed: say --{new} (or `{new}:` in a recipe)")
    system = str(values.get("system") or system_for(str(values.get("base") or "")))
    common, own = {field.name: field for field in fields(TrainingSettings)}, own_fields(system)
    values = {**getattr(settings_class(system), "defaults", {}), **values}
    for name in values:
        if name not in common | own:
            raise _unknown(str(name), system, [*common, *own])
    made = {name: convert(field, values[name]) for name, field in (common | own).items() if name in values}
    options = settings_class(system)(**{name: value for name, value in made.items() if name in own})
    # After the system's own settings, so that a typo in them is reported before what is missing.
    settings = TrainingSettings(**{name: value for name, value in made.items() if name in common} | {"system": system})
    return settings, options


def _unknown(name: str, system: str, known: list[str]) -> AwesumError:
    if others := owners(name):
        return AwesumError(
            f"{name} is a setting of {' and '.join(others)}, not of {system}: leave it out, or choose another --system"
        )
    near = get_close_matches(name, known, 1)
    return AwesumError(f"{system} has no setting {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def convert(field: Field[Any], value: Any) -> Any:
    """A value of the type of its setting; YAML takes 5e-5 for a text, and the command line everything."""
    try:
        return _CONVERTERS[str(field.type)](value)
    except (TypeError, ValueError) as error:
        raise AwesumError(f"{field.name}={value!r} does not fit: give a value like {field.default!r}") from error


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _whole(value: Any) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError
    return int(value)


def _limit(value: Any) -> int | None:
    return None if value in (None, "none", "None", "all") else _whole(value)


def _rate(value: Any) -> float | None:
    return None if value in (None, "none", "None") else float(value)


def _truth(value: Any) -> bool:
    if str(value).lower() in ("true", "yes", "1"):
        return True
    if str(value).lower() in ("false", "no", "0"):
        return False
    raise ValueError


def _layers(value: Any) -> int | str | tuple[int, ...]:
    if isinstance(value, (list, tuple)):
        return tuple(int(layer) for layer in value)
    text = str(value).strip()
    if text == "all":
        return text
    return tuple(int(layer) for layer in text.split(",") if layer.strip()) if "," in text else int(text)


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "str": _text,
    "int": _whole,
    "float": float,
    "bool": _truth,
    "int | None": _limit,
    "float | None": _rate,
    "int | str | tuple[int, ...]": _layers,
}
"""The annotation of a setting -> its converter."""


def as_dict(settings: TrainingSettings, options: Any) -> dict[str, Any]:
    """All settings of a run in one dictionary, as a recipe could have them."""
    return asdict(settings) | asdict(options)
