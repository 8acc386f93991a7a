"""The time that attentive memory in three layers costs in training and generation, against Se3 with the same code.

A model of the size of BART-large with random weights, and documents of random tokens in the proportions of GovReport.
The two models take turns and the median of the ratios counts, so that other load on the machine hits both alike. Times
are processor time, with one thread. `--width 256` takes a model with as many layers and slots, but narrower, in a
sixteenth of the time; attention to the slots has a larger share in it, so its ratios are rather too high.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import torch

from awesum.models.bart import AwesomeBart
from awesum.models.bart_config import AwesomeConfig
from awesum.recurrence import DocumentInputs, generate, train
from benchmarks import report
from benchmarks.random_documents import TARGET, random_document, random_model

BEAMS = 4


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    started = time.process_time()
    work()
    return time.process_time() - started


def train_once(made: AwesomeBart, document: DocumentInputs) -> None:
    """One training step without the optimizer, whose time per weight is the same."""
    made.train()
    train(made, [document], torch.Tensor.backward)


def generate_once(made: AwesomeBart, document: DocumentInputs) -> None:
    """Parts of a fixed length with beam search."""
    made.eval()
    for _ in generate(made, [document], num_beams=BEAMS, min_new_tokens=TARGET, max_new_tokens=TARGET):
        pass


def main() -> int:
    """Print the two ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--segments", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--width", type=int, default=1024, help="size of hidden states (default: BART-large's)")
    options = parser.parse_args()
    torch.set_flush_denormal(True)
    torch.set_num_threads(1)
    sizes = {
        "d_model": options.width,
        "encoder_ffn_dim": 4 * options.width,
        "decoder_ffn_dim": 4 * options.width,
        "encoder_attention_heads": max(options.width // 64, 1),
        "decoder_attention_heads": max(options.width // 64, 1),
        "vocab_size": round(AwesomeConfig().vocab_size * options.width / 1024),
    }
    configs = [AwesomeConfig(memory=memory, dropout=0.1, **sizes) for memory in ("none", "attentive")]
    se3, attentive = map(random_model, configs)
    document = random_document(se3.config, options.segments)
    reached = []
    for name, work, bar in (("training", train_once, 1.35), ("generation", generate_once, 1.25)):
        ratios = []
        for number in range(options.rounds + 1):
            plain = seconds(partial(work, se3, document))
            with_memory = seconds(partial(work, attentive, document))
            print(f"{name}: Se3 {plain:.1f} s, attentive {with_memory:.1f} s{' (warm-up)' if not number else ''}")
            if number:
                ratios.append(with_memory / plain)
        reached.append(report(f"time of {name}, attentive against Se3", statistics.median(ratios), bar))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
