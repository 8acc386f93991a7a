"""What earlier segments are worth to the embedded model: the loss of target tokens, by segment.

    python -m benchmarks.screening --data govreport/ --documents 30 --longest 2500 --out screening.jsonl
    python -m benchmarks.screening --data govreport/ --documents 30 --longest 2500 --out trained.jsonl \\
      --adapters se3/ compressive/ --plot positions.svg

Without training: the pretrained model, unchanged, reads each segment with nothing before it, with memories of the
earlier segments' tokens (in the layers where they help; read by the answer's tokens, or by all), and with the earlier
text itself in its window. With `--adapters`: trained adapters, of which the others are compared with the first. Each
document's losses are added to the file as soon as they are known. Interrupted, it prints the table of the documents so
far, and the same command resumes. The intervals resample the documents; p is paired by document.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from awesum.analysis.analysis import Analyst
from awesum.datasets import Example
from awesum.evaluation.significance import difference
from awesum.files import cache_folder
from awesum.loading import fingerprint, window_of
from awesum.models.adapter import AwesomeCausal, States
from awesum.models.adapter_config import AdapterConfig, read_config
from awesum.models.causal import ChatModel
from awesum.recurrence import DocumentInputs
from awesum.recurrence.causal import Reader, Reading, Step, answer
from awesum.recurrence.teacher import teach
from awesum.settings import SMOLLM2
from awesum.systems.adapter import AdapterSettings
from awesum.training.adapter import AdapterTraining
from awesum.training.examples import Examples
from awesum.training.trunk import TrunkCache, read_now
from awesum.weights import smollm2_folder
from benchmarks.adapter import LAYERS, SLOTS
from benchmarks.lines import drawing
from benchmarks.quality import evenly

LAST = 5
"""Segments with this number and higher ones are counted together."""
MEMORIES = [(memory, tokens) for memory in ("compressive", "salient") for tokens in ("answer", "all")]
RESAMPLED = 10_000
"""Times that the documents are drawn again for an interval."""

Row = dict[str, Any]
"""Of a document: its `name`, the number of `tokens` of each target, and the `losses` of each target by variant."""
Losses = Mapping[str, Sequence[float]]


def adapted(base: PreTrainedModel, memory: str, tokens: str) -> AwesomeCausal:
    """The pretrained model with a fresh memory that holds tokens as they are; the weights are shared, not copied."""
    shared: dict[int, Any] = {id(weight): weight for weight in base.parameters()}
    config = AdapterConfig(
        SMOLLM2, memory=memory, memory_layers=LAYERS, memory_size=SLOTS, update="none", adapted_tokens=tokens
    )
    return AwesomeCausal(deepcopy(base, shared), config).eval().to(base.dtype)


def inputs_of(training: AdapterTraining, examples: Sequence[Example]) -> Examples:
    """What an adapter is given of the documents."""
    return Examples(examples, training.inputs(Analyst(), None, lambda note: None), cache_folder() / "inputs")


def once(read: Reader) -> Reader:
    """The same, with every reading kept: several memories take the same ones."""
    known: dict[str, Reading] = {}

    def cached(*parts: Any) -> Reading:
        key = json.dumps(parts)
        if key not in known:
            known[key] = read(*parts)
        return known[key]

    return cached


def by_memory(model: AwesomeCausal, document: DocumentInputs, read: Reader, remembers: bool = True) -> Iterator[float]:
    """The loss of each segment's target, with the memories of the segments before it, or with empty ones."""
    states: States = model.start(1)
    for number in range(len(document.segments)):
        losses, after = answer(model, states, Step.of([document], number, read, model.device))
        states = after if remembers else states
        yield float(losses.sum())


def by_window(model: PreTrainedModel, document: DocumentInputs, only_salient: bool) -> Iterator[float]:
    """The loss of each segment's target, with the earlier segments, or their salient sentences, before the segment."""

    def salient(number: int) -> list[int]:
        rated = zip(document.segments[number], document.salience[number], strict=True)
        return [token for token, salience in rated if salience]

    taught = teach(model, document, window_of(model.config), salient if only_salient else None)
    for hidden, target in zip(taught, document.targets, strict=True):
        scores = model.get_output_embeddings()(hidden).float()
        yield float(torch.nn.functional.cross_entropy(scores, torch.tensor(target), reduction="sum"))


