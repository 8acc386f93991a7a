"""What may be written to a row, when it ends, and what its next tokens are likely to be.

A row is one answer being written. A summary repeats much of what was read, so the next tokens are drafted from there
and checked in one pass: what is written is what one token after another would have been.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from zlib import crc32

import torch

from awesum.models.prompt import Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

NO_REPEAT, NO_REPEAT_TRAINED = 6, 4
"""No run of this many tokens is written twice in a part. The second is for a model with an adapter, which has learned
to go on to the end of what there is to say, and otherwise goes in circles."""
LONGEST_CLUE = 4
"""Tokens at the end of a text from which its next are drafted, at most."""
TEMPERATURE, DRAWN_FROM = 0.7, 20
"""How candidates after the first are drawn: at this temperature, from the likeliest tokens."""
_SENTENCE_BEGUN = re.compile(r"[.!?؟۔।][\"'”’)\]]*\s+\S|[。！？]\S")


@dataclass(eq=False)
class Row:
    """An answer being written."""

    session: Any
    prompt: Prompt
    candidate: int = 0
    """Which of the prompt's candidates it is: the first is the likeliest, the others are drawn."""
    written: list[int] = field(default_factory=list)
    has_ended: bool = False
    is_whole: bool = False
    """Whether the model ended it."""
    text: Text = field(init=False)

    def __post_init__(self) -> None:
        self.text = Text(self.prompt.tokens)
        seed = crc32(repr((self.prompt.tokens, self.candidate)).encode())
        self._chance = torch.Generator().manual_seed(seed)  # the same prompt gives the same candidates

    @property
    def last(self) -> int:
        """The position of its last token, which the next step looks at."""
        return len(self.text.tokens) - 1

    @property
    def answered(self) -> int:
        """The tokens that the model has looked at, from the prompt's last on. Where writing was stopped for it, the
        last token is not one of them."""
        return len(self.written) + self.is_whole

    @property
    def end(self) -> int:
        """The position after the last one that it can reach."""
        return len(self.prompt.tokens) + self.prompt.limit

    def draft(self, most: int) -> list[int]:
        """Its likely next tokens; one less than it may have, as the model always adds one."""
        return self.text.draft(min(most, self.prompt.limit - len(self.written) - 1))

    def draw(self, scores: torch.Tensor) -> int:
        """One of the likeliest tokens, at random."""
        likeliest = scores.float().topk(min(DRAWN_FROM, len(scores)))
        # Rounded, so that what is drawn does not depend on the last bits, which depend on what shares the batch.
        chances = (likeliest.values.round(decimals=2) / TEMPERATURE).softmax(-1).cpu()
        return int(likeliest.indices[int(torch.multinomial(chances, 1, generator=self._chance))])

    def add(self, token: int) -> None:
        """One more token."""
        self.written.append(token)
        self.text.add(token)


class Text:
    """What was read and written, and how it may continue: as it did where its last tokens occurred before.

    A summary takes over names, figures and half sentences; every second draft is right, and it costs next to nothing.
    """

    def __init__(self, tokens: Iterable[int]) -> None:
        self.tokens: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}  # where a run of tokens was last followed by something
        for token in tokens:
            self.add(token)

    def add(self, token: int) -> None:
        """One more token, which the runs before it are now followed by."""
        at = len(self.tokens)
        for start in range(max(at - LONGEST_CLUE, 0), at):
            self._after[tuple(self.tokens[start:])] = at
        self.tokens.append(token)

    def draft(self, most: int) -> list[int]:
        """Up to `most` tokens that followed the longest run at the end of the text."""
        for size in range(LONGEST_CLUE, 0, -1):
            at = self._after.get(tuple(self.tokens[-size:]))
            if at is not None:
                return self.tokens[at : at + most]
        return []


class Rules:
    """What may be written to a row and when it ends."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, ends: list[int]) -> None:
        self.tokenizer, self.ends = tokenizer, ends

    @property
    def no_repeat(self) -> int:
        """The length of a run of tokens that is not written twice."""
        return NO_REPEAT

    def forbidden(self, row: Row) -> set[int]:
        """No end before the prompt's `least` tokens, and no run of `no_repeat` tokens for the second time."""
        repeated = _would_repeat([row.prompt.tokens[-1], *row.written], self.no_repeat)
        return repeated.union(self.ends) if len(row.written) < row.prompt.least else repeated

    def choose(self, row: Row, best: int, scores: torch.Tensor) -> int:
        """The token with the best score, or the best of those that are not forbidden; drawn for other candidates."""
        forbidden = self.forbidden(row)
        if best not in forbidden and not row.candidate:
            return best
        scores[list(forbidden)] = -torch.inf
        return row.draw(scores) if row.candidate else int(scores.argmax())

    def take(self, row: Row, token: int) -> None:
        """Give a row its next token. It ends with a mark, which is not kept, at its limit, or when it says enough."""
        if token in self.ends:
            row.has_ended = row.is_whole = True
            return
        row.add(token)
        row.has_ended = len(row.written) >= row.prompt.limit or self._says_enough(row)

    def _says_enough(self, row: Row) -> bool:
        tail = self.tokenizer.decode(row.written[-6:], skip_special_tokens=True)
        return bool(_SENTENCE_BEGUN.search(tail)) and row.prompt.enough(
            self.tokenizer.decode(row.written, skip_special_tokens=True)
        )


class TrainedRules(Rules):
    """For a model that was trained to end by itself: it does so where that is likely enough."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, ends: list[int], ending: float) -> None:
        super().__init__(tokenizer, ends)
        self.ending = ending

    @property
    def no_repeat(self) -> int:
        """See `NO_REPEAT_TRAINED`."""
        return NO_REPEAT_TRAINED

    def choose(self, row: Row, best: int, scores: torch.Tensor) -> int:
        """The end, if it is likely enough; otherwise the best of the tokens that are not forbidden."""
        end = max(self.ends, key=lambda token: float(scores[token]), default=None)
        if end is not None:
            # Most often it is too unlikely compared with the best token alone.
            is_near = float(scores[end]) >= float(scores[best]) + math.log(self.ending)
            if is_near and len(row.written) >= row.prompt.least and self._is_likely(scores):
                return end
            scores[self.ends] = -torch.inf
            best = int(scores.argmax()) if best in self.ends else best
        return super().choose(row, best, scores)

    def _is_likely(self, scores: torch.Tensor) -> bool:
        return float(scores.float().softmax(-1)[self.ends].sum()) >= self.ending


def _would_repeat(tokens: list[int], size: int) -> set[int]:
    """The tokens that would complete a run of `size` tokens for the second time."""
    if not size or len(tokens) < size:
        return set()
    start = tokens[len(tokens) - size + 1 :]
    return {tokens[at + size - 1] for at in range(len(tokens) - size + 1) if tokens[at : at + size - 1] == start}
