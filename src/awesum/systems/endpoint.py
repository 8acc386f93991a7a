"""A chat model on a server that speaks OpenAI's chat completions: Ollama, LM Studio, llama.cpp, vLLM, ..."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from awesum.errors import AwesumError
from awesum.settings import Settings
from awesum.systems.text_chat import TextChat

if TYPE_CHECKING:
    from awesum.engine.endpoint import Endpoint as Server


class Endpoint(TextChat):
    """An address with the name of a model behind a #. Only the prompts go there; everything else stays here."""

    name = "endpoint"
    description = "a chat model on an OpenAI-compatible server (--model http://127.0.0.1:11434/v1#MODEL)"

    @property
    def writer(self) -> Server:
        """The server, asked once what it has."""
        with self._lock:
            return self._server

    @cached_property
    def _server(self) -> Server:
        from awesum.engine.endpoint import Endpoint as Server
        from awesum.models.address import Address, is_address

        if not is_address(self.model):
            raise AwesumError("the system endpoint needs an address: give --model http://127.0.0.1:11434/v1#MODEL")
        return Server(Address.parse(self.model))

    @property
    def window(self) -> int:
        """What the server says, or what is usual."""
        return self.writer.window

    @property
    def parameters(self) -> int | None:
        """As the server says, or the model's name."""
        return self.writer.parameters

    def _weights(self) -> list[Any]:
        return self.writer.fingerprint

    def recorded(self, settings: Settings) -> dict[str, Any]:
        """With what the server calls the model."""
        return super().recorded(settings) | {"model_name": self.writer.name}
