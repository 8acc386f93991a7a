"""Compare an extractor with the first sentences, with no training and with the oracle, on documents with summaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience import Salience
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.ratings import Query
from awesum.datasets import examples
from awesum.errors import AwesumError
from awesum.length import count_words
from awesum.metrics.rouge import Rouge, lines
from awesum.prepared.splits import GIVEN, is_prepared, prepared
from awesum.training.extractor import Item, to_item
from awesum.weights import MINILM_WHEEL, minilm_folder
from awesum.workers import cores, work


@dataclass(frozen=True)
class Row:
    """The figures of one system, as means over documents."""

    name: str
    rouge: tuple[float, float, float]
    """ROUGE-1, ROUGE-2 and summary-level ROUGE-L, as percentages."""
    words: float
    f1: float
    """F1 of its sentences against those of the oracle, over all documents, as a percentage."""
    length_error: float
    """How far its length is from that of the reference, as a percentage of the latter."""


def evaluate(
    salience: Salience,
    folder: str,
    split: str,
    *,
    documents: int | None = None,
    at_reference: bool = False,
    processes: int | None = None,
    quiet: bool = False,
) -> list[Row]:
    """Evaluate lead, unsupervised, trained and oracle extracts of a split, at the length that the extractor estimates.

    With `at_reference`, all of them get the length of the reference instead. A folder written by `awesum data prepare`
    has the sentences' vectors; those of any other dataset are computed here.
    """
    names = ("lead", "unsupervised", "trained", "oracle")
    pairs = dict.fromkeys(names, (0, 0, 0))
    lengths: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    count, items = _items(folder, split, documents)

    def texts() -> Iterator[tuple[str, str]]:
        for item in items:
            ratings = salience.rate(item.texts, item.vectors, item.query)
            amount = float(item.length) if at_reference else ratings.usual_words
            choices = {
                "lead": _lead(item, amount),
                "unsupervised": extract(Centrality(), item, amount),
                "trained": item.choose(ratings, amount),
                "oracle": item.oracle,
            }
            for name, chosen in choices.items():
                hits, ours, theirs = pairs[name]
                pairs[name] = (hits + len({*chosen} & {*item.oracle}), ours + len(chosen), theirs + len(item.oracle))
                lengths[name].append((sum(count_words(item.texts[index]) for index in chosen), item.length))
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
        error = 100 * float(np.mean([abs(own / max(wanted, 1) - 1) for own, wanted in lengths[name]]))
        words = float(np.mean([own for own, _ in lengths[name]]))
        rows.append(Row(name, (float(one), float(two), float(longest)), words, f1, error))
    return rows


def _items(folder: str, split: str, documents: int | None) -> tuple[int, Iterator[Item]]:
    """The number of items of a split, evenly spread if not all are wanted, and the items."""
    if is_prepared(folder):
        return _prepared_items(folder, split, documents)
    rows = list(examples(folder, split))
    wanted = _spread(len(rows), documents, folder, split)
    encoder = SentenceEncoder.load(minilm_folder())
    return len(wanted), (to_item(row, encoder) for number, row in enumerate(rows) if number in wanted)


def _prepared_items(folder: str, split: str, documents: int | None) -> tuple[int, Iterator[Item]]:
    found = prepared(folder, split)
    wanted = _spread(len(found), documents, folder, split)
    name = found.encoder["name"]

    def items() -> Iterator[Item]:
        encoder: SentenceEncoder | None = None
        for number, document in enumerate(found):
            if number not in wanted:
                continue
            query = None
            if document.query:
                if name == GIVEN:
                    raise AwesumError(
                        f"the vectors in {found.folder} are from an unnamed encoder, which cannot be loaded to encode "
                        "the queries: prepare the documents with --encoder NAME_OR_PATH, or with the default one"
                    )
                encoder = encoder or SentenceEncoder.load(minilm_folder() if name == MINILM_WHEEL.requirement else name)
                query = Query(document.query, encoder.encode([document.query])[0])
            texts = [document.document[start:end] for start, end in document.sentences]
            yield Item(texts, document.summary, document.embeddings.astype(np.float32), query)

    return len(wanted), items()


def _spread(there: int, documents: int | None, folder: str, split: str) -> set[int]:
    if not there:
        raise AwesumError(f"the split {split!r} of {folder} has no documents: give another")
    count = min(documents or there, there)
    return {number * there // count for number in range(count)}


def extract(salience: Salience, item: Item, amount: float) -> list[int]:
    """The sentences selected by the ratings of `salience`."""
    return item.choose(salience.rate(item.texts, item.vectors, item.query), amount)


def table(rows: Sequence[Row]) -> str:
    """The rows as a plain-text table."""
    lines = [f"{'':<14}{'R-1':>7}{'R-2':>7}{'R-Lsum':>8}{'words':>7}{'F1':>7}{'length off by':>15}"]
    for row in rows:
        one, two, longest = row.rouge
        lines.append(
            f"{row.name:<14}{one:>7.2f}{two:>7.2f}{longest:>8.2f}{row.words:>7.0f}{row.f1:>7.2f}{row.length_error:>14.1f}%"
        )
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
