"""8-bit Adam beside full Adam on the recall task: the loss of the same model on the same documents.

    python -m benchmarks.optimizers              needs bitsandbytes, which runs on a CPU, too
    python -m benchmarks.optimizers --steps 240  as long as the recall task itself

First without a memory, then with an attentive one, as in `benchmarks.recall`.
"""

from __future__ import annotations

import argparse
import random
import statistics
from itertools import count
from typing import Any

import torch

from benchmarks import recall

EACH = 20
"""Steps of a line."""


def losses(kind: Any, steps: int, seed: int = 0) -> tuple[list[float], list[float]]:
    """The loss of each step: on single segments, and from segment to segment with an attentive memory."""
    system = recall.SYSTEMS["attentive"]
    chance = random.Random(seed)
    model = recall.make(recall.SYSTEMS["se3"], seed)
    alone = ([recall.alone(chance) for _ in range(recall.ALONE_BATCH)] for _ in count())
    first = list(recall.train_on(model, alone, recall.ALONE, (recall.ALONE_RATE,) * 2, kind))
    remembering = recall.make(system, seed)
    remembering.load_state_dict(model.state_dict(), strict=False)
    chance = random.Random(seed)
    batches = (recall.to_train_on(chance, recall.FIRST_LONGEST, False) for _ in count())
    options = {"trunk_batch": recall.LONGEST, "empty_targets": False, "depth": system.depth}
    return first, list(recall.train_on(remembering, batches, steps, (recall.RATE, recall.NEW_RATE), kind, **options))


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
