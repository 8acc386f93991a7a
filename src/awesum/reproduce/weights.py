"""What a row starts from: how many parameters, and whether anybody has trained them. Reads headers and norms only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from awesum.loading import folder_of

TINY = 100_000_000
"""Parameters: a model with fewer is a stand-in for any of the paper's, which have 250 million and more."""
_NORM = re.compile(r"norm[^.]*\.weight$|\.ln_[^.]*\.weight$", re.IGNORECASE)


@dataclass(frozen=True)
class Base:
    """A pretrained model."""

    name: str
    parameters: int | None
    """None if the model is not on this machine."""
    is_random: bool
    """Whether all its norms are as they were made: it was never trained."""

    @property
    def is_tiny(self) -> bool:
        """Whether it is a stand-in."""
        return self.parameters is not None and self.parameters < TINY

    def __str__(self) -> str:
        if self.parameters is None:
            return self.name
        kind = ", ".join(["random weights"] * self.is_random + ["tiny"] * self.is_tiny)
        return f"{Path(self.name).name if kind else self.name}, {self.parameters / 1e6:,.1f}M" + f" ({kind})" * bool(
            kind
        )


def look(name: str) -> Base:
    """Look at the weights of a model that is on this machine."""
    folder = folder_of(name)
    paths = sorted(folder.glob("*.safetensors")) if folder else []
    if not paths:
        return Base(name, None, False)
    from safetensors import safe_open

    count, norms = 0, []
    for path in paths:
        with safe_open(path, "pt") as file:
            for key in file.keys():  # noqa: SIM118 (the file is no dictionary)
                count += prod(file.get_slice(key).get_shape())
                if _NORM.search(key):
                    norms.append(_is_all_ones(file.get_tensor(key)))
    return Base(name, count, bool(norms) and all(norms))


def _is_all_ones(weight: Any) -> bool:
    return bool((weight == 1).all())
