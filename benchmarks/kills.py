"""Kill `awesum summarize` at random moments, over a folder of 30 documents, until it is done; compare with a run that
nobody disturbed, byte by byte. `--kills` is the number of kills, `--seed` decides the moments and the signals."""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.seeds import PARAGRAPHS

DOCUMENTS = 30
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def documents(folder: Path, chance: random.Random) -> None:
    """A folder of documents, no two alike."""
    for number in range(DOCUMENTS):
        sentences = [
            text.replace("2027", str(1900 + number)) for _ in range(6) for text in chance.sample(PARAGRAPHS, 6)
        ]
        path = folder / ("deep" if number % 5 == 0 else "") / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(" ".join(f"{text[:-1]}, as item {at} says." for at, text in enumerate(sentences)))


def content(folder: Path) -> dict[str, bytes]:
    """Every file but the record of what is done, whose order depends on the run."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".awesum.jsonl")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def run_and_kill(command: list[str], after: float, number: signal.Signals) -> tuple[int, str]:
    """Run a command, send it a signal after some seconds, and wait for its end: its exit code, and its errors."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            _, errors = process.communicate(timeout=after)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            _, errors = process.communicate()
        return process.returncode, errors


def main() -> int:
    """Kill, resume, compare; print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=3600, help="stop killing after this time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--system", default="extract", help="what summarizes (lead loads no model)")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    killed = finished = tracebacks = differences = 0
    deadline = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        documents(folder / "in", chance)
        command = [sys.executable, "-m", "awesum", "summarize", str(folder / "in"), "--system", options.system, "-o"]
        started = time.monotonic()
        subprocess.run([*command, str(folder / "whole")], check=True, capture_output=True)
        whole, expected = time.monotonic() - started, content(folder / "whole")
        rounds = 0
        while killed < options.kills and time.monotonic() < deadline:
            out = folder / f"out{rounds}"
            rounds += 1
            while True:
                left = killed < options.kills and time.monotonic() < deadline
                moment = chance.uniform(0.2, 1.0) * whole if left else 3600.0
                code, errors = run_and_kill([*command, str(out)], moment, chance.choice(SIGNALS))
                if "Traceback" in errors and code != -signal.SIGINT:  # Python's own, before the command has begun
                    tracebacks += 1
                    print(f"exit code {code}:\n{errors}", flush=True)
                if code == 0:
                    break
                killed += 1
            finished += 1
            differences += content(out) != expected
    print(f"{killed} kills in {rounds} runs over {DOCUMENTS} documents ({options.system}), {finished} finished")
    print(f"{differences} results differ from the undisturbed run, {tracebacks} tracebacks")
    return 1 if differences or tracebacks else 0


if __name__ == "__main__":
    sys.exit(main())
