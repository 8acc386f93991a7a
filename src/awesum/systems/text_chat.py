"""What `gguf` and `endpoint` have in common: a chat model that takes text and gives text, of which nothing is seen.

It paraphrases the selected sentences of each segment, as any chat model does here, and what it writes is verified.
"""

from __future__ import annotations

from abc import abstractmethod
from threading import RLock
from typing import TYPE_CHECKING, Any

from awesum.settings import Settings
from awesum.systems.chat import _never
from awesum.systems.system import System, digest

if TYPE_CHECKING:
    from awesum.analysis.analysis import Analysis, Analyst
    from awesum.analysis.segmentation import Limits
    from awesum.compose.plan import Plan
    from awesum.engine.engine import Engine
    from awesum.engine.text import TextWriter
    from awesum.models.approximate import ApproximateTokenizer
    from awesum.models.prompt import Prompt

CANDIDATES = 2
"""Answers to each prompt, of which the best supported sentences are taken. The second costs only its writing: what was
read for the first serves it."""
FRAME = 48
"""Tokens of a chat template around a message, at most."""


class TextChat(System):
    """A chat model behind text."""

    style = "abstract"

    def __init__(self, model: str | None = None, *, analyst: Analyst | None = None) -> None:
        super().__init__(model, analyst=analyst)
        self._lock = RLock()
        from awesum.models.approximate import ApproximateTokenizer

        self._tokenizer = ApproximateTokenizer()

    @property
    def tokenizer(self) -> ApproximateTokenizer:
        """An estimate: the model keeps its tokens to itself."""
        return self._tokenizer

    @property
    @abstractmethod
    def window(self) -> int:
        """How many tokens the model can look at."""

    @property
    @abstractmethod
    def writer(self) -> TextWriter:
        """What writes."""

    @property
    @abstractmethod
    def parameters(self) -> int | None:
        """How many parameters the model has, as far as that is known."""

    @abstractmethod
    def _weights(self) -> list[Any]:
        """Changes whenever the model would."""

    @property
    def limits(self) -> Limits:
        """The limits of a segment."""
        from awesum.compose.layouts import causal_limits

        return causal_limits(self.window)

    def prepare(self) -> None:
        """Load the encoder, the extractor and the verifier, after a look at whether the model is there."""
        _ = self.window
        self.analyst.load()
        _ = self.verifier

    def load(self) -> None:
        """Load the model that writes."""
        _ = self.writer

    def fingerprint(self) -> str:
        """Of the model, the encoder, the extractor and the verifier."""
        return digest(self.name, self._weights(), self.analyst.fingerprint(), self.verifier_name())

    def plan(self, analysis: Analysis, settings: Settings, notes: list[str]) -> Plan:
        """Paraphrases, with a warning."""
        from awesum.compose.plan import Paraphrase
        from awesum.systems.awesum import WARNING
        from awesum.verify.verifier import is_large

        notes.append(WARNING)
        return Paraphrase(
            analysis,
            self.analyst.encoder,
            _Messages(self.tokenizer, self.window, analysis),
            self.window,
            self.verifier,
            strict=settings.strict,
            by_large=is_large(self.parameters),
            candidates=CANDIDATES,
        )

    def recorded(self, settings: Settings) -> dict[str, Any]:
        """With the verifier."""
        return super().recorded(settings) | {"verifier": self.verifier_name()}

    def _own_bytes(self) -> int:
        """What this process takes besides the model that writes."""
        from awesum.footprint import READING, RUNTIME

        return RUNTIME + self.analyst.encoder.model.get_memory_footprint() + self.verifier.bytes() + READING

    def engine(self, settings: Settings) -> Engine:
        """As many rows as the writer has. The memory limit is for this process, not for a server."""
        from awesum.engine.text import TextEngine
        from awesum.footprint import check_limit

        if settings.max_memory:
            check_limit(settings.max_memory, self._own_bytes())
        return TextEngine(self.writer)


class _Messages:
    """The prompts of one document, as messages."""

    def __init__(self, tokenizer: ApproximateTokenizer, window: int, analysis: Analysis) -> None:
        from awesum.compose.budget import Budget

        self.tokenizer, self.window, self.analysis = tokenizer, window, analysis
        self.budget = Budget(analysis)

    def ids(self, text: str) -> list[int]:
        return self.tokenizer(text)["input_ids"]

    def __call__(self, number: int) -> Prompt:
        from awesum.compose.prompts import chat_message
        from awesum.models.prompt import Prompt

        limit = self.budget.token_limit(number, self.window)
        text = chat_message(
            lambda message: self.tokenizer.count(message) + FRAME, self.window, self.analysis, number, limit
        )
        return Prompt([], _never, limit, number=number, text=text)
