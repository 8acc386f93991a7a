"""What can be said about a training run: one set of names for YAML files, the command line and Python."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from awesum.errors import AwesumError


def _setting(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


_ONE_OR_MORE = (
    "batch_size", "accumulation", "trunk_batch", "max_tokens", "documents", "save_steps", "keep", "log_steps",
    "num_beams", "max_part", "update_layers", "rank",
)  # fmt: skip
_ZERO_OR_MORE = (
    "warmup_steps", "clipping", "label_smoothing", "weight_decay", "validation_documents", "seed", "no_repeat_ngram",
)  # fmt: skip


ONLY_WITH_BASE = ("freeze_trunk", "update", "update_layers", "rank")
ONLY_WITH_MODEL = (
    "model", "memory_direction", "trunk_batch", "gradient_checkpointing", "num_beams", "no_repeat_ngram", "max_part",
)  # fmt: skip


@dataclass(frozen=True)
class TrainingSettings:
    """The paper's recipe for GovReport, unless told otherwise."""

    data: str = _setting(
        "", "folder with train.jsonl and validation.jsonl, a name: govreport, ..., or what data prepare made"
    )
    output: str = _setting("", "folder for checkpoints and the trained model")
    model: str = _setting("facebook/bart-large", "a BART model, or a model that awesum trained: folder or hub name")
    base: str = _setting("", "instead of model: a causal model that gets an adapter: smollm2, a folder, a hub name")
    freeze_trunk: bool = _setting(
        False, "with base: keep on disk what the frozen layers make; further epochs cost only the answers"
    )
    update: str = _setting("low-rank", "with base: how its last layers change: none, low-rank or full")
    update_layers: int = _setting(3, "with base: how many last layers change")
    rank: int = _setting(64, "with base: of a low-rank update")
    memory: str = _setting("attentive", "none, attentive or compressive")
    memory_layers: int | str | tuple[int, ...] = _setting(3, "how many last layers have a memory; all; or numbers")
    memory_size: int = _setting(1024, "slots of a memory")
    compression_ratio: int = _setting(5, "hidden states that a compressive memory makes one of")
    memory_direction: str = _setting("forward", "forward, or both: the encoder also remembers from the end")
    salient: str = _setting(
        "none", "salient sentences of other segments: none, text or key-value; with base also points, the segment's own"
    )
    salient_size: int = _setting(1024, "tokens of salient content as key-value vectors")
    learning_rate: float = _setting(5e-5, "the highest")
    epochs: float = _setting(3.0, "times through the data")
    warmup_steps: int = _setting(300, "steps until the learning rate is reached")
    batch_size: int = _setting(1, "documents side by side")
    accumulation: int = _setting(8, "batches before the weights change")
    clipping: float = _setting(1.0, "norm that gradients are cut to")
    label_smoothing: float = _setting(0.0, "share of the target that goes to all other tokens")
    weight_decay: float = _setting(0.0, "as in AdamW")
    max_tokens: int | None = _setting(51_200, "tokens of a document that are trained on; the rest is said")
    empty_targets: bool = _setting(True, "whether a segment without a target learns to stay silent")
    trunk_batch: int = _setting(1, "segments whose layers below the memory run together")
    documents: int | None = _setting(None, "train on the first so many documents only")
    validation_documents: int | None = _setting(None, "measure on the first so many documents only")
    precision: str = _setting("auto", "auto, float32, bfloat16 or float16")
    gradient_checkpointing: bool = _setting(False, "compute layers twice instead of keeping what they computed")
    save_steps: int = _setting(100, "steps between checkpoints")
    keep: int = _setting(2, "checkpoints that are kept")
    log_steps: int = _setting(10, "steps between lines of figures")
    seed: int = _setting(0, "of the order of the documents, dropout and new weights")
    num_beams: int = _setting(4, "beams when the trained model writes")
    no_repeat_ngram: int = _setting(5, "no run of so many tokens twice in a part")
    max_part: int = _setting(1024, "tokens of a part at most")

    def __post_init__(self) -> None:
        for name in ("data", "output"):
            if not getattr(self, name):
                raise AwesumError(f"training needs {name}: say --{name} FOLDER, or write it into the YAML file")
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
        self._fit_the_model()
        if self.precision not in ("auto", "float32", "bfloat16", "float16"):
            raise AwesumError(f"precision={self.precision!r} is not one of auto, float32, bfloat16, float16")

    def _fit_the_model(self) -> None:
        """No setting that would do nothing."""
        others = ONLY_WITH_MODEL if self.base else ONLY_WITH_BASE
        for each in fields(self):
            if each.name in others and getattr(self, each.name) != each.default:
                kind = "a causal model (base)" if self.base else "a BART (model)"
                raise AwesumError(f"{each.name} is not for {kind}: leave it out")

    @property
    def adapter(self) -> dict[str, Any]:
        """What the adapter of `base` is made of, as `AdapterConfig` names it."""
        names = ("base", "memory", "memory_layers", "memory_size", "compression_ratio", "salient", "salient_size")
        return {name: getattr(self, name) for name in (*names, "update", "update_layers", "rank")}

    @property
    def equipment(self) -> dict[str, Any]:
        """What the model is equipped with, as `AwesomeConfig` names it."""
        names = ("memory", "memory_layers", "memory_size", "compression_ratio", "memory_direction", "salient")
        return {name: getattr(self, name) for name in (*names, "salient_size")}


