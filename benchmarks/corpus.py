"""A corpus that is killed at random moments, its throughput with one worker and with two, and its memory.

kills       `kill -9` of the command and of its workers until so many were killed; then it ends, and its rows are
            compared with those of a local run that nobody disturbed
throughput  documents a second of one worker and of two, and of one with two threads; start-up does not count
memory      RAM of all processes while many short documents go through
nodes       a Ray cluster of two nodes, each a process of this machine; the second is killed on the way
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from awesum.corpus.results import RECORD, read
from benchmarks import report
from benchmarks.seeds import PARAGRAPHS

MARK = "AWESUM_BENCHMARK"
"""An environment variable: it is how processes that are ours are told from others."""


def write_documents(path: Path, number: int, words: int) -> Path:
    """Documents of about so many words, no two alike."""
    chance = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for at in range(number):
            text: list[str] = []
            while sum(len(sentence.split()) for sentence in text) < words:
                text.append(f"{chance.choice(PARAGRAPHS)[:-1]}, as item {len(text)} of paper {at} says.")
            file.write(json.dumps({"id": f"paper-{at}", "text": " ".join(text)}) + "\n")
    return path


def command(source: Path, folder: Path, *flags: str) -> list[str]:
    """A call of `awesum corpus`."""
    return [sys.executable, "-m", "awesum", "corpus", str(source), "--length", "50w", "-o", str(folder), *flags]


def environment(threads: int = 1) -> dict[str, str]:
    """Ours, marked, with so many threads per worker."""
    return os.environ | {MARK: f"{os.getpid()}", "OMP_NUM_THREADS": str(threads)}


def ours() -> Iterator[tuple[int, str]]:
    """The processes that this benchmark started, directly or not, with their command lines."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={os.getpid()}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                yield (
                    int(folder.name),
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"),
                )


def resident() -> int:
    """The RAM of all of them together, in bytes; pages that several share count once for each."""
    total = 0
    for process, _ in ours():
        with suppress(OSError):
            total += int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return total


def workers() -> list[int]:
    """The processes that summarize."""
    return [process for process, shown in ours() if "spawn_main" in shown or "ray::MapWorker" in shown]


def end_ours() -> None:
    """End what a killed command left."""
    deadline = time.monotonic() + 30
    while left := [process for process, _ in ours()]:
        if time.monotonic() > deadline:
            for process in left:
                with suppress(OSError):
                    os.kill(process, signal.SIGKILL)
        time.sleep(0.2)


def timed(source: Path, folder: Path, *flags: str, threads: int = 1) -> tuple[float, dict[str, Any]]:
    """Run a command to its end: its seconds, and its totals."""
    started = time.perf_counter()
    subprocess.run(command(source, folder, "--quiet", *flags), check=True, env=environment(threads))
    seconds = time.perf_counter() - started
    return seconds, json.loads((folder / RECORD).read_text())["totals"]


def rows(folder: Path) -> tuple[dict[str, Any], int]:
    """The rows by document without what depends on the moment, and how many there are more than documents."""
    found = list(read(str(folder)))
    by_name = {row["document"]: {key: value for key, value in row.items() if key != "figures"} for row in found}
    return by_name, len(found) - len(by_name)


def kills(options: argparse.Namespace, folder: Path) -> bool:
    """Kill the command and its workers at random moments."""
    source = write_documents(folder / "corpus.jsonl", options.documents, options.words)
    system = ("--system", options.system, "--workers", "2")
    whole, _ = timed(source, folder / "whole", *system)
    expected, _ = rows(folder / "whole")
    if options.engine != "local":
        whole, _ = timed(source, folder / "engine", *system, "--engine", options.engine)
    chance = random.Random(options.seed)
    killed = {"command": 0, "worker": 0}
    rounds = 0
    deadline = time.monotonic() + options.seconds
    wrong = 0
    out = folder / "killed"
    while sum(killed.values()) < options.kills and time.monotonic() < deadline:
        out = folder / f"killed{rounds}"
        rounds += 1
        while True:  # until this folder is finished
            call = command(source, out, *system, "--engine", options.engine)
            with subprocess.Popen(call, env=environment(), stderr=subprocess.PIPE, text=True) as process:
                while process.poll() is None:
                    left = sum(killed.values()) < options.kills and time.monotonic() < deadline
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(chance.uniform(0.1, 0.7) * whole if left else None)
                    if process.poll() is not None:
                        break
                    targets = workers()
                    if targets and chance.random() < 0.5:
                        os.kill(chance.choice(targets), signal.SIGKILL)
                        killed["worker"] += 1
                    else:
                        process.kill()
                        killed["command"] += 1
                        process.wait()
                assert process.stderr is not None
                errors = process.stderr.read()
            end_ours()
            there, more = rows(out) if out.exists() else ({}, 0)
            if process.returncode == 0:
                break
            if process.returncode > 0:
                print(f"exit {process.returncode}: {errors.strip().splitlines()[-1:]}", flush=True)
        wrong += more + sum(expected[name] != there.get(name) for name in expected)
    print(
        f"{killed['command']} kills of the command and {killed['worker']} of workers ({options.engine}, "
        f"{options.system}) in {rounds} runs over {options.documents} documents of {options.words} words"
    )
    return report("rows missing, twice, or unlike those of an undisturbed local run", wrong, 0)


