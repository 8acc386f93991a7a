"""RAM: the peak of this process, the estimate for a run, and how many prompts fit in a batch."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from awesum.errors import AwesumError

_UNITS = {"B": 1, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000, "T": 1_000_000_000_000}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*", re.IGNORECASE)

RUNTIME = 480_000_000
"""Bytes taken by Python with torch and the readers loaded, before any weights; measured as peak resident memory."""
READING = 150_000_000
"""Bytes that prefilling one prompt takes temporarily, on top of its cache; measured with SmolLM2."""


MOST = 10**18
"""Bytes. More than any machine has: a size beyond it is a slip of the finger."""


def parse_size(text: str, flag: str = "--max-memory") -> int:
    """Bytes from `2GB`, `800M`, `1.5 GiB`; `flag` is named in errors."""
    match = _SIZE.fullmatch(text)
    if not match:
        raise AwesumError(f"cannot read the memory size {_short(text)!r} of {flag}: write for example 2GB or 800MB")
    unit = match[2].upper() or "B"
    size = float(match[1]) * (1024 ** "BKMGT".index(unit) if match[3] else _UNITS[unit])
    if not 0 < size <= MOST:
        raise AwesumError(f"no machine has {_short(text)} of memory: give {flag} for example 2GB or 800MB")
    return int(size)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."


def format_size(size: int) -> str:
    """`1.1 GB`, `640 MB`."""
    return f"{size / 1e9:.1f} GB" if size >= 950_000_000 else f"{size / 1e6:.0f} MB"


def peak_memory() -> int:
    """The peak resident memory of this process, in bytes."""
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # kilobytes everywhere but on macOS


def total_memory() -> int | None:
    """The RAM of this machine, or of the container that this runs in, in bytes; none if it does not say."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        try:
            import psutil
        except ImportError:
            return None
        total = int(psutil.virtual_memory().total)
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            total = min(total, int(Path(limit).read_text()))
    return total if total > 0 else None


@dataclass(frozen=True)
class Footprint:
    """The RAM a run needs, in bytes: a fixed part, plus a part for each prompt in the batch."""

    fixed: int
    per_prompt: int

    def prompts(self, limit: int | None, most: int) -> int:
        """The number of prompts that fit in `limit` bytes, at most `most`. Raises if not even one does."""
        if limit is None:
            return most
        if limit < self.fixed + self.per_prompt:
            raise AwesumError(
                f"--max-memory {format_size(limit)} is too little: this model needs at least "
                f"{format_size(self.fixed + self.per_prompt)}; raise the limit or use --style extract"
            )
        return min(most, (limit - self.fixed) // self.per_prompt) if self.per_prompt else most


def check_limit(max_memory: str | None, needed: int) -> None:
    """Raise if a memory limit, as the user gives it, is below what is needed."""
    Footprint(needed, 0).prompts(parse_size(max_memory) if max_memory else None, 1)
