"""A causal chat model as it is, paraphrasing each segment's selected sentences with the others in view."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from awesum.settings import SMOLLM2, Settings
from awesum.systems.system import System, digest

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from awesum.analysis.analysis import Analysis, Analyst
    from awesum.analysis.segmentation import Limits
    from awesum.compose.plan import Plan
    from awesum.engine.engine import Engine
    from awesum.models.causal import ChatModel
    from awesum.models.prompt import Prompt

LONGEST_PART = 192
"""Tokens of a part to reckon with before the parts are known."""


class Chat(System):
    """A causal chat model: a folder, or a name on the hub. What it writes is checked against the source."""

    name = "chat"
    style = "abstract"
    description = "any causal chat model (--model), paraphrasing the selected sentences of each segment"

    def __init__(
        self, model: str | None = None, *, analyst: Analyst | None = None, writer: ChatModel | None = None
    ) -> None:
        super().__init__(model or (writer.name if writer else None), analyst=analyst)
        self._given = writer
        self._lock = Lock()

    @property
    def base(self) -> str:
        """The pretrained model."""
        return self.model

    @cached_property
    def folder(self) -> Path | None:
        """Where the embedded model is, converted and checked; none for a model that the user named."""
        from awesum.weights import smollm2_folder

        return smollm2_folder() if self.base == SMOLLM2 else None

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of the model that writes, without the model."""
        if self._given is not None:
            return self._given.tokenizer
        from awesum.loading import load_tokenizer

        return load_tokenizer(self.base, self.folder)

    @cached_property
    def window(self) -> int:
        """How many tokens the model can look at, without the model."""
        if self._given is not None:
            return self._given.window
        from awesum.loading import load_window

        return load_window(self.base, self.folder)

    @property
    def limits(self) -> Limits:
        """The limits of a segment."""
        from awesum.compose.layouts import causal_limits

        return causal_limits(self.window)

    @property
    def writer(self) -> ChatModel:
        """The model that writes, loaded once."""
        with self._lock:
            return self._writer

    @cached_property
    def _writer(self) -> ChatModel:
        return self._given if self._given is not None else self._load_writer()

    def _load_writer(self) -> ChatModel:
        from awesum.models.causal import ChatModel

        return ChatModel.load(self.model, self.folder)

    def prepare(self) -> None:
        """Load the encoder, the extractor, the verifier and the tokenizer."""
        self.analyst.load()
        _ = self.tokenizer, self.window, self.verifier

    def load(self) -> None:
        """Load the model that writes."""
        _ = self.writer

    def fingerprint(self) -> str:
        """Of all weights."""
        return digest(self.name, self._weights(), self.analyst.fingerprint(), self.verifier_name())

    def _weights(self) -> list[str]:
        from awesum.loading import fingerprint, weights_fingerprint
        from awesum.weights import SMOLLM2_WHEEL

        if self._given is not None:
            return [weights_fingerprint(self._given.model)]
        return [SMOLLM2_WHEEL.sha256] if self.base == SMOLLM2 else [fingerprint(self.base)]

    def plan(self, analysis: Analysis, settings: Settings, notes: list[str]) -> Plan:
        """How the document is written."""
        from awesum.compose.plan import Paraphrase
        from awesum.verify.verifier import is_large

        return Paraphrase(
            analysis,
            self.analyst.encoder,
            _ChatPrompts(self.writer, analysis),
            self.writer.window,
            self.verifier,
            strict=settings.strict,
            by_large=is_large(self.writer.model.num_parameters()),
        )

    def recorded(self, settings: Settings) -> dict[str, Any]:
        """With the verifier, and with the number format and why it is this one."""
        dtype = str(self.writer.model.dtype).removeprefix("torch.")
        reasons = {"dtype": dtype, "dtype_reason": self.writer.reason}
        return super().recorded(settings) | {"verifier": self.verifier_name()} | reasons

    def engine(self, settings: Settings) -> Engine:
        """As many rows as the memory limit has room for."""
        from awesum.compose.prompts import INPUT
        from awesum.engine.causal import CausalEngine, rows_of
        from awesum.footprint import READING, RUNTIME, Footprint, parse_size

        writer = self.writer
        encoder = self.analyst.encoder.model.get_memory_footprint()
        fixed = RUNTIME + encoder + self.verifier.bytes() + writer.model.get_memory_footprint() + READING
        per_prompt = writer.bytes_per_token() * (INPUT + LONGEST_PART) + writer.bytes_of_memory()
        limit = parse_size(settings.max_memory) if settings.max_memory else None
        rows = Footprint(fixed, per_prompt).prompts(limit, rows_of(writer))
        return CausalEngine(writer, rows, None if limit is None else limit - fixed)


class _ChatPrompts:
    """The prompts of one document."""

    def __init__(self, writer: ChatModel, analysis: Analysis) -> None:
        from awesum.compose.budget import Budget

        self.writer, self.analysis, self.budget = writer, analysis, Budget(analysis)
        self.ids = writer.chat.ids

    def __call__(self, number: int) -> Prompt:
        from awesum.compose.prompts import chat_prompt
        from awesum.models.prompt import Prompt

        limit = self.budget.token_limit(number, self.writer.window)
        tokens = chat_prompt(self.writer.chat, self.writer.window, self.analysis, number, limit)
        return Prompt(tokens, _never, limit, number=number)


def _never(text: str) -> bool:
    """For a model that was trained to end by itself, or whose budget comes later."""
    return False
