"""Trained salience: the shipped extractor, or one trained by `awesum extractor train`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from awesum import files
from awesum.analysis.salience.calibration import (
    ABOUT,
    SHIPPED,
    TOGETHER,
    Calibration,
    Estimates,
    Mixture,
    inputs_key,
    is_foreign,
    rate,
)
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.choice import word_costs
from awesum.analysis.salience.extractor import Extractor, Inputs, Outputs, Shape
from awesum.analysis.salience.ratings import Query, Ratings
from awesum.analysis.salience.words import Words, stem_ids, stem_rows
from awesum.errors import AwesumError
from awesum.files import sha256

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEMS = 2**14
"""Stems whose embeddings are added up at a time."""


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
            if metadata.get("inputs") != inputs_key():
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
            "inputs": inputs_key(),
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
        for rows, owner in zip(all_rows.split(STEMS), owners.split(STEMS), strict=True):  # type: ignore[no-untyped-call]
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


def to_ratings(
    inputs: Inputs,
    outputs: Outputs,
    calibration: Calibration,
    vectors: NDArray[np.float32],
    query: Query | None = None,
) -> Ratings:
    """Ratings from an extractor's estimates and the sentences' vectors."""
    stems, pairs = inputs.concepts
    estimates = Estimates(
        worth=outputs.scores[:, -1].numpy(),
        stems=outputs.stems.numpy(),
        pairs=outputs.pairs.numpy(),
        length=float(outputs.length),
        mentioned=inputs.mentioned.numpy(),
        places=torch.cat([stems.place, pairs.place + len(stems.rows)]).numpy(),
        owners=torch.cat([stems.owner, pairs.owner]).numpy(),
    )
    return rate(estimates, calibration, vectors, query)


__all__ = ["ABOUT", "SHIPPED", "TOGETHER", "Calibration", "Mixture", "TrainedSalience", "is_foreign", "to_ratings"]