class Untrained:
    """The pretrained model with what it may have in view of earlier segments."""

    def __init__(self, examples: Sequence[Example]) -> None:
        settings = AdapterSettings(memory="salient", memory_layers=LAYERS, memory_size=SLOTS)
        self.inputs = inputs_of(AdapterTraining(SMOLLM2, settings), examples)
        self.base = ChatModel.load(SMOLLM2, smollm2_folder()).model
        self.models = {(memory, tokens): adapted(self.base, memory, tokens) for memory, tokens in MEMORIES}

    @torch.inference_mode()
    def __call__(self, number: int) -> tuple[DocumentInputs, Losses]:
        """The inputs of a document, and the losses of its targets by variant."""
        document = self.inputs[number]
        plain = self.models["compressive", "answer"]
        frozen = once(partial(read_now, plain))  # a salient memory takes the same states
        trunk = once(partial(read_now, self.models["compressive", "all"]))
        found = {"nothing": list(by_memory(plain, document, frozen, remembers=False))}
        for memory, tokens in MEMORIES:
            read = frozen if tokens == "answer" else trunk
            found[f"{memory}, read by {tokens}"] = list(by_memory(self.models[memory, tokens], document, read))
        found["salient text before"] = list(by_window(self.base, document, only_salient=True))
        found["all earlier segments before"] = list(by_window(self.base, document, only_salient=False))
        return document, found


class Trained:
    """A trained adapter, as it writes; what the frozen layers compute is cached, since other adapters share it."""

    def __init__(self, folder: Path, name: str, examples: Sequence[Example]) -> None:
        config, self.name = read_config(folder), name
        known = {
            field.name: getattr(config, field.name) for field in fields(AdapterSettings) if hasattr(config, field.name)
        }
        training = AdapterTraining(config.base, AdapterSettings(**known))
        training.load(folder)
        self.inputs = inputs_of(training, examples)
        self.read = TrunkCache(training.model, cache_folder() / "trunk")
        self.model = ChatModel.with_adapter(training.model, training.tokenizer, str(folder)).adapter

    @torch.inference_mode()
    def __call__(self, number: int) -> tuple[DocumentInputs, Losses]:
        """The inputs of a document, and the losses of its targets, by the adapter's name."""
        assert self.model is not None
        document = self.inputs[number]
        return document, {self.name: list(by_memory(self.model, document, self.read))}


def counted(row: Row, variant: str, first: int = 1, last: int | None = None) -> tuple[float, int]:
    """The summed loss and the tokens of a document's targets from segment `first` to `last` that are not empty."""
    each = list(zip(row["tokens"], row["losses"][variant], strict=True))[first : None if last is None else last + 1]
    # An empty target has only the token that ends it; the pretrained model has not learned to be silent.
    there = [(count, loss) for count, loss in each if count > 1]
    return sum(loss for _, loss in there), sum(count for count, _ in there)


def mean(rows: Sequence[Row], variant: str, first: int = 1, last: int | None = None) -> float:
    """The loss of a target token."""
    sums = [counted(row, variant, first, last) for row in rows]
    return sum(loss for loss, _ in sums) / max(sum(tokens for _, tokens in sums), 1)


def change(rows: Sequence[Row], variant: str, baseline: str, seed: int = 0) -> tuple[float, float, float, float]:
    """Of the loss after the first segment, against the baseline's: the share, its 95% interval, and p."""
    sums = np.array([[counted(row, name)[0] for row in rows] for name in (variant, baseline)])
    tokens = np.array([counted(row, baseline)[1] for row in rows])
    drawn = np.random.default_rng(seed).integers(0, len(rows), (RESAMPLED, len(rows)))
    own, others = sums[:, drawn].sum(2)
    low, high = np.quantile((own - others)[others > 0] / others[others > 0], (0.025, 0.975))
    own, others = sums[:, tokens > 0] / tokens[tokens > 0]
    return sums[0].sum() / sums[1].sum() - 1, float(low), float(high), difference(own, others)


