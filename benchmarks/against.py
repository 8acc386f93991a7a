"""The time of both styles on the sample, against another commit, in one run.

    python -m benchmarks.against COMMIT [--rounds 3]

The other commit is checked out into a temporary folder and run with the same environment, in turns with this one; the
ratio is that of the fastest rounds, each timed from start to end as a user would wait for it. The summaries are
compared as well.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import ROOT, SAMPLE, report

BAR = 1.05
KINDS: dict[str, list[str]] = {style: ["--style", style] for style in ("abstract", "extract")}


def summarize(source: Path, arguments: list[str]) -> tuple[float, str]:
    """The seconds of the whole command with the code in a folder, and its text."""
    command = [sys.executable, "-m", "awesum", "summarize", str(SAMPLE), "--json", *arguments]
    environment = os.environ | {"PYTHONPATH": str(source / "src")}
    started = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd=source)
    return time.perf_counter() - started, str(json.loads(done.stdout)["summary"])


def main() -> int:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", options.commit], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "x", "-C", folder], input=archive, check=True)
        for kind, arguments in KINDS.items():
            rounds = [(summarize(Path(folder), arguments), summarize(ROOT, arguments)) for _ in range(options.rounds)]
            before, now = (min(pair[side][0] for pair in rounds) for side in (0, 1))
            texts = "the same text" if rounds[0][0][1] == rounds[0][1][1] else "ANOTHER text"
            print(f"{kind}: {before:.1f} s before, {now:.1f} s now, {texts}", flush=True)
            good &= report(f"{kind} on the sample, against {options.commit}", now / before, BAR)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
