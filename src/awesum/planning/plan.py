"""A plan: the peak of a run, whether it fits a GPU, the longest document that fits, and what would make it fit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from awesum import systems
from awesum.analysis.segmentation import UPPER, Limits
from awesum.errors import AwesumError
from awesum.files import cache_folder, write
from awesum.planning.bases import configuration
from awesum.systems.system import digest
from awesum.training.settings import TrainingSettings, as_dict, read_settings

if TYPE_CHECKING:
    from awesum.planning.step import Lengths
    from awesum.planning.tracing import Attention

VERSION = 3
"""Of what is counted: to be raised when the same request would give another peak."""
STEP = 1024
"""The longest input is a multiple of this."""
ROUNDS = 6
"""Traces after which the search for the longest input gives up on being exact."""
TARGET = 512
"""Tokens of a target, if nothing is said."""
MOST = 2**20
"""Tokens beyond which nobody asks."""
SEARCHED = 2**17
"""Tokens up to which the longest input is searched: two and a half times what the paper reads. A trace of more would
take minutes where the peak hardly grows."""
PRECISIONS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
STRATEGIES = ("ddp", "fsdp")


@dataclass(frozen=True)
class Request:
    """What is asked: a system with the settings of `awesum train`, and how long the documents are."""

    system: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Those that `awesum train` has, by name."""
    size: str | None = None
    input_tokens: int | None = None
    target_tokens: int = TARGET
    segment_tokens: int | None = None
    segments: int | None = None
    """Of a document, instead of `input_tokens`."""
    attention: Attention = "fused"
    gpu_memory: int | None = None
    gpus: int = 1
    strategy: str = "ddp"
    generate: bool = False


@dataclass(frozen=True)
class Advice:
    """A setting that would lower the peak."""

    settings: Mapping[str, Any]
    peak_bytes: int
    saves_bytes: int
    fits: bool

    @property
    def flags(self) -> str:
        """As the command line has them."""
        return " ".join(
            f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
            for name, value in self.settings.items()
        )


@dataclass(frozen=True)
class Plan:
    """The answer."""

    system: str
    peak_bytes: int
    parts: Mapping[str, int]
    place: str
    fits: bool | None
    """None if no GPU was named."""
    longest_input_tokens: int | None
    """None if any length fits: the peak does not grow with the document; 0 if none does."""
    advice: Sequence[Advice]
    settings: Mapping[str, Any]
    parameters: int
    trained_parameters: int
    notes: Sequence[str] = ()
    is_estimate: bool = False
    """Whether the step could not be traced."""

    def as_json(self) -> str:
        """For programs."""
        return json.dumps(asdict(self), indent=1)


@dataclass(frozen=True)
class _Known:
    """What a trace tells, as it is kept between runs."""

    bytes: int
    parts: dict[str, int]
    place: str
    weights: int
    trained: int
    layer: int
    note: str = ""
    passes: dict[str, int] = field(default_factory=dict)
    """The parts of the highest sum before the optimizer's step."""


def make(request: Request) -> Plan:
    """Trace what is asked, or take what is known of it from an earlier run."""
    settings, own = _settings(request)
    saved = _configuration(request, settings, own)
    known = _traced(request, settings, own, saved)
    known = _shared(known, request)
    limit = request.gpu_memory
    notes = [known.note] if known.note else []
    fits = None if limit is None else known.bytes <= limit
    longest = _longest(request, known, settings, own, saved) if limit is not None else None
    if longest is not None and longest == max(SEARCHED, request.input_tokens or 0):
        notes.append(f"the longest input was searched up to {longest:,} tokens: a longer one may fit too")
    advice = [] if fits is not False or limit is None else list(_advice(request, known, limit))
    if fits is False and limit is not None and known.parts["weights"] > limit:
        notes.append(_too_small(known, advice))
    shown = {**as_dict(settings, own), "attention": request.attention, "size": request.size}
    lengths = _lengths(request, settings, own, saved)
    shown |= {"input_tokens": lengths.input_tokens, "target_tokens": lengths.target_tokens}
    shown |= {"gpus": request.gpus, "strategy": request.strategy, "generate": request.generate}
    for name in ("data", "output"):
        del shown[name]
    return Plan(
        request.system, known.bytes, known.parts, known.place, fits, longest, advice, shown, known.weights,
        known.trained, notes, bool(known.note),
    )  # fmt: skip


def advice(request: Request) -> list[Advice]:
    """What would lower the peak of a request that names the memory of its GPU."""
    assert request.gpu_memory is not None, "asked for a GPU"
    settings, own = _settings(request)
    known = _shared(_traced(request, settings, own, _configuration(request, settings, own)), request)
    return list(_advice(request, known, request.gpu_memory))


