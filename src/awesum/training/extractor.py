"""Train and calibrate the extractor on documents with reference summaries.

Training reads words alone, so it takes a dataset as it is: nothing has to be prepared. What the extractor learns of a
document: which sentences the greedy oracle selects and how dense the summary's stems and pairs are in each, which stems
and pairs the summary has, and then how long it is. Documents are kept in RAM as numbers, some 100 KB each.

A few documents of each folder are held out. With them, the weights of the ratings, the length and the redundancy limit
are fitted to ROUGE; each folder counts equally.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from tqdm import tqdm

from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.calibration import LENGTHS
from awesum.analysis.salience.choice import choose, predecessors, word_costs
from awesum.analysis.salience.extractor import Extractor, Inputs, Outputs, Shape, concept_ids
from awesum.analysis.salience.ratings import Query, Ratings
from awesum.analysis.salience.trained import TOGETHER, Calibration, Mixture, TrainedSalience, to_ratings
from awesum.analysis.salience.words import BUCKETS, Words, pairs_of, stem_ids, stem_rows
from awesum.analysis.sentences import sentence_spans
from awesum.datasets import Example, examples, splits
from awesum.errors import AwesumError
from awesum.files import check_writable
from awesum.length import count_words
from awesum.scoring import oracle
from awesum.weights import minilm_folder
from awesum.workers import cores, work

if TYPE_CHECKING:
    from numpy.typing import NDArray


WORTH, STEMS, PAIRS, CENTRAL = (0.1, 0.3, 0.5), (0.3,), (0.5, 0.7, 0.9), (0.0, 0.01, 0.02)
"""Candidates for the weights of a mixture."""
FACTORS = (0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2)
"""Candidates for the multiple of the estimated length."""
REDUNDANCIES = (0.8, 0.85, 0.9, 0.95, 1.0)
"""Candidates for the cosine above which a sentence repeats another."""
MOST_HELD_OUT = 0.2
"""The largest share of a folder's documents that is held out."""
SCORE_WEIGHTS, STEM_WEIGHT, PAIR_WEIGHT = (0.5, 0.5, 1.0, 1.0), 1.0, 3.0
"""Of the parts of the loss."""


@dataclass(frozen=True)
class ExtractorSettings:
    """The settings of a training run."""

    data: tuple[str, ...]
    """Folders with a train split, or names of public datasets."""
    output: str
    """The safetensors file to write."""
    documents: int | None = None
    """Of each folder; all if it is not given."""
    held_out: int = 40
    """Documents of each folder that the ratings are fitted to, evenly spread."""
    epochs: int = 3
    learning_rate: float = 2e-3
    batch: int = 8
    """Documents per update."""
    weight_decay: float = 0.05
    """Of all weights but the embeddings."""
    seed: int = 0
    shape: Shape = field(default_factory=Shape)


@dataclass(frozen=True)
class Lesson:
    """A document as numbers, with everything that is to be learned from it."""

    words: Words
    selectable: NDArray[np.bool_]
    query: NDArray[np.uint32] | None
    summary: NDArray[np.uint32]
    """Its stems."""
    length: int
    """The words of the summary."""
    labels: NDArray[np.float16]
    """(N, 4), see `extractor.SCORES`."""

    @classmethod
    def of(cls, example: Example) -> Lesson:
        """Find the labels."""
        texts = [example.document[start:end] for start, end in sentence_spans(example.document)]
        costs = word_costs(texts)
        words, summary = Words.of(texts), stem_ids(example.summary)
        selected = np.zeros(len(texts))
        selected[
            oracle.greedy([text if cost else "" for text, cost in zip(texts, costs, strict=True)], example.summary)
        ] = 1
        stems = _shares(words.ids, words.owners, summary, len(words))
        pairs = _shares(*words.pairs, pairs_of(summary), len(words))
        worth = 0.5 * selected + 0.5 * np.minimum(1, 0.5 * stems + pairs)
        return cls(
            words,
            np.array(costs) > 0,
            stem_ids(example.query) if example.query else None,
            summary,
            count_words(example.summary),
            np.stack([selected, stems, pairs, worth], axis=1).astype(np.float16),
        )

    def loss(self, outputs: Outputs) -> torch.Tensor:
        """How far an extractor's estimates are off."""
        found, _, _, _ = concept_ids(self.words.ids, self.words.owners, self.selectable)
        found_pairs, _, _, _ = concept_ids(*self.words.pairs, self.selectable)
        stems = torch.from_numpy(np.isin(found, self.summary)).float()
        pairs = torch.from_numpy(np.isin(found_pairs, pairs_of(self.summary))).float()
        fit, labels = torch.from_numpy(self.selectable), torch.from_numpy(self.labels).float()
        scores = binary_cross_entropy_with_logits(outputs.scores[fit], labels[fit], reduction="none").mean(0)
        return (
            scores @ torch.tensor(SCORE_WEIGHTS)
            + STEM_WEIGHT * binary_cross_entropy_with_logits(outputs.stems, stems)
            + PAIR_WEIGHT * binary_cross_entropy_with_logits(outputs.pairs, pairs)
        )


