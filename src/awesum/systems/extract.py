"""The sentences that the extractor selects, verbatim."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from awesum.settings import AWESUM, SMOLLM2, Settings
from awesum.systems.system import ENGLISH, System, digest

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from awesum.analysis.analysis import Analyst
    from awesum.analysis.segmentation import Limits
    from awesum.analysis.tokens import PlainTokenizer
    from awesum.engine.engine import Engine


class Extract(System):
    """Selected sentences as they stand in the source. Without a query it needs no weights but the extractor's."""

    name = "extract"
    description = "the default: the most salient sentences, verbatim, selected by the shipped extractor"
    default_model = AWESUM
    spreads = False
    encodes = False
    languages = ENGLISH

    def __init__(
        self,
        model: str | None = None,
        *,
        analyst: Analyst | None = None,
        like: System | None = None,
    ) -> None:
        super().__init__(model, analyst=analyst)
        self._like = like
        """The system whose tokens and segments it uses."""

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase | PlainTokenizer:
        """That of the model that would write, if one is named; else the encoder's, which is there in any case."""
        return self.analyst.tokenizer if self._writer is None else self._writer.tokenizer

    @property
    def limits(self) -> Limits:
        """Those of the model that would write, if one is named; else the paper's."""
        from awesum.analysis.segmentation import Limits

        return Limits() if self._writer is None else self._writer.limits

    @cached_property
    def _writer(self) -> System | None:
        if self._like is not None or self.model == self.default_model:
            return self._like
        from awesum.systems import registry

        if self.model == SMOLLM2:
            return registry.find(self.model)(self.model, analyst=self.analyst)
        return registry.of_model(self.model, self.analyst)

    def prepare(self) -> None:
        """Load the extractor; the encoder follows if a query, or an extractor without vectors of its own, needs it."""
        _ = self.analyst.extractor, self.tokenizer

    def fingerprint(self) -> str:
        """Of the encoder, the extractor and the limits of a segment."""
        return digest(self.name, self.analyst.fingerprint(), self.model, self.limits)

    def engine(self, settings: Settings) -> Engine:
        """Nothing is written."""
        from awesum.engine.engine import NoEngine
        from awesum.footprint import RUNTIME, check_limit

        if settings.max_memory:
            check_limit(settings.max_memory, RUNTIME + self.analyst.encoder.model.get_memory_footprint())
        return NoEngine()
