"""An adapter with memory for the embedded model: what the trunk cache saves, and what memory costs.

    python -m benchmarks.adapter --data govreport/ cache            an epoch from the cache against one without
    python -m benchmarks.adapter --data govreport/ generation       memory against Se3
    python -m benchmarks.adapter --data govreport/ side-by-side     several documents against one after the other
    python -m benchmarks.adapter equip se3/ compressive/            a trained adapter with an untrained memory

The first three use fresh adapters (an untrained memory costs what a trained one does), documents of the validation
split, and parts of a fixed length. `equip` gives an adapter that was trained without memory a compressive one, which
starts as the mean of what it holds and which the pretrained attention reads as it is. `benchmarks.screening` shows
where a memory helps.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from awesum.analysis.analysis import Analyst
from awesum.engine.causal import follow
from awesum.files import cache_folder
from awesum.models.adapter_config import read_config
from awesum.models.causal import ChatModel, load_base
from awesum.models.prefix_cache import PrefixCache
from awesum.models.prompt import Prompt
from awesum.recurrence import DocumentInputs
from awesum.recurrence.causal import Reader, train
from awesum.settings import SMOLLM2
from awesum.systems.adapter import AdapterSettings
from awesum.training.adapter import AdapterTraining
from awesum.training.examples import Examples
from awesum.training.trunk import TrunkCache, mixed_precision, read_now
from benchmarks import report
from benchmarks.quality import evenly

LAYERS = (17, 18, 19, 23, 24, 25)
"""Where SmolLM2 finds what earlier segments said, of its 30 layers: see docs/results.md."""
SLOTS = 16_384
"""Half of them hold tokens unchanged: all of a document of 6,000 words."""
TARGET = 64
"""Tokens per part where all have the same length: the mean of GovReport's targets."""


def made(memory: str, **options: object) -> AdapterTraining:
    """A fresh adapter."""
    return AdapterTraining(SMOLLM2, AdapterSettings(memory=memory, **options))  # type: ignore[arg-type]


def documents(options: argparse.Namespace, training: AdapterTraining) -> list[DocumentInputs]:
    """The inputs of evenly spread documents, from the cache if they are there."""
    examples = evenly(options.data, "validation", options.documents, options.longest, one_each=False)
    inputs = training.inputs(Analyst(), None, lambda note: None)
    return list(Examples(examples, inputs, cache_folder() / "inputs"))


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def cache(options: argparse.Namespace) -> bool:
    """An epoch that reads from disk what the frozen layers compute, against one that computes it."""
    training = made("attentive", memory_size=options.memory_size)
    model, some = training.model, documents(options, training)
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=1e-5)

    def epoch(read: Reader) -> None:
        for document in some:
            with mixed_precision(model):
                train(model, [document], torch.Tensor.backward, read=read)
            optimizer.step()
            optimizer.zero_grad()

    with TemporaryDirectory() as folder:
        kept = TrunkCache(model, Path(folder))
        first = seconds(lambda: epoch(kept))
        ratios = []
        for _ in range(options.rounds):
            without, with_cache = seconds(lambda: epoch(partial(read_now, model))), seconds(lambda: epoch(kept))
            print(f"without {without:.1f} s, from the cache {with_cache:.1f} s, filling it {first:.1f} s")
            ratios.append(without / with_cache)
    return report("an epoch from the cache, times as fast as without", statistics.median(ratios), 5, at_most=False)


def fixed_parts(inputs: DocumentInputs) -> Iterator[Prompt]:
    """Prompts whose answers all have the same length."""
    for number, (segment, request) in enumerate(zip(inputs.segments, inputs.requests, strict=True)):
        own = slice(inputs.frame, len(segment))
        yield Prompt([*segment, *request], lambda text: False, TARGET, own, least=TARGET, number=number)


