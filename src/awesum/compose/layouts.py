"""How a trained model takes a document: the tokens of each segment, what stands around them, and the targets.

One layout a model family: `BartLayout` for an encoder-decoder, `CausalLayout` for a causal model with an adapter. The
same layout serves training and writing, so that a model is asked what it was trained on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from awesum.analysis.salience.choice import outermost
from awesum.analysis.salience.text import augment
from awesum.analysis.segmentation import Limits, measure
from awesum.analysis.selection import within
from awesum.analysis.sentences import sentence_spans
from awesum.compose.prompts import fit, no_room
from awesum.compose.requests import request_after_segment
from awesum.errors import AwesumError
from awesum.models.chat import Chat
from awesum.recurrence import DocumentInputs

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from awesum.analysis.analysis import Analysis
    from awesum.document import Segment
    from awesum.models.adapter_config import AdapterConfig
    from awesum.models.bart_config import AwesomeConfig

FRAME = 24
"""Tokens for the headings of salient text, and for what sentences take more together than each alone."""
MARGIN = 8
"""Tokens that the sentences of a target may take more together than each alone."""
Report = Callable[[str], object]


class Layout(ABC):
    """What the two families have in common: limits, and targets that fit the model's window."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, config: Any, window: int, report: Report = lambda note: None
    ) -> None:
        self.tokenizer, self.config, self.window, self.report = tokenizer, config, window, report
        self.longest_target = window
        self.marks = 0
        """Special tokens around a target."""

    @property
    @abstractmethod
    def limits(self) -> Limits:
        """The paper's limits of a segment, or less for a model with a smaller window."""

    @property
    def key(self) -> list[Any]:
        """Changes whenever the inputs of a document would."""
        tokenizer = getattr(self.tokenizer, "backend_tokenizer", None)
        return [
            type(self).__name__,
            tokenizer.to_str() if tokenizer is not None else repr(self.tokenizer),
            self.config.salient,
            self.config.salient_size,
            self.window,
            *(["salience"] if self.keeps_salient else []),
        ]

    @property
    def keeps_salient(self) -> bool:
        """Whether the model has a memory that wants to know how salient tokens are."""
        return bool(self.config.memory == "salient")

    def _salience(self, analysis: Analysis, number: int, offsets: Sequence[tuple[int, int]], at: int) -> list[float]:
        """How salient the sentence of each token is, by the tokens' places in a text where the segment begins `at`."""
        segment = analysis.segments[number]
        text = analysis.document.text[segment.start : segment.end]
        shift = at - (segment.start + len(text) - len(text.lstrip()))
        found = [0.0] * len(offsets)
        for index in within(list(analysis.remembered), segment):
            quote = analysis.quote(index)
            for place in tokens_of(offsets, quote.start + shift, quote.end + shift):
                found[place] = analysis.remembered[index]
        return found

    @abstractmethod
    def inputs(
        self, analysis: Analysis, selected: Sequence[int], targets: Sequence[str] | None = None
    ) -> DocumentInputs:
        """The document as the model takes it; a target too long for the window is split over several passes."""

    def _steps(self, analysis: Analysis, targets: Sequence[str] | None) -> tuple[list[int], Sequence[Sequence[int]]]:
        """The segments in the order of their passes, and the target of each pass."""
        if targets is None:
            return list(range(len(analysis.segments))), ()
        steps = [
            (number, piece)
            for number, target in enumerate(targets)
            for piece in self._target(analysis.document.path, target)
        ]
        return [number for number, _ in steps], [piece for _, piece in steps]

    def _target(self, name: str, text: str) -> list[list[int]]:
        """The tokens of a target, in as many pieces as the window asks for. No sentence is divided unless it alone is
        longer than the window."""
        whole = self._target_ids(text)
        if len(whole) <= self.longest_target:
            return [whole]
        room = self.longest_target - self.marks
        pieces: list[tuple[int, int]] = []
        used = room
        for sentence in measure(text, sentence_spans(text), self.tokenizer, room - MARGIN):
            if used + sentence.tokens > room - MARGIN:
                pieces.append((sentence.start, sentence.end))
                used = sentence.tokens
            else:
                pieces[-1] = (pieces[-1][0], sentence.end)
                used += sentence.tokens
        self.report(
            f"{name}: a target of {len(whole):,} tokens is split into {len(pieces)} of at most "
            f"{self.longest_target:,} tokens each"
        )
        return [self._target_ids(text[start:end].strip()) for start, end in pieces]

    @abstractmethod
    def _target_ids(self, text: str) -> list[int]:
        """The tokens of a target with its marks."""


