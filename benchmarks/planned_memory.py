"""The planned peak of a training step against the resident memory of the same step, really run.

    python -m benchmarks.planned_memory               every system; or name some of them

Each step runs in a process of its own, on random weights: the highest resident memory, less what the process had before
there was a model, against what the plan says for the kernels of this machine (`attention="own"`). Models are narrow and
documents long, so that a step takes a gigabyte and little time. Linux only.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import given_back, report

BART: dict[str, Any] = {
    "model_type": "bart",
    "vocab_size": 4000,
    "max_position_embeddings": 2048,
    "d_model": 256,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 512,
    "decoder_ffn_dim": 512,
    "dropout": 0.1,
    "attention_dropout": 0.1,
}
LONG_T5: dict[str, Any] = {
    "model_type": "longt5",
    "vocab_size": 4000,
    "d_model": 256,
    "d_kv": 32,
    "d_ff": 512,
    "num_layers": 2,
    "num_heads": 8,
    "encoder_attention_type": "transient-global",
    "feed_forward_proj": "gated-gelu",
    "decoder_start_token_id": 0,
    "tie_word_embeddings": False,
}
SYSTEMS: dict[str, dict[str, Any]] = {
    "se3": {},
    "awesome": {"memory_layers": 1, "memory_size": 1024},
    "truncated": {},
    "extract-abstract": {},
    "pagesum": {"pages": 2, "page_size": 2048},
    "cached": {"chunk_size": 1024},
    "block-attention": {"block_size": 512, "global_tokens": 64},
    "longformer": {"window": 512},
    "unlimiformer": {"retrieved": 1024},
    "long-t5": {},
}
INPUT, TARGET, SEGMENT = 4096, 512, 1536
BAR = 0.15


def prepared(system: str) -> Any:
    """The step of a system: what trains it, its settings, its lengths and the configuration that it starts from."""
    from awesum.planning.step import Lengths
    from awesum.training.settings import read_settings
    from awesum.training.trainable import make

    given = {"system": system, "base": "planned", "data": "planned", "output": "planned", "precision": "float32"}
    settings, own = read_settings(None, {**given, "optim": "sgd", **SYSTEMS[system]})
    saved = LONG_T5 if system == "long-t5" else BART
    is_short = system in ("truncated", "extract-abstract")
    length = BART["max_position_embeddings"] if is_short else INPUT
    return make(system, "planned", own), settings, Lengths(length, TARGET, SEGMENT), saved


def planned(system: str) -> int:
    """The peak by the plan."""
    from awesum.planning.step import training_step

    trainable, settings, lengths, saved = prepared(system)
    return training_step(trainable, settings, lengths, attention="own", saved=saved).peak.bytes


def measure(system: str) -> None:
    """In a process of its own: run the step and print what it took."""
    import torch

    from awesum.footprint import peak_memory
    from awesum.planning.step import Lengths, document_of

    torch.set_flush_denormal(True)

    def step(lengths: Lengths) -> None:
        trainable, settings, _, saved = prepared(system)
        trainable.make_blank(saved, lengths.input_tokens)
        for parameter in trainable.model.train().parameters():
            parameter.grad = torch.zeros_like(parameter)
        document = document_of(trainable.model.config, lengths)
        trainable.loss([document], torch.Tensor.backward, empty_targets=settings.empty_targets)

    step(Lengths(64, 8, 32))  # loads what is loaded with the first step
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    step(prepared(system)[2])
    print(json.dumps(peak_memory() - before))


def measured(system: str) -> int:
    """The peak by the machine."""
    command = [sys.executable, "-m", "benchmarks.planned_memory", "--measure", system]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=given_back())
    return int(json.loads(done.stdout))


def main() -> int:
    """Print each system's plan, its resident memory, and how far apart they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help="default: every system that is traced")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure)
        return 0
    reached = []
    for system in options.systems or SYSTEMS:
        expected, found = planned(system), measured(system)
        print(f"{system}: {expected / 1e6:,.0f} MB planned, {found / 1e6:,.0f} MB resident", flush=True)
        reached.append(report(f"{system}, plan and resident memory apart", abs(expected / found - 1), BAR))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
