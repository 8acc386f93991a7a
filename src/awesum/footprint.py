"""How much memory the process takes, how much a run would need, and how many prompts fit side by side."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

from awesum.errors import AwesumError

_UNITS = {"B": 1, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000, "T": 1_000_000_000_000}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*", re.IGNORECASE)

RUNTIME = 480_000_000
"""Bytes of Python with torch and the readers loaded, before any weights; measured as peak resident memory."""
READING = 150_000_000
"""Bytes that reading one prompt takes for a moment, beside what is remembered of it; measured with SmolLM2."""


def parse_size(text: str) -> int:
    """Bytes from `2GB`, `800M`, `1.5 GiB`."""
    match = _SIZE.fullmatch(text)
    if not match:
        raise AwesumError(f"cannot read the memory size {text!r}: say for example 2GB or 800MB")
    unit = match[2].upper() or "B"
    return int(float(match[1]) * (1024 ** "BKMGT".index(unit) if match[3] else _UNITS[unit]))


def format_size(size: int) -> str:
    """`1.1 GB`, `640 MB`."""
    return f"{size / 1e9:.1f} GB" if size >= 950_000_000 else f"{size / 1e6:.0f} MB"


def peak_memory() -> int:
    """The most resident memory that this process has ever had, in bytes."""
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # kilobytes everywhere but on macOS


@dataclass(frozen=True)
class Footprint:
    """What a run takes: a fixed part, and a part for each prompt that is written to side by side."""

    fixed: int
    per_prompt: int

    def prompts(self, limit: int | None, most: int) -> int:
        """How many prompts fit under `limit` bytes, at most `most`; not even one is the user's error."""
        if limit is None:
            return most
        if limit < self.fixed + self.per_prompt:
            raise AwesumError(
                f"--max-memory {format_size(limit)} is too little: this model needs at least "
                f"{format_size(self.fixed + self.per_prompt)}; raise the limit or use --style extract"
            )
        return min(most, (limit - self.fixed) // self.per_prompt) if self.per_prompt else most
