"""A server as a writer: anything that speaks OpenAI's chat completions (Ollama, LM Studio, llama.cpp, vLLM, ...).

Answers are streamed, so that one that is long enough can be ended. Whatever is temporary is tried again with growing
pauses; whatever is not is reported in one line. Nothing is followed elsewhere, and no key is sent but the server's own.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from weakref import finalize
from zlib import crc32

from awesum.engine.text import TEMPERATURE, Take, TextWriter
from awesum.errors import AwesumError
from awesum.models.address import KEY, TIMEOUT, Address, timeout
from awesum.models.prompt import Prompt

if TYPE_CHECKING:
    import httpx2

ROWS = 4
"""Messages on their way at the same time, if the server does not say how many it answers side by side."""
WINDOW = 4096
"""Tokens of a model's window, if the server does not say: what Ollama and LM Studio start with."""
PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Seconds before a request is sent again; the server may say otherwise."""
LONGEST_PAUSE = 60.0
CONNECTING = 10.0
"""Seconds to wait for a connection."""
TEMPORARY = (408, 409, 425, 429, 500, 502, 503, 504)
THINKING = 4096
"""Tokens more for a model that will not be kept from thinking aloud."""
LONGEST_LINE = 1_000_000
"""Characters of one event of a stream, and of an answer that lists models. More is no answer."""
_SIZE = re.compile(r"(?<![\w.])(\d{1,4}(?:\.\d{1,3})?)([bBmM])(?![a-zA-Z])")
"""The parameters of a model in its name: `1.5b`, `135M`."""
_MARK = re.compile(r"<\|[^|<>\s]{1,40}\|>|</?(?:s|think|start_of_turn|end_of_turn|bos|eos)>|\[/?INST\]|<</?SYS>>")
"""The marks of common chat templates. A server would take them for its own, so a document's are broken by a space."""


class _Temporary(Exception):
    """It may work if it is tried again."""

    def __init__(self, reason: str, pause: float | None = None, is_asked_too_much: bool = False) -> None:
        super().__init__(reason)
        self.pause, self.is_asked_too_much = pause, is_asked_too_much


