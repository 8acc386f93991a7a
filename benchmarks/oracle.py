"""The speed of the greedy oracle: against scoring every sentence with Google's package, and on a whole novel.

    taskset -c 1 python -m benchmarks.oracle --data FOLDER --novels FOLDER

Both include tokenizing but not sentence splitting, on one core. The slow loop runs to its end once, which takes
minutes, and must select the same sentences. CPU time is measured, so other load on the machine does not matter.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.reference import oracle as reference

from awesum import datasets
from awesum.analysis.sentences import sentence_spans
from awesum.scoring import oracle
from benchmarks import report

REPORT = range(8_500, 9_501)
"""Words of the report: the first report in this range is used."""
NOVEL = 143_000
"""Words of the novel: the novel closest to this is used."""

Oracle = Callable[[list[str], str], list[int]]


def seconds(choose: Oracle, sentences: list[str], summary: str) -> tuple[float, list[int]]:
    """The time of one call, and its selection."""
    started = time.process_time()
    chosen = choose(sentences, summary)
    return time.process_time() - started, chosen


def median_seconds(sentences: list[str], summary: str, calls: int) -> tuple[float, list[int]]:
    """The median time of our oracle, after one call that fills the cache of stems; and its selection."""
    first, chosen = seconds(oracle.greedy, sentences, summary)
    print(f"  first call, with an empty cache of stems: {first:.3f} s", file=sys.stderr)
    return statistics.median(seconds(oracle.greedy, sentences, summary)[0] for _ in range(calls)), chosen


def sentences_of(document: str) -> list[str]:
    """The sentences of a document, the input of the oracle."""
    return [document[start:end] for start, end in sentence_spans(document)]


def words(example: datasets.Example) -> int:
    """The length of a document in words."""
    return len(example.document.split())


def main() -> int:
    """Print the ratio for a report and the time for a novel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a dataset of reports, such as GovReport")
    parser.add_argument("--novels", type=Path, required=True, help="a dataset of novels, such as BookSum")
    options = parser.parse_args()

    example = next(example for example in datasets.load(options.data, "validation") if words(example) in REPORT)
    sentences = sentences_of(example.document)
    ours, chosen = median_seconds(sentences, example.summary, 15)
    print(f"report of {words(example):,} words: {len(chosen)} of {len(sentences)} sentences in {1000 * ours:.1f} ms")
    slow, expected = seconds(reference.greedy, sentences, example.summary)
    if chosen != expected:
        raise SystemExit(f"the slow loop selected other sentences: {expected} instead of {chosen}")
    reached = [report(f"slow loop of {slow:.1f} s against ours", slow / ours, 1_000, " times", at_most=False)]

    novel = min(datasets.load(options.novels, "validation"), key=lambda example: abs(words(example) - NOVEL))
    sentences = sentences_of(novel.document)
    ours, chosen = median_seconds(sentences, novel.summary, 5)
    print(f"novel: {len(chosen)} of {len(sentences)} sentences")
    reached.append(report(f"novel of {words(novel):,} words", ours, 3, " s"))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
