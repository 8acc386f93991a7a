"""The settings that decide where a model has memories, checked alike for every family of models. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from awesum.errors import AwesumError
from awesum.memory.registry import kinds, memory_class

NO_MEMORY = "none"
MEMORY_DEPTH = "memory updates through which a loss goes back; or all: through the whole document, in growing memory"
"""Help text of the setting."""
MEMORY_FORMAT = 2
"""Of saved settings. In the first, which no file names, `attentive` was what is now `attentive-literal`."""


def memory_choices() -> tuple[str, ...]:
    """The allowed values of `memory`."""
    return (NO_MEMORY, *kinds())


def current(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a saved model as this version names them."""
    renamed: dict[str, Any] = {"memory_format": MEMORY_FORMAT}
    if "memory_format" not in saved and saved.get("memory", "attentive") == "attentive":
        renamed["memory"] = "attentive-literal"
    return {**saved, **renamed}


def check_choices(config: object, choices: Mapping[str, Sequence[str]], model: str = "") -> None:
    """Refuse a value that is not among its choices, and suggest the nearest."""
    for name, known in choices.items():
        value = getattr(config, name)
        if value not in known:
            near = get_close_matches(str(value), known, 1, 0.4)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise AwesumError(f"{name}={value!r} is not one of {', '.join(known)}{model}{hint}")


def check_memory(kind: str, slots: int, ratio: int, heads: int | None = None) -> None:
    """Refuse settings that do not suit this kind of memory; `heads` are those of a layer, if the model is known."""
    if kind == NO_MEMORY:
        return
    try:
        memory_class(kind).check(slots=slots, ratio=ratio, heads=heads)
    except ValueError as error:
        raise AwesumError(str(error)) from error


def check_memory_training(kind: str, depth: int | None, learning_rate: float | None) -> None:
    """Refuse settings of training that do not suit this kind of memory."""
    if depth is not None and depth < 1:
        raise AwesumError(f"memory_depth must be 1 or more, or all, not {depth}")
    if depth is not None and depth > 1 and (kind == NO_MEMORY or not memory_class(kind).learns_to_write):
        raise AwesumError(
            f"memory_depth={depth} has no effect on memory={kind}, which has no weights to update it: leave it out"
        )
    if learning_rate is not None and not learning_rate > 0:
        raise AwesumError(f"new_learning_rate must be more than 0, not {learning_rate}")


def beyond_document(depth: int | None, name: str, segments: int) -> str | None:
    """A note on a depth that a document has not segments enough for, if it is one."""
    if depth is None or depth == 1 or depth < segments:
        return None
    return (
        f"memory_depth={depth} is more than the {max(segments - 1, 0)} memory updates of {name} ({segments} segments): "
        "in documents this short, the gradient goes back to the first segment"
    )


def memory_layers(wanted: int | str | Sequence[int], layers: int) -> tuple[int, ...]:
    """The numbers of the layers with a memory, out of `layers`: the last `wanted`, `all`, or a list of numbers."""
    if wanted == "all":
        return tuple(range(layers))
    if isinstance(wanted, str):
        raise AwesumError(f"memory_layers={wanted!r}: give a number of last layers, 'all', or a list of layers")
    if isinstance(wanted, int):
        if not 0 < wanted <= layers:
            raise AwesumError(f"memory_layers={wanted}: there are {layers} layers (for none of them, memory='none')")
        return tuple(range(layers - wanted, layers))
    chosen = tuple(sorted({layer + layers if layer < 0 else layer for layer in wanted}))
    if not chosen or chosen[0] < 0 or chosen[-1] >= layers:
        raise AwesumError(
            f"memory_layers={list(wanted)}: there are {layers} layers, 0 to {layers - 1}; name some of them"
        )
    return chosen