class _Refused(Exception):
    """The server does not take a request as it is."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Endpoint(TextWriter):
    """One model of a server. The server is asked what it has when this is made."""

    def __init__(self, address: Address) -> None:
        import httpx2

        self.address = address
        self._timeout = timeout()
        headers = {"Authorization": f"Bearer {address.key}"} if address.key else {}
        try:
            headers["Authorization"].encode("ascii") if headers else None
            self._client = httpx2.Client(
                headers=headers,
                timeout=httpx2.Timeout(self._timeout, connect=min(CONNECTING, self._timeout)),
                follow_redirects=False,
                trust_env=not address.is_this_machine,  # a proxy is for other machines
            )
        except UnicodeError as error:
            raise AwesumError(f"the key in {KEY} has characters that no key has: set it again") from error
        finalize(self, self._client.close)
        self._is_gone = False
        self._thinks = False
        self._extras: dict[str, Any] = {
            "chat_template_kwargs": {"enable_thinking": False},
            "reasoning_effort": "none",
            "cache_prompt": True,
        }
        self.facts = self._find_model()
        """What the server says of the model."""
        self.name = str(self.facts.get("id") or address.model)
        settings = self._settings()
        self.rows = settings.get("total_slots") or ROWS
        self.window = settings.get("n_ctx") or self._stated_window() or WINDOW

    # What the server has --------------------------------------------------------------------------------------------

    def _find_model(self) -> dict[str, Any]:
        wanted, base = self.address.model, self.address.base
        try:
            listed = self._patiently(lambda: self._get(f"{base}/models"))
        except _Refused as error:
            if error.status in (404, 405, 501) and wanted and self.address.base.endswith("/v1"):
                return {}  # some servers do not list their models
            raise self._not_found(error) from error
        models = [each for each in _list_of(listed) if isinstance(each.get("id"), str)]
        names = [str(each["id"]) for each in models]
        if not wanted:
            if len(models) == 1:
                return models[0]
            has = f"has {_enumerate(names)}" if names else "lists no model"
            raise AwesumError(f"{base} {has}: name the one you mean, as {base}#{names[0] if names else 'NAME'}")
        for each in models:
            if each["id"] in (wanted, f"{wanted}:latest"):
                return each
        if not names:
            return {}
        near = get_close_matches(wanted, names, 1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise AwesumError(f"{base} has no model {wanted!r}: {meant}It has {_enumerate(names)}")

    def _not_found(self, error: _Refused) -> AwesumError:
        base = self.address.base
        if error.status in (401, 403):
            return self._no_key(error)
        advice = "check the address" if base.endswith("/v1") else f"did you mean {base}/v1?"
        return AwesumError(f"{base} is not an OpenAI-compatible server (it answers {error.status}: {error}): {advice}")

    def _no_key(self, error: _Refused) -> AwesumError:
        state = "does not take the key" if self.address.key else "wants a key"
        return AwesumError(f"{self.address.host} {state} ({error.status}: {error}): set {KEY} in the environment")

    def _settings(self) -> dict[str, int]:
        """The rows and the window of a llama.cpp server; nothing of any other."""
        if self.facts.get("owned_by") != "llamacpp":
            return {}
        try:
            found = self._get(f"{self.address.root}/props")
        except (_Refused, _Temporary, AwesumError):
            return {}
        if not isinstance(found, dict):
            return {}
        inner = found.get("default_generation_settings")
        window = inner.get("n_ctx") if isinstance(inner, dict) else None
        numbers = {"total_slots": found.get("total_slots"), "n_ctx": window}
        return {name: value for name, value in numbers.items() if isinstance(value, int) and value > 0}

    def _stated_window(self) -> int | None:
        meta = self.facts.get("meta")
        for facts in (self.facts, meta if isinstance(meta, dict) else {}):
            for name in ("max_model_len", "n_ctx", "context_length", "max_context_length"):
                value = facts.get(name)
                if isinstance(value, int) and value > 0:
                    return value
        return None

    @property
    def parameters(self) -> int | None:
        """How many parameters the model has: as llama.cpp says, or as its name does (`qwen3:4b`); none if neither."""
        meta = self.facts.get("meta")
        stated = meta.get("n_params") if isinstance(meta, dict) else None
        if isinstance(stated, int) and stated > 0:
            return stated
        found = _SIZE.search(self.name)
        return round(float(found[1]) * (1e9 if found[2] in "bB" else 1e6)) if found else None

    @property
    def fingerprint(self) -> list[Any]:
        """Changes whenever the server says that its model is another."""
        meta = self.facts.get("meta")
        return [self.address.base, self.name, self.facts.get("root"), meta if isinstance(meta, dict) else None]

    # Asking ---------------------------------------------------------------------------------------------------------

    def write(self, prompt: Prompt, candidate: int, row: int, take: Take) -> bool:
        """See `TextWriter.write`."""
        try:
            return self._patiently(lambda: self._ask(prompt, candidate, take), take)
        except _Refused as error:
            if error.status in (401, 403):
                raise self._no_key(error) from error
            if error.status in (400, 413, 422) and re.search(r"context|too (?:long|large|many)|exceed", str(error)):
                raise AwesumError(
                    f"the context window of {self.name} at {self.address.host} is too small for a segment ({error}): "
                    "start the server with a larger one, or shorten the query"
                ) from error
            raise AwesumError(
                f"{self.address.host} refuses the request ({error.status}: {error}): see what it logs, or take another "
                "model; the same command resumes what was written with -o"
            ) from error

    def _ask(self, prompt: Prompt, candidate: int, take: Take) -> bool:
        while True:
            extras, room = self._extras, prompt.limit + (THINKING if self._thinks else 0)
            body: dict[str, Any] = {
                "model": self.name,
                "messages": [
                    {"role": "system", "content": "You summarize documents."},
                    {"role": "user", "content": _MARK.sub(lambda mark: f"{mark[0][0]} {mark[0][1:]}", prompt.text)},
                ],
                "max_tokens": room,
                "stream": True,
                "temperature": TEMPERATURE if candidate else 0.0,
                "seed": crc32(f"{candidate} {prompt.text}".encode()) & 0x7FFFFFFF,
            } | extras
            take.restart()
            try:
                ended, thought = self._stream(body, take)
            except _Refused as error:
                if error.status in (400, 422) and extras and not _is_about_length(str(error)):
                    self._extras = {}  # a server that takes nothing but what the interface names
                    continue
                raise
            if thought and not take.text.strip() and ended == "length" and not self._thinks:
                self._thinks = True
                continue
            return ended == "stop"

    def _stream(self, body: dict[str, Any], take: Take) -> tuple[str | None, bool]:
        """Give `take` the pieces of an answer: why it ended (none if we ended it), and whether the model thought."""
        thought = False
        ended: str | None = None
        with self._talking(), self._client.stream("POST", f"{self.address.base}/chat/completions", json=body) as answer:
            self._check(answer)
            is_over = False
            for event in self._events(answer):
                if event is None:
                    is_over = True
                    break
                for choice in _list_of({"data": event.get("choices")}):
                    delta = choice.get("delta")
                    delta = delta if isinstance(delta, dict) else {}
                    thought = thought or bool(delta.get("reasoning") or delta.get("reasoning_content"))
                    piece = delta.get("content")
                    if isinstance(choice.get("finish_reason"), str):
                        ended = choice["finish_reason"]
                    if isinstance(piece, str) and piece and take(piece):
                        return None, thought
            if not is_over and ended is None:
                raise _Temporary("the answer broke off in the middle")
        return ended, thought

    def _events(self, answer: httpx2.Response) -> Iterator[dict[str, Any] | None]:
        """The events of a stream; none for its end."""
        silent_since = time.monotonic()
        for line in _lines(answer):
            if not line.startswith("data:"):  # comments keep the connection open; they are not an answer
                if line.strip() and not line.startswith((":", "event:", "id:", "retry:")):
                    raise AwesumError(
                        f"{self.address.host} answers with something other than a stream of events: "
                        f"{_short(line)!r}; check that {self.address.base} is OpenAI-compatible"
                    )
                if time.monotonic() - silent_since > self._timeout:
                    raise _Temporary(f"no word for {self._timeout:g} s")
                continue
            silent_since = time.monotonic()
            data = line.removeprefix("data:").strip()
            if data == "[DONE]":
                yield None
                return
            try:
                event = json.loads(data)
            except (ValueError, RecursionError) as error:
                raise AwesumError(
                    f"{self.address.host} answers with nonsense ({_short(data)!r}): check that {self.address.base} is "
                    "OpenAI-compatible"
                ) from error
            if not isinstance(event, dict):
                continue
            if reported := event.get("error"):
                raise _error_of(reported)
            yield event

    # The connection -------------------------------------------------------------------------------------------------

    def _get(self, url: str) -> Any:
        with self._talking(), self._client.stream("GET", url) as answer:
            self._check(answer)
            text = "".join(_text_of(answer))
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise AwesumError(
                f"{url} answers with nonsense ({_short(text)!r}): check that {self.address.base} is OpenAI-compatible"
            ) from error

    def _check(self, answer: httpx2.Response) -> None:
        status = answer.status_code
        if status == 200:
            return
        message = _message(_text_of(answer))
        if status in TEMPORARY:
            pause = answer.headers.get("retry-after", "")
            raise _Temporary(
                f"{status}: {message}", float(pause) if pause.isdigit() else None, is_asked_too_much=status == 429
            )
        if 300 <= status < 400:
            raise AwesumError(
                f"{self.address.host} sends requests on to {answer.headers.get('location', 'another place')!r}, which "
                "was not named, and is not followed: give the final address"
            )
        raise _Refused(status, message)

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """What breaks a connection is temporary until it has been tried often enough."""
        import httpx2

        try:
            yield
        except httpx2.ReadTimeout as error:
            raise _Temporary(f"no word for {self._timeout:g} s") from error
        except httpx2.TransportError as error:
            raise _Temporary(_short(str(error)) or type(error).__name__) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, UnicodeError, ValueError) as error:
            raise AwesumError(
                f"cannot talk to {self.address.base} ({_short(str(error)) or type(error).__name__}): check the address"
            ) from error

    def _patiently(self, ask: Any, take: Take | None = None) -> Any:
        """Ask until there is an answer, with growing pauses. Once the server is gone, it is asked only once more."""
        pauses = iter(() if self._is_gone else PAUSES)
        while True:
            try:
                found = ask()
            except _Temporary as error:
                pause = next(pauses, None)
                if pause is None or (take is not None and take.is_dropped):
                    self._is_gone = True
                    raise self._gone(error) from error
                if str(error).startswith("no word"):
                    pauses = iter(())  # a time-out is long enough: once more, and that is it
                time.sleep(min(error.pause or pause * random.uniform(0.8, 1.2), LONGEST_PAUSE))
                continue
            self._is_gone = False
            return found

    def _gone(self, error: _Temporary) -> AwesumError:
        host = self.address.base
        if error.is_asked_too_much:
            return AwesumError(f"{host} is asked too much ({error}): wait, and run the same command again to resume")
        if str(error).startswith("no word"):
            return AwesumError(
                f"{host} does not answer ({error}): see whether it is overloaded, or set {TIMEOUT}=SECONDS to wait; "
                "the same command resumes what was written with -o"
            )
        return AwesumError(
            f"{host} cannot be reached, or answers with errors ({error}): see whether the server is running; the same "
            "command resumes what was written with -o"
        )


def _lines(answer: httpx2.Response) -> Iterator[str]:
    """The lines of a stream, none of them endless."""
    rest = ""
    for text in answer.iter_text():
        *lines, rest = (rest + text).split("\n")
        if len(rest) > LONGEST_LINE:
            raise ValueError("a line without end")
        yield from (line.rstrip("\r") for line in lines)
    if rest:
        yield rest.rstrip("\r")


def _text_of(answer: httpx2.Response) -> Iterator[str]:
    """The text of an answer, as far as it is not endless."""
    length = 0
    for text in answer.iter_text():
        yield text
        length += len(text)
        if length > LONGEST_LINE:
            return


def _message(texts: Iterator[str]) -> str:
    """What a server says about an error."""
    text = "".join(texts)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return _short(re.sub(r"<[^>]*>", " ", text)) or "nothing else"
    return _short(_error_text(found.get("error", found) if isinstance(found, dict) else found))


def _error_text(error: Any) -> str:
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or error
    return str(error)


def _error_of(error: Any) -> Exception:
    """An error within a stream: the server's fault unless it says that the request was wrong."""
    code = error.get("code") if isinstance(error, dict) else None
    message = _short(_error_text(error))
    if isinstance(code, int) and 400 <= code < 500 and code not in TEMPORARY:
        return _Refused(code, message)
    return _Temporary(message)


def _is_about_length(message: str) -> bool:
    return bool(re.search(r"context|token", message))


def _list_of(found: Any) -> list[dict[str, Any]]:
    listed = found.get("data") if isinstance(found, dict) else found
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _enumerate(names: list[str], most: int = 12) -> str:
    shown = ", ".join(_short(name) for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _short(text: str) -> str:
    line = " ".join(text.split())
    return f"{line[:160]}..." if len(line) > 160 else line
