"""The limits of reading one document: how much memory and how much time its reader may take."""

from __future__ import annotations

from dataclasses import dataclass

from awesum.errors import AwesumError
from awesum.footprint import parse_size

MEMORY = 1_000_000_000
"""Bytes of a reader, unless the user says otherwise: enough for a Word document of 3,000,000 XML elements."""
SECONDS = 15.0
"""Seconds of computing for a document, unless the user says otherwise. A small file that takes longer is a bomb."""
SECONDS_PER_MEGABYTE = 2.0
"""More for a large file, unless the user says otherwise."""
PATIENCE = 4
"""How much longer a reader may take by the clock: the machine may be busy, or the disk slow."""
LEAST_MEMORY = 200_000_000
"""Bytes that a reader needs before it has read anything."""


@dataclass(frozen=True)
class ReadLimits:
    """What a reader may take. Beyond it the document is given up, with one line that says so."""

    memory: int = MEMORY
    """Bytes."""
    seconds: float | None = None
    """Of computing, for each document; without it, 15 and 2 more for each megabyte of the file."""

    def __post_init__(self) -> None:
        if self.memory < LEAST_MEMORY:
            raise AwesumError(
                f"--read-memory {self.memory / 1e6:g} MB is too little: a reader needs at least "
                f"{LEAST_MEMORY / 1e6:g} MB before it has read anything"
            )
        if self.seconds is not None and not 0 < self.seconds <= 10**6:
            raise AwesumError(f"--read-timeout {self.seconds:g} is not a time: give seconds, from above 0 to 1000000")

    @classmethod
    def parse(cls, memory: str | None, seconds: float | None) -> ReadLimits:
        """The limits as the user gives them: `1GB`, `60`; none of them is the default."""
        return cls(MEMORY if memory is None else parse_size(memory, flag="--read-memory"), seconds)

    def seconds_for(self, size: int) -> float:
        """The seconds for a file of `size` bytes."""
        return self.seconds if self.seconds is not None else SECONDS + SECONDS_PER_MEGABYTE * size / 1e6
