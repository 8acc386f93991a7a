"""How fast the greedy oracle is: against asking Google's package about every sentence, and on a whole novel.

Both with tokenizing, without splitting into sentences, and on one core: `taskset -c 1 python -m benchmarks.oracle`.
The slow loop runs whole, once, which takes minutes, and has to choose the same sentences. Time is that of the
processor, so that it does not matter what else the machine does.
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

DATA = Path(__file__).parent.parent.parent / "shared" / "data"
REPORT = range(8_500, 9_501)
"""Words of the report: the first one of such a length is taken."""
NOVEL = 143_000
"""Words of the novel: the one nearest to that is taken."""

Oracle = Callable[[list[str], str], list[int]]


def seconds(choose: Oracle, sentences: list[str], summary: str) -> tuple[float, list[int]]:
    """The time of one call, and what it chose."""
    started = time.process_time()
    chosen = choose(sentences, summary)
    return time.process_time() - started, chosen


def median_seconds(sentences: list[str], summary: str, calls: int) -> tuple[float, list[int]]:
    """The usual time of our own, after one call that fills the cache of stems; and what it chose."""
    first, chosen = seconds(oracle.greedy, sentences, summary)
    print(f"  first call, with no stem known: {first:.3f} s", file=sys.stderr)
    return statistics.median(seconds(oracle.greedy, sentences, summary)[0] for _ in range(calls)), chosen


def sentences_of(document: str) -> list[str]:
    """The document as the oracle is given it."""
    return [document[start:end] for start, end in sentence_spans(document)]


def words(example: datasets.Example) -> int:
    """How long a document is."""
    return len(example.document.split())


def main() -> int:
    """Print the ratio for a report and the time for a novel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA / "govreport", help="reports (%(default)s)")
    parser.add_argument("--data2", type=Path, default=DATA / "booksum_book", help="novels (%(default)s)")
    options = parser.parse_args()

    example = next(example for example in datasets.load(options.data, "validation") if words(example) in REPORT)
    sentences = sentences_of(example.document)
    ours, chosen = median_seconds(sentences, example.summary, 15)
    print(f"report of {words(example):,} words: {len(chosen)} of {len(sentences)} sentences in {1000 * ours:.1f} ms")
    slow, expected = seconds(reference.greedy, sentences, example.summary)
    if chosen != expected:
        raise SystemExit(f"the slow loop chose others: {expected} instead of {chosen}")
    reached = [report(f"slow loop of {slow:.1f} s against ours", slow / ours, 1_000, " times", at_most=False)]

    novel = min(datasets.load(options.data2, "validation"), key=lambda example: abs(words(example) - NOVEL))
    sentences = sentences_of(novel.document)
    ours, chosen = median_seconds(sentences, novel.summary, 5)
    print(f"novel: {len(chosen)} of {len(sentences)} sentences")
    reached.append(report(f"novel of {words(novel):,} words", ours, 3, " s"))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
