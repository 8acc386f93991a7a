"""The extractor in numpy: the same weights and the same arithmetic as `extractor`, without torch.

It is small, and loading torch takes longer than reading a report with it. Only what estimates is here; what learns is
in `extractor`, and a test holds both together.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from awesum.analysis.salience.calibration import (
    SHIPPED,
    TOGETHER,
    Calibration,
    Estimates,
    inputs_key,
    is_foreign,
    rate,
)
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.choice import word_costs
from awesum.analysis.salience.concepts import ConceptArrays, concepts
from awesum.analysis.salience.features import document_features, features, mentioned
from awesum.analysis.salience.ratings import Query, Ratings
from awesum.analysis.salience.words import Words, pair_rows, stem_ids, stem_rows
from awesum.errors import AwesumError
from awesum.files import sha256

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

EPSILON = 1e-5
"""Of a LayerNorm."""
ROWS = 512
"""Sentences that are computed at once: fewer would be slower, more would take more RAM."""
ATTENDING = 128
"""Sentences whose attention to all others of their chunk is computed at once."""
WITHIN = 8 * ROWS
"""Words in these sentences, or occurrences of concepts, that are looked up at once."""


class PlainSalience:
    """Ratings by an extractor and by centrality, in numpy."""

    def __init__(self, weights: Mapping[str, Array], heads: int, calibration: Calibration, name: str) -> None:
        self._weights, self._heads = weights, heads
        self.calibration, self.name = calibration, name

    @classmethod
    def load(cls, path: str | Path = SHIPPED) -> PlainSalience:
        """Read weights and calibration from a safetensors file, as `TrainedSalience` does."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="np") as file:
                metadata = {key: json.loads(value) for key, value in (file.metadata() or {}).items()}
                weights = {key: file.get_tensor(key).astype(np.float32) for key in file.keys()}  # noqa: SIM118
            if metadata.get("inputs") != inputs_key():
                raise AwesumError(f"{path} was trained with other features: train it again with this version of awesum")
            name = f"extractor {sha256(Path(path))[:16]}"
            return cls(weights, metadata["shape"]["heads"], Calibration.from_json(metadata["calibration"]), name)
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise AwesumError(
                f"{path} is not an extractor ({reason}): give a file written by `awesum extractor train`"
            ) from error

    def own_vectors(self, texts: Sequence[str]) -> Array | None:
        """The means of the embeddings of each sentence's stems; none if centrality has a say, or for other scripts."""
        words = Words.of(texts)
        if self.calibration.plain.central or is_foreign(words):
            return None
        rows = stem_rows(words.ids)
        stem, rarity = self._weights["stem.weight"], self._weights["rarity"]

        def sums(own: slice, inside: slice) -> Array:
            return _sums(stem[rows[inside]] * rarity[rows[inside], None], words.counts[own])

        return _normalized(_of_groups(sums, words.counts))

    def rate(self, texts: Sequence[str], vectors: Array, query: Query | None = None) -> Ratings:
        """See `Salience.rate`."""
        words = Words.of(texts)
        if not len(words) or is_foreign(words):
            return Centrality().rate(texts, vectors, query)
        asked = stem_ids(query.text) if query else np.zeros(0, dtype=np.uint32)
        selectable = np.array(word_costs(texts)) > 0
        return rate(self.estimates(words, selectable, asked), self.calibration, vectors, query)

    def estimates(self, words: Words, selectable: NDArray[np.bool_], asked: NDArray[np.uint32]) -> Estimates:
        """What `Extractor.forward` computes, line by line."""
        rarity = self._weights["rarity"]
        scores, told, about = self._read(words, asked)
        stems = concepts(words.ids, words.owners, selectable, rarity)
        stem_scores = self._concept_scores("stem", stems, told[0], scores)
        both = concepts(*words.pairs, selectable, rarity)
        return Estimates(
            worth=scores[:, -1],
            stems=stem_scores,
            pairs=self._concept_scores("pair", both, told[1], scores),
            length=float(self._linear("length", about)[int(len(asked) > 0)]),
            mentioned=mentioned(words, rarity, asked),
            places=np.concatenate([stems.place, both.place + len(stems.rows)]),
            owners=np.concatenate([stems.owner, both.owner]),
        )

    def _read(self, words: Words, asked: NDArray[np.uint32]) -> tuple[Array, list[Array], Array]:
        """The scores of each sentence, what it tells its stems and its pairs, and what the document is like."""
        weights = self._weights
        counted = features(words, weights["rarity"], asked)
        stem = _means_of(weights["stem.weight"], stem_rows(words.ids), words.counts)  # (N, d)
        pairs, pair_owners = words.pairs
        pair_counts = np.bincount(pair_owners, minlength=len(words))
        pair_ends = np.cumsum(pair_counts)
        mean = stem.mean(0, keepdims=True)
        query = weights["stem.weight"][stem_rows(asked)].mean(0, keepdims=True) if len(asked) else np.zeros_like(mean)
        common = _normalized(mean)

        def embedded(own: slice) -> Array:
            heading = words.heading_before[own]
            above = np.where((heading >= 0)[:, None], stem[np.maximum(heading, 0)], np.float32(0))
            counts = pair_counts[own]
            inside = slice(pair_ends[own.start] - counts[0], pair_ends[own.stop - 1])
            pair = _means_of(weights["pair.weight"], pair_rows(pairs[inside]), counts)
            topics = [stem[own], 8 * stem[own] * common, above, 4 * stem[own] * query, pair]
            return self._linear("embed", np.concatenate([*topics, counted[own]], -1))

        read = [self._read_chunk(chunk, len(words), embedded, counted) for chunk in _chunks(len(words))]
        scores, told, total = zip(*read, strict=True)
        about = [document_features(words, asked=len(asked) > 0), mean[0], sum(total) / np.float32(len(words))]
        return np.concatenate(scores), np.split(np.concatenate(told), 2, -1), np.concatenate(about)

    def _read_chunk(
        self, chunk: slice, count: int, embedded: Callable[[slice], Array], counted: Array
    ) -> tuple[Array, Array, Array]:
        """The scores of a chunk's sentences, what they tell, and the sum of what they say in their context.

        `embedded` gives the embeddings of any of the document's `count` sentences, of which some around the chunk are
        needed too.
        """
        margin = self._weights["beside.weight"].shape[-1] // 2
        around = slice(max(chunk.start - margin, 0), min(chunk.stop + margin, count))
        hidden = self._beside(_of_rows(embedded, around))[chunk.start - around.start :][: chunk.stop - chunk.start]
        context = self._context(hidden)

        def scored(own: slice) -> Array:
            joined = np.concatenate([hidden[own], context[own], counted[chunk][own]], -1)
            return self._linear("scorer.3", _gelu(self._linear("scorer.0", joined)))

        return _of_rows(scored, _all(hidden)), self._linear("tell", context), context.sum(0)

    def _linear(self, name: str, inputs: Array) -> Array:
        return inputs @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _beside(self, hidden: Array) -> Array:
        """With what the convolution over the sentences around each adds."""
        weight = self._weights["beside.weight"]  # (size, size / groups, taps)
        size, inside, taps = weight.shape
        padded = np.pad(hidden, ((taps // 2, taps // 2), (0, 0)))

        def block(own: slice) -> Array:
            rows = len(hidden[own])
            found = np.tile(self._weights["beside.bias"], (rows, 1))
            for start in range(0, size, inside):
                group = slice(start, start + inside)
                for tap in range(taps):
                    found[:, group] += padded[own.start + tap :][:rows, group] @ weight[group, :, tap].T
            return hidden[own] + _gelu(found)

        return _of_rows(block, _all(hidden))

    def _context(self, hidden: Array) -> Array:
        """The self-attention layers over all sentences."""
        layer = 0
        while f"context.layers.{layer}.norm1.weight" in self._weights:
            name = f"context.layers.{layer}"
            hidden = hidden + self._attention(f"{name}.self_attn", self._norm(f"{name}.norm1", hidden))
            hidden = hidden + _of_rows(partial(self._feed_forward, name, hidden), _all(hidden))
            layer += 1
        return self._norm("context.norm", hidden)

    def _feed_forward(self, name: str, hidden: Array, own: slice) -> Array:
        inner = _gelu(self._linear(f"{name}.linear1", self._norm(f"{name}.norm2", hidden[own])))
        return self._linear(f"{name}.linear2", inner)

    def _attention(self, name: str, inputs: Array) -> Array:
        size = inputs.shape[1] // self._heads
        weights = self._weights[f"{name}.in_proj_weight"].reshape(3, self._heads, size, -1)  # of queries, keys, values
        biases = self._weights[f"{name}.in_proj_bias"].reshape(3, self._heads, size)
        found = np.empty_like(inputs)
        for head in range(self._heads):
            own = slice(head * size, (head + 1) * size)
            query, key, value = (inputs @ weights[part, head].T + biases[part, head] for part in range(3))
            for start in range(0, len(inputs), ATTENDING):
                scores = query[start : start + ATTENDING] @ key.T
                scores /= np.float32(math.sqrt(size))
                scores -= scores.max(-1, keepdims=True)
                np.exp(scores, out=scores)
                found[start : start + ATTENDING, own] = (scores @ value) / scores.sum(-1, keepdims=True)
        return self._linear(f"{name}.out_proj", found)

    def _norm(self, name: str, inputs: Array) -> Array:
        def block(own: slice) -> Array:
            centred = inputs[own] - inputs[own].mean(-1, keepdims=True)
            variance = (centred * centred).mean(-1, keepdims=True)
            return (
                centred / np.sqrt(variance + np.float32(EPSILON)) * self._weights[f"{name}.weight"]
                + self._weights[f"{name}.bias"]
            )

        return _of_rows(block, _all(inputs))

    def _concept_scores(self, kind: str, found: ConceptArrays, told: Array, scores: Array) -> Array:
        """See `Extractor._concept_scores`."""
        order = np.argsort(found.place, kind="stable")
        counts = np.bincount(found.place, minlength=len(found.rows))
        owners = found.owner[order]

        def score(own: slice, inside: slice) -> Array:
            here = told[owners[inside]]
            best = _largest(scores[owners[inside], :-1], counts[own])
            inputs = [self._weights[f"{kind}.weight"][found.rows[own]], found.features[own], _means(here, counts[own])]
            joined = np.concatenate([*inputs, _largest(here, counts[own]), best], -1)
            return self._linear(f"{kind}_scorer.2", _gelu(self._linear(f"{kind}_scorer.0", joined)))[:, 0]

        return _of_groups(score, counts)


def _chunks(count: int) -> list[slice]:
    """The chunks of a long document whose sentences attend to each other, cut as torch's `chunk` does it."""
    pieces = -(-count // TOGETHER)
    each = -(-count // max(pieces, 1))
    return [slice(start, min(start + each, count)) for start in range(0, count, max(each, 1))]


def _all(values: Array) -> slice:
    return slice(0, len(values))


def _of_rows(compute: Callable[[slice], Array], rows: slice, at_once: int = ROWS) -> Array:
    """What `compute` gives for `rows`, `at_once` at a time, so that what it needs stays small."""
    first = compute(slice(rows.start, min(rows.start + at_once, rows.stop)))
    found = np.empty((rows.stop - rows.start, *first.shape[1:]), dtype=first.dtype)
    found[: len(first)] = first
    for start in range(rows.start + at_once, rows.stop, at_once):
        own = slice(start, min(start + at_once, rows.stop))
        found[start - rows.start :][:at_once] = compute(own)
    return found


def _of_groups(compute: Callable[[slice, slice], Array], counts: NDArray[np.integer]) -> Array:
    """The same for groups of `counts` rows each: `compute` gets a slice of the groups, and the slice of their rows."""
    ends = np.concatenate([[0], np.cumsum(counts)])
    found: list[Array] = []
    start = 0
    while not found or start < len(counts):
        fitting = int(np.searchsorted(ends, ends[start] + WITHIN, "right")) - 1
        stop = min(max(fitting, start + 1), start + ROWS, len(counts))
        found.append(compute(slice(start, stop), slice(int(ends[start]), int(ends[stop]))))
        start = stop
    return np.concatenate(found)


def _means_of(table: Array, rows: NDArray[np.integer], counts: NDArray[np.integer]) -> Array:
    """The means of groups of `counts` rows of a table."""
    return _of_groups(lambda own, inside: _means(table[rows[inside]], counts[own]), counts)


def _sums(values: Array, counts: NDArray[np.integer]) -> Array:
    """The sums of consecutive groups of rows; zero for an empty group."""
    found = np.zeros((len(counts), values.shape[1]), dtype=np.float32)
    there = counts > 0
    if there.any():
        found[there] = np.add.reduceat(values, (np.cumsum(counts) - counts)[there], axis=0)
    return found


def _means(values: Array, counts: NDArray[np.integer]) -> Array:
    return _sums(values, counts) / np.maximum(counts, 1).astype(np.float32)[:, None]


def _largest(values: Array, counts: NDArray[np.integer]) -> Array:
    """The maxima of consecutive groups of rows, none of them empty."""
    if not len(counts):
        return np.zeros((0, values.shape[1]), dtype=np.float32)
    return np.maximum.reduceat(values, np.cumsum(counts) - counts, axis=0)


def _normalized(values: Array) -> Array:
    return values / np.maximum(np.linalg.norm(values, axis=-1, keepdims=True), np.float32(1e-12))


_STEP, _END = 1 / 128, 6.0
_PLACES = np.arange(0, _END + 2 * _STEP, _STEP)
_ERF = np.array([math.erf(place) for place in _PLACES])
_SLOPE = 2 / math.sqrt(math.pi) * np.exp(-_PLACES * _PLACES) * _STEP


def _erf(values: Array) -> NDArray[np.float64]:
    """The error function, which numpy does not have: interpolated in a table of values and slopes, to 1e-10."""
    size = np.minimum(np.abs(values), _END) / _STEP
    at = size.astype(np.int64)
    part = size - at
    low, high = _ERF[at], _ERF[at + 1]
    rising, falling = _SLOPE[at] - (high - low), (high - low) - _SLOPE[at + 1]
    found = low + part * (high - low) + part * (1 - part) * (rising * (1 - part) + falling * part)
    return np.copysign(found, values)


def _gelu(values: Array) -> Array:
    def block(own: slice) -> Array:
        inputs = values[own]
        return (inputs * 0.5 * (1 + _erf(inputs * np.float32(math.sqrt(0.5))))).astype(np.float32)

    return _of_rows(block, _all(values), ROWS // 8)