def throughput(options: argparse.Namespace, folder: Path) -> bool:
    """Documents a second, without the time that it takes to start."""
    small = write_documents(folder / "small.jsonl", options.documents // 4, options.words)
    large = write_documents(folder / "large.jsonl", options.documents, options.words)
    more = options.documents - options.documents // 4
    kinds: dict[str, tuple[list[str], int]] = {
        "one worker": (["--workers", "1"], 1),
        "two workers": (["--workers", "2"], 1),
        "one worker with two threads": (["--workers", "1"], 2),
    }
    if options.engine == "ray":
        kinds = {"one worker": kinds["one worker"], "two workers on Ray": (["--workers", "2", "--engine", "ray"], 1)}
    pace: dict[str, float] = {}
    for name, (flags, threads) in kinds.items():
        flags = [*flags, "--system", options.system]
        first, _ = timed(small, folder / f"small {name}", *flags, threads=threads)
        second, totals = timed(large, folder / f"large {name}", *flags, threads=threads)
        pace[name] = more / (second - first)
        whole = totals["workers"] * totals["seconds"]
        print(
            f"{name}: {pace[name]:.1f} documents a second; of {totals['seconds']:.0f} s, {totals['busy'] / whole:.0%} "
            f"summarizing, {totals['reading'] / whole:.1%} reading, the rest starting and scheduling"
        )
    print(f"other load on this machine: {os.getloadavg()[0]:.1f} processes on {os.cpu_count()} cores")
    one, *others = pace.values()
    if options.engine == "ray":
        return report("two workers on Ray, to one local worker", others[0] / one, 1.4, "×", at_most=False)
    reached = report("two workers, to one", others[0] / one, 1.7, "×", at_most=False)
    return report("two workers, to one with two threads", others[0] / others[1], 1.0, "×", at_most=False) and reached


def memory(options: argparse.Namespace, folder: Path) -> bool:
    """The RAM of all processes, in the second quarter of the documents and at the end."""
    source = write_documents(folder / "corpus.jsonl", options.documents, options.words)
    call = command(source, folder / "out", "--system", options.system, "--workers", "2", "--engine", options.engine)
    samples: list[int] = []
    started = time.perf_counter()
    with subprocess.Popen(call, env=environment(), stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            samples.append(resident())
            time.sleep(2)
    seconds = time.perf_counter() - started
    found, more = rows(folder / "out")
    print(
        f"{len(found):,} documents of {options.words} words with {options.system} in {seconds:.0f} s "
        f"({len(found) / seconds:.1f} a second, {options.engine}), {more} rows twice; exit {process.returncode}"
    )
    quarter = len(samples) // 4
    early, late = max(samples[quarter : 2 * quarter]), max(samples[-quarter:])
    print(f"RAM of all processes: {early / 1e6:.0f} MB in the second quarter, {late / 1e6:.0f} MB in the last")
    complete = len(found) == options.documents and not more and process.returncode == 0
    return report("RAM at the end, to that in the second quarter", late / early, 1.1, "×") and complete


@contextmanager
def nodes(port: int = 26379) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A Ray cluster of two nodes: its address, and the process of the second."""
    from awesum.corpus import on_ray
    from awesum.errors import AwesumError

    address = f"127.0.0.1:{port}"
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--num-cpus=2", "--object-store-memory=100000000"]
    start += ["--disable-usage-stats", "--block"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment()}
    head = subprocess.Popen([*start, "--head", f"--port={port}", "--include-dashboard=false"], **quiet)
    for _ in range(60):
        try:
            on_ray._check_answers(address)
            break
        except AwesumError:
            time.sleep(1)
    second = subprocess.Popen([*start, f"--address={address}"], **quiet)
    time.sleep(15)
    try:
        yield address, second
    finally:
        for node in (second, head):
            node.terminate()
            node.wait()
        end_ours()


def cluster(options: argparse.Namespace, folder: Path) -> bool:
    """A cluster of two nodes, with and without the loss of one."""
    source = write_documents(folder / "corpus.jsonl", options.documents, options.words)
    flags = ("--system", options.system)
    timed(source, folder / "whole", *flags)
    expected, _ = rows(folder / "whole")
    wrong = 0
    for is_lost in (False, True):
        out = folder / f"cluster{is_lost}"
        with nodes() as (address, second):
            call = command(source, out, *flags, "--engine", "ray", "--address", address)
            with subprocess.Popen(call, env=environment(), stderr=subprocess.PIPE, text=True) as process:
                while is_lost and process.poll() is None:
                    if list(out.glob("part-*")):
                        for number, shown in ours():  # the whole node, not just the process that started it
                            if "raylet" in shown and f"{second.pid}" in Path(f"/proc/{number}/stat").read_text():
                                os.kill(number, signal.SIGKILL)
                        second.kill()
                        break
                    time.sleep(0.1)
                errors = process.communicate()[1]
        there, more = rows(out)
        wrong += more + sum(expected[name] != there.get(name) for name in expected)
        lost = "a node killed" if is_lost else "undisturbed"
        print(f"two nodes, {lost}: {len(there)} rows, exit {process.returncode}; {errors.strip().splitlines()[-1]}")
    return report("rows missing, twice, or unlike the local ones", wrong, 0)


MEASURES: dict[str, Callable[[argparse.Namespace, Path], bool]] = {
    "kills": kills,
    "throughput": throughput,
    "memory": memory,
    "nodes": cluster,
}


def main() -> int:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measure", choices=list(MEASURES))
    parser.add_argument("--engine", choices=["local", "ray"], default="local")
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--words", type=int, default=300)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=7200, help="stop killing after this time")
    parser.add_argument("--system", default="extract")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        return 0 if MEASURES[options.measure](options, Path(place)) else 1


if __name__ == "__main__":
    sys.exit(main())
