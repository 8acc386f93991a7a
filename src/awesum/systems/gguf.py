"""A chat model in a GGUF file, run by llama.cpp."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from awesum.errors import AwesumError
from awesum.settings import Settings
from awesum.systems.text_chat import TextChat

if TYPE_CHECKING:
    from awesum.engine.engine import Engine
    from awesum.engine.llamacpp import LlamaCpp
    from awesum.models.gguf import GGUF as File


class GGUF(TextChat):
    """A GGUF file. What it writes is checked against the source."""

    name = "gguf"
    description = "a chat model in a GGUF file (--model MODEL.gguf), run by llama.cpp; needs awesum[gguf]"

    _loaded: LlamaCpp | None = None

    @cached_property
    def file(self) -> File:
        """What the file says about itself; an error if it cannot be run."""
        from awesum.engine.llamacpp import check_size, require_xllamacpp
        from awesum.models.gguf import read_gguf

        if not self.model:
            raise AwesumError("the system gguf needs a model: give --model MODEL.gguf")
        file = read_gguf(self.model)
        file.require_chat()
        require_xllamacpp()
        check_size(file)
        return file

    @property
    def window(self) -> int:
        """The file's own, as far as it is needed."""
        from awesum.engine.llamacpp import WINDOW

        return min(self.file.window, WINDOW)

    @property
    def parameters(self) -> int:
        """As the file's weights have."""
        return self.file.parameters

    @property
    def writer(self) -> LlamaCpp:
        """The model in llama.cpp, loaded once."""
        from awesum.engine.llamacpp import ROWS

        return self._with_rows(ROWS) if self._loaded is None else self._loaded

    def _with_rows(self, rows: int) -> LlamaCpp:
        from awesum.engine.llamacpp import LlamaCpp

        with self._lock:
            if self._loaded is None or self._loaded.rows > rows:
                if self._loaded is not None:
                    self._loaded.close()
                    self._loaded = None
                self._loaded = LlamaCpp(self.file, rows)
            return self._loaded

    def _weights(self) -> list[Any]:
        return [self.file.fingerprint]

    def recorded(self, settings: Settings) -> dict[str, Any]:
        """With what the model calls itself."""
        return super().recorded(settings) | {"model_name": self.file.name}

    def engine(self, settings: Settings) -> Engine:
        """As many rows as the memory limit has room for."""
        from awesum.engine.llamacpp import COMPUTING, ROWS
        from awesum.engine.text import TextEngine
        from awesum.footprint import Footprint, parse_size

        if not settings.max_memory:
            return TextEngine(self.writer)
        fixed = self._own_bytes() + self.file.size + COMPUTING
        needs = Footprint(fixed, self.file.bytes_per_token * self.window)
        return TextEngine(self._with_rows(needs.prompts(parse_size(settings.max_memory), ROWS)))
