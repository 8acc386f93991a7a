"""8-bit Adam beside full Adam on the recall task: the loss of the same model on the same documents.

    python -m benchmarks.optimizers              needs bitsandbytes, which runs on a CPU, too
    python -m benchmarks.optimizers --steps 240  as long as the recall task itself

First without a memory, then with an attentive one, as in `benchmarks.recall`.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import torch

from benchmarks.recall.memories import SYSTEMS, across_segments, make, within_segments

EACH = 20
"""Steps of a line."""


def losses(optimizer_class: Any, steps: int, seed: int = 0) -> tuple[list[float], list[float]]:
    """The loss of each step: on single segments, and from segment to segment with an attentive memory."""
    model = make(SYSTEMS["se3"], seed)
    first = list(within_segments(model, seed, optimizer_class=optimizer_class))
    system = SYSTEMS["attentive"]
    remembering = make(system, seed)
    remembering.load_state_dict(model.state_dict(), strict=False)
    return first, list(across_segments(remembering, system, seed, steps, optimizer_class=optimizer_class))


def main() -> int:
    """Print the two curves side by side."""
    import bitsandbytes

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=80, help="with a memory (default: %(default)s)")
    options = parser.parse_args()
    full = losses(torch.optim.AdamW, options.steps)
    eight = losses(bitsandbytes.optim.AdamW8bit, options.steps)
    print("| steps | full Adam | 8-bit Adam |\n|---|---|---|")
    for part, ours, theirs in zip(("without memory", "with memory"), full, eight, strict=True):
        for at in range(0, len(ours), EACH):
            means = (statistics.mean(each[at : at + EACH]) for each in (ours, theirs))
            last = min(at + EACH, len(ours))
            print(f"| {part}, {at + 1} to {last} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
