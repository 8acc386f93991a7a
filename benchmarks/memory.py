"""Memory is flat: the peak on a document of 200,000 words against the peak on one of 5,000, each in its own process."""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import SAMPLE, report

SHORT, LONG = 5_000, 200_000


def document(words: int) -> str:
    """Paragraphs of the sample in random order, as many as make so many words."""
    paragraphs = SAMPLE.read_text(encoding="utf-8").splitlines()
    chance = random.Random(words)
    taken: list[str] = []
    count = 0
    while count < words:
        taken.append(chance.choice(paragraphs))
        count += len(taken[-1].split())
    return "\n".join(taken)


def peak(words: int, options: list[str]) -> int:
    """The peak memory of a process that summarizes a document of so many words."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{words}.txt")
        path.write_text(document(words), encoding="utf-8")
        command = [sys.executable, "-m", "awesum", "summarize", str(path), "--style", "abstract", "--json", *options]
        result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    figures = result["figures"]
    assert figures["tokens_read"] == result["document"]["tokens"]
    print(
        f"{words:,} words, {figures['tokens_read']:,} tokens, {len(result['document']['segments'])} segments, "
        f"{len(result['parts'])} parts: {figures['peak_memory_bytes'] / 1e6:,.0f} MB, {figures['seconds']:.0f} s"
    )
    return int(figures["peak_memory_bytes"])


def main() -> int:
    """Print the ratio; options of `awesum summarize`, such as `--length 2%`, are passed on."""
    parser = argparse.ArgumentParser(description=__doc__)
    _, options = parser.parse_known_args()
    return 0 if report("peak memory, long against short", peak(LONG, options) / peak(SHORT, options), 1.15) else 1


if __name__ == "__main__":
    sys.exit(main())
