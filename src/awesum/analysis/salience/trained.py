"""Trained salience: the shipped extractor, or one trained by `awesum extractor train`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from awesum import files
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.choice import Calibration
from awesum.analysis.salience.extractor import Extractor, Shape
from awesum.analysis.salience.features import NAMES, features
from awesum.errors import AwesumError
from awesum.files import sha256

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHIPPED = Path(__file__).with_name("extractor.safetensors")
TOGETHER = 2048
"""Sentences that attend to each other. A longer document is scored in chunks of at most this many sentences, with
features computed over the whole: time and RAM grow linearly with the document, not quadratically."""


@dataclass(frozen=True)
class Trust:
    """The weight of the extractor in the scores; the rest is centrality, which works for any kind of text.

    Measured: on every kind of document tried, the mixture selects no worse than either alone.
    """

    plain: float = 0.6
    """Without a query."""
    asked: float = 0.6
    """With a query."""


class TrainedSalience:
    """Scores of an extractor mixed with centrality, for vectors of the encoder that it was trained with."""

    def __init__(
        self,
        extractor: Extractor,
        calibration: Calibration | None = None,
        trust: Trust | None = None,
        name: str = "untitled",
    ) -> None:
        self.extractor = extractor.eval()
        self.calibration = calibration or Calibration()
        self.trust = trust or Trust()
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
            if tuple(metadata["features"]) != NAMES:
                raise AwesumError(f"{path} was trained with other features: train it again with this version of awesum")
            # .float(): another thread loading a model may have changed torch's default dtype.
            extractor = Extractor(Shape(**metadata["shape"])).float()
            extractor.load_state_dict(weights)
            name = f"extractor {sha256(Path(path))[:16]}"
            return cls(extractor, Calibration(**metadata["calibration"]), Trust(**metadata["trust"]), name)
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
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
            "trust": asdict(self.trust),
            "features": NAMES,
        }
        files.write(
            path, files.sort_metadata(save(weights, {key: json.dumps(value) for key, value in metadata.items()}))
        )

    def score(
        self, texts: Sequence[str], embeddings: NDArray[np.float32], query: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """See `Salience.score`."""
        if not len(texts):
            return np.zeros(0, dtype=np.float32)
        learned = self.learned(texts, embeddings, query)
        share = self.trust.plain if query is None else self.trust.asked
        return mixed(learned, Centrality().score(texts, embeddings, query), share)

    @torch.inference_mode()
    def learned(
        self, texts: Sequence[str], embeddings: NDArray[np.float32], query: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """The extractor's own scores."""
        if embeddings.shape[1] != (size := self.extractor.shape.vector):
            raise AwesumError(
                f"the extractor was trained with sentence vectors of {size} numbers, these have {embeddings.shape[1]}: "
                "use the encoder that it was trained with, or train another extractor"
            )
        vectors, counted, asked = tensors(texts, embeddings, query)
        scores = [
            self.extractor(vectors[part][None], counted[part][None], asked[None], torch.ones(1, len(part)).bool())[0]
            for part in torch.arange(len(vectors)).chunk(-(-len(vectors) // TOGETHER))
        ]
        return torch.cat(scores).numpy()


def mixed(learned: NDArray[np.float32], central: NDArray[np.float32], share: float) -> NDArray[np.float32]:
    """The weighted mean of two kinds of standardized scores; `share` is the weight of the first."""

    def standardize(scores: NDArray[np.float32]) -> NDArray[np.float32]:
        return (scores - scores.mean()) / max(float(scores.std()), 1e-6)

    return share * standardize(learned) + (1 - share) * standardize(central)


def tensors(
    texts: Sequence[str], embeddings: NDArray[np.floating[Any]], query: NDArray[np.float32] | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The inputs of an extractor: vectors (N, d), features (N, F) and the query (d,), zero if there is none."""
    vectors = np.ascontiguousarray(embeddings, dtype=np.float32)
    asked = np.zeros(vectors.shape[1], dtype=np.float32) if query is None else query.astype(np.float32)
    return torch.from_numpy(vectors), torch.from_numpy(features(texts, vectors, query)), torch.from_numpy(asked)
