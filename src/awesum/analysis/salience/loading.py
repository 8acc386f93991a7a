"""Which extractor a path holds: a file of `awesum extractor train`, or a folder of `awesum train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from awesum.analysis.salience import Salience


def load_extractor(path: str | Path) -> Salience:
    """The extractor, ready to rate."""
    if Path(path).is_dir():
        from awesum.analysis.salience.sentence_encoder import SentenceSalience

        return SentenceSalience(path)
    from awesum.analysis.salience.trained import TrainedSalience

    return TrainedSalience.load(path)
