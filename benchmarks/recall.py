"""The recall task: does a memory still hold a fact when a later segment asks for it?

    python -m benchmarks.recall                                  all systems, three seeds, then the plot
    python -m benchmarks.recall --systems attentive se3 --seeds 0
    python -m benchmarks.recall --future                         facts that are stated later than they are asked for

A document states facts ("FACT key value") and asks for them in other segments ("ASK key"); the summary of a segment
that asks is the value, of any other it is empty. There are 64 values, so guessing is right in 1.6% of all cases. Each
model is a small BART from scratch. It first learns to answer within a segment, the same for all systems of a seed, then
from segment to segment, with the memory added, on documents of up to 18 segments. It is tested on documents of up to 64
with pairs of key and value that training never saw. At distance 0 the fact is in the segment that asks: the positive
control.

Every memory has the same number of slots. A salient memory is told how salient sentences are, as it is by an extractor:
statements of facts are, and so is a quarter of all other sentences, somewhat less.

Results are added to `--out` as each model is done; a model that is in there is not trained again.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import torch

from awesum.models.bart import AwesomeBart
from awesum.models.bart_config import AwesomeConfig
from awesum.recurrence import DocumentInputs, generate, train
from benchmarks import report
from benchmarks.lines import drawing

KEYS, VALUES, WORDS = 16, 64, 16
START, PAD, END, FACT, ASK = range(5)
KEY = 5
VALUE = KEY + KEYS
WORD = VALUE + VALUES
VOCABULARY = WORD + WORDS
LENGTH = 8
"""Words of a segment: a statement of three, three in between, a question of two."""
UNSEEN = 128
"""Pairs of key and value that only tests have."""
DISTANCES = (0, 1, 2, 4, 8, 16, 32, 63)
LONGEST, FIRST_LONGEST, QUESTIONS = 18, 3, 4
"""Segments of a document at the end of training and at its start, and how many of them ask."""
SLOTS, SIZE, BATCH, TESTED = 16, 64, 32, 128
ALONE, ALONE_BATCH = 120, 128
"""Steps on single segments, before there is a memory, and their batch."""
RATE, NEW_RATE, ALONE_RATE, WARM_UP = 1e-3, 1e-2, 3e-3, 30
"""Peak learning rates: of the weights that were there before the memory, of the memory's, and before that."""


@dataclass(frozen=True)
class System:
    """A kind of memory, and how it is trained."""

    memory: str
    depth: int | None = 1
    options: dict[str, Any] = field(default_factory=dict)


SYSTEMS = {
    "se3": System("none"),
    "compressive": System("compressive"),
    "compressive-4": System("compressive", 4),
    "literal": System("attentive-literal"),
    "literal-4": System("attentive-literal", 4),
    "attentive": System("attentive"),
    "attentive-4": System("attentive", 4),
    "salient": System("salient"),
}
FUTURE = {
    "attentive": System("attentive"),
    "attentive-both": System("attentive", options={"memory_direction": "both"}),
}
TITLES = {
    "se3": "Se3 (no memory)",
    "compressive": "compressive, K = 1",
    "compressive-4": "compressive, K = 4",
    "literal": "attentive, literal, K = 1",
    "literal-4": "attentive, literal, K = 4",
    "attentive": "attentive, K = 1",
    "attentive-4": "attentive, K = 4",
    "salient": "salient",
    "attentive-both": "attentive, both directions",
}

_pairs = [(key, value) for key in range(KEYS) for value in range(VALUES)]
random.Random(99).shuffle(_pairs)
UNSEEN_PAIRS = frozenset(_pairs[:UNSEEN])


def fact(chance: random.Random, unseen: bool, known: Iterable[int] = ()) -> tuple[int, int]:
    """A key that is not yet known and its value: a pair for training, or one that training never sees."""
    while True:
        pair = chance.randrange(KEYS), chance.randrange(VALUES)
        if (pair in UNSEEN_PAIRS) == unseen and pair[0] not in known:
            return pair


def segment(
    chance: random.Random, stated: tuple[int, int] | None = None, asked: int | None = None
) -> tuple[list[int], list[float]]:
    """The tokens of a segment, and how salient each is."""
    words = [WORD + chance.randrange(WORDS) for _ in range(LENGTH)]
    salience = [0.0] * LENGTH
    for sentence in (slice(0, 3), slice(3, 6), slice(6, 8)):
        if chance.random() < 0.25:
            salience[sentence] = [chance.uniform(0.1, 0.9)] * len(words[sentence])
    if stated is not None:
        words[:3] = [FACT, KEY + stated[0], VALUE + stated[1]]
        salience[:3] = [1.0] * 3
    if asked is not None:
        words[-2:] = [ASK, KEY + asked]
    return [START, *words, END], [0.0, *salience, 0.0]


