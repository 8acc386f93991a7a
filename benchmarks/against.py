"""The time of the default and of the extract on the sample, against another commit, in one run.

    python -m benchmarks.against COMMIT [--rounds 3]

The other commit is checked out into a temporary folder and run with the same environment, in turns with this one; the
ratio is that of the fastest rounds. The summaries are compared as well.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import ROOT, SAMPLE, report

BAR = 1.05
KINDS: dict[str, list[str]] = {"default": [], "extract": ["--style", "extract"]}


def summarize(source: Path, arguments: list[str]) -> tuple[float, str]:
    """The seconds of a summary by the code in a folder, and its text."""
    command = [sys.executable, "-m", "awesum", "summarize", str(SAMPLE), "--json", *arguments]
    environment = os.environ | {"PYTHONPATH": str(source / "src")}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd=source)
    result = json.loads(done.stdout)
    return float(result["figures"]["seconds"]), str(result["summary"])


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
