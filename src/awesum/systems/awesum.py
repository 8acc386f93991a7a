"""What `--style abstract` writes with: the embedded chat model with the adapter that comes with the package."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from awesum.settings import AWESUM, SMOLLM2, Settings
from awesum.systems.adapter import Adapter
from awesum.systems.system import ENGLISH

if TYPE_CHECKING:
    from awesum.analysis.analysis import Analysis
    from awesum.compose.plan import Plan

WARNING = (
    "sentences written by the model can be wrong, even well supported ones: compare them with their sources, or use "
    "--style extract"
)
"""What a user of the written style should know."""


class Awesum(Adapter):
    """The shipped writer: it paraphrases each segment's selected sentences."""

    name = "awesum"
    description = "SmolLM2 with the shipped adapter, paraphrasing the selected sentences (--style abstract)"
    paper = ""
    settings_class = None
    default_model = AWESUM
    languages = ENGLISH

    @cached_property
    def adapter_folder(self) -> Path:
        """The shipped adapter, checked by its hash."""
        from awesum.weights import writer_folder

        return writer_folder()

    def plan(self, analysis: Analysis, settings: Settings, notes: list[str]) -> Plan:
        """Paraphrases, with a warning."""
        notes.append(WARNING)
        return super().plan(analysis, settings, notes)

    @property
    def base(self) -> str:
        """The embedded model."""
        return SMOLLM2

    def _weights(self) -> list[str]:
        from awesum.weights import SMOLLM2_WHEEL, WRITER_FILES

        return [SMOLLM2_WHEEL.sha256, *WRITER_FILES.values()]
