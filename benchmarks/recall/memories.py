"""The systems that go from segment to segment: Se3, and AWESOME's memories and salient content."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from typing import Any

import torch
from torch import nn

from awesum.models.bart import AwesomeBart
from awesum.models.bart_config import AwesomeConfig
from awesum.recurrence import DocumentInputs, generate, train
from benchmarks.recall.task import (
    END,
    FIRST_LONGEST,
    LENGTH,
    LONGEST,
    PAD,
    SENTENCES,
    START,
    VOCABULARY,
    alone,
    to_test_on,
    to_train_on,
)  # fmt: skip

SLOTS, SIZE, TESTED, WINDOW = 16, 64, 128, 16
"""Slots of a memory, width of a model, tests of a distance, and positions of BART."""
ALONE, ALONE_BATCH = 120, 128
"""Steps on single segments, before there is a memory, and their batch."""
RATE, NEW_RATE, ALONE_RATE, WARM_UP = 1e-3, 1e-2, 3e-3, 30
"""Peak learning rates: of the weights that were there before the system's own, of the system's, and before that."""
BART: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": SIZE,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 2 * SIZE,
    "decoder_ffn_dim": 2 * SIZE,
    "max_position_embeddings": WINDOW,
    "dropout": 0.0,
    "init_std": SIZE**-0.5,
    "bos_token_id": START,
    "pad_token_id": PAD,
    "eos_token_id": END,
    "decoder_start_token_id": END,
}
Loss = Callable[[Sequence[DocumentInputs]], torch.Tensor]
"""The loss of a batch, after its backward pass."""


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
    "text": System("none", options={"salient": "text"}),
    "key-value": System("none", options={"salient": "key-value", "salient_size": SLOTS}),
    "attentive-text": System("attentive", options={"salient": "text"}),
}
FUTURE = {
    "se3": SYSTEMS["se3"],
    "attentive": System("attentive"),
    "attentive-both": System("attentive", options={"memory_direction": "both"}),
    "text": SYSTEMS["text"],
    "key-value": SYSTEMS["key-value"],
    "attentive-text": SYSTEMS["attentive-text"],
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
    "text": "salient content as text",
    "key-value": "salient content as key-value vectors",
    "attentive-text": "attentive + salient text (AWESOME)",
    "attentive-both": "attentive, both directions",
}


def make(system: System, seed: int) -> AwesomeBart:
    """A small model with random weights."""
    torch.manual_seed(seed)
    return AwesomeBart(
        AwesomeConfig(**BART, memory=system.memory, memory_layers=1, memory_size=SLOTS, **system.options)
    )


def shown(system: System, documents: Sequence[DocumentInputs]) -> list[DocumentInputs]:
    """The documents as the system's layout shows them: with salient sentences of other segments, if it takes any."""
    show = {"text": _with_text, "key-value": _with_vectors}.get(system.options.get("salient", "none"))
    return [show(document) if show else document for document in documents]


def salient_sentences(document: DocumentInputs, room: int, *, other_than: int | None = None) -> list[tuple[int, slice]]:
    """The most salient sentences, as many as there is room for, in their order: segment, and place among its tokens."""
    rated = [
        (how[place.start + 1], number, slice(place.start + 1, place.stop + 1))
        for number, how in enumerate(document.salience)
        for place in SENTENCES
        if number != other_than and how[place.start + 1] > 0
    ]
    chosen = []
    for _, number, place in sorted(rated, key=lambda each: -each[0]):
        if room >= place.stop - place.start:
            chosen.append((number, place))
            room -= place.stop - place.start
    return sorted(chosen, key=lambda each: (each[0], each[1].start))


def _with_text(document: DocumentInputs) -> DocumentInputs:
    """Salient sentences before and after the words of each segment, up to the window."""
    segments, salience = [], []
    for number, (tokens, how) in enumerate(zip(document.segments, document.salience, strict=True)):
        words: tuple[list[int], list[int]] = [], []
        for of, place in salient_sentences(document, WINDOW - LENGTH - 2, other_than=number):
            words[of > number].extend(document.segments[of][place])
        segments.append([START, *words[0], *tokens[1:-1], *words[1], END])
        salience.append([*[0.0] * (1 + len(words[0])), *how[1:-1], *[0.0] * (1 + len(words[1]))])
    return replace(document, segments=segments, salience=salience)


