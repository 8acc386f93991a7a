"""SummaC with the nearest document sentences against SummaC with all of them: how far they agree, and what it saves.

    python -m benchmarks.summac --data FOLDER --model NAME_OR_PATH [--documents 5]

`--data` holds a `validation` split, whose reference summaries are measured. Agreement says something with a real NLI
model only; where there is none, a tiny random one shows that the script runs and what share of the pairs is asked, but
is slower with the nearest sentences: finding them then costs more than asking about all. Time is the processor's.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from awesum import datasets
from awesum.embedding import SentenceEncoder
from awesum.metrics.summac import CONV_HYPOTHESES, CONV_PREMISES, VITC, Summac, chunks
from awesum.weights import minilm_folder

NEAREST = (5, 10, 20, 40)


def measured(metric: Summac, examples: list[datasets.Example]) -> tuple[list[NDArray[np.float64]], float]:
    """SummaC-ZS of every sentence of each summary, and the seconds of processor time of all."""
    started = time.process_time()
    scores = [metric.support(example.document, example.summary).sentences for example in examples]
    return scores, time.process_time() - started


def agreement(ours: NDArray[np.float64], exact: NDArray[np.float64]) -> str:
    """Pearson correlation, where there is one, and mean absolute difference."""
    varied = len(ours) > 1 and ours.std() > 0 and exact.std() > 0
    correlation = f"{np.corrcoef(ours, exact)[0, 1]:7.3f}" if varied else "      -"
    return f"{correlation} {np.abs(ours - exact).mean():7.4f}"


def pairs(examples: list[datasets.Example], premises: int | None) -> int:
    """At most how many pairs the model is asked about for ZS alone."""
    sizes = [(len(chunks(example.document)), len(chunks(example.summary))) for example in examples]
    return sum(m * (n if premises is None else min(n, premises)) for n, m in sizes)


def main() -> int:
    """Print a line for each number of nearest sentences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default=VITC, help="an NLI model's folder, or its name on the hub (%(default)s)")
    parser.add_argument("--documents", type=int, default=5)
    options = parser.parse_args()
    examples = list(islice(datasets.load(options.data, "validation"), options.documents))
    encoder = SentenceEncoder.load(minilm_folder())
    metric = Summac.load(options.model, None)
    exact, exact_seconds = measured(metric, examples)
    print(
        f"{len(examples)} documents, {pairs(examples, None):,} pairs, {exact_seconds:.1f} s with all document sentences"
    )
    print(f"(times include Conv, which is always asked about the first {CONV_PREMISES} x {CONV_HYPOTHESES} pairs)")
    print(f"{'':>8} {'of summaries':>15} {'of sentences':>15}")
    print(f"{'nearest':>8} {'r':>7} {'|diff|':>7} {'r':>7} {'|diff|':>7} {'pairs':>7} {'faster':>8}")
    for nearest in NEAREST:
        scores, seconds = measured(Summac(metric.model, metric.tokenizer, options.model, nearest, encoder), examples)
        of_summaries = agreement(np.array([s.mean() for s in scores]), np.array([s.mean() for s in exact]))
        of_sentences = agreement(np.concatenate(scores), np.concatenate(exact))
        share = pairs(examples, nearest) / max(pairs(examples, None), 1)
        print(f"{nearest:>8} {of_summaries} {of_sentences} {share:7.1%} {exact_seconds / seconds:7.2f}x", flush=True)
    if metric.cut or metric.cut_summary:
        print(f"{metric.cut} document and {metric.cut_summary} summary sentences were cut", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
