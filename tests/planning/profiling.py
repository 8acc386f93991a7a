"""What torch's profiler saw of memory."""

from __future__ import annotations

from torch.profiler import profile


def highest_sum(profiler: profile) -> int:
    """The most bytes that were held at once of those that came and went, after the profiler has ended."""
    assert profiler.profiler is not None
    now = highest = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            highest = max(highest, now)
    return highest
