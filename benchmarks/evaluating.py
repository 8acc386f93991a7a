"""The speed of `awesum evaluate`, and a check that its peak memory does not grow with the number of summaries.

    python -m benchmarks.evaluating --data FOLDER [--memory]

Time: the whole command with all metrics that need no model, on one summary (the first words of the report) for each
report of the validation split, 973 for GovReport. Randomization: 10,000 trials on as many scores. Memory (`--memory`):
the peak of the process and of its largest worker, for all reports and for 50.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np

from awesum import datasets
from awesum.evaluation.significance import TRIALS, difference
from awesum.length import count_words
from benchmarks import given_back, report

FEW = 50


def write(data: Path, documents: int | None, folder: Path) -> tuple[list[str], int]:
    """Write predictions, and references with documents; returns the command to evaluate them and their number."""
    predictions, references = folder / "lead.jsonl", folder / "references.jsonl"
    number = 0
    with predictions.open("w") as ours, references.open("w") as theirs:
        for example in islice(datasets.examples(data, "validation"), documents):
            lead = " ".join(example.document.split()[: count_words(example.summary)])
            ours.write(json.dumps({"id": example.id, "summary": lead}) + "\n")
            row = {"id": example.id, "document": example.document, "summary": example.summary}
            theirs.write(json.dumps(row) + "\n")
            number += 1
    return [sys.executable, "-m", "awesum", "evaluate", str(predictions), str(references), "--quiet"], number


def compare_time(data: Path) -> bool:
    """Print the time of the evaluation, and of the randomization test alone."""
    with tempfile.TemporaryDirectory() as folder:
        command, number = write(data, None, Path(folder))
        started = time.perf_counter()
        subprocess.run(command, check=True)
        seconds = time.perf_counter() - started
    reached = report(f"all metrics without a model on {number} summaries", seconds, 180, " s")
    generator = np.random.default_rng(0)
    one, other = generator.random(number), generator.random(number)
    started = time.perf_counter()
    difference(one, other, TRIALS)
    seconds = time.perf_counter() - started
    return report(f"{TRIALS:,} randomization trials on {number} documents", seconds, 1, " s") and reached


def peak(data: Path, documents: int | None) -> int:
    """The peak memory of evaluating `documents` summaries, in bytes: that of the largest process."""
    with tempfile.TemporaryDirectory() as folder:
        command, number = write(data, documents, Path(folder))
        code = f"import resource, subprocess; subprocess.run({command!r}, check=True); "
        code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, env=given_back())
    found = int(done.stdout.split()[-1]) * 1024
    print(f"{number} summaries: {found / 1e6:,.0f} MB")
    return found


def main() -> int:
    """Print the figures for time or for memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a dataset of reports, such as GovReport")
    parser.add_argument("--memory", action="store_true", help="measure peak memory instead of time")
    options = parser.parse_args()
    if not options.memory:
        return 0 if compare_time(options.data) else 1
    few, all_of_them = peak(options.data, FEW), peak(options.data, None)
    return 0 if report(f"peak memory of evaluating, all summaries against {FEW}", all_of_them / few, 1.2) else 1


if __name__ == "__main__":
    sys.exit(main())