def _with_vectors(document: DocumentInputs) -> DocumentInputs:
    """Each segment attends to the salient sentences of the others."""
    attended = [salient_sentences(document, SLOTS, other_than=number) for number in range(len(document.segments))]
    spans = sorted({(of, place.start, place.stop) for those in attended for of, place in those})
    numbers = {span: at for at, span in enumerate(spans)}
    salient = [[numbers[of, place.start, place.stop] for of, place in those] for those in attended]
    return replace(document, spans=spans, salient=salient)


def steps_on(
    model: nn.Module,
    new: Iterable[nn.Parameter],
    loss: Loss,
    batches: Iterable[list[DocumentInputs]],
    steps: int,
    rates: tuple[float, float],
    optimizer_class: Any = torch.optim.AdamW,
) -> Iterator[float]:
    """One step on each batch, up to `steps`; gives its loss. `rates`: for old weights and for `new` ones."""
    own = {id(weight) for weight in new}
    groups = [[weight for weight in model.parameters() if (id(weight) in own) == is_new] for is_new in (False, True)]
    optimizer = optimizer_class(
        [{"params": group, "lr": rate} for group, rate in zip(groups, rates, strict=True) if group],
        betas=(0.9, 0.98),
        weight_decay=0.0,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / WARM_UP) * max(0.05, 1 - step / steps)
    )
    model.train()
    for _, batch in zip(range(steps), batches, strict=False):
        yield float(loss(batch))
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()


def single_segments(seed: int) -> Iterator[list[DocumentInputs]]:
    """Batches for the first stage."""
    chance = random.Random(seed)
    return ([alone(chance) for _ in range(ALONE_BATCH)] for _ in count())


def longer_documents(seed: int, steps: int, future: bool, facts: int, **options: Any) -> Iterator[list[DocumentInputs]]:
    """Batches for the second stage. Documents become longer in its first half."""
    chance = random.Random(seed)
    longest = (round(min(LONGEST, FIRST_LONGEST + 2 * (LONGEST - FIRST_LONGEST) * step / steps)) for step in count())
    return (to_train_on(chance, most, future, facts, **options) for most in longest)


def watch(losses: Iterable[float]) -> None:
    """Run through some steps, with a line for every 80 of them."""
    found: list[float] = []
    started = time.process_time()
    for loss in losses:
        found.append(loss)
        if len(found) % 80 == 0:
            seconds = time.process_time() - started
            print(f"  step {len(found)}, {seconds:.0f} s, loss {statistics.mean(found[-80:]):.3f}", flush=True)


def within_segments(model: AwesomeBart, seed: int, **options: Any) -> Iterator[float]:
    """The losses of the first stage, without memory. `options` are those of `steps_on`."""

    def loss(batch: Sequence[DocumentInputs]) -> torch.Tensor:
        return train(model, batch, torch.Tensor.backward)

    return steps_on(model, (), loss, single_segments(seed), ALONE, (ALONE_RATE, ALONE_RATE), **options)


def across_segments(
    model: AwesomeBart, system: System, seed: int, steps: int, future: bool = False, facts: int = 1, **options: Any
) -> Iterator[float]:
    """The losses of the second stage, with a memory."""
    names = model.new_weights()
    new = [weight for name, weight in model.named_parameters() if name in names]

    def loss(batch: Sequence[DocumentInputs]) -> torch.Tensor:
        documents = shown(system, batch)
        backward = torch.Tensor.backward
        return train(model, documents, backward, trunk_batch=LONGEST, empty_targets=False, depth=system.depth)

    return steps_on(model, new, loss, longer_documents(seed, steps, future, facts), steps, (RATE, NEW_RATE), **options)


@cache
def before_memory(seed: int) -> dict[str, torch.Tensor]:
    """The weights of a model without memory that answers from the segment itself."""
    model = make(SYSTEMS["se3"], seed)
    for _ in within_segments(model, seed):
        pass
    return model.state_dict()


def learn(model: AwesomeBart, system: System, seed: int, steps: int, future: bool, facts: int = 1) -> None:
    """Train from scratch: without memory, then with it."""
    model.load_state_dict(before_memory(seed), strict=False)
    watch(across_segments(model, system, seed, steps, future, facts))


def accuracy(
    model: AwesomeBart, system: System, distance: int, future: bool = False, facts: int = 1, tested: int = TESTED
) -> float:
    """The share of unseen facts that are recalled over a distance, in what the model writes."""
    chance = random.Random(1000 + distance)
    documents = shown(system, [to_test_on(chance, distance, future, facts) for _ in range(tested)])
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
