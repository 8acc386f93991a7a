"""The settings that decide where a model has memories, checked alike for every family of models. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from awesum.errors import AwesumError
from awesum.memory.registry import kinds, memory_class

NO_MEMORY = "none"


def memory_choices() -> tuple[str, ...]:
    """The allowed values of `memory`."""
    return (NO_MEMORY, *kinds())


def check_choices(config: object, choices: Mapping[str, Sequence[str]], model: str = "") -> None:
    """Refuse a value that is not among its choices, and suggest the nearest."""
    for name, known in choices.items():
        value = getattr(config, name)
        if value not in known:
            near = get_close_matches(str(value), known, 1, 0.4)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise AwesumError(f"{name}={value!r} is not one of {', '.join(known)}{model}{hint}")


def check_memory(kind: str, slots: int, ratio: int) -> None:
    """Refuse settings that do not suit this kind of memory."""
    if kind == NO_MEMORY:
        return
    try:
        memory_class(kind).check(slots=slots, ratio=ratio)
    except ValueError as error:
        raise AwesumError(str(error)) from error


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
        raise AwesumError(f"memory_layers={list(wanted)}: there are {layers} layers, 0 to {layers - 1}")
    return chosen
