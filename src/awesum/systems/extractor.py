"""The paper's extractor, a RoBERTa fine-tuned end to end: its sentences, verbatim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from awesum.errors import AwesumError
from awesum.settings import setting
from awesum.systems.encoder_decoder import at_least
from awesum.systems.extract import Extract

if TYPE_CHECKING:
    from awesum.analysis.analysis import Analyst
    from awesum.systems.system import System


@dataclass(frozen=True)
class ExtractorSettings:
    """What is added to RoBERTa. The paper does not name its size: base is our choice."""

    default_base: ClassVar[str] = "FacebookAI/roberta-base"
    changeable: ClassVar[tuple[str, ...]] = ("gradient_checkpointing",)
    defaults: ClassVar[Mapping[str, Any]] = {"max_tokens": None}

    gradient_checkpointing: bool = setting(False, "recompute activations in the backward pass instead of keeping them")
    heads: int = setting(8, "heads of the self-attention over sentences")

    def __post_init__(self) -> None:
        at_least(self, 1, "heads")


class Extractor(Extract):
    """The most salient sentences by a trained folder. Other systems take it as `--extractor FOLDER`."""

    name = "extractor"
    description = "the paper's extractor: a RoBERTa fine-tuned on oracle sentences, verbatim"
    paper = "Cao and Wang, 2023: AWESOME, appendix C"
    settings_class = ExtractorSettings
    training = "awesum.training.sentence_encoder:SentenceEncoderTraining"
    bases = ("roberta",)
    default_model = ""
    encodes = True

    def __init__(self, model: str | None = None, *, analyst: Analyst | None = None, like: System | None = None) -> None:
        super().__init__(model, analyst=analyst, like=like)
        if not self.model:
            raise AwesumError("extractor needs --model FOLDER, written by `awesum train --system extractor`")
        from awesum.analysis.salience.sentence_encoder import SentenceSalience

        self.analyst = self.analyst.with_extractor(SentenceSalience(self.model))

    @property
    def _writer(self) -> System | None:
        return self._like
