"""What embedding costs, and how much of it the default saves: ratios of the fastest rounds of one run.

    python -m benchmarks.embedding [DOCUMENT] [--rounds 3]

Prints the encoder in this machine's number format against float32 (speed, cosine of the vectors, whether the same
sentences are selected), and reading a document with the extractor's own vectors against reading it with the encoder's.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from awesum.analysis.analysis import Analysis, Analyst
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.segmentation import Limits
from awesum.analysis.sentences import sentence_spans
from awesum.document import Document
from awesum.length import Length
from awesum.loading import choose_device, load_tokenizer
from awesum.settings import SMOLLM2
from awesum.weights import minilm_folder, smollm2_folder
from benchmarks import SAMPLE


def fastest(call: Callable[[], object], rounds: int) -> float:
    """Seconds of the fastest of some calls."""
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def main() -> int:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document", nargs="?", type=Path, default=SAMPLE)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    text = options.document.read_text(encoding="utf-8")
    texts = [text[start:end] for start, end in sentence_spans(text)]
    tokenizer = load_tokenizer(SMOLLM2, smollm2_folder())

    def analyse(encoder: SentenceEncoder | None, encode: bool) -> Analysis:
        analyst = Analyst(encoder)  # a new one each time: an analyst keeps its last document
        return analyst.analyse(
            Document(text),
            tokenizer=tokenizer,
            limits=Limits(),
            length=Length.parse("auto"),
            spread=False,
            encode=encode,
        )

    own = SentenceEncoder.load(minilm_folder())
    single = SentenceEncoder.load(minilm_folder())
    single.model = single.model.to(torch.float32)
    vectors, exact = own.encode(texts), single.encode(texts)
    seconds, exact_seconds = (fastest(lambda e=e: e.encode(texts), options.rounds) for e in (own, single))  # type: ignore[misc]
    cosine = float((vectors * exact).sum(axis=1).min())
    selected, exactly = ({*analyse(e, True).selection.selected} for e in (own, single))
    _, dtype, reason = choose_device()
    print(f"encoder in {str(dtype).removeprefix('torch.')} ({reason})")
    print(f"  against float32: {exact_seconds / seconds:.2f} times as fast ({seconds:.2f} s, {exact_seconds:.2f} s)")
    print(f"  lowest cosine {cosine:.5f}; {len(selected & exactly)} of {len(exactly)} selected sentences are the same")
    with_encoder = fastest(lambda: analyse(single, True), options.rounds)
    without = fastest(lambda: analyse(single, False), options.rounds)
    print(f"reading and selecting without the encoder: {with_encoder / without:.2f} times as fast", end=" ")
    print(f"({without:.2f} s, {with_encoder:.2f} s with it in float32)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
