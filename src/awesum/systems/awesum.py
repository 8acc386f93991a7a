"""What `awesum summarize` writes with: the embedded chat model with the adapter that comes with the package."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from awesum.settings import AWESUM, SMOLLM2
from awesum.systems.adapter import Adapter


class Awesum(Adapter):
    """The shipped writer: it paraphrases each segment's selected sentences."""

    name = "awesum"
    description = "the default: SmolLM2 with the shipped adapter, paraphrasing the selected sentences"
    paper = ""
    settings_class = None
    default_model = AWESUM

    @cached_property
    def adapter_folder(self) -> Path:
        """The shipped adapter, checked by its hash."""
        from awesum.weights import writer_folder

        return writer_folder()

    @property
    def base(self) -> str:
        """The embedded model."""
        return SMOLLM2

    def _weights(self) -> list[str]:
        from awesum.weights import SMOLLM2_WHEEL, WRITER_FILES

        return [SMOLLM2_WHEEL.sha256, *WRITER_FILES.values()]
