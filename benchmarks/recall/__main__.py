"""The command: train what is missing, print the table, draw the plots."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

import benchmarks.recall as about
from benchmarks import report
from benchmarks.lines import drawing
from benchmarks.recall import memories, peaks, whole
from benchmarks.recall.task import DISTANCES, LENGTH

TITLES = memories.TITLES | {name: name for name in whole.SETTINGS}
NAMES = [TITLES[name] for name in (*peaks.SEGMENTED, *whole.SETTINGS)]
"""In the order in which they get their lines, so that both plots have the same."""
Results = dict[str, dict[str, Any]]
"""`system/seed`, or `system/seed/future` -> what `run` returned."""


def run(name: str, seed: int, options: argparse.Namespace, results: Results) -> dict[str, Any]:
    """Train one model and test it. What an earlier result has measured is not measured again."""
    print(f"{TITLES[name]}, seed {seed}:", flush=True)
    started = time.process_time()
    how = (options.future, options.facts)
    if name in whole.SETTINGS:
        known = next(iter(of_system(results, name, not options.future)), None)
        known = next(iter(of_system(results, name, options.future)), known)
        tokens = known["tokens"] if known else peaks.fitting(name)
        reading = whole.WholeDocuments(name, seed, tokens)
        more = {"tokens": tokens, "parameters": reading.parameters}
        more["peak"] = known["peak"] if known else peaks.taken(name, tokens)
        reading.learn(options.steps, *how)
        seconds = time.process_time() - started
        found = {distance: reading.accuracy(distance, *how) for distance in DISTANCES}
    else:
        system = (memories.FUTURE if options.future else memories.SYSTEMS)[name]
        model = memories.make(system, seed)
        more = {"parameters": sum(weight.numel() for weight in model.parameters())}
        more["peak"] = peaks.segmented(system, peaks.FLAT)
        memories.learn(model, system, seed, options.steps, *how)
        seconds = time.process_time() - started
        found = {distance: memories.accuracy(model, system, distance, *how) for distance in DISTANCES}
    print("  " + ", ".join(f"{distance}: {share:.1%}" for distance, share in found.items()), flush=True)
    return {"accuracy": found, "seconds": round(seconds), "steps": options.steps, **more}


def read(path: Path) -> Results:
    """Earlier results."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def key_of(name: str, seed: int | str, future: bool) -> str:
    """Where a result is."""
    return f"{name}/{seed}/future" if future else f"{name}/{seed}"


def of_system(results: Results, name: str, future: bool) -> list[dict[str, Any]]:
    """The results of all seeds."""
    return [result for key, result in results.items() if key == key_of(name, key.split("/")[1], future)]


def means(results: Results, names: Iterable[str], future: bool) -> dict[str, dict[int, tuple[float, float, float]]]:
    """For each system and distance: mean, lowest and highest accuracy over the seeds."""
    found: dict[str, dict[int, tuple[float, float, float]]] = {}
    for name in names:
        of = [result["accuracy"] for result in of_system(results, name, future)]
        for distance in DISTANCES if of else ():
            values = [float(each[str(distance)]) for each in of]
            found.setdefault(name, {})[distance] = (statistics.mean(values), min(values), max(values))
    return found


def table(found: dict[str, dict[int, tuple[float, float, float]]], results: Results, future: bool) -> str:
    """The means in percent, as Markdown, with the lowest and the highest seed's where there are several."""
    head = "| system | seeds | reads | weights | " + " | ".join(map(str, DISTANCES)) + " |"
    rows = []
    for name, line in found.items():
        of = of_system(results, name, future)
        cells = [
            f"{mean:.1%}" + (f" ({low:.0%} to {high:.0%})" if low < high else "") for mean, low, high in line.values()
        ]
        rows.append(f"| {TITLES[name]} | {len(of)} | {_read(name, of[0])} | {_weights(of[0])} | {' | '.join(cells)} |")
    return "\n".join([head, "|---" * (len(DISTANCES) + 4) + "|", *rows])


