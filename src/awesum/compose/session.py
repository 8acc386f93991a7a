"""A session: one document being written, from its analysis to its summary.

An engine asks it for prompts and brings it answers; the parts come out in document order. Whatever is there can be had
at any time, also after an interruption.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from awesum.analysis.analysis import Progress, no_progress
from awesum.compose.plan import AHEAD, Plan, Verbatim, WholeDocument
from awesum.compose.prompts import DocumentPrompt
from awesum.footprint import peak_memory
from awesum.models.prompt import Answer, Prompt
from awesum.summary import Figures, Part, Summary


class Session:
    """One document being written.

    `done` are the parts of an interrupted run over the same document with the same settings: they come first and are
    not written again. `settings` goes into the summary as it is.
    """

    def __init__(
        self,
        plan: Plan,
        settings: Mapping[str, Any],
        *,
        done: Sequence[Part] = (),
        notes: Sequence[str] = (),
        progress: Progress = no_progress,
        started: float | None = None,
    ) -> None:
        self.plan, self.analysis, self.settings = plan, plan.analysis, dict(settings)
        self.parts: list[Part] = []
        self.drafts: dict[int, str] = {}
        """What the model wrote about each segment, untouched."""
        self.complete = False
        self.error: Exception | None = None
        """What ended it early."""
        self._done, self._progress = done, progress
        self._notes = [*self.analysis.document.notes, *notes]
        if self.analysis.selection.is_whole:
            self._notes.append("the document is no longer than the requested summary and is given whole")
        self._started = time.perf_counter() if started is None else started
        self._asked = 0  # prompts given out: positions in the plan's order
        self._accepted = 0  # answers taken, in order
        self._waiting: dict[int, Answer] = {}  # answers that came before an earlier one
        self._outstanding: set[int] = set()

    def begin(self) -> list[Part]:
        """The parts that need no model: those of an interrupted run, and all of them if nothing is to be written."""
        for part in self._done:
            self.parts.append(part)
            self.plan.resume(part)
        order = self.plan.order
        if not order:
            finished = {part.segment for part in self.parts}
            for number in range(len(self.analysis.segments)):
                if number not in finished:
                    self._compose(number, Answer(""))
            self.complete = True
            return list(self.parts)
        reached = self.parts[-1].segment if self.parts else -1
        # What lies before the last part and has none had nothing to say then, and has not now.
        self._accepted = sum(number <= reached for number in order)
        if not self.plan.is_sequential:
            self._asked = self._accepted
        self.complete = self._accepted == len(order)
        self._progress("writing", self._accepted, len(order))
        return list(self.parts)

    def next_prompt(self) -> Prompt | DocumentPrompt | None:
        """The next prompt that may be written now; none if it has to wait for an answer, or there is none left."""
        if self.complete or self._asked == len(self.plan.order) or not self._may_ask():
            return None
        if isinstance(self.plan, WholeDocument):
            self._asked = len(self.plan.order)
            texts = {part.segment: part.text for part in self.parts}
            return self.plan.document_prompt([texts.get(number, "") for number in range(self._accepted)])
        position = self._asked
        number = self.plan.order[position]
        self._asked += 1
        self._outstanding.add(number)
        if position < self._accepted:
            return self.plan.replay(number, next((part.text for part in self.parts if part.segment == number), ""))
        # The budget depends only on parts that are certainly written by now: not on which others happen to be.
        before = position - (1 if self.plan.is_sequential else AHEAD)
        reached = self.plan.order[max(before, 0)] if position else -1
        return self.plan.prompt(number, self.parts, reached)

    def _may_ask(self) -> bool:
        if self.plan.is_sequential:
            return not self._outstanding
        # The first part is written alone, so that the reader soon has something to read.
        return self._asked == 0 or (self._accepted > 0 and self._asked < self._accepted + AHEAD)

    def accept(self, number: int, answer: Answer) -> list[Part]:
        """Take the answer to a segment's prompt; the parts that are now known, in document order."""
        self._outstanding.discard(number)
        order = self.plan.order
        if self._accepted < len(order) and number >= order[self._accepted]:  # else it was known
            self._waiting[number] = answer
        parts: list[Part] = []
        while self._accepted < len(order) and order[self._accepted] in self._waiting:
            current = order[self._accepted]
            taken = self._waiting.pop(current)
            self.drafts[current] = taken.text
            part = self._compose(current, taken)
            parts += [part] if part else []
            self._accepted += 1
            self._progress("writing", self._accepted, len(order))
        self.complete = self._accepted == len(order)
        return parts

    def _compose(self, number: int, answer: Answer) -> Part | None:
        sentences = self.plan.compose(number, answer, self.parts)
        if not sentences:
            return None
        segment, document = self.analysis.segments[number], self.analysis.document
        part = Part(
            text=" ".join(sentence.text for sentence in sentences),
            segment=number,
            start=segment.start,
            end=segment.end,
            pages=document.pages(segment.start, segment.end),
            salient=[self.analysis.quote(index) for index in self.analysis.selection.shares[number]],
            sentences=sentences,
        )
        self.parts.append(part)
        return part

    def summary(self) -> Summary:
        """The summary as far as it has come."""
        tokens = self.analysis.tokens
        return Summary(
            parts=list(self.parts),
            document=self.analysis.document,
            tokens=tokens,
            segments=self.analysis.segments,
            figures=Figures(self.plan.tokens_read, round(time.perf_counter() - self._started, 2), peak_memory()),
            settings=self.settings,
            notes=[*self._notes, *self.plan.notes(self.parts, self.complete)],
            complete=self.complete,
        )

    def raw_notes(self) -> list[str]:
        """The notes on `raw`: not on what was removed from the summary."""
        if isinstance(self.plan, Verbatim):
            return list(self.summary().notes)
        return [*self._notes, *self.plan.notes_on_drafts()]

    def raw(self) -> str:
        """What the model wrote, untouched; the summary itself where no model writes."""
        if isinstance(self.plan, Verbatim):
            return self.summary().text
        return "\n".join(self.drafts[number] for number in sorted(self.drafts))
