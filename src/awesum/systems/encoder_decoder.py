"""What all encoder-decoders have in common: how they are loaded, and how they write. Not a system itself."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Self

from awesum.errors import AwesumError
from awesum.settings import Settings, setting
from awesum.systems.system import System, digest

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from awesum.analysis.analysis import Analyst


@dataclass(frozen=True)
class WritingSettings:
    """How an encoder-decoder is trained, and how it writes afterwards."""

    default_base: ClassVar[str] = "facebook/bart-large"
    changeable: ClassVar[tuple[str, ...]] = ("gradient_checkpointing",)
    """Settings that may change when a run is resumed: they cost time or memory, and change no result."""

    gradient_checkpointing: bool = setting(False, "recompute activations in the backward pass instead of keeping them")
    num_beams: int = setting(4, "beams when the trained model writes")
    no_repeat_ngram: int = setting(5, "no run of this many tokens occurs twice in a part; 0: no limit")
    max_part: int = setting(1024, "maximum tokens of a part")

    def __post_init__(self) -> None:
        at_least(self, 1, "num_beams", "max_part")
        at_least(self, 0, "no_repeat_ngram")

    def generation(self, longest: int | None) -> dict[str, Any]:
        """How the trained model writes, as the library names it; `longest` is the decoder's window."""
        return {
            "num_beams": self.num_beams,
            "no_repeat_ngram_size": self.no_repeat_ngram,
            "max_length": min(self.max_part, longest or self.max_part),
            "early_stopping": self.num_beams > 1,  # which the library refuses without beams
        }


def at_least(settings: object, least: int, *names: str) -> None:
    """Refuse settings below a limit."""
    for name in names:
        if not getattr(settings, name) >= least:
            raise AwesumError(f"{name} must be {least} or more, not {getattr(settings, name)}")


class EncoderDecoder(System):
    """A model that reads with one half and writes with the other."""

    style = "abstract"
    default_length = "10%"  # the model decides; the salient tenth is what a summary shows beside it

    def __init__(self, model: str | None = None, *, analyst: Analyst | None = None) -> None:
        super().__init__(model, analyst=analyst)
        self._lock = Lock()

    @classmethod
    def around(cls, writer: Any, tokenizer: PreTrainedTokenizerBase, name: str, analyst: Analyst) -> Self:
        """The system with a model in memory, such as one that is being trained; `name` is what it is called."""
        system = cls(name, analyst=analyst)
        # In the places where it would put what it loads.
        vars(system).update(config=writer.config, tokenizer=tokenizer, _writer=writer)
        return system

    @property
    @abstractmethod
    def config(self) -> Any:
        """The configuration, without the weights."""

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer, without the weights."""
        from awesum.loading import load_tokenizer

        return load_tokenizer(self.model)

    @property
    def writer(self) -> Any:
        """The model, loaded once."""
        with self._lock:
            return self._writer

    @cached_property
    def _writer(self) -> PreTrainedModel:
        return self._load_writer()

    @abstractmethod
    def _load_writer(self) -> PreTrainedModel:
        """The model, ready to write."""

    def prepare(self) -> None:
        """Load the encoder, the extractor, the verifier and the tokenizer."""
        self.analyst.load()
        _ = self.tokenizer, self.config, self.verifier

    def load(self) -> None:
        """Load the model."""
        _ = self.writer

    def fingerprint(self) -> str:
        """Of all weights."""
        from awesum.loading import fingerprint

        return digest(self.name, fingerprint(self.model), self.analyst.fingerprint(), self.verifier_name())

    def recorded(self, settings: Settings) -> dict[str, Any]:
        """With the verifier, and with the number format and why it is this one."""
        dtype = str(self.writer.dtype).removeprefix("torch.")
        reasons = {"dtype": dtype, "dtype_reason": self._number_format()[1]}
        return super().recorded(settings) | {"verifier": self.verifier_name()} | reasons

    def _number_format(self) -> tuple[Any, str]:
        """The number format to write in, and the reason."""
        from awesum.loading import choose_device

        return choose_device()[1:]

    def _rows(self, settings: Settings, per_document: int, most: int) -> int:
        """How many documents are written at the same time, each of which takes `per_document` bytes."""
        from awesum.footprint import READING, RUNTIME, Footprint, parse_size

        encoder = self.analyst.encoder.model.get_memory_footprint()
        fixed = RUNTIME + encoder + self.verifier.bytes() + self.writer.get_memory_footprint() + READING
        limit = parse_size(settings.max_memory) if settings.max_memory else None
        return Footprint(fixed, per_document).prompts(limit, most)
