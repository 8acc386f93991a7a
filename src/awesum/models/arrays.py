"""Arrays that a model computed, cached on disk.

A file is named after what its numbers were computed from, is written atomically, and is memory-mapped when it is read:
interrupted work resumes where it stopped, and several runs can share a folder. `origin.txt` names the model that
computed them, so that a folder that was renamed or copied is not taken for another model's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from awesum import files
from awesum.errors import AwesumError

if TYPE_CHECKING:
    from numpy.typing import NDArray


ORIGIN = "origin.txt"


@dataclass(frozen=True)
class Arrays:
    """Arrays of one number format in a folder."""

    folder: Path
    form: type[np.floating[Any]]
    origin: str
    """What the numbers of this folder come from: the model, and which of its layers."""
    elsewhere: str = "set AWESUM_CACHE to another folder"
    """What to advise when the folder cannot be used."""

    def __post_init__(self) -> None:
        try:
            found = (self.folder / ORIGIN).read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            return  # nothing is cached yet, or by a version that did not say
        if found != self.origin:
            raise AwesumError(
                f"{self.folder} was cached from {found}, not from {self.origin}: rename or delete that folder, or "
                f"{self.elsewhere}"
            )

    def path(self, *origin: Any) -> Path:
        """The file of the array that was computed from `origin`."""
        key = sha256(json.dumps(origin).encode()).hexdigest()[:32]
        return self.folder / key[:2] / f"{key}.npy"

    def load(self, path: Path, shape: tuple[int, ...]) -> NDArray[Any] | None:
        """The array, memory-mapped copy-on-write; None if the file is missing or damaged."""
        if not all(shape):
            return np.zeros(shape, self.form)
        try:
            array: NDArray[Any] = np.load(path, mmap_mode="c", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        return array if array.shape == shape and array.dtype == self.form else None

    def keep(self, path: Path, numbers: NDArray[Any]) -> None:
        """Write an array to its file."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with files.replacing(path) as aside, aside.open("wb") as file:
                np.save(file, numbers.astype(self.form, copy=False), allow_pickle=False)
            if not (self.folder / ORIGIN).exists():
                files.write(self.folder / ORIGIN, self.origin + "\n")
        except OSError as error:
            raise AwesumError(
                f"cannot cache the output of the frozen layers in {self.folder} ({error.strerror or error}): make room "
                f"there, or {self.elsewhere}; the same command then resumes where it stopped"
            ) from error
