"""SummaC with only the nearest document sentences against SummaC with all: the agreement, and the time saved.

    python -m benchmarks.summac --data FOLDER --model NAME_OR_PATH [--documents 5]
    python -m benchmarks.summac --data FOLDER [--documents 20]

`--data` has a `validation` split; its reference summaries are scored, evenly spaced. Without an NLI model, a stand-in
based on words is used: E is the share of a sentence's words and word pairs found in the other one, averaged, and C is
0. This shows whether the sentences nearest in meaning are those that say the same. Times are CPU times.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from awesum import datasets
from awesum.analysis.embedding import SentenceEncoder
from awesum.metrics.summac import CONV_HYPOTHESES, CONV_PREMISES, Summac, chunks
from awesum.scoring.rouge import Index, NGrams, Vocabulary
from awesum.weights import minilm_folder

NEAREST = (5, 10, 20, 40)


def measured(metric: Summac, examples: list[datasets.Example]) -> tuple[list[NDArray[np.float64]], float]:
    """SummaC-ZS of every sentence of each summary, and the total CPU time in seconds."""
    started = time.process_time()
    scores = [metric.support(example.document, example.summary).sentences for example in examples]
    return scores, time.process_time() - started


def agreement(ours: NDArray[np.float64], exact: NDArray[np.float64]) -> str:
    """Pearson correlation, if defined, and mean absolute difference."""
    varied = len(ours) > 1 and ours.std() > 0 and exact.std() > 0
    correlation = f"{np.corrcoef(ours, exact)[0, 1]:7.3f}" if varied else "      -"
    return f"{correlation} {np.abs(ours - exact).mean():7.4f}"


def pairs(examples: list[datasets.Example], premises: int | None) -> int:
    """An upper bound on the pairs given to the model for ZS alone."""
    sizes = [(len(chunks(example.document)), len(chunks(example.summary))) for example in examples]
    return sum(m * (n if premises is None else min(n, premises)) for n, m in sizes)


def spread(data: Path, number: int) -> list[datasets.Example]:
    """`number` examples, evenly spaced over the split."""
    examples = datasets.load(data, "validation")
    return [examples[place * len(examples) // number] for place in range(min(number, len(examples)))]


def by_words(premises: list[str], hypotheses: list[str]) -> NDArray[np.float64]:
    """E of the stand-in, (n, m)."""
    vocabulary = Vocabulary()
    numbers = [vocabulary.words(premise) for premise in premises]
    single, double = (
        Index([NGrams.of(words, 1) for words in numbers]),
        Index([NGrams.of(words, 2) for words in numbers]),
    )
    columns = []
    for hypothesis in hypotheses:
        words = vocabulary.words(hypothesis)
        ones, twos = NGrams.of(words, 1), NGrams.of(words, 2)
        shares = single.overlaps(ones) / max(ones.total, 1), double.overlaps(twos) / max(twos.total, 1)
        columns.append(np.mean(shares, axis=0))
    return np.array(columns).T


def compare_by_words(examples: list[datasets.Example], encoder: SentenceEncoder) -> None:
    """Print one line per number of nearest sentences."""
    exact: list[NDArray[np.float64]] = []
    pruned: dict[int, list[NDArray[np.float64]]] = {nearest: [] for nearest in NEAREST}
    for example in examples:
        premises, hypotheses = chunks(example.document), chunks(example.summary)
        image = by_words(premises, hypotheses)
        exact.append(image.max(axis=0))
        order = np.argsort(-(encoder.encode(premises) @ encoder.encode(hypotheses).T), axis=0, kind="stable")  # (n, m)
        for nearest in NEAREST:
            pruned[nearest].append(np.take_along_axis(image, order[:nearest], axis=0).max(axis=0))
    print(f"{len(examples)} documents, {sum(map(len, exact)):,} summary sentences, a stand-in based on words")
    print(f"{'':>8} {'of summaries':>15} {'of sentences':>15}")
    print(f"{'nearest':>8} {'r':>7} {'|diff|':>7} {'r':>7} {'|diff|':>7} {'same':>7}")
    for nearest, scores in pruned.items():
        of_summaries = agreement(np.array([s.mean() for s in scores]), np.array([s.mean() for s in exact]))
        of_sentences = agreement(np.concatenate(scores), np.concatenate(exact))
        same = np.mean(np.concatenate(scores) == np.concatenate(exact))
        print(f"{nearest:>8} {of_summaries} {of_sentences} {same:7.1%}")


def main() -> int:
    """Print one line per number of nearest sentences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a dataset with a validation split")
    parser.add_argument("--model", help="folder or hub name of an NLI model (default: the stand-in)")
    parser.add_argument("--documents", type=int, default=5, help="documents to score (default: %(default)s)")
    options = parser.parse_args()
    examples = spread(options.data, options.documents)
    encoder = SentenceEncoder.load(minilm_folder())
    if options.model is None:
        compare_by_words(examples, encoder)
        return 0
    metric = Summac.load(options.model, None)
    exact, exact_seconds = measured(metric, examples)
    print(
        f"{len(examples)} documents, {pairs(examples, None):,} pairs, {exact_seconds:.1f} s with all document sentences"
    )
    print(f"(times include Conv, which always uses the first {CONV_PREMISES} x {CONV_HYPOTHESES} pairs)")
    print(f"{'':>8} {'of summaries':>15} {'of sentences':>15}")
    print(f"{'nearest':>8} {'r':>7} {'|diff|':>7} {'r':>7} {'|diff|':>7} {'pairs':>7} {'faster':>8}")
    for nearest in NEAREST:
        scores, seconds = measured(Summac(metric.model, metric.tokenizer, options.model, nearest, encoder), examples)
        of_summaries = agreement(np.array([s.mean() for s in scores]), np.array([s.mean() for s in exact]))
        of_sentences = agreement(np.concatenate(scores), np.concatenate(exact))
        share = pairs(examples, nearest) / max(pairs(examples, None), 1)
        print(f"{nearest:>8} {of_summaries} {of_sentences} {share:7.1%} {exact_seconds / seconds:7.2f}x", flush=True)
    if metric.cut or metric.cut_summary:
        print(f"{metric.cut} document and {metric.cut_summary} summary sentences were truncated", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
