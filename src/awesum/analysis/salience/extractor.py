"""The extractor: which sentences, which word pairs and words, and how many words of a document its summary has.

As in the paper, self-attention over all sentences of the document and a small network that scores each. Unlike there,
a sentence enters as the mean of learned embeddings of its stems and pairs: nothing has to be encoded first, so a laptop
learns from thousands of documents in an hour. Further heads estimate which stems and pairs (*concepts*) the summary
has, so that sentences are chosen for what they add to each other, and how long it is.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from awesum.analysis.salience.calibration import LENGTHS
from awesum.analysis.salience.concepts import concept_ids, concepts
from awesum.analysis.salience.features import DOCUMENT_NAMES, NAMES, document_features, features, mentioned
from awesum.analysis.salience.words import BUCKETS, Words, pair_rows, stem_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCORES = ("selected", "stems", "pairs", "worth")
"""What is estimated of a sentence: whether the oracle selects it, the shares of its stems and of its pairs that the
summary has, and the mixture of these that sentences are ranked by."""
SENTENCES = 2048
"""Sentences that are embedded and scored at a time."""
CONCEPTS = 2**14
"""Concepts that are scored at a time: a book has a hundred thousand, whose inputs together would take 100 MB."""


@dataclass(frozen=True)
class Shape:
    """The dimensions of an extractor."""

    stem: int = 64
    """Size of the embedding of a stem."""
    pair: int = 32
    """Size of the embedding of a pair."""
    size: int = 192
    heads: int = 4
    layers: int = 1
    """Self-attention layers; one, as in the paper."""
    inner: int = 576
    concept: int = 48
    """Size of what a sentence tells about its concepts."""
    dropout: float = 0.2

    def to_json(self) -> dict[str, Any]:
        """As stored in the file."""
        return asdict(self)


@dataclass(frozen=True)
class Concepts:
    """The different stems or pairs of the sentences that may be selected."""

    rows: torch.Tensor
    """Their rows in the table, (C,)."""
    features: torch.Tensor
    """How often they occur, and how rare their stems are in general, (C, 3)."""
    place: torch.Tensor
    """The concept of each occurrence, (O,)."""
    owner: torch.Tensor
    """The sentence of each occurrence, (O,)."""


@dataclass(frozen=True)
class Inputs:
    """A document as an extractor reads it."""

    stems: torch.Tensor
    """The row of every stem, (T,); `stem_starts` says where each sentence begins, (N,)."""
    stem_starts: torch.Tensor
    pairs: torch.Tensor
    pair_starts: torch.Tensor
    headings: torch.Tensor
    """The heading above each sentence, (N,); -1 for none."""
    features: torch.Tensor
    """(N, F)."""
    document: torch.Tensor
    """(D,)."""
    query: torch.Tensor
    """The rows of the query's stems, (Q,)."""
    mentioned: torch.Tensor
    """The share of the query's stems that each sentence has, by rarity, (N,); zero without a query."""
    concepts: tuple[Concepts, Concepts]
    """Of stems and of pairs."""

    @classmethod
    def of(
        cls,
        words: Words,
        selectable: NDArray[np.bool_],
        rarity: NDArray[np.float32],
        query: NDArray[np.uint32] | None = None,
    ) -> Inputs:
        """`selectable` marks the sentences that may be selected; the others have no concepts."""
        asked = np.zeros(0, dtype=np.uint32) if query is None else query
        pairs, pair_owners = words.pairs
        pair_counts = np.bincount(pair_owners, minlength=len(words))
        return cls(
            stems=torch.from_numpy(stem_rows(words.ids)),
            stem_starts=_starts(words.counts),
            pairs=torch.from_numpy(pair_rows(pairs)),
            pair_starts=_starts(pair_counts),
            headings=torch.from_numpy(words.heading_before),
            features=torch.from_numpy(features(words, rarity, asked)),
            document=torch.from_numpy(document_features(words, asked=len(asked) > 0)),
            query=torch.from_numpy(stem_rows(asked)),
            mentioned=torch.from_numpy(mentioned(words, rarity, asked)),
            concepts=(
                _concepts(words.ids, words.owners, selectable, rarity),
                _concepts(pairs, pair_owners, selectable, rarity),
            ),
        )