def longest_readable(request: Request) -> int | None:
    """The tokens of a document that the system can read at once; None if there is no limit."""
    settings, own = _settings(request)
    return _positions(request, settings, own, configuration(settings.base, request.size))


def _settings(request: Request) -> tuple[TrainingSettings, Any]:
    if not systems.find(request.system).trains():
        raise AwesumError(
            f"{request.system} does not train, and has no step to plan: choose from "
            f"{', '.join(name for name in systems.names() if systems.find(name).trains())}"
        )
    given = {**request.settings, "system": request.system, "data": "planned", "output": "planned"}
    if given.get("precision") in PRECISIONS:
        given["precision"] = PRECISIONS[str(given["precision"])]
    settings, own = read_settings(None, given)
    if settings.precision == "auto" or (request.generate and _writes_in_float32(request.system, settings)):
        settings = replace(settings, precision="float32")
    if request.strategy not in STRATEGIES:
        raise AwesumError(f"--strategy {request.strategy} is not known: say {' or '.join(STRATEGIES)}")
    counts = {"gpus": request.gpus, "target-tokens": request.target_tokens, "segments": request.segments}
    for flag, value in (counts | {"segment-tokens": request.segment_tokens}).items():
        if value is not None and value < 1:
            raise AwesumError(f"--{flag} must be 1 or more, not {value}")
    if request.segment_tokens and hasattr(systems.find(request.system), "layout_kind"):
        raise AwesumError(
            f"--segment-tokens is for systems that go from segment to segment, and {request.system} does not"
        )
    if request.input_tokens is not None and not 1 <= request.input_tokens <= MOST:
        raise AwesumError(f"--input-tokens must be between 1 and {MOST:,}, not {request.input_tokens:,}")
    return settings, own


def _writes_in_float32(system: str, settings: TrainingSettings) -> bool:
    """Whether it is one that overflows in float16, and therefore writes in single precision where others do not."""
    return settings.precision == "float16" and bool(getattr(systems.find(system), "refuses_float16", ""))


def _configuration(request: Request, settings: TrainingSettings, own: Any) -> dict[str, Any]:
    from awesum.planning.step import check_lengths

    saved = configuration(settings.base, request.size)
    lengths = _lengths(request, settings, own, saved)
    check_lengths(saved, lengths)
    positions = _positions(request, settings, own, saved)
    if positions is not None and lengths.input_tokens > positions:
        raise AwesumError(
            f"--input-tokens {lengths.input_tokens:,} is beyond the {positions:,} positions of {request.system}'s "
            f"encoder: say {positions} or fewer"
        )
    return saved


def _positions(request: Request, settings: TrainingSettings, own: Any, saved: Mapping[str, Any]) -> int | None:
    """The tokens of a document that a system can read at once; None if there is no limit."""
    kind: Any = systems.find(request.system)
    if not hasattr(kind, "layout_kind"):
        return None
    from awesum.models.long_input import config_from

    model = kind.model_kind()
    if hasattr(model, "extend_positions"):
        return None  # it gets as many as it needs
    kind.check_base(settings.base, str(saved["model_type"]))
    config = config_from(model, saved, dict(own.model_config))
    positions: int | None = kind.layout_kind()(None, config, None).positions
    return positions