def _shares(
    ids: NDArray[np.unsignedinteger], owners: NDArray[np.int64], known: NDArray[np.unsignedinteger], count: int
) -> NDArray[np.float64]:
    """The share of each sentence's stems or pairs that are known."""
    return np.bincount(owners, np.isin(ids, known), minlength=count) / np.maximum(
        np.bincount(owners, minlength=count), 1
    )


def _lessons() -> Callable[[Example], Lesson]:
    return Lesson.of


@dataclass(frozen=True)
class Item:
    """A document to select from, with what the selection is compared with."""

    texts: list[str]
    summary: str
    vectors: NDArray[np.float32]
    query: Query | None = None

    @cached_property
    def costs(self) -> list[float]:
        """The words of each sentence; zero if it must not be selected."""
        return word_costs(self.texts)

    @cached_property
    def words(self) -> Words:
        """The sentences as numbers."""
        return Words.of(self.texts)

    @cached_property
    def before(self) -> NDArray[np.int64]:
        """The sentence that each brings along."""
        return predecessors(self.texts, self.costs)

    @cached_property
    def reference(self) -> NDArray[np.uint32]:
        """The stems of the summary."""
        return stem_ids(self.summary)

    @cached_property
    def length(self) -> int:
        """The words of the summary."""
        return count_words(self.summary)

    @cached_property
    def oracle(self) -> list[int]:
        """The sentences that the greedy oracle selects."""
        return sorted(oracle.greedy(self.texts, self.summary))

    def choose(self, ratings: Ratings, amount: float) -> list[int]:
        """The selection by some ratings."""
        return choose(ratings, self.vectors, self.costs, amount, lengths=self.words.lengths, before=self.before)

    def rouge(self, chosen: Sequence[int]) -> float:
        """ROUGE-1 + ROUGE-2 of the chosen sentences."""
        ends = np.cumsum(self.words.counts)
        own = np.concatenate(
            [
                self.words.ids[:0],
                *(self.words.ids[ends[index] - self.words.counts[index] : ends[index]] for index in chosen),
            ]
        )
        return _f_measure(own, self.reference) + _f_measure(pairs_of(own), pairs_of(self.reference))


def _f_measure(own: NDArray[np.unsignedinteger], other: NDArray[np.unsignedinteger]) -> float:
    if not len(own) or not len(other):
        return 0.0
    (ours, our_counts), (theirs, their_counts) = (np.unique(ids, return_counts=True) for ids in (own, other))
    _, first, second = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    return float(2 * np.minimum(our_counts[first], their_counts[second]).sum() / (len(own) + len(other)))


def _to_stderr(note: str) -> None:
    print(note, file=sys.stderr, flush=True)


def train(
    settings: ExtractorSettings,
    *,
    encoder: SentenceEncoder | None = None,
    processes: int | None = None,
    quiet: bool = False,
    say: Callable[[str], object] = _to_stderr,
) -> TrainedSalience:
    """Train an extractor, fit its ratings, and write it to its file, which is replaced after every epoch.

    `encoder` embeds the documents that the ratings are fitted to; by default the embedded one.
    """
    output = Path(settings.output)
    _check_output(output)
    training, held_out = _split(settings, processes or cores(), quiet)
    torch.manual_seed(settings.seed)
    torch.set_flush_denormal(True)
    extractor = Extractor(settings.shape)
    extractor.rarity.copy_(torch.from_numpy(_rarity(training)))
    say(
        f"{len(training):,} training documents, {sum(map(len, held_out)):,} held out, "
        f"{sum(parameter.numel() for parameter in extractor.parameters()):,} weights"
    )
    _learn(extractor, training, settings, output, quiet, say)
    _learn_length(extractor, training)
    encoder = encoder or SentenceEncoder.load(minilm_folder())
    items = [[to_item(example, encoder) for example in folder] for folder in held_out]
    salience = TrainedSalience(extractor, calibrate(extractor, items))
    _save(salience, output)
    return TrainedSalience.load(output)


