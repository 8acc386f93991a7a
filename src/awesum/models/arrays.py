"""Numbers that a model made, kept on disk so that they need not be made again.

A file is named after what its numbers come from, is written aside and moved into place, and is mapped into memory when
it is read: interrupted work goes on where it stopped, and several runs can share a folder.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from awesum.errors import AwesumError
from awesum.files import replacing

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Arrays:
    """Arrays of one number format in a folder."""

    folder: Path
    form: type[np.floating[Any]]
    elsewhere: str = "set AWESUM_CACHE to another folder"
    """What to do where there is no room."""

    def path(self, *origin: Any) -> Path:
        """Where numbers of this origin are kept."""
        key = sha256(json.dumps(origin).encode()).hexdigest()[:32]
        return self.folder / key[:2] / f"{key}.npy"

    def load(self, path: Path, shape: tuple[int, ...]) -> NDArray[Any] | None:
        """What is kept there, mapped; nothing if it is not there, or not whole. What is written to it stays here."""
        if not all(shape):
            return np.zeros(shape, self.form)
        try:
            array: NDArray[Any] = np.load(path, mmap_mode="c", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        return array if array.shape == shape and array.dtype == self.form else None

    def keep(self, path: Path, numbers: NDArray[Any]) -> None:
        """Write a file."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as aside, aside.open("wb") as file:
                np.save(file, numbers.astype(self.form, copy=False), allow_pickle=False)
        except OSError as error:
            raise AwesumError(
                f"cannot keep what the frozen layers make in {self.folder} ({error.strerror or error}): make room "
                f"there, or {self.elsewhere}; the same command then goes on where it stopped"
            ) from error
