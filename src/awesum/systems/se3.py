"""Se3: BART on each segment alone, without memory and without salient content."""

from __future__ import annotations

from dataclasses import dataclass

from awesum.systems.awesome import Awesome, BartSettings
from awesum.systems.system import Taxonomy


@dataclass(frozen=True)
class Se3Settings(BartSettings):
    """Those of any BART: there is no memory to set."""


class Se3(Awesome):
    """The paper's baseline: what AWESOME is without memory and salient content."""

    name = "se3"
    description = "BART on each segment alone: AWESOME without memory and salient content"
    paper = "Moro and Ragazzi, 2022: Semantic Self-Segmentation (Se3)"
    settings_class = Se3Settings
    model_types = ()
    taxonomy = Taxonomy("x_i -> y_i", "segment", "segment", "segment")