def _lengths(request: Request, settings: TrainingSettings, own: Any, saved: Mapping[str, Any]) -> Lengths:
    from awesum.planning.step import Lengths

    window = int(saved.get("max_position_embeddings") or 2 * UPPER)
    segment = request.segment_tokens or Limits.up_to(window * 3 // 4).upper
    usual = settings.max_tokens or min(16 * STEP, _positions(request, settings, own, saved) or 16 * STEP)
    if request.segments:
        usual = request.segments * segment
    return Lengths(request.input_tokens or usual, request.target_tokens, segment)


def _traced(request: Request, settings: TrainingSettings, own: Any, saved: Mapping[str, Any]) -> _Known:
    """The peak of one GPU's step, traced or remembered."""
    from awesum.planning import step
    from awesum.training.backward_step import check_step_in_backward
    from awesum.training.lora import with_lora
    from awesum.training.trainable import make as make_trainable

    lengths = _lengths(request, settings, own, saved)
    asked = [VERSION, request.system, _relevant(settings, own), dict(saved), asdict(lengths), request.attention]
    asked.append(request.generate)
    file = cache_folder() / "plans" / f"{digest(*map(_plain, asked))[:32]}.json"
    try:
        return _Known(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        pass  # not there, or not whole: traced again
    trainable = make_trainable(request.system, settings.base, own)
    if not request.generate:  # a model that writes has its LoRA merged
        trainable = with_lora(trainable, settings)
        trainable.check_precision(settings.precision)
        check_step_in_backward(trainable, settings)
    try:
        trace = step.generation if request.generate else step.training_step
        found = trace(trainable, settings, lengths, attention=request.attention, saved=dict(saved))
        peak = found.peak
        parts, passes = ({str(kind): size for kind, size in each.parts.items()} for each in (peak, found.passes))
        known = _Known(peak.bytes, parts, peak.place, found.weights, found.trained, found.layer, passes=passes)
    except AwesumError:
        raise
    except Exception as error:  # whatever a model does that cannot be traced
        return _closed_form(error, settings, lengths, saved, generate=request.generate)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, json.dumps(asdict(known)))
    except OSError:
        pass  # without a place to keep it, it is traced again next time
    return known


IRRELEVANT = (
    "data", "output", "base", "encoder", "extractor", "learning_rate", "epochs", "warmup_steps", "weight_decay",
    "label_smoothing", "max_tokens", "documents", "validation_documents", "evaluate_every", "patience", "save_steps",
    "keep", "log_steps", "report_to", "seed", "no_repeat_ngram", "max_part", "new_learning_rate",
)  # fmt: skip
"""Settings that change nothing of what a step holds; the lengths are given beside them."""


def _relevant(settings: TrainingSettings, own: Any) -> dict[str, Any]:
    """The settings that decide what a step holds, where they are not the defaults."""
    defaults = {field.name: field.default for each in (settings, own) for field in fields(each)}
    values = as_dict(settings, own)
    return {name: values[name] for name in values if name not in IRRELEVANT and values[name] != defaults[name]}


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


def _closed_form(
    error: Exception, settings: TrainingSettings, lengths: Lengths, saved: Mapping[str, Any], *, generate: bool
) -> _Known:
    """An estimate where a model cannot be traced: activations by the formula of Korthikanti and others, 2022."""
    from awesum.planning.optimizers import Weight, held
    from awesum.planning.tracing import KINDS

    size = int(saved.get("d_model") or saved.get("hidden_size") or 1024)
    heads = int(saved.get("encoder_attention_heads") or saved.get("num_attention_heads") or 16)
    layers = int(saved.get("encoder_layers") or saved.get("num_hidden_layers") or 12) + int(
        saved.get("decoder_layers") or saved.get("num_decoder_layers") or 0
    )
    vocabulary = int(saved.get("vocab_size") or 50_000)
    count = layers * 14 * size * size + vocabulary * size
    tokens = min(lengths.input_tokens, lengths.segment_tokens) + lengths.target_tokens
    wide = 2 if settings.precision == "float32" else 1
    parts: dict[str, int] = dict.fromkeys(KINDS, 0)
    if generate:
        keys_and_values = layers * 2 * size * tokens
        parts |= {"weights": 2 * wide * count, "activations": 2 * wide * keys_and_values}
    else:
        activations = wide * layers * tokens * (34 * size + 5 * heads * tokens) + 8 * lengths.target_tokens * vocabulary
        states = held(settings.optim, [Weight((count,))])
        parts |= {"weights": 4 * count, "gradients": 4 * count, "optimizer": states.states}
        parts |= {"activations": activations, "temporary": states.step}
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    note = f"the step could not be traced ({reason}): this is an estimate by a formula, for a plain transformer"
    return _Known(sum(parts.values()), parts, "an estimate", count, 0 if generate else count, 14 * size * size, note)


def _shared(known: _Known, request: Request) -> _Known:
    """What one of several GPUs holds."""
    if request.gpus == 1:
        return known
    from awesum.training.trainer import BUCKET

    trained = 4 * known.trained
    if request.strategy == "ddp":  # gradients are exchanged in buckets, after the backward pass
        held = {"weights": known.parts["weights"], "gradients": trained, "optimizer": known.parts["optimizer"]}
        exchange = {**dict.fromkeys(known.parts, 0), **held, "temporary": 2 * 4 * min(BUCKET, known.trained)}
        return _higher(known, known.parts, exchange)
    # Our FSDP gathers all weights for the passes, and collects whole gradients: see `training.sharding`. Between them a
    # process has its share; the exchange at the end takes a layer's gradients once more, and their share.
    parts = known.passes or known.parts
    share = {kind: -(-parts[kind] // request.gpus) for kind in ("weights", "optimizer")}
    during = {**parts, "weights": parts["weights"] + share["weights"], "optimizer": share["optimizer"]}
    layer = 4 * known.layer
    exchange = {**dict.fromkeys(parts, 0), "weights": during["weights"], "gradients": trained}
    exchange |= {"optimizer": share["optimizer"], "temporary": layer + -(-layer // request.gpus)}
    return _higher(known, during, exchange)


def _higher(known: _Known, during: Mapping[str, int], exchange: Mapping[str, int]) -> _Known:
    """The higher of two moments: a step, and the exchange of gradients after it."""
    if sum(exchange.values()) > sum(during.values()):
        return replace(known, bytes=sum(exchange.values()), parts=dict(exchange), place="the exchange of gradients")
    return replace(known, bytes=sum(during.values()), parts=dict(during))


def _longest(
    request: Request, known: _Known, settings: TrainingSettings, own: Any, saved: Mapping[str, Any]
) -> int | None:
    """The longest input that fits, in steps of 1,024 tokens."""
    from awesum.planning.step import is_flat

    limit = request.gpu_memory
    assert limit is not None, "asked for a GPU"

    if is_flat(own):
        return None if known.bytes <= limit else 0  # the same for every length
    pages = own.pages * own.page_size if hasattr(own, "pages") else None
    searched = max(SEARCHED, request.input_tokens or 0)
    most = pages or min(_positions(request, settings, own, saved) or searched, searched)

    def peak(steps: int) -> int:
        longer = replace(request, input_tokens=min(steps * STEP, most))
        return _shared(_traced(longer, settings, own, saved), request).bytes

    return min(most, STEP * longest_multiple(peak, limit, most=-(-most // STEP)))


def longest_multiple(peak: Callable[[int], int], limit: int, most: int) -> int:
    """The largest n up to `most` with peak(n) <= limit, for a peak that rises steadily: a few looks, not a search.

    A parabola through the points that are known says where to look next.
    """
    known = {1: peak(1)}
    if known[1] > limit:
        return 0
    known[2] = peak(min(2, most))
    low, high = 1, most + 1  # fits, does not fit
    for _ in range(ROUNDS):
        low = max([low, *(n for n, bytes_ in known.items() if bytes_ <= limit and n <= most)])
        high = min([high, *(n for n, bytes_ in known.items() if bytes_ > limit)])
        if high - low <= 1:
            break
        guess = min(max(_crossing(known, limit), low + 1), high - 1)
        if guess in known:
            break
        known[guess] = peak(guess)
        for near in (guess - 1, guess + 1):
            if low < near < high and near not in known and (known[guess] > limit) == (near < guess):
                known[near] = peak(near)
                break
    low = max([low, *(n for n, bytes_ in known.items() if bytes_ <= limit and n <= most)])
    return min(low, most)


def _crossing(known: Mapping[int, int], limit: int) -> int:
    """Where a polynomial through the nearest known points reaches the limit."""
    import numpy as np

    nearest = sorted(known, key=lambda n: abs(known[n] - limit))[:3]
    curve = np.polyfit(nearest, [known[n] - limit for n in nearest], len(nearest) - 1)
    roots = [root.real for root in np.roots(curve) if abs(root.imag) < 1e-6 and root.real > 0]
    return int(min(roots)) if roots else 2 * max(known)


CHANGES: Sequence[Mapping[str, Any]] = (
    {"optim": "adamw_8bit"},
    {"gradient_checkpointing": True},
    {"precision": "bfloat16"},
    {"gradient_checkpointing": True, "precision": "bfloat16", "optim": "adamw_8bit"},
    {"gradient_checkpointing": True, "precision": "bfloat16", "optim": "adamw_8bit", "offload": True},
    {"gradient_checkpointing": True, "precision": "bfloat16", "lora_rank": 16},
)
"""What lowers the peak of training, from what costs least to everything together; the last trains fewer weights."""
CHANGES_TO_WRITING: Sequence[Mapping[str, Any]] = (
    {"precision": "bfloat16"},
    {"num_beams": 1},
    {"precision": "bfloat16", "num_beams": 1},
)
"""What lowers the peak of writing."""


def _advice(request: Request, known: _Known, limit: int) -> Iterator[Advice]:
    """Each change with its saving."""
    for change in CHANGES_TO_WRITING if request.generate else CHANGES:
        if all(request.settings.get(name) == value for name, value in change.items()):
            continue
        changed = replace(request, settings={**request.settings, **change})
        try:
            settings, own = _settings(changed)
            less = _shared(_traced(changed, settings, own, _configuration(changed, settings, own)), changed)
        except AwesumError:
            continue  # a system without that setting
        if less.bytes < known.bytes:
            yield Advice(change, less.bytes, known.bytes - less.bytes, less.bytes <= limit)


def _too_small(known: _Known, advice: Sequence[Advice]) -> str:
    from awesum.footprint import format_size

    note = (
        f"the weights alone take {format_size(known.parts['weights'])}, more than the GPU has: as asked it takes one "
        f"of {format_size(known.bytes)}"
    )
    if not advice:
        return note
    least = min(advice, key=lambda each: each.peak_bytes)
    return f"{note}; the smallest that works, with {least.flags}, has {format_size(least.peak_bytes)}"
