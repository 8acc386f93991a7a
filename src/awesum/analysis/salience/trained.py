"""Salience that was learned: the shipped extractor, or one that `awesum extractor train` made."""

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
"""Sentences that look at each other. A longer document is scored in stretches of at most this many, each with what is
counted of the whole: time and memory grow with the document, not with its square."""


@dataclass(frozen=True)
class Trust:
    """How much of a score is the extractor's; the rest is centrality's, which no kind of text is foreign to.

    Measured: on every kind of document that was tried, both together choose no worse than either alone.
    """

    plain: float = 0.6
    asked: float = 0.6
    """Where there is a query."""


class TrainedSalience:
    """Scores by an extractor, steadied by centrality; for vectors of the encoder that it was trained with."""

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
        """Changes with the weights: what was prepared with others is not taken for this."""

    @classmethod
    def load(cls, path: str | Path = SHIPPED) -> TrainedSalience:
        """Read weights and calibration from a safetensors file."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="pt") as file:
                told = {key: json.loads(value) for key, value in (file.metadata() or {}).items()}
                weights = {key: file.get_tensor(key).float() for key in file.keys()}  # noqa: SIM118
            if tuple(told["features"]) != NAMES:
                raise AwesumError(f"{path} was trained with other features: train it again with this version of awesum")
            # Another thread that loads a model may have changed torch's default format.
            extractor = Extractor(Shape(**told["shape"])).float()
            extractor.load_state_dict(weights)
            name = f"extractor {sha256(Path(path))[:16]}"
            return cls(extractor, Calibration(**told["calibration"]), Trust(**told["trust"]), name)
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise AwesumError(
                f"{path} is not an extractor ({reason}): give a file that `awesum extractor train` made"
            ) from error

    def save(self, path: Path) -> None:
        """Write it all into one file, half precision, whole or not at all."""
        from safetensors.torch import save

        weights = {key: value.half().contiguous() for key, value in self.extractor.state_dict().items()}
        told = {
            "shape": self.extractor.shape.to_json(),
            "calibration": asdict(self.calibration),
            "trust": asdict(self.trust),
            "features": NAMES,
        }
        files.write(path, _in_order(save(weights, {key: json.dumps(value) for key, value in told.items()})))

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
                "take the encoder that it was trained with, or train another extractor"
            )
        vectors, counted, asked = tensors(texts, embeddings, query)
        scores = [
            self.extractor(vectors[part][None], counted[part][None], asked[None], torch.ones(1, len(part)).bool())[0]
            for part in torch.arange(len(vectors)).chunk(-(-len(vectors) // TOGETHER))
        ]
        return torch.cat(scores).numpy()


def mixed(learned: NDArray[np.float32], central: NDArray[np.float32], share: float) -> NDArray[np.float32]:
    """Two kinds of scores on one scale, the first with its share."""

    def level(scores: NDArray[np.float32]) -> NDArray[np.float32]:
        return (scores - scores.mean()) / max(float(scores.std()), 1e-6)

    return share * level(learned) + (1 - share) * level(central)


def _in_order(file: bytes) -> bytes:
    """A safetensors file whose metadata is sorted: safetensors writes it in another order each time, and the same
    weights shall be the same file."""
    size = int.from_bytes(file[:8], "little")
    header = json.loads(file[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    return file[:8] + json.dumps(header, separators=(",", ":")).encode().ljust(size) + file[8 + size :]


def tensors(
    texts: Sequence[str], embeddings: NDArray[np.floating[Any]], query: NDArray[np.float32] | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What an extractor takes: vectors (N, d), features (N, F), and the query (d), zero where there is none."""
    vectors = np.ascontiguousarray(embeddings, dtype=np.float32)
    asked = np.zeros(vectors.shape[1], dtype=np.float32) if query is None else query.astype(np.float32)
    return torch.from_numpy(vectors), torch.from_numpy(features(texts, vectors, query)), torch.from_numpy(asked)