def _starts(counts: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy((np.cumsum(counts) - counts).astype(np.int64))


def _concepts(
    ids: NDArray[Any], owners: NDArray[np.int64], selectable: NDArray[np.bool_], rarity: NDArray[np.float32]
) -> Concepts:
    return Concepts(*map(torch.from_numpy, concepts(ids, owners, selectable, rarity)))


@dataclass(frozen=True)
class Outputs:
    """What an extractor says about a document, as logits."""

    scores: torch.Tensor
    """(N, 4), see `SCORES`."""
    stems: torch.Tensor
    """Whether the summary has each concept, (C,)."""
    pairs: torch.Tensor
    about: torch.Tensor
    """The document as a whole."""
    length: torch.Tensor
    """The logarithm of the summary's words: linear in `about`, with weights of its own where there is a query."""


class Extractor(nn.Module):
    """Reads one document at a time."""

    rarity: torch.Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        size, counted = shape.size, len(NAMES)
        self.stem = nn.EmbeddingBag(BUCKETS, shape.stem, mode="mean")
        self.pair = nn.EmbeddingBag(BUCKETS, shape.pair, mode="mean")
        nn.init.normal_(self.stem.weight, std=0.3)
        nn.init.normal_(self.pair.weight, std=0.1)
        self.embed = nn.Linear(4 * shape.stem + shape.pair + counted, size)
        self.beside = nn.Conv1d(size, size, 5, padding=2, groups=4)  # the sentences around each
        layer = nn.TransformerEncoderLayer(
            size, shape.heads, shape.inner, shape.dropout, "gelu", batch_first=True, norm_first=True
        )
        layer.self_attn.dropout = 0.0  # with dropout, torch would keep all attention weights, sentences squared
        self.context = nn.TransformerEncoder(layer, shape.layers, nn.LayerNorm(size), enable_nested_tensor=False)
        self.scorer = nn.Sequential(
            nn.Linear(2 * size + counted, size), nn.GELU(), nn.Dropout(shape.dropout), nn.Linear(size, len(SCORES))
        )
        self.tell = nn.Linear(size, 2 * shape.concept)
        self.stem_scorer = _concept_scorer(shape.stem, shape.concept)
        self.pair_scorer = _concept_scorer(shape.pair, shape.concept)
        self.length = nn.Linear(len(DOCUMENT_NAMES) + shape.stem + size, LENGTHS)
        self.dropout = nn.Dropout(shape.dropout)
        self.register_buffer("rarity", torch.ones(BUCKETS))

    def forward(self, inputs: Inputs, together: int | None = None) -> Outputs:
        """`together` limits the sentences that attend to each other: a longer document is read in chunks."""
        stem = self.stem(inputs.stems, inputs.stem_starts)  # (N, d)
        pair = self.pair(inputs.pairs, inputs.pair_starts)
        mean = stem.mean(0, keepdim=True)
        query = self.stem.weight[inputs.query].mean(0, keepdim=True) if len(inputs.query) else torch.zeros_like(mean)
        direction, count = functional.normalize(mean, dim=-1), len(stem)
        slices = [slice(start, start + SENTENCES) for start in range(0, count, SENTENCES)]

        def embed(these: slice) -> torch.Tensor:
            own, headings = stem[these], inputs.headings[these]
            above = torch.where((headings >= 0)[:, None], stem[headings.clamp(min=0)], stem.new_zeros(()))
            topics = [own, 8 * own * direction, above, 4 * own * query, pair[these]]
            return self.embed(torch.cat([self.dropout(torch.cat(topics, -1)), inputs.features[these]], -1))

        hidden = torch.cat([embed(these) for these in slices])
        hidden = hidden + functional.gelu(torch.cat([self._beside(hidden, these) for these in slices]))
        chunks = hidden.chunk(-(-count // (together or count)))
        context = torch.cat([self.context(chunk[None])[0] for chunk in chunks])
        parts = ([self.dropout(hidden[these]), context[these], inputs.features[these]] for these in slices)
        scores = torch.cat([self.scorer(torch.cat(part, -1)) for part in parts])
        told = torch.cat([self.tell(self.dropout(context[these])) for these in slices]).chunk(2, -1)
        about = torch.cat([inputs.document, mean[0], context.mean(0)], -1)
        stems, pairs = (
            self._concept_scores(concepts, table, scorer, its, scores)
            for concepts, table, scorer, its in zip(
                inputs.concepts, (self.stem, self.pair), (self.stem_scorer, self.pair_scorer), told, strict=True
            )
        )
        return Outputs(scores, stems, pairs, about, self.length(about)[int(len(inputs.query) > 0)])

    def _beside(self, hidden: torch.Tensor, these: slice) -> torch.Tensor:
        """What the sentences around tell about each of a slice."""
        reach = self.beside.padding[0]
        assert isinstance(reach, int)
        first, last = max(these.start - reach, 0), these.stop + reach
        found: torch.Tensor = self.beside(hidden[first:last].T[None])[0].T
        return found[these.start - first :][: len(hidden[these])]

    def _concept_scores(
        self,
        concepts: Concepts,
        table: nn.EmbeddingBag,
        scorer: nn.Sequential,
        told: torch.Tensor,
        scores: torch.Tensor,
    ) -> torch.Tensor:
        """From each concept itself and from the sentences that have it: the mean and the maximum of what they tell, and
        their best scores."""
        order = concepts.place.argsort(stable=True)
        counts = torch.bincount(concepts.place, minlength=len(concepts.rows))
        found = [scores.new_zeros(0)]
        of_slices = order.split([int(part.sum()) for part in counts.split(CONCEPTS)])  # type: ignore[no-untyped-call]
        for number, occurrences in enumerate(of_slices):
            first = number * CONCEPTS
            these = slice(first, first + CONCEPTS)
            rows, times = concepts.rows[these], counts[these, None]
            place, owner = concepts.place[occurrences] - first, concepts.owner[occurrences]
            here = told[owner]
            mean = here.new_zeros(len(rows), here.shape[1]).index_add_(0, place, here) / times.clamp(min=1)
            best = scores.detach()[owner, : len(SCORES) - 1]
            inputs = [table.weight[rows], concepts.features[these], mean, _largest(here, place, len(rows))]
            found.append(scorer(torch.cat([*inputs, _largest(best, place, len(rows))], -1))[:, 0])
        return torch.cat(found)


def _concept_scorer(embedding: int, told: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(embedding + 3 + 2 * told + len(SCORES) - 1, 96), nn.GELU(), nn.Linear(96, 1))


def _largest(values: torch.Tensor, place: torch.Tensor, count: int) -> torch.Tensor:
    """The maximum of the values of each concept's occurrences."""
    start = values.new_full((count, values.shape[1]), -1e4)
    return start.scatter_reduce(0, place[:, None].expand_as(values), values, "amax")


__all__ = ["SCORES", "Concepts", "Extractor", "Inputs", "Outputs", "Shape", "concept_ids"]
