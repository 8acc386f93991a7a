"""The engine for encoder-decoders: documents led from segment to segment by the library's own generation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from awesum.compose.prompts import DocumentPrompt
from awesum.engine.engine import Engine, News, Writing
from awesum.models.prompt import Answer
from awesum.recurrence import DocumentInputs, generate

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TRUNK_BATCH = 4
"""Segments whose layers below the memory run together."""


class Seq2SeqEngine(Engine):
    """Writes the documents of several sessions side by side, at most `rows` at a time.

    Segment t of every document of a batch is generated together. A session that joins while a batch is being written is
    part of the next one; so is one with parts of an interrupted run, alone.
    """

    def __init__(self, model: Any, tokenizer: PreTrainedTokenizerBase, rows: int = 1) -> None:
        super().__init__()
        self.model, self.tokenizer, self.rows = model, tokenizer, rows
        self._batch: list[Writing] = []
        self._prompts: dict[int, DocumentPrompt] = {}  # of sessions that wait for the next batch
        self._answers: Iterator[tuple[int, int, list[int]]] = iter(())

    @property
    def is_busy(self) -> bool:
        """Whether anything is being written or waits for it."""
        return bool(self._joining or self._sessions)

    @property
    def has_room(self) -> bool:
        """Whether the next batch is not full."""
        return len(self._joining) + len(self._sessions) < self.rows

    @property
    def _is_writing(self) -> bool:
        """Whether the batch has a session that still wants its answers."""
        return any(session in self._sessions for session in self._batch)

    def _advance(self) -> News:
        if not self._is_writing:
            news: News = []
            self._start_batch(news)
            if news or not self._batch:
                return news
        for place, number, tokens in self._answers:
            session = self._batch[place]
            if session not in self._sessions:
                continue  # it was dropped
            return self._accept(
                session, number, Answer(self.tokenizer.decode(tokens, skip_special_tokens=True), tokens)
            )
        return []

    def _start_batch(self, news: News) -> None:
        for session in list(self._sessions):
            if id(session) not in self._prompts:
                with self._blaming(session, news):
                    prompt = session.next_prompt()
                    assert isinstance(prompt, DocumentPrompt)
                    self._prompts[id(session)] = prompt
            if len(self._prompts) == self.rows:
                break
        waiting = [session for session in self._sessions if id(session) in self._prompts]
        fresh = [session for session in waiting if not self._prompts[id(session)].known]
        self._batch = fresh or waiting[:1]
        if not self._batch:
            return
        prompts = [self._prompts.pop(id(session)) for session in self._batch]
        inputs = [prompt.inputs for prompt in prompts]
        self._answers = self._generate(inputs, prompts[0].known)

    def _generate(
        self, documents: Sequence[DocumentInputs], known: Sequence[Sequence[int]]
    ) -> Iterator[tuple[int, int, list[int]]]:
        """Index of the document, number of the segment, and tokens of each part, as soon as it is there."""
        return generate(self.model, documents, trunk_batch=TRUNK_BATCH, known=known)

    def drop(self, session: Writing) -> None:
        """Stop writing a session."""
        super().drop(session)
        self._prompts.pop(id(session), None)
        if not self._is_writing:
            self._answers = iter(())  # with its caches, and what it has on disk