def document(
    stated: Sequence[tuple[int, int] | None], asked: Sequence[int | None], chance: random.Random
) -> DocumentInputs:
    """A document that states a fact, asks for one, or does neither, in each of its segments."""
    values = dict(pair for pair in stated if pair)
    made = [segment(chance, pair, key) for pair, key in zip(stated, asked, strict=True)]
    targets = [[END] if key is None else [VALUE + values[key], END] for key in asked]
    return DocumentInputs("", [tokens for tokens, _ in made], targets, special=1, salience=[how for _, how in made])


def alone(chance: random.Random) -> DocumentInputs:
    """A single segment, of which most state a fact and ask for it."""
    pair = fact(chance, False)
    has_fact, has_question = chance.random() < 0.9, chance.random() < 0.8
    return document([pair if has_fact else None], [pair[0] if has_fact and has_question else None], chance)


def to_train_on(chance: random.Random, longest: int, future: bool, facts: int = 1) -> list[DocumentInputs]:
    """Documents of the same length that ask in the same segments, so that only those segments need a graph. Each
    states up to `facts` facts before the first question and perhaps another one beside a question, and asks for one
    that it has stated. With `future`, the other way round: it asks for facts to come. A single segment asks for what it
    states."""
    length = chance.randint(1, longest)
    most = min(chance.randint(1, facts), max(1, length - 1))
    asking = sorted(chance.sample(range(most, length), min(QUESTIONS, length - most))) or [0]
    made = []
    for _ in range(BATCH):
        places = chance.sample(range(max(1, asking[0])), most)
        if chance.random() < 0.5:
            places.append(chance.choice(asking))
        stated: list[tuple[int, int] | None] = [None] * length
        known: dict[int, int] = {}
        for place in places:
            if stated[place] is None:
                stated[place] = pair = fact(chance, False, known)
                known[pair[0]] = place
        asked = [
            chance.choice([key for key, place in known.items() if place <= number]) if number in asking else None
            for number in range(length)
        ]
        made.append(document(stated[::-1], asked[::-1], chance) if future else document(stated, asked, chance))
    return made


def to_test_on(chance: random.Random, distance: int, future: bool, facts: int = 1) -> DocumentInputs:
    """A fact in the first segment, the other facts in those behind it, and the question for the first one in the last
    segment; with `future`, the other way round."""
    stated: list[tuple[int, int] | None] = [None] * (distance + 1)
    known: dict[int, int] = {}
    for place in range(max(1, min(facts, distance))):
        stated[place] = pair = fact(chance, True, known)
        known[pair[0]] = place
    asked: list[int | None] = [*[None] * distance, next(iter(known))]
    if future:
        stated, asked = stated[::-1], asked[::-1]
    return document(stated, asked, chance)


def make(system: System, seed: int) -> AwesomeBart:
    """A small model with random weights."""
    torch.manual_seed(seed)
    config = AwesomeConfig(
        vocab_size=VOCABULARY,
        d_model=SIZE,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=2 * SIZE,
        decoder_ffn_dim=2 * SIZE,
        max_position_embeddings=16,
        dropout=0.0,
        init_std=SIZE**-0.5,
        bos_token_id=START,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=END,
        memory=system.memory,
        memory_layers=1,
        memory_size=SLOTS,
        **system.options,
    )
    return AwesomeBart(config)


def train_on(
    model: AwesomeBart,
    batches: Iterable[list[DocumentInputs]],
    steps: int,
    rates: tuple[float, float],
    kind: Any = torch.optim.AdamW,
    **options: Any,
) -> Iterator[float]:
    """One step on each batch, up to `steps`; gives its loss. `rates`: for old weights and for the memory's. `kind` is
    the optimizer."""
    new = model.new_weights()
    groups = [[weight for name, weight in model.named_parameters() if (name in new) == is_new] for is_new in (0, 1)]
    optimizer = kind(
        [{"params": group, "lr": rate} for group, rate in zip(groups, rates, strict=True) if group],
        betas=(0.9, 0.98),
        weight_decay=0.0,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / WARM_UP) * max(0.05, 1 - step / steps)
    )
    model.train()
    for _, batch in zip(range(steps), batches, strict=False):
        yield float(train(model, batch, torch.Tensor.backward, **options))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()


@cache
def before_memory(seed: int) -> dict[str, torch.Tensor]:
    """The weights of a model without memory that answers from the segment itself."""
    model, chance = make(SYSTEMS["se3"], seed), random.Random(seed)
    batches = ([alone(chance) for _ in range(ALONE_BATCH)] for _ in count())
    for _ in train_on(model, batches, ALONE, (ALONE_RATE, ALONE_RATE)):
        pass
    return model.state_dict()


