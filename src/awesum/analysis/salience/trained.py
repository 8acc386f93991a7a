"""Trained salience: the shipped extractor, or one trained by `awesum extractor train`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from awesum import files
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.choice import word_costs
from awesum.analysis.salience.extractor import Extractor, Inputs, Outputs, Shape
from awesum.analysis.salience.features import DOCUMENT_NAMES, NAMES
from awesum.analysis.salience.ratings import REDUNDANT, Coverage, Query, Ratings
from awesum.analysis.salience.words import BUCKETS, Words, stem_ids, stem_rows
from awesum.errors import AwesumError
from awesum.files import sha256

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHIPPED = Path(__file__).with_name("extractor.safetensors")
TOGETHER = 2048
"""Sentences that attend to each other. A longer document is read in chunks of at most this many sentences, with
features and concepts over the whole: time and RAM grow linearly with the document, not quadratically."""
ABOUT = 0.5
"""The cosine from which a sentence is about the query. Lower ones say little: a request to summarize the whole meeting
is like whatever mentions the meeting."""
LEAST_MENTIONED, NEARLY_MOST = 0.4, 0.75
"""A sentence speaks of what was asked if it has this share of the query's words, by rarity, and this much of the
largest share that any sentence has."""
FEWEST_STEMS = 2
"""Stems per sentence, on average. With fewer, the text is in a script that the extractor cannot read, and centrality
decides alone."""
STEMS = 2**14
"""Stems whose embeddings are added up at a time."""


@dataclass(frozen=True)
class Mixture:
    """What a word of a sentence is worth: weights of the extractor's estimates, and of centrality."""

    worth: float = 0.3
    """Of the estimate for the sentence as a whole."""
    stems: float = 0.3
    """Of each stem that the summary is expected to have."""
    pairs: float = 0.7
    """Of each word pair that it is expected to have."""
    central: float = 0.0
    """Of the standardized centrality, which knows the sentence encoder and the query."""
    query: float = 0.3
    """Of a sentence's cosine with the query beyond `ABOUT`."""
    mentioned: float = 3.0
    """Of the share of the query's words that a sentence has, if that is nearly the most that any has."""


@dataclass(frozen=True)
class Calibration:
    """How an extractor's estimates become ratings. Fitted to documents that it was not trained on."""

    plain: Mixture = Mixture()
    """Without a query."""
    asked: Mixture = Mixture(central=0.1)
    """With a query."""
    length: float = 1.0
    """The factor of the estimated length that gives the highest ROUGE."""
    redundant: float = REDUNDANT

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Calibration:
        """As stored in the file."""
        return cls(Mixture(**found["plain"]), Mixture(**found["asked"]), found["length"], found["redundant"])


