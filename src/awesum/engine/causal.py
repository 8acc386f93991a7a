"""The engine for causal models: the prompts of many sessions, continued side by side.

Prompts are read one at a time (reading is bound by arithmetic, and alone there is nothing to pad or mask) and answered
together (writing is bound by memory traffic, which a batch shares). An answer that ends makes room for the next prompt,
of the same document or of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from awesum.engine.engine import Engine, News, Writing
from awesum.engine.rules import Row, Rules, TrainedRules
from awesum.engine.slots import Slots
from awesum.models.adapter import States
from awesum.models.adapter_layers import Passage, Recollections
from awesum.models.memory_slots import MemorySlots
from awesum.models.prompt import Answer, Prompt
from awesum.summary import Part

if TYPE_CHECKING:
    from transformers import DynamicCache

    from awesum.models.causal import ChatModel

ROWS = 8
"""Prompts that are answered at the same time in float32. In half precision there are twice as many, in the same
memory: each takes 25 MB instead of 50. More would be a little faster."""
DRAFTED = {1: 7, 6: 3}
"""Tokens that are drafted for each of up to this many rows; one for each of more. A row alone has time to spare while
the weights are fetched, and many rows have none. Measured with SmolLM2."""


@dataclass
class _Opened:
    """A prompt that was read: its candidates begin one after another, as slots become free."""

    session: Any
    prompt: Prompt
    recalled: Recollections
    passage: Passage
    read: DynamicCache
    begun: int = 0


def _candidate(row: Row) -> int:
    return row.candidate


def rows_of(model: ChatModel) -> int:
    """How many prompts a model answers at the same time, if memory is not limited."""
    return ROWS * torch.float32.itemsize // model.model.dtype.itemsize


class CausalEngine(Engine):
    """Continues the prompts of many sessions with one causal model, at most `rows` at a time.

    `room` is the memory for these rows in bytes, if it is limited: while prompts are longer than expected, there are
    fewer of them.
    """

    def __init__(self, model: ChatModel, rows: int | None = None, room: int | None = None) -> None:
        super().__init__()
        self.model, self.count, self.room = model, rows or rows_of(model), room
        self._rows: list[Row] = []
        self._states: dict[int, States] = {}  # the memories of each session between two of its prompts
        ends = model.ends()
        self._rules = Rules(model.tokenizer, ends)
        if model.adapter:
            self._rules = TrainedRules(model.tokenizer, ends, model.ending)
        self._slots: Slots | None = None
        self._memory: MemorySlots | None = None
        self._opened: _Opened | None = None  # the prompt whose candidates have not all begun
        self._ended: dict[tuple[int, int], list[Row]] = {}  # candidates of prompts of which others are being written

    @property
    def is_busy(self) -> bool:
        """Whether anything is being written or waits for it."""
        return bool(self._joining or self._sessions or self._rows)

    @property
    def has_room(self) -> bool:
        """Whether another prompt could be written now: the sessions that are here have none for a slot that is free."""
        return len(self._rows) < self._most_rows

    @property
    def _most_rows(self) -> int:
        """The rows that there is room for, while they are as long as they are now."""
        if self.room is None or not self._slots or not self._rows:
            return self.count
        per_row = self.model.bytes_per_token() * self._slots.length + self.model.bytes_of_memory()
        return max(1, min(self.count, self.room // per_row - (self._opened is not None)))

    def drop(self, session: Writing) -> None:
        """Stop writing a session."""
        super().drop(session)
        self._states.pop(id(session), None)
        for key in [key for key in self._ended if key[0] == id(session)]:
            del self._ended[key]
        if self._opened and self._opened.session is session:
            self._opened = None
        for slot in reversed(range(len(self._rows))):
            if self._rows[slot].session is session:
                self._vacate(slot)
        self._release_if_idle()

    def _advance(self) -> News:
        # Attention weights far from the action become denormal numbers, which processors multiply up to a hundred times
        # slower. As zeros they change nothing that can be seen, and reading a prompt is five times as fast. The switch
        # belongs to the thread, so it is set where the work is done.
        torch.set_flush_denormal(True)
        if not self.model.can_step:
            return self._write_alone()
        news: News = []
        for row in self._latest_first():
            if row.session is not None or (len(self._rows) <= self._most_rows and self._fill(row, news)):
                continue
            if row in self._rows:  # else the last session is complete, and the engine idle
                self._vacate(self._rows.index(row))
        while len(self._rows) < self._most_rows and self._fill(None, news):
            pass
        if self._rows:
            self._write_a_step()
        for row in self._latest_first():
            if row.has_ended:
                self._remember(self._rows.index(row), row)
                # Its slot is filled again by the next step, so that what was written is not held up by reading.
                session, row.session = row.session, None
                if answer := self._collect(session, row):
                    news += self._accept(session, row.prompt.number, answer)
        self._release_if_idle()
        return news

    def _release_if_idle(self) -> None:
        """An idle engine holds no cache."""
        if not self._sessions:
            self._rows, self._slots, self._memory = [], None, None

    def _latest_first(self) -> Iterator[Row]:
        """The rows from the last to the first, without those that a failing session takes with it meanwhile."""
        return (row for row in self._rows[::-1] if row in self._rows)

    def _fill(self, ended: Row | None, news: News) -> bool:
        """Begin the next candidate in the slot of a row that has ended, or in one more."""
        opened = self._opened = self._opened or self._open_next(news)
        if opened is None:
            return False
        prompt = opened.prompt
        row = Row(opened.session, prompt, opened.begun)
        if self._slots is None:
            self._slots = Slots(self.count)
            self._memory = MemorySlots(self.model.adapter, self.count) if self.model.adapter else None
        # A session that failed meanwhile has taken its rows with it: slots are looked up only now.
        slot = len(self._rows) if ended is None else self._rows.index(ended)
        self._slots.fill(slot, opened.read, row.end)
        if self._memory:
            self._memory.fill(slot, opened.recalled, opened.passage, prompt.segment, prompt.limit, prompt.salience)
        self._rows[slot : slot + 1] = [row]
        assert prompt.candidates == 1 or not (self._memory and self.model.bytes_of_memory()), "which would it remember?"
        opened.begun += 1
        if opened.begun >= prompt.candidates:
            self._opened = None
        return True

    def _open_next(self, news: News) -> _Opened | None:
        """Read the next prompt. Prompts whose answer is known are answered on the way."""
        while following := self._next_prompt(news):
            session, prompt = following
            assert isinstance(prompt, Prompt)
            if prompt.known is not None:
                after = self.model.remember(prompt, self._states.get(id(session)))
                if after is not None:
                    self._states[id(session)] = after
                news += self._accept(session, prompt.number, self._answer(list(prompt.known), True))
                continue
            recalled = self.model.recall(self._states.get(id(session)))
            passage = self.model.passage(recalled)
            return _Opened(session, prompt, recalled, passage, self.model.read(prompt, passage))
        return None

    def _collect(self, session: Any, row: Row) -> Answer | None:
        """The answer to a prompt, once all its candidates have ended."""
        ended = self._ended.setdefault((id(session), row.prompt.number), [])
        ended.append(row)
        if len(ended) < row.prompt.candidates:
            return None
        del self._ended[id(session), row.prompt.number]
        first, *others = (self._answer(each.written, each.is_whole) for each in sorted(ended, key=_candidate))
        return replace(first, others=tuple(other.text for other in others))

    def _vacate(self, slot: int) -> None:
        """Let the last row take the place of one that has ended: those in use stay the first ones."""
        last = len(self._rows) - 1
        if self._slots:
            self._slots.move(last, slot)
        if self._memory:
            self._memory.move(last, slot)
        self._rows[slot] = self._rows[last]
        self._rows.pop()

    def _remember(self, slot: int, row: Row) -> None:
        if self._memory:
            self._states[id(row.session)] = self._memory.after(slot, row.answered)

    def _answer(self, tokens: list[int], is_whole: bool) -> Answer:
        return Answer(self.model.tokenizer.decode(tokens, skip_special_tokens=True), tokens, is_whole)

    @torch.inference_mode()
    def _write_a_step(self) -> None:
        """Let the model look at the last token and the draft of all rows at once.

        Each row gets its next token, and one more for each drafted token that was right. Rows with shorter drafts are
        filled up with any token: what the model makes of those is not looked at, and their keys are overwritten by the
        next step, as are those of drafted tokens that were wrong.
        """
        rows = self._rows
        assert self._slots is not None
        most = next((drafted for up_to, drafted in DRAFTED.items() if len(rows) <= up_to), 1)
        drafts = [row.draft(most) for row in rows]
        width = 1 + max(map(len, drafts))
        ids = [
            [row.text.tokens[-1], *draft, *[0] * (width - 1 - len(draft))]
            for row, draft in zip(rows, drafts, strict=True)
        ]
        positions = [[min(row.last + step, row.end - 1) for step in range(width)] for row in rows]
        passage = self._memory.passage(len(rows)) if self._memory else Passage()
        logits = self.model.look(self._slots, ids, positions, passage)
        if self._memory:
            self._memory.note(passage, torch.tensor(positions), [len(row.prompt.tokens) - 1 for row in rows])
        best = logits.float().argmax(-1).tolist()  # in bfloat16 it takes five times as long
        for row, draft, choices, scores in zip(rows, drafts, best, logits, strict=True):
            for step in range(len(draft) + 1):
                token = self._rules.choose(row, choices[step], scores[step])
                self._rules.take(row, token)
                if row.has_ended or draft[step : step + 1] != [token]:
                    break

    def _write_alone(self) -> News:
        """One prompt, whole, with a model that only the library knows how to run."""
        news: News = []
        following = self._next_prompt(news)
        if following is None:
            return news
        session, prompt = following
        assert isinstance(prompt, Prompt)
        row = Row(session, prompt)

        def take(token: int) -> bool:
            self._rules.take(row, token)
            return row.has_ended

        self.model.generate(prompt, lambda: self._rules.forbidden(row), take)
        return news + self._accept(session, prompt.number, self._answer(row.written, row.is_whole))


class _Listed:
    """Some prompts as a session, for those who have no document: answered one after another, or all at once."""

    def __init__(self, prompts: Iterable[Prompt], *, is_sequential: bool) -> None:
        self._prompts, self._is_sequential = enumerate(prompts), is_sequential
        self._outstanding, self._is_exhausted = 0, False
        self.complete = False
        self.error: Exception | None = None
        self.answers: dict[int, Answer] = {}

    def begin(self) -> Sequence[Part]:
        return ()

    def next_prompt(self) -> Prompt | None:
        # A document's next prompt may depend on the answer before it, so that one is taken away first.
        if self._is_exhausted or (self._is_sequential and (self._outstanding or self.answers)):
            return None
        following = next(self._prompts, None)
        if following is None:
            self._is_exhausted = True
            self.complete = not self._outstanding
            return None
        self._outstanding += 1
        return replace(following[1], number=following[0])

    def accept(self, number: int, answer: Answer) -> Sequence[Part]:
        self.answers[number] = answer
        self._outstanding -= 1
        self.complete = self._is_exhausted and not self._outstanding
        return ()


def write(model: ChatModel, prompts: Iterable[Prompt], rows: int | None = None) -> Iterator[str]:
    """The answers to some prompts, in their order, each as soon as it and all before it are written."""
    for answer in write_answers(model, prompts, rows):
        yield answer.text.strip()


def write_answers(model: ChatModel, prompts: Iterable[Prompt], rows: int | None = None) -> Iterator[Answer]:
    """What `write` gives, with tokens."""
    engine, session = CausalEngine(model, rows), _Listed(prompts, is_sequential=False)
    engine.add(session)
    given = 0
    while not session.complete:
        engine.step()
        if session.error is not None:
            raise session.error
        while given in session.answers:
            yield session.answers.pop(given)
            given += 1


def follow(
    model: ChatModel, documents: Iterable[Iterable[Prompt]], rows: int | None = None
) -> Iterator[tuple[int, int, Answer]]:
    """The number of the document, the number of the prompt in it, and the answer, each as soon as it is written.

    The prompts of a document are answered one after another, because what is remembered of one is read by the next;
    each is asked for when the one before it is answered. At most `rows` documents are answered side by side, and a
    document is asked for when there is room for it.
    """
    engine = CausalEngine(model, rows)
    coming = enumerate(documents)
    opened: dict[int, _Listed] = {}
    while True:
        while len(opened) < engine.count and (following := next(coming, None)):
            number, document = following
            opened[number] = _Listed(document, is_sequential=True)
            engine.add(opened[number])
        if not opened:
            return
        engine.step()
        for number, session in list(opened.items()):
            for segment in sorted(session.answers):
                yield number, segment, session.answers.pop(segment)
            if session.error is not None:
                raise session.error
            if session.complete:
                engine.drop(session)
                del opened[number]
