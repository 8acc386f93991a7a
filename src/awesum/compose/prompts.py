"""Prompts for a model that continues a text: what it reads, when it may stop, and how everything fits its window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from awesum.analysis.salience.choice import outermost
from awesum.analysis.salience.text import augment
from awesum.compose.requests import paraphrase_request
from awesum.document import Segment, Sentence
from awesum.errors import AwesumError

if TYPE_CHECKING:
    from awesum.analysis.analysis import Analysis
    from awesum.models.chat import Chat
    from awesum.recurrence import DocumentInputs

INPUT = 896
"""Tokens of a chat model's prompt: a segment of at most 768, salient sentences of other segments, and the request."""


@dataclass(frozen=True)
class DocumentPrompt:
    """A whole document for an encoder-decoder, which answers it segment by segment."""

    inputs: DocumentInputs
    known: Sequence[Sequence[int]] = ()
    """The answers to the first segments, from an interrupted run: these are only written to memory."""


class Fitted(NamedTuple):
    """The sentences that fit into a prompt beside a segment."""

    own: list[int]
    """The segment's own."""
    previous: list[int]
    following: list[int]
    """Those of other segments."""


def fit(
    segment: Segment,
    sentences: Sequence[Sentence],
    room: int,
    *,
    own: Sequence[int] = (),
    others: Sequence[int] = (),
    most_for_both: int | None = None,
) -> Fitted:
    """The sentences for which a window has `room` tokens: the segment's own first, then the outermost of the others.

    `most_for_both` limits what both take together where the window has more room than a prompt should use.
    """
    taken: list[int] = []
    for index in own:
        room -= sentences[index].tokens
        if room >= 0:
            taken.append(index)
    if most_for_both is not None:
        room = min(most_for_both - sum(sentences[index].tokens for index in taken), room)
    return Fitted(taken, *outermost(others, segment, sentences, room))


def no_room(analysis: Analysis, number: int, window: int) -> AwesumError:
    """The error for a segment that fills the window, alone or with the query."""
    both, remedy = ("and the query leave", "shorten the query, or take") if analysis.query else ("leaves", "take")
    return AwesumError(
        f"{analysis.document.path}: a segment of {analysis.segments[number].tokens} tokens {both} no room for the "
        f"answer in the model's {window} tokens: {remedy} a model with a larger window"
    )


def chat_prompt(chat: Chat, window: int, analysis: Analysis, number: int, limit: int) -> list[int]:
    """The prompt of a chat model without an adapter."""
    return chat.prompt(chat_message(lambda text: len(chat.prompt(text)), window, analysis, number, limit))


def chat_message(count: Callable[[str], int], window: int, analysis: Analysis, number: int, limit: int) -> str:
    """What a chat model without an adapter is told: the segment between salient sentences of the others, then the
    request to paraphrase the segment's own.

    `count` gives the tokens of a message, the chat template's included.
    """
    segment, selection = analysis.segments[number], analysis.selection
    frame = count(augment("", ["-"], ["-"]) + paraphrase_request(analysis.query, []))
    room = window - limit - segment.tokens - frame
    if room < 0:
        raise no_room(analysis, number, window)
    fitted = fit(
        segment,
        analysis.sentences,
        room,
        own=selection.shares[number],
        others=selection.selected,
        most_for_both=INPUT - segment.tokens - frame,
    )
    own, previous, following = ([analysis.quote(index).text for index in some] for some in fitted)
    content = augment(analysis.segment_text(number), previous, following)
    return f"{content}\n\n{paraphrase_request(analysis.query, own)}"