class TrainedSalience:
    """Ratings by an extractor and by centrality."""

    def __init__(self, extractor: Extractor, calibration: Calibration | None = None, name: str = "untitled") -> None:
        self.extractor = extractor.eval()
        self.calibration = calibration or Calibration()
        self.name = name
        """Cache key: changes with the weights, so that cached results of another extractor are not reused."""

    @classmethod
    def load(cls, path: str | Path = SHIPPED) -> TrainedSalience:
        """Read weights and calibration from a safetensors file."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="pt") as file:
                metadata = {key: json.loads(value) for key, value in (file.metadata() or {}).items()}
                weights = {key: file.get_tensor(key).float() for key in file.keys()}  # noqa: SIM118
            shape = metadata["shape"]
            if metadata.get("inputs") != _inputs():
                raise AwesumError(f"{path} was trained with other features: train it again with this version of awesum")
            # .float(): another thread loading a model may have changed torch's default dtype.
            extractor = Extractor(Shape(**shape)).float()
            extractor.load_state_dict(weights)
            name = f"extractor {sha256(Path(path))[:16]}"
            return cls(extractor, Calibration.from_json(metadata["calibration"]), name)
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError, AssertionError) as error:
            reason = " ".join(str(error).split())[:200]
            raise AwesumError(
                f"{path} is not an extractor ({reason}): give a file written by `awesum extractor train`"
            ) from error

    def save(self, path: Path) -> None:
        """Write everything to one file, in half precision, atomically."""
        from safetensors.torch import save

        weights = {key: value.half().contiguous() for key, value in self.extractor.state_dict().items()}
        metadata = {
            "shape": self.extractor.shape.to_json(),
            "calibration": asdict(self.calibration),
            "inputs": _inputs(),
        }
        files.write(
            path, files.sort_metadata(save(weights, {key: json.dumps(value) for key, value in metadata.items()}))
        )

    @torch.inference_mode()
    def own_vectors(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """The means of the embeddings of each sentence's stems; none if centrality has a say, or for other scripts."""
        words = Words.of(texts)
        if self.calibration.plain.central or is_foreign(words):
            return None
        sums = torch.zeros(len(words), self.extractor.shape.stem)
        all_rows, owners = torch.from_numpy(stem_rows(words.ids)), torch.from_numpy(words.owners)
        for rows, owner in zip(all_rows.split(STEMS), owners.split(STEMS), strict=True):
            sums.index_add_(0, owner, self.extractor.stem.weight[rows] * self.extractor.rarity[rows, None])
        vectors: NDArray[np.float32] = torch.nn.functional.normalize(sums, dim=-1).numpy()
        return vectors

    def rate(self, texts: Sequence[str], vectors: NDArray[np.float32], query: Query | None = None) -> Ratings:
        """See `Salience.rate`."""
        words = Words.of(texts)
        if not len(words) or is_foreign(words):
            return Centrality().rate(texts, vectors, query)
        asked = stem_ids(query.text) if query else None
        selectable = np.array(word_costs(texts)) > 0
        inputs = Inputs.of(words, selectable, self.extractor.rarity.numpy(), asked)
        with torch.inference_mode(), _without_attention_weights():
            outputs = self.extractor(inputs, TOGETHER)
        return to_ratings(inputs, outputs, self.calibration, vectors, query)


@contextmanager
def _without_attention_weights() -> Iterator[None]:
    """Attention that keeps no matrix of sentences squared: torch's fast path for inference would, 67 MB of it."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def is_foreign(words: Words) -> bool:
    """Whether a text is in a script that the extractor cannot read."""
    return len(words.ids) < FEWEST_STEMS * len(words)


def to_ratings(
    inputs: Inputs,
    outputs: Outputs,
    calibration: Calibration,
    vectors: NDArray[np.float32],
    query: Query | None = None,
) -> Ratings:
    """Ratings from an extractor's estimates and the sentences' vectors."""
    mixture = calibration.plain if query is None else calibration.asked
    scores = mixture.worth * torch.sigmoid(outputs.scores[:, -1]).numpy()
    if mixture.central:
        scores = scores + mixture.central * _standardized(Centrality().scores(vectors, query))
    if query is not None:
        scores = scores + mixture.query * np.maximum(vectors @ query.vector - ABOUT, 0)
        shares = inputs.mentioned.numpy()
        enough = max(LEAST_MENTIONED, NEARLY_MOST * float(shares.max()))
        scores = scores + mixture.mentioned * np.maximum(shares - enough, 0)
    stems, pairs = inputs.concepts
    weights = torch.cat([mixture.stems * torch.sigmoid(outputs.stems), mixture.pairs * torch.sigmoid(outputs.pairs)])
    concepts = torch.cat([stems.place, pairs.place + len(stems.rows)]).numpy()
    owners = torch.cat([stems.owner, pairs.owner]).numpy()
    each = np.unique(concepts * max(len(scores), 1) + owners)  # a sentence may have a concept twice
    coverage = Coverage(weights.numpy(), each // max(len(scores), 1), each % max(len(scores), 1))
    length = calibration.length * float(outputs.length.exp())
    return Ratings(scores.astype(np.float32), length, calibration.redundant, coverage)


def _standardized(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    return (scores - scores.mean()) / max(float(scores.std()), 1e-6)


def _inputs() -> list[Any]:
    """What a file must have been trained with to be read by this version."""
    return [BUCKETS, list(NAMES), list(DOCUMENT_NAMES)]
