"""Time and memory from 1,000 to 1,000,000 words: the exponent of the time, and the largest peak against the smallest.

    python -m benchmarks.scaling [--words 1000 10000 100000 1000000] [OPTIONS of `awesum summarize`]

Each document is summarized in a process of its own. The exponent is the slope of the logarithm of the time, without the
time that an almost empty document takes. By processor time, so that other work on the machine matters less.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import given_back, report
from benchmarks.memory import document

WORDS = (1_000, 10_000, 100_000, 1_000_000)


class Run(NamedTuple):
    """What a process took."""

    processor: float
    """Seconds of the processor, those of the reading process included."""
    peak: int
    """Bytes."""


def run(text: str, options: list[str]) -> Run:
    """Summarize a text in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "document.txt")
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "awesum", "summarize", str(path), "--quiet", "--json", *options]
        process = subprocess.Popen([*command, "-o", str(Path(folder, "out.json"))], env=given_back())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"`awesum summarize` ended with {process.returncode}")
    return Run(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def main() -> int:
    """Print the table, the exponent and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", nargs="+", type=int, default=list(WORDS))
    options, others = parser.parse_known_args()
    start = run("There is little to read here. It is over soon.", others).processor
    print(f"{'words':>10}  {'processor':>10}  {'without start':>13}  {'peak':>8}")
    runs = []
    for words in options.words:
        found = run(document(words), others)
        runs.append(found)
        own = max(found.processor - start, 0.01)
        print(f"{words:>10,}  {found.processor:>8.1f} s  {own:>11.2f} s  {found.peak / 1e6:>5,.0f} MB", flush=True)
    times = [math.log(max(found.processor - start, 0.01)) for found in runs]
    exponent = float(np.polyfit([math.log(words) for words in options.words], times, 1)[0])
    peaks = [found.peak for found in runs]
    reached = [
        report("exponent of the time", exponent, 1.05),
        report("largest peak against the smallest", max(peaks) / min(peaks), 1.15),
    ]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
