"""What an optimizer holds on the GPU for the weights it trains, by the library's name for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from awesum.errors import AwesumError

SMALLEST = 4096
"""The 8-bit optimizers keep the states of smaller weights in 32 bits, and those of embeddings."""
SCALE = 256
"""States in 8 bits share a scale of 4 bytes in blocks of this many."""


@dataclass(frozen=True)
class Held:
    """Bytes of an optimizer."""

    states: int
    """Between steps."""
    step: int
    """More while it takes a step."""


@dataclass(frozen=True)
class Weight:
    """What an optimizer needs to know of a weight."""

    shape: Sequence[int]
    is_embedding: bool = False

    @property
    def numbers(self) -> int:
        """How many it has."""
        count = 1
        for length in self.shape:
            count *= int(length)
        return count


def held(optimizer: str, weights: Iterable[Weight]) -> Held:
    """What `optimizer` takes for `weights` in single precision."""
    weights = list(weights)
    total = 4 * sum(weight.numbers for weight in weights)
    largest = 4 * max((weight.numbers for weight in weights), default=0)
    if optimizer == "adamw_torch":  # torch's default on a GPU takes the square roots of all weights at once
        return Held(2 * total, total)
    if optimizer == "adamw_torch_fused":
        return Held(2 * total, 0)
    if optimizer in ("adamw_8bit", "adamw_bnb_8bit"):
        return Held(sum(map(_eight_bits, weights)), 0)
    if optimizer in ("paged_adamw_8bit", "paged_adamw_32bit", "paged_adamw"):
        return Held(0, 0)  # in the machine's memory, from where pages are fetched while it steps
    if optimizer == "adafactor":
        return Held(sum(4 * _factors(weight) for weight in weights), 3 * largest)
    if optimizer == "sgd":
        return Held(0, 0)
    raise AwesumError(f"what the optimizer {optimizer!r} takes is not known: say {', '.join(NAMES)}")


NAMES = (
    "adamw_torch_fused", "adamw_torch", "adamw_8bit", "paged_adamw_8bit", "paged_adamw_32bit", "adafactor", "sgd",
)  # fmt: skip


def _eight_bits(weight: Weight) -> int:
    if weight.numbers < SMALLEST or weight.is_embedding:
        return 8 * weight.numbers
    return 2 * weight.numbers + 2 * 4 * -(-weight.numbers // SCALE)


def _factors(weight: Weight) -> int:
    """Adafactor keeps a row and a column of a matrix's squares, and all of anything else's."""
    if len(weight.shape) < 2:
        return weight.numbers
    *batch, rows, columns = weight.shape
    return Weight(batch).numbers * (int(rows) + int(columns))


def weights_of(model: Any) -> list[Weight]:
    """The weights of a model that are trained."""
    from torch import nn

    embedded = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    return [
        Weight(tuple(parameter.shape), id(parameter) in embedded)
        for parameter in model.parameters()
        if parameter.requires_grad
    ]
