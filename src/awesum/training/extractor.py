"""Train and evaluate the extractor on prepared documents.

The training label of a sentence is half its oracle label and half the density of the summary's words in it: the
oracle's choice among sentences that say the same is arbitrary, and the density credits the alternatives. Documents
stream from their shards in a new order each epoch. The epoch with the best validation ROUGE, each extract as long as
its reference, is kept. Length and redundancy are then fitted to the validation documents of the first dataset, because
the usual length of a summary differs between datasets.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from tqdm import tqdm

from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience import Salience
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.choice import REDUNDANT, Calibration, choose, word_costs
from awesum.analysis.salience.extractor import Extractor, Shape
from awesum.analysis.salience.trained import TrainedSalience, Trust, mixed, tensors
from awesum.errors import AwesumError
from awesum.length import count_words
from awesum.metrics.rouge import Rouge, lines
from awesum.prepared.splits import GIVEN, PreparedDocument, PreparedSplit, prepared
from awesum.scoring.rouge import Index, NGrams, Vocabulary, f_measure, overlap
from awesum.weights import MINILM_WHEEL, minilm_folder
from awesum.workers import cores, work

if TYPE_CHECKING:
    from numpy.typing import NDArray

MIXED = 8
"""Shards whose documents are shuffled together."""
REDUNDANCIES = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
FACTORS = (0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2)
"""Candidates for calibration: cosines, and multiples of the fitted length."""
SHARES = tuple(tenth / 10 for tenth in range(11))
"""Candidates for the weight of the extractor in the scores."""
LONGEST = (2000, 3000, 4000, 6000, 10_000, 20_000)
"""Candidates for the document length, in words, beyond which the summary gets no longer."""


@dataclass(frozen=True)
class ExtractorSettings:
    """The settings of a training run."""

    data: tuple[str, ...]
    """Folders written by `awesum data prepare`. Length and redundancy are fitted to the first."""
    output: str
    """The safetensors file to write."""
    epochs: int = 10
    learning_rate: float = 1e-3
    batch: int = 4
    """Documents per update."""
    weight_decay: float = 0.05
    oracle_share: float = 0.5
    """Weight of the oracle label in the training label; the rest is density."""
    validation_documents: int | None = 100
    """Documents from each folder, evenly spaced; None for all."""
    seed: int = 0
    shape: Shape = field(default_factory=Shape)


@dataclass(frozen=True)
class Item:
    """A document as a training example of the extractor."""

    texts: list[str]
    summary: str
    embeddings: NDArray[np.float32]
    query: NDArray[np.float32] | None
    oracle: list[int]

    @cached_property
    def costs(self) -> list[float]:
        """The words of each sentence; zero if it must not be selected."""
        return word_costs(self.texts)

    @cached_property
    def words(self) -> int:
        """The words of the document."""
        return sum(map(count_words, self.texts))

    @cached_property
    def reference(self) -> tuple[Vocabulary, NGrams, NGrams]:
        """The n-grams of the summary, and their vocabulary."""
        vocabulary = Vocabulary()
        words = vocabulary.words(self.summary)
        return vocabulary, NGrams.of(words, 1), NGrams.of(words, 2)

    def worth(self, oracle_share: float) -> NDArray[np.float32]:
        """The training label of each sentence, from 0 to 1."""
        vocabulary, one, two = self.reference
        words = [vocabulary.words(text) for text in self.texts]
        density = np.zeros(len(self.texts))
        for n, summary, weight in ((1, one, 0.5), (2, two, 1.0)):
            own = [NGrams.of(sentence, n) for sentence in words]  # type: ignore[arg-type]
            totals = np.array([max(sentence.total, 1) for sentence in own])
            density += weight * Index(own).overlaps(summary) / totals
        chosen = np.zeros(len(self.texts))
        chosen[self.oracle] = 1
        return (oracle_share * chosen + (1 - oracle_share) * density.clip(0, 1)).astype(np.float32)

    def rouge(self, chosen: Sequence[int]) -> tuple[float, float]:
        """ROUGE-1 and ROUGE-2 of the chosen sentences."""
        vocabulary, one, two = self.reference
        words = vocabulary.words(" ".join(self.texts[index] for index in chosen))
        own, pairs = NGrams.of(words, 1), NGrams.of(words, 2)
        return (
            float(f_measure(overlap(own, one), own.total, one.total)),
            float(f_measure(overlap(pairs, two), pairs.total, two.total)),
        )


class Items:
    """Prepared documents as items. Queries are encoded by the encoder that computed the sentence vectors."""

    def __init__(self, folders: Sequence[str], split: str) -> None:
        self.splits: list[PreparedSplit] = [prepared(folder, split) for folder in folders]
        _check_encoders(self.splits)

    @cached_property
    def encoder(self) -> SentenceEncoder:
        """The encoder of the sentence vectors, loaded for the first query."""
        name = self.splits[0].encoder["name"]
        if name == GIVEN:
            raise AwesumError(
                f"the vectors in {self.splits[0].folder} are from an unnamed encoder, which cannot be loaded to encode "
                "the queries: prepare the documents with --encoder NAME_OR_PATH, or with the default one"
            )
        return SentenceEncoder.load(minilm_folder() if name == MINILM_WHEEL.requirement else name)

    def item(self, document: PreparedDocument) -> Item:
        """Convert a prepared document."""
        query = self.encoder.encode([document.query])[0] if document.query else None
        texts = [document.document[start:end] for start, end in document.sentences]
        embeddings = document.embeddings.astype(np.float32)
        return Item(texts, document.summary, embeddings, query, document.oracle)

    def __len__(self) -> int:
        return sum(map(len, self.splits))

    def mixed(self, chance: random.Random) -> Iterator[Item]:
        """All items in random order, with a few shards in RAM at a time."""
        order = [(split, number) for split in self.splits for number in range(split.shards)]
        chance.shuffle(order)
        for first in range(0, len(order), MIXED):
            documents = [document for split, number in order[first : first + MIXED] for document in split.shard(number)]
            chance.shuffle(documents)
            yield from map(self.item, documents)

    def spread(self, count: int | None) -> Iterator[Item]:
        """`count` items of each folder, evenly spaced, or all."""
        for split in self.splits:
            wanted = {number * len(split) // count for number in range(count)} if count else range(len(split))
            yield from (self.item(document) for number, document in enumerate(split) if number in wanted)


def _check_encoders(splits: Sequence[PreparedSplit]) -> None:
    first, *others = splits
    for other in others:
        if other.encoder != first.encoder:
            raise AwesumError(
                f"{first.folder} has vectors of {first.encoder['name']}, {other.folder} of {other.encoder['name']}: "
                "prepare both with the same --encoder"
            )


def _to_stderr(note: str) -> None:
    print(note, file=sys.stderr, flush=True)


def train(
    settings: ExtractorSettings, *, quiet: bool = False, say: Callable[[str], object] = _to_stderr
) -> TrainedSalience:
    """Train an extractor, calibrate it, and write it to its file, which is replaced whenever an epoch is better."""
    output = Path(settings.output)
    if not output.parent.is_dir():
        raise AwesumError(f"there is no folder {output.parent}: create it, or give another output")
    if output.is_dir():
        raise AwesumError(f"{output} is a folder: give a file name as output")
    items = Items(settings.data, "train")
    validation = [list(Items([folder], "validation").spread(settings.validation_documents)) for folder in settings.data]
    for split, counts in (("train", [len(items)]), ("validation", map(len, validation))):
        if not all(counts):
            raise AwesumError(f"the split {split!r} of {' or '.join(settings.data)} has no documents: prepare others")
    size = validation[0][0].embeddings.shape[1]
    torch.manual_seed(settings.seed)
    torch.set_flush_denormal(True)
    extractor = Extractor(replace(settings.shape, vector=size))
    steps = settings.epochs * -(-len(items) // settings.batch)
    optimizer = torch.optim.AdamW(extractor.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.learning_rate, total_steps=steps + 1)
    say(
        f"{len(items):,} training documents, {sum(map(len, validation)):,} validation documents, "
        f"{sum(parameter.numel() for parameter in extractor.parameters()):,} weights"
    )
    best = -1.0
    for epoch in range(1, settings.epochs + 1):
        started = time.perf_counter()
        loss = _epoch(extractor, items, settings, epoch, optimizer, schedule, quiet)
        salience = TrainedSalience(extractor)
        found = [measure(salience, its) for its in validation]
        shown = ", ".join(f"{100 * one:.2f}/{100 * two:.2f}" for one, two in found)
        say(f"epoch {epoch}: loss {loss:.4f}, validation R-1/R-2 {shown}, {time.perf_counter() - started:.0f} s")
        if (quality := float(np.mean(found))) > best:
            best = quality
            _save(salience, output)
    salience = TrainedSalience.load(output)
    salience.trust = fit_trust(salience, validation)
    salience.calibration = calibrate(salience, validation[0])
    _save(salience, output)
    return TrainedSalience.load(output)


def _epoch(
    extractor: Extractor,
    items: Items,
    settings: ExtractorSettings,
    epoch: int,
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    quiet: bool,
) -> float:
    """One pass over all documents; returns the mean loss."""
    extractor.train()
    total = 0.0
    order = items.mixed(random.Random(f"{settings.seed} {epoch}"))
    bar = tqdm(order, f"epoch {epoch}", len(items), leave=False, unit=" documents", disable=quiet or None)
    for number, item in enumerate(bar, 1):
        vectors, counted, query = tensors(item.texts, item.embeddings, item.query)
        scores = extractor(vectors[None], counted[None], query[None], torch.ones(1, len(vectors)).bool())[0]
        worth = torch.from_numpy(item.worth(settings.oracle_share))
        fit = torch.tensor(item.costs) > 0
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores[fit], worth[fit])
        (loss / settings.batch).backward()  # type: ignore[no-untyped-call]
        total += float(loss.detach())
        if number % settings.batch == 0 or number == len(items):
            torch.nn.utils.clip_grad_norm_(extractor.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
    extractor.eval()
    return total / len(items)


def _save(salience: TrainedSalience, path: Path) -> None:
    try:
        salience.save(path)
    except OSError as error:
        raise AwesumError(f"cannot write {path} ({error.strerror or error}): give another output") from error


def fit_length(items: Sequence[Item]) -> Calibration:
    """Fit summary length as a power of document length, by least squares on logarithms.

    The power is limited to 0 to 1: a longer document has no shorter summary, and no larger share of it.
    """
    documents = np.array([max(item.words, 1) for item in items], dtype=float)
    summaries = np.log([max(count_words(item.summary), 1) for item in items])
    fits = []
    for most in LONGEST:
        logs = np.log(np.minimum(documents, most))
        spread = float(((logs - logs.mean()) ** 2).sum())
        slope = float(((logs - logs.mean()) * (summaries - summaries.mean())).sum()) / max(spread, 1e-12)
        power = min(max(slope, 0.0), 1.0)
        factor = float((summaries - power * logs).mean())
        error = float(((factor + power * logs - summaries) ** 2).sum())
        fits.append((error, float(most), factor, power))
    _, longest, factor, power = min(fits)
    return Calibration(float(np.exp(factor)), power, longest)


def extract(salience: Salience, item: Item, amount: float, redundant: float = REDUNDANT) -> list[int]:
    """The sentences selected by the scores of `salience`."""
    scores = salience.score(item.texts, item.embeddings, item.query)
    return choose(scores, item.embeddings, item.costs, amount, redundant=redundant)


def measure(salience: Salience, items: Sequence[Item]) -> tuple[float, float]:
    """Mean ROUGE-1 and ROUGE-2 of extracts as long as their references."""
    found = [item.rouge(extract(salience, item, float(count_words(item.summary)))) for item in items]
    one, two = np.mean(found, axis=0)
    return float(one), float(two)


def fit_trust(salience: TrainedSalience, validation: Sequence[Sequence[Item]]) -> Trust:
    """The weight of the extractor in the scores that gives the highest ROUGE; each dataset counts equally."""

    def best(asked: bool, otherwise: float) -> float:
        means = []
        for items in validation:
            found = [_by_share(salience, item) for item in items if (item.query is not None) == asked]
            if found:
                means.append(np.mean(found, axis=0))
        return SHARES[int(np.argmax(np.mean(means, axis=0)))] if means else otherwise

    return Trust(best(False, Trust.plain), best(True, Trust.asked))


def _by_share(salience: TrainedSalience, item: Item) -> list[float]:
    """ROUGE-1 + ROUGE-2 at the length of the reference, for each of `SHARES`."""
    learned = salience.learned(item.texts, item.embeddings, item.query)
    central = Centrality().score(item.texts, item.embeddings, item.query)
    amount = float(count_words(item.summary))
    return [
        sum(item.rouge(choose(mixed(learned, central, share), item.embeddings, item.costs, amount))) for share in SHARES
    ]


def calibrate(salience: TrainedSalience, items: Sequence[Item]) -> Calibration:
    """The length and the redundancy limit with the highest ROUGE-1 + ROUGE-2."""
    fitted = fit_length(items)
    scores = [salience.score(item.texts, item.embeddings, item.query) for item in items]

    def quality(tried: Calibration) -> float:
        return sum(
            sum(
                item.rouge(choose(its, item.embeddings, item.costs, tried.words(item.words), redundant=tried.redundant))
            )
            for item, its in zip(items, scores, strict=True)
        )

    best = max((replace(fitted, factor=fitted.factor * times) for times in FACTORS), key=quality)
    return max((replace(best, redundant=cosine) for cosine in REDUNDANCIES), key=quality)


@dataclass(frozen=True)
class Row:
    """The figures of one system, as means over documents."""

    name: str
    rouge: tuple[float, float, float]
    """ROUGE-1, ROUGE-2 and summary-level ROUGE-L, as percentages."""
    words: float
    f1: float
    """F1 of its sentences against those of the oracle, over all documents, as a percentage."""


def evaluate(
    salience: TrainedSalience,
    folder: str,
    split: str,
    *,
    documents: int | None = None,
    at_reference: bool = False,
    processes: int | None = None,
    quiet: bool = False,
) -> list[Row]:
    """Evaluate lead, unsupervised, trained and oracle extracts of a split, at the model's default length.

    With `at_reference`, all of them get the length of the reference instead.
    """
    items = Items([folder], split)
    if not len(items):
        raise AwesumError(f"the split {split!r} of {folder} has no documents: prepare another")
    count = min(documents or len(items), len(items))
    names = ("lead", "unsupervised", "trained", "oracle")
    pairs = dict.fromkeys(names, (0, 0, 0))
    lengths = dict.fromkeys(names, 0.0)

    def texts() -> Iterator[tuple[str, str]]:
        for item in items.spread(count):
            amount = float(count_words(item.summary)) if at_reference else salience.calibration.words(item.words)
            choices = {
                "lead": _lead(item, amount),
                "unsupervised": extract(Centrality(), item, amount),
                "trained": extract(salience, item, amount, salience.calibration.redundant),
                "oracle": sorted(item.oracle),
            }
            for name, chosen in choices.items():
                hits, ours, theirs = pairs[name]
                pairs[name] = (hits + len({*chosen} & {*item.oracle}), ours + len(chosen), theirs + len(item.oracle))
                lengths[name] += sum(count_words(item.texts[index]) for index in chosen)
                yield item.summary, "\n".join(" ".join(item.texts[index].split()) for index in chosen)

    scores: dict[str, list[tuple[float, float, float]]] = {name: [] for name in names}
    bar = tqdm(total=count * len(names), desc=split, unit=" summaries", leave=False, disable=quiet or None)
    for number, found in enumerate(work(_Rouge, texts(), processes or cores())):
        scores[names[number % len(names)]].append(found)
        bar.update()
    bar.close()
    rows = []
    for name in names:
        hits, ours, theirs = pairs[name]
        one, two, longest = 100 * np.mean(scores[name], axis=0)
        f1 = 200 * hits / max(ours + theirs, 1)
        rows.append(Row(name, (float(one), float(two), float(longest)), lengths[name] / len(scores[name]), f1))
    return rows


def table(rows: Sequence[Row]) -> str:
    """The rows as a plain-text table."""
    lines = [f"{'':<14}{'R-1':>7}{'R-2':>7}{'R-Lsum':>8}{'words':>7}{'F1':>7}"]
    for row in rows:
        one, two, longest = row.rouge
        lines.append(f"{row.name:<14}{one:>7.2f}{two:>7.2f}{longest:>8.2f}{row.words:>7.0f}{row.f1:>7.2f}")
    return "\n".join(lines)


def _lead(item: Item, amount: float) -> list[int]:
    """The first sentences, up to `amount` words."""
    chosen: list[int] = []
    for index, cost in enumerate(item.costs):
        if amount <= 0:
            break
        if cost:
            chosen.append(index)
            amount -= cost
    return chosen


class _Rouge:
    """ROUGE of a reference and an extract with one sentence per line."""

    def __init__(self) -> None:
        self.rouge = Rouge()

    def __call__(self, pair: tuple[str, str]) -> tuple[float, float, float]:
        reference, extract = pair
        return self.rouge.compare([lines(reference)], extract)
