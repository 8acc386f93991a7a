"""What earlier segments are worth to the embedded model, without training: the loss of target tokens, by segment.

    python -m benchmarks.screening --data govreport/ --documents 30 --longest 2000 --out screening.jsonl

The pretrained model, unchanged, reads each segment with nothing before it, with memories of the earlier segments'
tokens (in the layers where they help; read by the answer's tokens, or by all), and with the earlier text itself in its
window. Each document's losses are added to the file as soon as they are known. Interrupted, it prints the table of the
documents so far, and the same command resumes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from awesum.analysis.analysis import Analyst
from awesum.files import cache_folder
from awesum.loading import window_of
from awesum.models.adapter import AwesomeCausal, States
from awesum.models.adapter_config import AdapterConfig
from awesum.models.causal import ChatModel
from awesum.recurrence import DocumentInputs
from awesum.recurrence.causal import Reader, Reading, Step, answer
from awesum.recurrence.teacher import teach
from awesum.settings import SMOLLM2
from awesum.systems.adapter import AdapterSettings
from awesum.training.adapter import AdapterTraining
from awesum.training.examples import Examples
from awesum.training.trunk import read_now
from awesum.weights import smollm2_folder
from benchmarks.adapter import LAYERS, SLOTS
from benchmarks.quality import evenly

LAST = 5
"""Segments with this number and higher ones are counted together."""
MEMORIES = [(memory, tokens) for memory in ("compressive", "salient") for tokens in ("answer", "all")]


def adapted(base: PreTrainedModel, memory: str, tokens: str) -> AwesomeCausal:
    """The pretrained model with a fresh memory that holds tokens as they are; the weights are shared, not copied."""
    shared: dict[int, Any] = {id(weight): weight for weight in base.parameters()}
    config = AdapterConfig(
        SMOLLM2, memory=memory, memory_layers=LAYERS, memory_size=SLOTS, update="none", adapted_tokens=tokens
    )
    return AwesomeCausal(deepcopy(base, shared), config).eval()


def documents(options: argparse.Namespace) -> tuple[list[str], Examples]:
    """The ids and the inputs of evenly spread documents, with the salience of each token."""
    examples = evenly(options.data, options.split, options.documents, options.longest, one_each=False)
    settings = AdapterSettings(memory="salient", memory_layers=LAYERS, memory_size=SLOTS)
    inputs = AdapterTraining(SMOLLM2, settings).inputs(Analyst(), None, lambda note: None)
    return [example.id for example in examples], Examples(examples, inputs, cache_folder() / "inputs")


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


@torch.inference_mode()
def screen(base: PreTrainedModel, models: dict[tuple[str, str], AwesomeCausal], document: DocumentInputs) -> Any:
    """The losses of a document's targets by variant, and their numbers of tokens."""
    frozen = once(partial(read_now, models["compressive", "answer"]))  # a salient memory takes the same states
    trunk = once(partial(read_now, models["compressive", "all"]))
    found = {"nothing": list(by_memory(models["compressive", "answer"], document, frozen, remembers=False))}
    for memory, tokens in MEMORIES:
        read = frozen if tokens == "answer" else trunk
        found[f"{memory}, read by {tokens}"] = list(by_memory(models[memory, tokens], document, read))
    found["salient text before"] = list(by_window(base, document, only_salient=True))
    found["all earlier segments before"] = list(by_window(base, document, only_salient=False))
    return {"name": document.name, "tokens": [len(target) for target in document.targets], "losses": found}


def table(rows: list[Any]) -> str:
    """The loss of a token of targets that are not empty, by variant: of each segment, and of all after the first."""
    numbers = sorted({min(number, LAST) for row in rows for number in range(len(row["tokens"]))})
    heads = [f"{number + 1}{'+' if number == LAST else ''}" for number in numbers]
    lines = [f"| in view | after the first | change | {' | '.join(heads)} |", "|---" * (len(numbers) + 3) + "|"]

    def mean(variant: str, first: int, last: int | None) -> tuple[float, int]:
        """Of the segments from `first` to `last`."""
        tokens = losses = 0.0
        for row in rows:
            each = list(zip(row["tokens"], row["losses"][variant], strict=True))
            for count, loss in each[first : None if last is None else last + 1]:
                # An empty target has only the token that ends it; the pretrained model has not learned to be silent.
                if count > 1:
                    tokens, losses = tokens + count, losses + loss
        return losses / max(tokens, 1), round(tokens)

    nothing, _ = mean("nothing", 1, None)
    for variant in rows[0]["losses"]:
        loss, _ = mean(variant, 1, None)
        each = " | ".join(f"{mean(variant, at, None if at == LAST else at)[0]:.3f}" for at in numbers)
        lines.append(f"| {variant} | {loss:.3f} | {100 * (loss / nothing - 1):+.1f}% | {each} |")
    counts = " | ".join(f"{mean('nothing', at, None if at == LAST else at)[1]:,}" for at in numbers)
    lines.append(f"| *target tokens* | {mean('nothing', 1, None)[1]:,} | | {counts} |")
    return "\n".join(lines)


def main() -> int:
    """Screen the documents that are missing, and print the table of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", default="validation")
    parser.add_argument("--documents", type=int, default=30)
    parser.add_argument("--longest", type=int, default=2_000, help="words of the longest document (%(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines with the losses of each document")
    options = parser.parse_args()
    torch.set_flush_denormal(True)
    done = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    ids, inputs = documents(options)
    base = ChatModel.load(SMOLLM2, smollm2_folder()).model
    models = {(memory, tokens): adapted(base, memory, tokens) for memory, tokens in MEMORIES}
    rows = []
    try:
        for number, name in enumerate(ids):
            known = [row for row in done if row["name"] == name]
            if not known:
                known = [screen(base, models, inputs[number])]
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(known[0]) + "\n")
                print(f"{number + 1} of {len(ids)}: {name}", file=sys.stderr, flush=True)
            rows += known
    except KeyboardInterrupt:
        if not rows:
            raise
    print(f"{len(rows)} documents")
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
