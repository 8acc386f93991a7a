"""The peak memory of training: that it does not grow with the document, and what each variant takes relative to Se3.

    python -m benchmarks.training_memory            both; `--flat` or `--extra` for one of them

Each measurement is a process of its own: its peak resident memory, less what it had before there was a model.
`--flat` trains a small model, weights and Adam included, on a document of 64 segments and on one of 4, also with losses
that go back through 2 and 4 updates of the memory (K). `--extra` trains
one of the size of BART-large (random weights) on three segments, because the share of the weights matters there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

from benchmarks import SMALL_BART, given_back, report

VARIANTS: dict[str, dict[str, str]] = {
    "Se3": {"memory": "none"},
    "Compressive": {"memory": "compressive"},
    "Attentive": {"memory": "attentive"},
    "Text-concat": {"memory": "none", "salient": "text"},
    "Key-value": {"memory": "none", "salient": "key-value"},
    "Attentive + Text": {"memory": "attentive", "salient": "text"},
    "Attentive + Key-value": {"memory": "attentive", "salient": "key-value"},
    "Attentive, both directions": {"memory": "attentive", "memory_direction": "both"},
    "Salient": {"memory": "salient"},
}
DEPTHS = {
    f"{variant}, K = {depth}": (variant, depth)
    for variant in ("Attentive", "Compressive", "Attentive, both directions")
    for depth in (2, 4)
}
"""Variants whose loss goes back through more than one update."""
PAPER = {
    "Se3": 11.1,
    "Compressive": 12.5,
    "Attentive": 14.0,
    "Text-concat": 12.0,
    "Key-value": 14.3,
    "Attentive + Text": 14.8,
}
"""Gigabytes on GovReport, from the paper's first table."""
SMALL: dict[str, Any] = {
    **SMALL_BART,
    "memory_layers": 1,
    "memory_size": 512,
    "salient_size": 512,
}


def measure(variant: str, segments: int, large: bool) -> None:
    """In a process of its own: train on a random document and print the peak."""
    import torch

    from awesum.footprint import peak_memory
    from awesum.models.bart_config import AwesomeConfig
    from awesum.recurrence import train
    from benchmarks.random_documents import random_document, random_model

    torch.set_flush_denormal(True)
    before = peak_memory()
    name, depth = DEPTHS.get(variant, (variant, 1))
    config = AwesomeConfig(**({} if large else SMALL), **VARIANTS[name])  # the defaults are those of BART-large
    model = random_model(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, foreach=False)
    for count in (2, segments):  # the second starts with gradients and both moments allocated
        train(model, [random_document(config, count)], torch.Tensor.backward, depth=depth)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    print(json.dumps(peak_memory() - before))


def peak(variant: str, segments: int, large: bool) -> int:
    """Bytes that training a variant takes."""
    command = [sys.executable, "-m", "benchmarks.training_memory", "--measure", variant, str(segments)]
    done = subprocess.run(
        [*command, *(["--large"] if large else [])], check=True, stdout=subprocess.PIPE, env=given_back()
    )
    return int(json.loads(done.stdout))


def flat() -> bool:
    """64 segments against 4."""
    reached = []
    for variant in (*VARIANTS, *DEPTHS):
        short, long = peak(variant, 4, large=False), peak(variant, 64, large=False)
        print(f"{variant}: {short / 1e6:,.0f} MB with 4 segments, {long / 1e6:,.0f} MB with 64", flush=True)
        bar = 1.10 if "Key-value" in variant else 1.02
        reached.append(report(f"{variant}, 64 segments against 4", long / short, bar))
    return all(reached)


def extra() -> bool:
    """Each variant of the paper's table against Se3."""
    se3 = peak("Se3", 3, large=True)
    print(f"Se3: {se3 / 1e9:.2f} GB")
    reached = []
    for variant in list(PAPER)[1:]:
        size = peak(variant, 3, large=True)
        print(f"{variant}: {size / 1e9:.2f} GB")
        reached.append(report(f"{variant} against Se3", size / se3, round(PAPER[variant] / PAPER["Se3"], 3)))
    return all(reached)


def main() -> int:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flat", action="store_true")
    parser.add_argument("--extra", action="store_true")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--large", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure[0], int(options.measure[1]), options.large)
        return 0
    both = options.flat == options.extra
    reached = [flat() if both or options.flat else True, extra() if both or options.extra else True]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
