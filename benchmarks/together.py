"""Several short documents through the shipped writer: side by side against one by one.

python -m benchmarks.together [--documents 8] [--words 400] [--length 60w]
"""

from __future__ import annotations

import argparse
import sys
import time

from awesum import AwesumError, Document, Summarizer
from benchmarks import SAMPLE, report

BAR = 1.5


def documents(count: int, words: int) -> list[Document]:
    """Short documents: stretches of the sample, one after another."""
    paragraphs = [line for line in SAMPLE.read_text(encoding="utf-8").splitlines() if line.strip()]
    found: list[Document] = []
    taken: list[str] = []
    while len(found) < count and paragraphs:
        taken.append(paragraphs.pop(0))
        if sum(len(text.split()) for text in taken) >= words:
            found.append(Document("\n\n".join(taken), path=f"document {len(found) + 1}"))
            taken = []
    return found


def main() -> int:
    """Print both times and the ratio; the summaries must be the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=8)
    parser.add_argument("--words", type=int, default=400)
    parser.add_argument("--length", default="60w")
    options = parser.parse_args()
    short = documents(options.documents, options.words)
    summarizer = Summarizer.load("awesum")
    summarizer.summarize(short[0], length=options.length)  # warm
    started = time.perf_counter()
    one_by_one = [summarizer.summarize(document, length=options.length) for document in short]
    alone = time.perf_counter() - started
    started = time.perf_counter()
    together = list(summarizer.summarize_all(short, length=options.length))
    side_by_side = time.perf_counter() - started
    same = sum(
        not isinstance(both, AwesumError) and both.text == one.text
        for one, both in zip(one_by_one, together, strict=True)
    )
    print(f"{len(short)} documents: one by one {alone:.1f} s, side by side {side_by_side:.1f} s, {same} texts the same")
    return 0 if report("side by side", alone / side_by_side, BAR, " times", at_most=False) else 1


if __name__ == "__main__":
    sys.exit(main())