def table(rows: Sequence[Row], variants: Sequence[str]) -> str:
    """The loss of a token of targets that are not empty, by variant: of each segment, and of all after the first."""
    numbers = sorted({min(number, LAST) for row in rows for number in range(len(row["tokens"]))})
    ends = [(at, None if at == LAST else at) for at in numbers]
    heads = [f"{number + 1}{'+' if number == LAST else ''}" for number in numbers]
    lines = [
        f"| in view | after the first | change (95% interval) | p | {' | '.join(heads)} |",
        "|---" * (len(numbers) + 4) + "|",
    ]
    has_later = any(counted(row, variants[0])[1] for row in rows)
    for variant in variants:
        compared = " | "
        if variant != variants[0] and has_later:
            share, low, high, p = change(rows, variant, variants[0])
            compared = f"{100 * share:+.1f}% ({100 * low:+.1f} to {100 * high:+.1f}) | {p:.4f}"
        each = " | ".join(f"{mean(rows, variant, *end):.3f}" for end in ends)
        lines.append(f"| {variant} | {mean(rows, variant):.3f} | {compared} | {each} |")
    tokens = [sum(counted(row, variants[0], *end)[1] for row in rows) for end in [(1, None), *ends]]
    lines.append(f"| *target tokens* | {tokens[0]:,} | | | {' | '.join(f'{count:,}' for count in tokens[1:])} |")
    return "\n".join(lines)


def read_rows(path: Path, wanted: Mapping[str, str]) -> dict[str, Row]:
    """What is known, by document: losses of the `wanted` variants, from weights with the hash that is given there."""
    rows: dict[str, Row] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        found = json.loads(line)
        row = rows.setdefault(found["name"], {**found, "losses": {}})
        weights = found.get("weights", {})
        row["losses"] |= {
            name: losses for name, losses in found["losses"].items() if wanted.get(name, "") == weights.get(name, "")
        }
    return rows


def main() -> int:
    """Screen the documents that are missing, and print the table of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", default="validation")
    parser.add_argument("--documents", type=int, default=30)
    parser.add_argument("--longest", type=int, default=2_500, help="words of the longest document (%(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines with the losses of each document")
    parser.add_argument("--adapters", type=Path, nargs="+", help="trained adapters; the first is the baseline")
    parser.add_argument("--plot", type=Path, help="an SVG of the loss by the number of the segment")
    options = parser.parse_args()
    torch.set_flush_denormal(True)
    examples = evenly(options.data, options.split, options.documents, options.longest, one_each=False)
    adapters = {folder.name: folder for folder in options.adapters or []}
    if len(adapters) < len(options.adapters or []):
        parser.error("two of the adapters have the same name")
    weights = {name: fingerprint(str(folder)) for name, folder in adapters.items()}
    known = read_rows(options.out, weights)
    screens: dict[str, Callable[[int], tuple[DocumentInputs, Losses]]] = {}
    rows = []
    try:
        for number, example in enumerate(examples):
            row = known.get(example.id, {"name": example.id, "losses": {}})
            missing = [name for name in adapters or ["nothing"] if name not in row["losses"]]
            for name in missing:
                if name not in screens:  # of a finished run, nothing is loaded
                    screens[name] = Trained(adapters[name], name, examples) if adapters else Untrained(examples)
                document, losses = screens[name](number)
                tokens = [len(target) for target in document.targets]
                found = {"name": example.id, "tokens": tokens, "weights": weights, "losses": losses}
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(found) + "\n")
                row = {**found, "losses": {**row["losses"], **losses}}
            rows.append(row)
            if missing:
                print(f"{number + 1} of {len(examples)}: {example.id}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        if not rows:
            raise
    variants = list(adapters) or list(rows[0]["losses"])
    print(f"{len(rows)} documents")
    print(table(rows, variants))
    if options.plot:
        numbers = range(1 + min(LAST, max(len(row["tokens"]) for row in rows) - 1))
        lines = {
            name: {at + 1: mean(rows, name, at, None if at == LAST else at) for at in numbers} for name in variants
        }
        title, label = "negative log-likelihood of a target token", "number of the segment"
        options.plot.write_text(drawing(lines, title, label, numbers={LAST + 1: f"{LAST + 1}+"}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
