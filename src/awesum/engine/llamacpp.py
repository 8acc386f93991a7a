"""A GGUF file as a writer: llama.cpp in this process, by the package `xllamacpp`.

llama.cpp applies the chat template of the file, decodes its rows side by side, and keeps what each row has read: the
candidates of a part share it.
"""

from __future__ import annotations

import atexit
import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition
from typing import Any
from zlib import crc32

from awesum.engine.text import DRAWN_FROM, TEMPERATURE, Take, TextWriter
from awesum.errors import AwesumError
from awesum.footprint import format_size, total_memory
from awesum.models.gguf import GGUF
from awesum.models.prompt import Prompt

ROWS = 4
"""Messages that are answered at the same time. More are hardly faster on a processor of a few cores."""
WINDOW = 2048
"""Tokens of a row: twice what a prompt and its answer take, also for a model that could look at more."""
BATCH = 512
"""Tokens that are read at once; the results of a larger batch take more RAM and are not faster."""
COMPUTING = 300_000_000
"""Bytes that llama.cpp takes besides weights, keys and values; measured with models of 135M and 1.5B parameters."""
PATIENCE = 30.0
"""Seconds that the end of the program waits for llama.cpp to stop."""


def require_xllamacpp() -> Any:
    """The package, or an error that says how to get it."""
    # Threads that wait actively for each other take a hundred times as long where other programs want the processor.
    # The variable is read when the library is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        import xllamacpp
    except ImportError as error:
        raise AwesumError(
            f"a GGUF file needs llama.cpp, which is not installed ({error}): run `pip install 'awesum[gguf]'`"
        ) from error
    return xllamacpp


def check_size(model: GGUF, rows: int = 1) -> None:
    """Refuse a model that is larger than the RAM of this machine, before it is loaded."""
    needed = model.size + rows * min(model.window, WINDOW) * model.bytes_per_token + COMPUTING
    there = total_memory()
    if there is not None and needed > there:
        raise AwesumError(
            f"{model.path} needs {format_size(needed)} of RAM and this machine has {format_size(there)}: take a "
            "smaller or more strongly quantized model (see `awesum models`), or --style extract"
        )


class LlamaCpp(TextWriter):
    """A GGUF model, loaded by llama.cpp with room for `rows` prompts."""

    def __init__(self, model: GGUF, rows: int = ROWS) -> None:
        model.require_chat()
        xllamacpp = require_xllamacpp()
        check_size(model, rows)
        self.model, self.rows = model, rows
        self.window = min(model.window, WINDOW)
        self._marks = (
            re.compile("|".join(map(re.escape, sorted(model.marks, key=len, reverse=True)))) if model.marks else None
        )
        self._active = 0
        self._is_closing = False
        self._change = Condition()
        with _silent():
            try:
                self._server = xllamacpp.Server(self._parameters(xllamacpp))
            except Exception as error:  # whatever llama.cpp says, it is about this file
                raise AwesumError(
                    f"llama.cpp cannot load {model.path} ({_first_line(error)}): fetch it again, or update xllamacpp "
                    f"if its architecture ({model.architecture}) is new"
                ) from error
        atexit.register(self.close)

    def _parameters(self, xllamacpp: Any) -> Any:
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(self.model.path)
        parameters.n_parallel = self.rows
        parameters.n_ctx = self.rows * self.window
        parameters.n_batch = parameters.n_ubatch = BATCH
        parameters.kv_unified = False  # each row has its own window, whatever the others take
        parameters.cache_ram_mib = 0  # nothing is kept but what the rows hold
        parameters.n_ctx_checkpoints = 0
        parameters.warmup = False
        # Weights are read, not mapped: llama.cpp sorts them anew for the processor, and both copies would be held.
        parameters.load_mode = xllamacpp.llama_load_mode.LLAMA_LOAD_MODE_NONE
        parameters.offline = True
        parameters.verbosity = -1
        parameters.use_jinja = True
        parameters.enable_reasoning = 0
        # The package always listens: on a port of this machine that only this process has the key for.
        parameters.hostnames = ["127.0.0.1"]
        parameters.port = 0
        parameters.api_keys = [secrets.token_hex(32)]
        parameters.ui = parameters.endpoint_slots = False
        if threads := _threads():
            parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
        return parameters

    def plain(self, text: str) -> str:
        """A text in which nothing is a mark of the chat template, whatever a document holds: such marks are broken by
        a space."""
        return self._marks.sub(lambda match: f"{match[0][0]} {match[0][1:]}", text) if self._marks else text

    def write(self, prompt: Prompt, candidate: int, row: int, take: Take) -> bool:
        """See `TextWriter.write`."""
        request: dict[str, Any] = {
            "messages": [
                {"role": "system", "content": "You summarize documents."},
                {"role": "user", "content": self.plain(prompt.text)},
            ],
            "max_tokens": prompt.limit,
            "stream": True,
            "temperature": 0.0,
            "cache_prompt": True,
            "id_slot": row,
            "chat_template_kwargs": {"enable_thinking": False},
        }
        if candidate:
            seed = crc32(f"{candidate} {prompt.text}".encode())
            request |= {"temperature": TEMPERATURE, "top_k": DRAWN_FROM, "top_p": 1.0, "min_p": 0.0, "seed": seed}
        reasons: list[str] = []
        errors: list[dict[str, Any]] = []

        def hear(chunk: Any) -> bool:
            if self._is_closing:
                return True
            if not isinstance(chunk, dict):
                return False
            if "error" in chunk:
                errors.append(chunk["error"])
                return True
            for choice in chunk.get("choices") or ():
                if choice.get("finish_reason"):
                    reasons.append(choice["finish_reason"])
                if (piece := (choice.get("delta") or {}).get("content")) and take(piece):
                    return True
            return False

        with self._working():
            answer = self._server.handle_chat_completions(request, hear)
        if isinstance(answer, dict) and "error" in answer:
            errors.append(answer["error"])
        if errors:
            raise self._failure(errors[0])
        return reasons[:1] == ["stop"]

    def _failure(self, error: Any) -> AwesumError:
        message = str(error.get("message", error) if isinstance(error, dict) else error)
        if "context size" in message or "context length" in message:
            return AwesumError(
                f"the context window of {self.model.path.name} is too small for a segment ({message}): shorten the "
                "query, or take a model with a larger window"
            )
        return AwesumError(f"llama.cpp cannot answer with {self.model.path.name} ({message}): please report this")

    @contextmanager
    def _working(self) -> Iterator[None]:
        with self._change:
            self._active += 1
        try:
            yield
        finally:
            with self._change:
                self._active -= 1
                self._change.notify_all()

    def close(self) -> None:
        """Let llama.cpp stop: a thread that is still in it when Python ends would take the program down."""
        self._is_closing = True
        with self._change:
            self._change.wait_for(lambda: not self._active, PATIENCE)


def _threads() -> int | None:
    """Threads that the user allows; otherwise llama.cpp decides."""
    text = os.environ.get("OMP_NUM_THREADS", "")
    return int(text) if text.isdigit() and int(text) > 0 else None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextmanager
def _silent() -> Iterator[None]:
    """Keep what llama.cpp prints while it loads away from the user: it writes to the file, not to `sys.stderr`."""
    sys.stderr.flush()
    saved = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