def chat_with(memory: str, options: argparse.Namespace) -> tuple[ChatModel, AdapterTraining]:
    """A model with a fresh adapter that never ends by itself."""
    compressive = {"memory_layers": LAYERS, "memory_size": SLOTS}
    training = made(memory, **compressive if memory == "compressive" else {"memory_size": options.memory_size})
    return ChatModel.with_adapter(training.model, training.tokenizer, SMOLLM2), training


def generation(options: argparse.Namespace) -> bool:
    """Memory against Se3, several documents side by side."""
    se3, training = chat_with("none", options)
    remembering = {memory: chat_with(memory, options)[0] for memory in ("attentive", "compressive")}
    some = documents(options, training)

    def write(chat: ChatModel) -> None:
        deque(follow(chat, map(fixed_parts, some), options.side_by_side), maxlen=0)

    ratios: dict[str, list[float]] = {memory: [] for memory in remembering}
    for number in range(options.rounds + 1):
        plain = seconds(partial(write, se3))
        for memory, chat in remembering.items():
            taken = seconds(partial(write, chat))
            print(f"Se3 {plain:.1f} s, {memory} {taken:.1f} s{' (warm-up)' if not number else ''}", flush=True)
            ratios[memory] += [taken / plain] if number else []
    reached = [
        report(f"time of generation, {memory} against Se3", statistics.median(found), 1.2)
        for memory, found in ratios.items()
    ]
    return all(reached)


def side_by_side(options: argparse.Namespace) -> bool:
    """Several documents at a time against one after the other, with attentive memory; and with segments read before."""
    chat, training = chat_with("attentive", options)
    some = documents(options, training)

    def write(count: int) -> None:
        deque(follow(chat, map(fixed_parts, some), count), maxlen=0)

    def times_as_fast(what: str) -> float:
        alone, together = (seconds(partial(write, count)) for count in (1, options.side_by_side))
        print(f"{what}: one by one {alone:.1f} s, {options.side_by_side} side by side {together:.1f} s", flush=True)
        return alone / together

    found = times_as_fast("reading and writing")
    with TemporaryDirectory() as folder:
        assert chat.adapter is not None
        chat.prefix_cache = PrefixCache(chat.adapter, Path(folder))
        write(options.side_by_side)
        writing = times_as_fast("writing alone")
    report("writing alone, side by side, times as fast as one by one", writing, 3, at_most=False)
    return report("several documents side by side, times as fast as one by one", found, 3, at_most=False)


def equip(options: argparse.Namespace) -> bool:
    """An adapter with its weights, and a compressive memory in the middle layers."""
    known = read_config(options.adapter)
    if known.memory != "none":
        raise SystemExit(f"{options.adapter} has a memory: give an adapter that was trained with --memory none")
    config = replace(known, memory="compressive", memory_layers=LAYERS, memory_size=SLOTS, base_sha256="")
    model, _ = load_base(config.base, config)
    plain, _ = load_base(known.base, known)
    plain.load_adapter(options.adapter)
    weights = model.new_weights()
    with torch.no_grad():
        for name, tensor in plain.new_weights().items():
            weights[name].copy_(tensor)
    model.save_pretrained(options.out, torch.float16)
    return True


def main() -> int:
    """Run one of the benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a dataset; required, except by equip")
    parser.add_argument("--documents", type=int, default=8)
    parser.add_argument("--longest", type=int, default=4_000, help="words of the longest document (%(default)s)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--side-by-side", type=int, default=8)
    parser.add_argument("--memory-size", type=int, default=64)
    what = parser.add_subparsers(required=True)
    for name, run in (("cache", cache), ("generation", generation), ("side-by-side", side_by_side)):
        what.add_parser(name).set_defaults(run=run)
    equipped = what.add_parser("equip")
    equipped.add_argument("adapter")
    equipped.add_argument("out", type=Path)
    equipped.set_defaults(run=equip)
    options = parser.parse_args()
    if options.run is not equip and not options.data:
        parser.error("missing --data FOLDER")
    torch.set_flush_denormal(True)
    return 0 if options.run(options) else 1


if __name__ == "__main__":
    sys.exit(main())
