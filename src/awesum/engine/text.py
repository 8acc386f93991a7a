"""The engine for models that take text and give text: a GGUF file, or a server.

Each prompt is answered in a thread of its own, as many at a time as the writer has rows. A prompt's candidates are
written one after another in the same row, so that what was read for the first serves the others.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

from awesum.engine.engine import Engine, News, Writing
from awesum.models.prompt import Answer, Prompt

PATIENCE = 0.5
"""Seconds after which a step ends without an answer, so that a session that joined is heard."""
TEMPERATURE, DRAWN_FROM = 0.7, 20
"""How candidates after the first are drawn, as by the built-in engine."""
_SENTENCE_BEGUN = re.compile(r"[.!?؟۔।][\"'”’)\]]*\s+\S|[。！？]\S")
_THOUGHT = re.compile(r"\s*<think>.*?(?:</think>\s*|\Z)", re.DOTALL)
"""What a model that thinks aloud says to itself before it answers."""


class Take:
    """Collects one answer piece by piece, and says when it is long enough."""

    def __init__(self, prompt: Prompt, is_dropped: Callable[[], bool] = lambda: False) -> None:
        self.prompt, self._is_dropped = prompt, is_dropped
        self._pieces: list[str] = []
        self._looked = 0  # characters that no new sentence begins in

    @property
    def is_dropped(self) -> bool:
        """Whether nobody waits for it any more."""
        return self._is_dropped()

    def restart(self) -> None:
        """Forget what was taken: the answer is written anew."""
        self._pieces, self._looked = [], 0

    @property
    def text(self) -> str:
        """What was written so far, without thoughts."""
        return _THOUGHT.sub("", "".join(self._pieces), count=1)

    def __call__(self, piece: str) -> bool:
        """Take a piece; true if no more is wanted."""
        self._pieces.append(piece)
        if self.is_dropped:
            return True
        text = self.text
        if not _SENTENCE_BEGUN.search(text, self._looked):
            return False
        self._looked = max(len(text) - 1, 0)
        return self.prompt.enough(text)


class TextWriter(ABC):
    """What answers a message. Several threads call it at once, each with a row of its own."""

    rows: int
    """Messages that it answers at the same time."""

    @abstractmethod
    def write(self, prompt: Prompt, candidate: int, row: int, take: Take) -> bool:
        """Answer a prompt's `text` with at most `limit` tokens, giving `take` each piece until it has enough.

        Returns whether the model ended the answer itself. Candidate 0 is the likeliest answer.
        """


@dataclass(eq=False)
class _Request:
    """A prompt that is being answered."""

    session: Any
    prompt: Prompt
    row: int
    dropped: Event = field(default_factory=Event)
    answer: Answer | None = None
    error: Exception | None = None

    def run(self, writer: TextWriter) -> None:
        texts: list[str] = []
        is_whole = True
        for candidate in range(self.prompt.candidates):
            take = Take(self.prompt, self.dropped.is_set)
            ended = writer.write(self.prompt, candidate, self.row, take)
            if self.dropped.is_set():
                return
            texts.append(take.text)
            is_whole = ended if candidate == 0 else is_whole
        self.answer = Answer(texts[0], is_whole=is_whole, others=tuple(texts[1:]))


class TextEngine(Engine):
    """Answers the prompts of many sessions with one writer of text, as many at a time as it has rows."""

    def __init__(self, writer: TextWriter) -> None:
        super().__init__()
        self.writer = writer
        self._requests: dict[int, _Request] = {}  # by row
        self._ended: SimpleQueue[_Request] = SimpleQueue()

    @property
    def is_busy(self) -> bool:
        """Whether anything is being written or waits for it."""
        return bool(self._joining or self._sessions)

    @property
    def has_room(self) -> bool:
        """Whether another prompt could be written now: the sessions that are here have none for a row that is free."""
        return len(self._requests) < self.writer.rows

    def drop(self, session: Writing) -> None:
        """Stop writing a session. Its rows are free as soon as the writer has noticed."""
        super().drop(session)
        for request in self._requests.values():
            if request.session is session:
                request.dropped.set()

    def _advance(self) -> News:
        news: News = []
        while self.has_room and (following := self._next_prompt(news)):
            session, prompt = following
            assert isinstance(prompt, Prompt)
            assert prompt.text, "a prompt of tokens, or a known answer: these are for engines with a memory"
            self._start(session, prompt)
        if news or not self._requests:
            return news
        try:
            request = self._ended.get(timeout=PATIENCE)
        except Empty:
            return news
        del self._requests[request.row]
        if request.dropped.is_set() or request.session not in self._sessions:
            return news
        if request.answer is not None:
            return self._accept(request.session, request.prompt.number, request.answer)
        with self._blaming(request.session, news):
            raise request.error or AssertionError("neither an answer nor an error")
        return news

    def _start(self, session: Writing, prompt: Prompt) -> None:
        row = next(row for row in range(self.writer.rows) if row not in self._requests)
        request = self._requests[row] = _Request(session, prompt, row)

        def answer() -> None:
            try:
                request.run(self.writer)
            except Exception as error:
                request.error = error
            finally:
                self._ended.put(request)

        # A daemon, so that a server that never answers does not keep the program from ending.
        Thread(target=answer, name=f"awesum row {row}", daemon=True).start()