def _check_output(output: Path) -> None:
    if not output.parent.is_dir():
        raise AwesumError(f"there is no folder {output.parent}: create it, or give another output")
    if output.is_dir():
        raise AwesumError(f"{output} is a folder: give a file name as output")
    try:
        check_writable(output)
    except OSError as error:
        raise AwesumError(f"cannot write {output} ({error.strerror or error}): give another output") from error


def _split(settings: ExtractorSettings, processes: int, quiet: bool) -> tuple[list[Lesson], list[list[Example]]]:
    """The training documents of all folders as lessons, and the held-out ones of each."""
    training: list[Lesson] = []
    held_out: list[list[Example]] = []
    for folder in settings.data:
        if (there := splits(folder)) and "train" not in there:
            raise AwesumError(f"{folder} has no split 'train': it has {', '.join(there)}")
        rows = list(islice(examples(folder, "train"), settings.documents))
        if len(rows) < 2:
            raise AwesumError(f"the split 'train' of {folder} has {len(rows)} documents: give at least 2")
        different = list({row.document: number for number, row in enumerate(rows)}.values())
        count = min(settings.held_out, max(1, round(MOST_HELD_OUT * len(different))))
        apart = {different[number * len(different) // count] for number in range(count)}
        documents = {rows[number].document for number in apart}  # a meeting has several questions
        held_out.append([rows[number] for number in sorted(apart)])
        kept = [row for row in rows if row.document not in documents]
        if not kept:
            raise AwesumError(
                f"all documents of {folder} would be held out: give more of them, or a smaller --hold-out"
            )
        bar = tqdm(total=len(kept), desc=folder, unit=" documents", leave=False, disable=quiet or None)
        for lesson in work(_lessons, kept, processes):
            if lesson.selectable[lesson.words.pairs[1]].any() and len(lesson.summary) > 1:
                training.append(lesson)
            bar.update()
        bar.close()
    if not training:
        raise AwesumError(f"nothing can be learned from {' or '.join(settings.data)}: no document has words of a-z")
    return training, held_out


def _rarity(lessons: Sequence[Lesson]) -> NDArray[np.float32]:
    """The inverse document frequency of each row of the table of stems."""
    frequency = np.zeros(BUCKETS)
    for lesson in lessons:
        frequency[np.unique(stem_rows(lesson.words.ids))] += 1
    return (np.log((len(lessons) + 1) / (frequency + 1)) + 0.5).astype(np.float32)


def _learn(
    extractor: Extractor,
    lessons: Sequence[Lesson],
    settings: ExtractorSettings,
    output: Path,
    quiet: bool,
    say: Callable[[str], object],
) -> None:
    """All epochs, in a new order each."""
    rarity = extractor.rarity.numpy()
    tables = {id(extractor.stem.weight), id(extractor.pair.weight)}
    others = [weight for weight in extractor.parameters() if id(weight) not in tables]
    optimizer = torch.optim.AdamW(
        [
            {"params": [extractor.stem.weight, extractor.pair.weight], "weight_decay": 0.0},
            {"params": others, "weight_decay": settings.weight_decay},
        ],
        lr=settings.learning_rate,
    )
    updates = settings.epochs * -(-len(lessons) // settings.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.learning_rate, total_steps=updates + 1, pct_start=0.15
    )
    for epoch in range(1, settings.epochs + 1):
        started, total = time.perf_counter(), 0.0
        order = list(lessons)
        random.Random(f"{settings.seed} {epoch}").shuffle(order)
        extractor.train()
        bar = tqdm(order, f"epoch {epoch}", leave=False, unit=" documents", disable=quiet or None)
        for number, lesson in enumerate(bar, 1):
            loss = lesson.loss(extractor(Inputs.of(lesson.words, lesson.selectable, rarity, lesson.query), TOGETHER))
            (loss / settings.batch).backward()
            total += loss.item()
            if number % settings.batch == 0 or number == len(order):
                torch.nn.utils.clip_grad_norm_(extractor.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                schedule.step()
        extractor.eval()
        _save(TrainedSalience(extractor), output)
        say(f"epoch {epoch}: loss {total / len(order):.4f}, {time.perf_counter() - started:.0f} s")


@torch.inference_mode()
def _learn_length(extractor: Extractor, lessons: Sequence[Lesson]) -> None:
    """Fit the length to what the trained extractor makes of each document."""
    rarity = extractor.rarity.numpy()
    about = np.stack(
        [
            extractor(Inputs.of(lesson.words, lesson.selectable, rarity, lesson.query), TOGETHER).about.numpy()
            for lesson in lessons
        ]
    )
    lengths = np.log([max(lesson.length, 1) for lesson in lessons])
    is_asked = np.array([lesson.query is not None and len(lesson.query) > 0 for lesson in lessons])
    for line in range(LENGTHS):
        own = is_asked == bool(line)
        if not own.any():  # nothing of the kind to learn from
            own = ~own
        weights, bias = fit_line(about[own], lengths[own])
        extractor.length.weight[line] = torch.from_numpy(weights)
        extractor.length.bias[line] = bias


def fit_line(
    inputs: NDArray[np.floating], targets: NDArray[np.floating], ridge: float = 30.0, rounds: int = 8
) -> tuple[NDArray[np.float32], float]:
    """Weights and bias with the least absolute error, nearly: the lengths of summaries have outliers.

    Ridge regression on standardized inputs, weighted anew in each round by the inverse of the error.
    """
    mean, spread = inputs.mean(axis=0), inputs.std(axis=0) + 1e-6
    rows = np.column_stack([np.ones(len(inputs)), (inputs - mean) / spread]).astype(np.float64)
    penalty = ridge * np.diag([0.0, *[1.0] * inputs.shape[1]])
    trust = np.ones(len(rows))
    for _ in range(rounds):
        weighted = rows * trust[:, None]
        found = np.linalg.solve(weighted.T @ rows + penalty, weighted.T @ targets)
        trust = 0.2 / np.maximum(np.abs(targets - rows @ found), 0.1)
    weights = found[1:] / spread
    return weights.astype(np.float32), float(found[0] - mean @ weights)


def _save(salience: TrainedSalience, path: Path) -> None:
    try:
        salience.save(path)
    except OSError as error:
        raise AwesumError(f"cannot write {path} ({error.strerror or error}): give another output") from error


def to_item(example: Example, encoder: SentenceEncoder) -> Item:
    """Embed a document and its query."""
    texts = [example.document[start:end] for start, end in sentence_spans(example.document)]
    query = Query(example.query, encoder.encode([example.query])[0]) if example.query else None
    return Item(texts, example.summary, encoder.encode(texts), query)


@dataclass(frozen=True)
class _Estimated:
    """An item with an extractor's estimates."""

    item: Item
    inputs: Inputs
    outputs: Outputs

    def quality(self, calibration: Calibration, amount: float | None = None) -> float:
        """ROUGE-1 + ROUGE-2 of the selection, at a length or at the estimated one."""
        ratings = to_ratings(self.inputs, self.outputs, calibration, self.item.vectors, self.item.query)
        return self.item.rouge(self.item.choose(ratings, ratings.usual_words if amount is None else amount))


def calibrate(extractor: Extractor, folders: Sequence[Sequence[Item]]) -> Calibration:
    """The calibration with the highest ROUGE-1 + ROUGE-2; each folder counts equally.

    Weights of the ratings and redundancy are fitted at the length of the reference, then the factor of the length.
    """
    estimated = [[_estimate(extractor, item) for item in items] for items in folders]
    best = Calibration()
    mixtures = [Mixture(*weights) for weights in product(WORTH, STEMS, PAIRS, CENTRAL)]
    for asked in (False, True):
        some = [[one for one in items if (one.item.query is not None) == asked] for items in estimated]
        if any(some):
            tried = [replace(best, asked=one) if asked else replace(best, plain=one) for one in mixtures]
            best = max(tried, key=partial(_quality, some, at_reference=True))
    best = max(
        (replace(best, redundant=cosine) for cosine in REDUNDANCIES),
        key=partial(_quality, estimated, at_reference=True),
    )
    return max(
        (replace(best, length=factor) for factor in FACTORS), key=partial(_quality, estimated, at_reference=False)
    )


@torch.inference_mode()
def _estimate(extractor: Extractor, item: Item) -> _Estimated:
    asked = stem_ids(item.query.text) if item.query else None
    inputs = Inputs.of(item.words, np.array(item.costs) > 0, extractor.rarity.numpy(), asked)
    return _Estimated(item, inputs, extractor.eval()(inputs, TOGETHER))


def _quality(folders: Iterable[Sequence[_Estimated]], calibration: Calibration, *, at_reference: bool) -> float:
    return sum(
        float(np.mean([one.quality(calibration, one.item.length if at_reference else None) for one in items]))
        for items in folders
        if items
    )