def tokens_of(offsets: Sequence[tuple[int, int]], start: int, end: int) -> list[int]:
    """The tokens of a part of a text, by the places of all its tokens; marks have none."""
    return [at for at, (first, last) in enumerate(offsets) if first < last and first < end and last > start]


class BartLayout(Layout):
    """The query before every segment; salient content around it as text, or beside it as key-value vectors."""

    config: AwesomeConfig

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, config: AwesomeConfig, report: Report = lambda note: None
    ) -> None:
        super().__init__(tokenizer, config, config.max_position_embeddings, report)
        self.marks = len(tokenizer("")["input_ids"])

    @property
    def limits(self) -> Limits:
        """Three quarters of the window: the rest is for salient text and the query."""
        return Limits.up_to(self.window * 3 // 4)

    def inputs(
        self, analysis: Analysis, selected: Sequence[int], targets: Sequence[str] | None = None
    ) -> DocumentInputs:
        """See `Layout.inputs`."""
        passes, pieces = self._steps(analysis, targets)
        shown = [self._segment(analysis, number, selected) for number in passes]
        segments = [ids for ids, _, _ in shown]
        spans: list[tuple[int, int, int]] = []
        salient: list[list[int]] = []
        if self.config.salient == "key-value":
            place: dict[int, int] = {}
            for step, number in enumerate(passes):
                for index in within(selected, analysis.segments[number]):
                    if index not in place:
                        place[index] = len(spans)
                        spans.append((step, *self._span(analysis, number, index)))
            for number in passes:
                previous, following = outermost(
                    selected, analysis.segments[number], analysis.sentences, self.config.salient_size
                )
                salient.append([place[index] for index in (*previous, *following)])
        salience = [
            self._salience(analysis, number, self._offsets(content), at)
            for number, (_, content, at) in zip(passes, shown, strict=True)
            if self.keeps_salient
        ]
        return DocumentInputs(analysis.document.path, segments, pieces, spans, salient, salience=salience)

    def _segment(self, analysis: Analysis, number: int, selected: Sequence[int]) -> tuple[list[int], str, int]:
        """The tokens that the model reads, their text, and where in it the segment itself begins."""
        text, segment, query = analysis.segment_text(number), analysis.segments[number], analysis.query
        with_text = self.config.salient == "text"
        previous: list[int] = []
        following: list[int] = []
        if with_text:
            frame = len(self._target_ids(after_query(augment("-", ["-"], ["-"]), query)))
            room = self.window - segment.tokens - frame
            _, previous, following = fit(segment, analysis.sentences, room, others=selected)
        while True:
            before, after = ([analysis.plain(index) for index in side] for side in (previous, following))
            content = after_query(augment(text, before, after) if with_text else text, query)
            ids = self._target_ids(content)
            if len(ids) <= self.window:
                tail = len(augment(text, before, after)) - len(augment(text, before)) if with_text else 0
                return ids, content, len(content) - tail - len(text)
            if not previous and not following:
                raise AwesumError(
                    f"{analysis.document.path}: a segment of {segment.tokens} tokens and the query take {len(ids)} "
                    f"tokens, more than the model's {self.window}: shorten the query"
                )
            # Sentences may take a few tokens more together than each alone: the one that was added last goes.
            if len(previous) > len(following):
                previous = previous[:-1]
            else:
                following = following[1:]

    def _span(self, analysis: Analysis, number: int, index: int) -> tuple[int, int]:
        """The tokens of a sentence among those of its segment."""
        segment = analysis.segments[number]
        text = analysis.document.text[segment.start : segment.end]
        content = after_query(text.strip(), analysis.query)
        shift = len(content) - len(text.strip()) - (segment.start + len(text) - len(text.lstrip()))
        # Without the white space around it, which many tokenizers count to the first token of the next sentence.
        quote = analysis.quote(index)
        start, end = quote.start + shift, quote.end + shift
        inside = tokens_of(self._offsets(content), start, end)
        return inside[0], inside[-1] + 1

    def _offsets(self, text: str) -> Sequence[tuple[int, int]]:
        """Where in a text each of its tokens is."""
        return self.tokenizer(text, return_offsets_mapping=True, split_special_tokens=True, verbose=False)[
            "offset_mapping"
        ]

    def _target_ids(self, text: str) -> list[int]:
        return self.tokenizer(text, split_special_tokens=True, verbose=False)["input_ids"]


def after_query(text: str, query: str | None) -> str:
    """A text with the query before it, if there is one."""
    return f"{query.strip()} {text}" if query else text


class CausalLayout(Layout):
    """The segment first, then salient content and the request, then the answer."""

    config: AdapterConfig

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        config: AdapterConfig,
        window: int,
        report: Report = lambda note: None,
        *,
        end: int = 0,
    ) -> None:
        super().__init__(tokenizer, config, window, report)
        self.chat, self.end = Chat(tokenizer), end
        self.marks = 1  # the token that ends an answer
        self.longest_target = window // 5

    @property
    def limits(self) -> Limits:
        """Three fifths of the window: the rest is for the request and the answer."""
        return causal_limits(self.window)

    def inputs(
        self, analysis: Analysis, selected: Sequence[int], targets: Sequence[str] | None = None
    ) -> DocumentInputs:
        """See `Layout.inputs`."""
        passes, pieces = self._steps(analysis, targets)
        return DocumentInputs(
            analysis.document.path,
            [self.segment(analysis, number) for number in passes],
            pieces,
            requests=[self.request(analysis, number, selected) for number in passes],
            frame=self.frame,
            special=self.marks,
            salience=[self.salience(analysis, number) for number in passes] if self.keeps_salient else [],
        )

    @property
    def frame(self) -> int:
        """The first tokens of every segment, which belong to the chat template."""
        return len(self.chat.before)

    def segment(self, analysis: Analysis, number: int) -> list[int]:
        """The tokens of a segment, the beginning of the chat included."""
        return [*self.chat.before, *self.chat.ids(analysis.segment_text(number))]

    def salience(self, analysis: Analysis, number: int) -> list[float]:
        """How salient the sentence of each token of a segment is."""
        offsets = self.tokenizer(
            analysis.segment_text(number),
            add_special_tokens=False,
            split_special_tokens=True,
            return_offsets_mapping=True,
            verbose=False,
        )["offset_mapping"]
        return [*[0.0] * self.frame, *self._salience(analysis, number, offsets, 0)]

    def request(self, analysis: Analysis, number: int, selected: Sequence[int]) -> list[int]:
        """The tokens between a segment and its answer."""
        segment: Segment = analysis.segments[number]
        query = analysis.query
        bare = self.frame + len(self.chat.ids(request_after_segment(query))) + len(self.chat.behind)
        left = self.window - self.longest_target - segment.tokens - bare
        if left < 0:
            raise no_room(analysis, number, self.window)
        room = left - FRAME
        fitted = fit(
            segment,
            analysis.sentences,
            min(room, self.config.salient_size) if self.config.salient == "text" else room,
            own=within(selected, segment) if self.config.salient == "rewrite" else (),
            others=selected if self.config.salient == "text" else (),
        )
        own, previous, following = ([analysis.plain(index) for index in some] for some in fitted)
        return [*self.chat.ids(request_after_segment(query, previous, following, own)), *self.chat.behind]

    def _target_ids(self, text: str) -> list[int]:
        return [*self.chat.ids(text), self.end]


def causal_limits(window: int) -> Limits:
    """The limits of a segment for a causal model with this window."""
    return Limits.up_to(window * 3 // 5)
