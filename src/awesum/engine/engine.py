"""The engine's side of writing: sessions join at any time, and each step moves all of them on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from awesum.compose.prompts import DocumentPrompt
from awesum.models.prompt import Answer, Prompt
from awesum.summary import Part

News = list[tuple[Any, Sequence[Part]]]
"""Sessions that moved on, each with its new parts; also those that are complete without a new one."""


class Writing(Protocol):
    """What an engine needs of a session: see `awesum.compose.session.Session`."""

    complete: bool
    error: Exception | None
    """What ended it early. It stays with this session; the others go on."""

    def begin(self) -> Sequence[Part]:
        """The parts that need no model."""

    def next_prompt(self) -> Prompt | DocumentPrompt | None:
        """The next prompt that may be written now."""

    def accept(self, number: int, answer: Answer) -> Sequence[Part]:
        """Take an answer; the parts that are now known."""


class Engine(ABC):
    """Answers the prompts of many sessions. `add` never blocks: a session can join while others are being written."""

    def __init__(self) -> None:
        self._joining: deque[Writing] = deque()
        self._sessions: deque[Writing] = deque()
        """Those that still have prompts to give; the one whose turn it is comes first."""

    def add(self, session: Writing) -> None:
        """Let a session join."""
        self._joining.append(session)

    def drop(self, session: Writing) -> None:
        """Stop writing a session; what it has stays with it."""
        for sessions in (self._joining, self._sessions):
            if session in sessions:
                sessions.remove(session)

    @property
    @abstractmethod
    def is_busy(self) -> bool:
        """Whether a step has anything to do."""

    @property
    @abstractmethod
    def has_room(self) -> bool:
        """Whether another session would be written at once, rather than wait."""

    def step(self) -> News:
        """Move on by one step of the model; the sessions that got new parts, or are now complete."""
        news: News = []
        while self._joining:
            session = self._joining.popleft()
            with self._blaming(session, news):
                parts = session.begin()
                if parts or session.complete:
                    news.append((session, parts))
                if not session.complete:
                    self._sessions.append(session)
        return news if news else self._advance()

    @contextmanager
    def _blaming(self, session: Writing, news: News) -> Iterator[None]:
        """Let an error end the session that caused it, and no other."""
        try:
            yield
        except Exception as error:
            session.error = error
            self.drop(session)
            news.append((session, ()))

    @abstractmethod
    def _advance(self) -> News:
        """One step of the model for those that have joined."""

    def run(self, session: Writing) -> Iterator[Part]:
        """The parts of one session, each as soon as it is written."""
        self.add(session)
        try:
            while session.error is None and (not session.complete or session in self._joining):
                for moved, parts in self.step():
                    if moved is session:
                        yield from parts
            if session.error is not None:
                raise session.error
        finally:
            self.drop(session)

    def _next_prompt(self, news: News) -> tuple[Writing, Prompt | DocumentPrompt] | None:
        """The next prompt, from each session in turn."""
        for session in list(self._sessions):
            prompt = None
            with self._blaming(session, news):
                prompt = session.next_prompt()
                self._sessions.rotate(-1)
            if prompt is not None:
                return session, prompt
        return None

    def _accept(self, session: Writing, number: int, answer: Answer) -> News:
        news: News = []
        with self._blaming(session, news):
            parts = session.accept(number, answer)
            if session.complete:
                self.drop(session)
            if parts or session.complete:
                news.append((session, parts))
        return news


Session = TypeVar("Session", bound=Writing)


def write_all(engine: Engine, sessions: Iterable[Session]) -> Iterator[tuple[Session, Sequence[Part]]]:
    """Write many sessions side by side: each that moved on, with its new parts; look at its `complete` and `error`.

    A session is taken from `sessions` when the engine has room for it.
    """
    coming: Iterator[Session] | None = iter(sessions)
    while coming is not None or engine.is_busy:
        if coming is not None and engine.has_room:
            session = next(coming, None)
            if session is None:
                coming = None
                continue
            engine.add(session)
        yield from engine.step()


class NoEngine(Engine):
    """For systems whose sessions need no model: all their parts are there when they begin."""

    @property
    def is_busy(self) -> bool:
        """Whether a session waits to begin."""
        return bool(self._joining)

    @property
    def has_room(self) -> bool:
        """Whether none does."""
        return not self._joining

    def _advance(self) -> News:
        return []