def read_settings(path: str | Path | None, changes: dict[str, Any]) -> TrainingSettings:
    """The settings of a YAML file with some changed; a name that there is not is refused, with the nearest."""
    values: dict[str, Any] = {}
    if path is not None:
        import yaml  # type: ignore[import-untyped]

        try:
            loaded = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise AwesumError(f"cannot read {path} ({reason}): give a YAML file of settings") from error
        except yaml.YAMLError as error:
            reason = str(error).splitlines()[0]
            raise AwesumError(f"{path} is not YAML ({reason}): write `name: value` lines") from error
        if not isinstance(loaded, dict):
            raise AwesumError(f"{path} has no settings: write `name: value` lines")
        values = loaded
    values = {**values, **changes}
    known = {field.name: field for field in fields(TrainingSettings)}
    for name, value in values.items():
        if name not in known:
            near = get_close_matches(str(name), known, 1)
            raise AwesumError(f"there is no setting {name!r}" + (f": did you mean {near[0]!r}?" if near else ""))
        values[name] = convert(name, value)
    return TrainingSettings(**values)


def convert(name: str, value: Any) -> Any:
    """A value as its setting wants it; YAML takes 5e-5 for a text, and the command line everything."""
    default = next(field.default for field in fields(TrainingSettings) if field.name == name)
    try:
        if name == "memory_layers":
            return _layers(value)
        if name in ("max_tokens", "documents", "validation_documents"):
            return None if value in (None, "none", "None", "all") else int(value)
        if isinstance(default, bool):
            return _truth(value)
        if isinstance(default, float):
            return float(value)
        if isinstance(default, int):
            if isinstance(value, float) and not value.is_integer():
                raise ValueError
            return int(value)
        return "" if value is None else str(value)
    except (TypeError, ValueError) as error:
        raise AwesumError(f"{name}={value!r} does not fit: give something like {default!r}") from error


def _layers(value: Any) -> int | str | tuple[int, ...]:
    if isinstance(value, (list, tuple)):
        return tuple(int(layer) for layer in value)
    text = str(value).strip()
    if text == "all":
        return text
    return tuple(int(layer) for layer in text.split(",") if layer.strip()) if "," in text else int(text)


def _truth(value: Any) -> bool:
    if str(value).lower() in ("true", "yes", "1"):
        return True
    if str(value).lower() in ("false", "no", "0"):
        return False
    raise ValueError