def _read(name: str, result: dict[str, Any]) -> str:
    if "tokens" not in result:
        return "all"
    tokens = f"{result['tokens']} tokens"
    return {"pagesum": f"3 pages of {tokens}", "unlimiformer": f"{tokens}, then all"}.get(name, tokens)


def _weights(result: dict[str, Any]) -> str:
    return f"{result['parameters']:,}" if "parameters" in result else ""


def print_peaks(plot: Path | None) -> None:
    """The budget, what fits, and how the peak grows without it."""
    se3 = peaks.of_se3()
    print(f"Se3: {se3 / 1e6:.2f} MB; budget: {peaks.BUDGET:.2f} times that")
    for name in whole.SETTINGS:
        tokens = peaks.fitting(name)
        of = " of each page" if name == "pagesum" else ""
        print(f"{name}: {tokens} tokens{of} in {peaks.taken(name, tokens) / se3:.2f} times the peak of Se3", flush=True)
    found = peaks.by_length()
    print("| peak of a training step, in peaks of Se3 | " + " | ".join(map(str, peaks.LENGTHS)) + " |")
    print("|---|" + "---:|" * len(peaks.LENGTHS))
    for name, line in found.items():
        print(f"| {TITLES[name]} | " + " | ".join(f"{bytes_ / se3:.2f}" for bytes_ in line.values()) + " |")
    if plot:
        lines = {TITLES[name]: {at: size / se3 for at, size in line.items()} for name, line in found.items()}
        lines["the budget"] = dict.fromkeys(peaks.LENGTHS, peaks.BUDGET)
        label = f"segments of the document, {LENGTH} words each"
        title = "peak memory of training, in peaks of Se3"
        plot.write_text(drawing(lines, title, label, logarithmic=True, names=NAMES), encoding="utf-8")


def main() -> int:
    """Train what is missing, print the table, draw the plot."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.recall",
        description=about.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--systems", nargs="+", metavar="NAME", help=f"of {', '.join(TITLES)} (default: all)")
    parser.add_argument("--seeds", nargs="+", type=int, metavar="SEED", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--facts", type=int, default=1, help="facts that a document states before it asks for one")
    parser.add_argument("--future", action="store_true", help="facts that are stated after the question")
    parser.add_argument("--peaks", action="store_true", help="only measure the memory of training")
    parser.add_argument("--out", type=Path, default=Path("recall.json"))
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    torch.set_flush_denormal(True)
    if options.peaks:
        print_peaks(options.plot)
        return 0
    systems = [*(memories.FUTURE if options.future else memories.SYSTEMS), *whole.SETTINGS]
    names = options.systems or systems
    if unknown := set(names) - set(systems):
        parser.error(f"no system {', '.join(sorted(unknown))}: choose from {', '.join(systems)}")
    results = read(options.out)
    for seed in options.seeds:
        for name in names:
            key = key_of(name, seed, options.future)
            if key not in results:
                made = run(name, seed, options, results)
                results = read(options.out) | json.loads(json.dumps({key: made}))
                options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    found = means(results, systems, options.future)
    print(table(found, results, options.future))
    if options.plot:
        lines = {TITLES[name]: {at: 100 * mean for at, (mean, _, _) in line.items()} for name, line in found.items()}
        options.plot.write_text(
            drawing(lines, "facts recalled, in percent", "segments between fact and question", names=NAMES),
            encoding="utf-8",
        )
    reached = [
        report(f"{TITLES[name]}, fact in the same segment", line[0][1], 0.95, at_most=False)
        for name, line in found.items()
    ]
    if not options.future and "attentive" in found:
        best = max(found[name][16][0] for name in ("attentive", "attentive-4") if name in found)
        reached.append(report("attentive memory, distance 16", best, 0.95, at_most=False))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