def learn(model: AwesomeBart, system: System, seed: int, steps: int, future: bool, facts: int = 1) -> None:
    """Train from scratch: without memory, then with it. Documents become longer in the first half."""
    model.load_state_dict(before_memory(seed), strict=False)
    chance = random.Random(seed)
    longest = (round(min(LONGEST, FIRST_LONGEST + 2 * (LONGEST - FIRST_LONGEST) * step / steps)) for step in count())
    batches = (to_train_on(chance, most, future, facts) for most in longest)
    losses, started = [], time.process_time()
    options = {"trunk_batch": LONGEST, "empty_targets": False, "depth": system.depth}
    for loss in train_on(model, batches, steps, (RATE, NEW_RATE), **options):
        losses.append(loss)
        if len(losses) % 80 == 0:
            seconds = time.process_time() - started
            print(f"  step {len(losses)}, {seconds:.0f} s, loss {statistics.mean(losses[-80:]):.3f}", flush=True)


def accuracy(model: AwesomeBart, distance: int, future: bool = False, facts: int = 1, tested: int = TESTED) -> float:
    """The share of unseen facts that are recalled over a distance, in what the model writes."""
    chance = random.Random(1000 + distance)
    documents = [to_test_on(chance, distance, future, facts) for _ in range(tested)]
    asking = 0 if future else distance
    was_training = model.training
    model.eval()
    right = sum(
        list(tokens[:1]) == documents[place].targets[asking][:1]
        for place, number, tokens in generate(model, documents, trunk_batch=LONGEST, num_beams=1, max_new_tokens=2)
        if number == asking
    )
    model.train(was_training)
    return right / tested


def run(name: str, system: System, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train one model and test it."""
    print(f"{TITLES[name]}, seed {seed}:", flush=True)
    started = time.process_time()
    model = make(system, seed)
    learn(model, system, seed, options.steps, options.future, options.facts)
    seconds = time.process_time() - started
    found = {distance: accuracy(model, distance, options.future, options.facts) for distance in DISTANCES}
    print("  " + ", ".join(f"{distance}: {share:.1%}" for distance, share in found.items()), flush=True)
    return {"accuracy": found, "seconds": round(seconds), "steps": options.steps}


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Earlier results: "system/seed" -> what `run` returned."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def means(results: dict[str, dict[str, Any]], names: Iterable[str]) -> dict[str, dict[int, tuple[float, float, float]]]:
    """For each system and distance: mean, lowest and highest accuracy over the seeds."""
    found: dict[str, dict[int, tuple[float, float, float]]] = {}
    for name in names:
        of = [result["accuracy"] for key, result in results.items() if key.split("/")[0] == name]
        for distance in DISTANCES if of else ():
            values = [float(each[str(distance)]) for each in of]
            found.setdefault(name, {})[distance] = (statistics.mean(values), min(values), max(values))
    return found


def table(found: dict[str, dict[int, tuple[float, float, float]]]) -> str:
    """The means in percent, as Markdown, with the lowest seed's in parentheses."""
    head = "| system | " + " | ".join(map(str, DISTANCES)) + " |"
    rows = [
        f"| {TITLES[name]} | " + " | ".join(f"{mean:.1%} ({low:.1%})" for mean, low, _ in line.values()) + " |"
        for name, line in found.items()
    ]
    return "\n".join([head, "|---" * (len(DISTANCES) + 1) + "|", *rows])


def main() -> int:
    """Train what is missing, print the table, draw the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", metavar="NAME", help=f"of {', '.join(SYSTEMS)} (default: all)")
    parser.add_argument("--seeds", nargs="+", type=int, metavar="SEED", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--facts", type=int, default=1, help="facts that a document states before it asks for one")
    parser.add_argument("--future", action="store_true", help="facts that are stated after the question")
    parser.add_argument("--out", type=Path, default=Path("recall.json"))
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    torch.set_flush_denormal(True)
    systems = FUTURE if options.future else SYSTEMS
    names = options.systems or list(systems)
    if unknown := set(names) - systems.keys():
        parser.error(f"no system {', '.join(sorted(unknown))}: choose from {', '.join(systems)}")
    results = read(options.out)
    for seed in options.seeds:
        for name in names:
            if f"{name}/{seed}" not in results:
                made = run(name, systems[name], seed, options)
                results = read(options.out) | json.loads(json.dumps({f"{name}/{seed}": made}))
                options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    found = means(results, systems)
    print(table(found))
    if options.plot:
        lines = {TITLES[name]: {at: 100 * mean for at, (mean, _, _) in line.items()} for name, line in found.items()}
        options.plot.write_text(
            drawing(lines, "facts recalled, in percent", "segments between fact and question"), encoding="utf-8"
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
