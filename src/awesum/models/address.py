"""The address of a model on a server: `http://127.0.0.1:11434/v1#qwen3:4b`."""

from __future__ import annotations

import ipaddress
import os
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from awesum.errors import AwesumError

KEY, TIMEOUT = "AWESUM_API_KEY", "AWESUM_TIMEOUT"
"""Variables of the environment: the key for a server that wants one, and the seconds to wait for its next words."""
OPENAI_KEY, OPENAI_HOST = "OPENAI_API_KEY", "api.openai.com"
"""A key that programs share. It goes to its own host alone."""
DEFAULT_TIMEOUT = 300.0
"""Seconds: a processor may take minutes to read the prompts of several parts before the first word comes."""


def is_address(model: str) -> bool:
    """Whether a model is named by an address."""
    return model.lower().startswith(("http://", "https://"))


@dataclass(frozen=True)
class Address:
    """Where a server is, and which of its models is meant."""

    base: str
    """Without the model, and without a slash at its end."""
    host: str
    model: str = ""
    """Empty if the server's only model is meant."""

    @classmethod
    def parse(cls, text: str) -> Address:
        """From what the user typed."""
        try:
            parts = urlsplit(text)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise AwesumError(f"{text} is not an address ({error}): give for example {_EXAMPLE}") from error
        if not host:
            raise AwesumError(f"{text} is not an address (it has no host): give for example {_EXAMPLE}")
        if parts.username or parts.password or parts.query:
            raise AwesumError(
                f"the address of {host} holds a name, a key or a question mark: give it as {_EXAMPLE}, and the key in "
                f"the variable {KEY} of the environment"
            )
        base = f"{parts.scheme.lower()}://{parts.netloc}{parts.path.rstrip('/')}"
        return cls(base.removesuffix("/chat/completions"), host, parts.fragment)

    def __str__(self) -> str:
        return f"{self.base}#{self.model}" if self.model else self.base

    @property
    def root(self) -> str:
        """The server without the version of its interface."""
        return self.base.removesuffix("/v1")

    @property
    def is_this_machine(self) -> bool:
        """Whether what is sent there stays here. A name other than localhost may mean any machine tomorrow."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            found = ipaddress.ip_address(self.host)
        except ValueError:
            return False
        if found.is_loopback:
            return True
        try:  # only an address of this machine can be bound
            with socket.socket(socket.AF_INET6 if found.version == 6 else socket.AF_INET) as probe:
                probe.bind((self.host, 0))
        except OSError:
            return False
        return not found.is_multicast

    def warning(self) -> str | None:
        """The line for a user whose text will leave this machine."""
        if self.is_this_machine:
            return None
        how = "" if self.base.startswith("https:") else ", unencrypted"
        return f"the text of your documents will leave this machine: it is sent to {self.host}{how}"

    @property
    def key(self) -> str | None:
        """The key for this server, from the environment."""
        found = os.environ.get(KEY)
        if not found and self.host == OPENAI_HOST:
            found = os.environ.get(OPENAI_KEY)
        return found or None


def timeout() -> float:
    """Seconds to wait for a server's next words."""
    text = os.environ.get(TIMEOUT, "")
    if not text:
        return DEFAULT_TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise AwesumError(f"{TIMEOUT}={text} is not a number of seconds: give for example 60, or unset it")
    return seconds


_EXAMPLE = "http://127.0.0.1:11434/v1#qwen3:4b"
