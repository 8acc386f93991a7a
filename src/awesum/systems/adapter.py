"""A causal chat model with a trained adapter: external memory, salient content, or paraphrase."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from awesum.errors import AwesumError
from awesum.models.memory_settings import (
    MEMORY_DEPTH,
    NO_MEMORY,
    check_choices,
    check_memory_training,
    memory_choices,
)
from awesum.settings import SMOLLM2, Settings, setting
from awesum.systems.chat import Chat, _never

if TYPE_CHECKING:
    from awesum.analysis.analysis import Analysis
    from awesum.compose.layouts import CausalLayout
    from awesum.compose.plan import Plan
    from awesum.models.adapter_config import AdapterConfig
    from awesum.models.causal import ChatModel
    from awesum.models.prompt import Prompt


CANDIDATES = 3
"""Answers of which the best supported sentences are taken, where no memory makes each depend on the one before."""


@dataclass(frozen=True)
class AdapterSettings:
    """What an adapter is made of, and how it is trained."""

    default_base: ClassVar[str] = SMOLLM2
    changeable: ClassVar[tuple[str, ...]] = ("freeze_trunk",)
    """Settings that may change when a run is resumed: they cost time or disk, and change no result."""
    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "memory": memory_choices(),
        "salient": ("none", "text", "rewrite"),
        "update": ("none", "low-rank", "full"),
        "adapted_tokens": ("answer", "all"),
    }

    memory: str = setting("attentive", f"external memory: {', '.join(memory_choices())}")
    memory_layers: int | str | tuple[int, ...] = setting(
        3, "layers with a memory: how many of the last, all, or numbers such as 9,11"
    )
    memory_size: int = setting(256, "slots of a memory")
    compression_ratio: int = setting(5, "hidden states that a compressive memory merges into one")
    adapted_tokens: str = setting(
        "answer", "tokens that read the memory and pass through the updated layers: answer, or all (the segment's too)"
    )
    salient: str = setting(
        "none", "none, text (salient sentences of other segments) or rewrite (paraphrase the segment's own)"
    )
    salient_size: int = setting(256, "tokens of salient text")
    update: str = setting("low-rank", "how the last layers change: none, low-rank or full")
    update_layers: int = setting(3, "number of last layers that change")
    rank: int = setting(64, "rank of a low-rank update")
    memory_depth: int | None = setting(1, MEMORY_DEPTH)
    distill: float = setting(
        0.0, "weight in the loss of what the pretrained model predicts with all earlier segments in view, 0 to 1"
    )
    new_learning_rate: float | None = setting(
        None, "peak learning rate of the new weights: all but those of --update full (default: learning_rate)"
    )
    freeze_trunk: bool = setting(
        False, "cache on disk what the frozen layers compute; further epochs cost only the answers"
    )

    def __post_init__(self) -> None:
        check_choices(self, self.choices, " for a causal model")
        if self.memory == NO_MEMORY and self.update == "none":
            raise AwesumError("there is nothing to train: give the adapter a --memory, or its layers an --update")
        if self.memory == "salient" and self.update == "none":
            raise AwesumError("there is nothing to train: a salient memory has no weights; give the layers an --update")
        if not 0 <= self.distill <= 1:
            raise AwesumError(f"distill={self.distill} is a share of the loss: give a number from 0 to 1")
        check_memory_training(self.memory, self.memory_depth, self.new_learning_rate)

    @property
    def adapter_config(self) -> dict[str, Any]:
        """What the adapter is made of, as `AdapterConfig` names it."""
        of_training = ("freeze_trunk", "memory_depth", "distill", "new_learning_rate")
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in of_training}


class Adapter(Chat):
    """A folder with `adapter.json` and its weights, as `awesum train` saves it; the base model is where it was."""

    name = "adapter"
    description = "a causal chat model with a trained adapter: memory, salient content or paraphrase"
    paper = "Cao and Wang, 2023: AWESOME, applied to causal models"
    settings_class: ClassVar[type | None] = AdapterSettings
    training = "awesum.training.adapter:AdapterTraining"

    @cached_property
    def config(self) -> AdapterConfig:
        """What the adapter is made of."""
        from awesum.models.adapter_config import read_config

        if self._given is not None:
            assert self._given.adapter is not None
            return self._given.adapter.adapter_config
        return read_config(self.adapter_folder)

    @property
    def adapter_folder(self) -> Path:
        """Where the adapter is."""
        return Path(self.model)

    @property
    def base(self) -> str:
        """The pretrained model that the adapter belongs to."""
        return self.config.base

    @property
    def rewrites(self) -> bool:
        """Whether it paraphrases selected sentences, rather than deciding itself what to say."""
        return self.config.salient == "rewrite"

    @property
    def default_length(self) -> str:  # type: ignore[override]
        """200 words for a paraphrase; otherwise the model decides, and a tenth of the document is shown beside it."""
        return "200w" if self.rewrites else "10%"

    def _load_writer(self) -> ChatModel:
        from awesum.models.causal import ChatModel

        return ChatModel.load(str(self.adapter_folder))

    def _weights(self) -> list[str]:
        from awesum.loading import fingerprint

        own = [] if self._given is not None else [fingerprint(str(self.adapter_folder))]
        return [*super()._weights(), *own]

    def plan(self, analysis: Analysis, settings: Settings, notes: list[str]) -> Plan:
        """Paraphrases, or whatever the model has learned to say."""
        from awesum.compose.layouts import CausalLayout
        from awesum.compose.plan import OwnWords, Paraphrase

        writer = self.writer
        layout = CausalLayout(self.tokenizer, self.config, self.window, notes.append)
        selected = {"rewrite": analysis.selection.selected, "text": analysis.salient}.get(self.config.salient, [])
        prompts = _AdapterPrompts(layout, analysis, selected)
        if self.rewrites:
            in_order = self.config.memory != "none"
            return Paraphrase(
                analysis,
                self.analyst.encoder,
                prompts,
                writer.window,
                self.verifier,
                strict=settings.strict,
                is_sequential=in_order,
                candidates=1 if in_order else CANDIDATES,
            )
        return OwnWords(
            analysis,
            self.analyst.encoder,
            prompts,
            writer.window,
            verifier=self.verifier,
            has_length=settings.length is not None,
            removes_repeats=True,
            strict=settings.strict,
        )


class _AdapterPrompts:
    """The prompts of one document."""

    def __init__(self, layout: CausalLayout, analysis: Analysis, selected: Any) -> None:
        self.layout, self.analysis, self.selected = layout, analysis, selected
        self.ids = layout.chat.ids

    def __call__(self, number: int) -> Prompt:
        from awesum.compose.plan import LONGEST_PART
        from awesum.models.prompt import Prompt

        segment = self.layout.segment(self.analysis, number)
        request = self.layout.request(self.analysis, number, self.selected)
        own = slice(self.layout.frame, len(segment))
        salience = self.layout.salience(self.analysis, number)[own] if self.layout.keeps_salient else None
        return Prompt([*segment, *request], _never, LONGEST_PART, own, salience, least=0, number=number)
