"""A document on its way through a model that was trained for it: AWESOME, or one that goes segment by segment (Se3).

Other than a chat model, such a model has learned what to say and how much. Every segment passes through it, because the
memory does. With a length given, the sentences that the segment's share has no room for are left out, and a causal
model goes on until it has written its share. One that was trained to put given sentences in other words is led as a
chat model is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from awesum.footprint import READING, RUNTIME, Footprint, parse_size
from awesum.loading import choose_device
from awesum.models.bart import load_config
from awesum.models.causal import SHORTEST, Answer, ChatModel, Prompt
from awesum.preparation import CausalPreparation, Divided, Preparation
from awesum.prompting import Facts, Said, finished, tidy
from awesum.recurrence import DocumentInputs, generate
from awesum.summarizer import Run
from awesum.summary import Part, Summary, SummarySentence, count

LONGEST_PART = 200
"""Tokens after which a part ends in any case; with a length given that asks for more, twice as many."""
SHORTEST_PART = 12
"""Tokens. For less than this, a segment is not asked, only remembered."""
MOST = 0.8
"""The share of what is left of a length from which on a part is enough: another sentence would often be too much."""
TRUNK_BATCH = 4
"""Segments whose layers below the memory run together."""


class RecurrentRun(Run):
    """A run with an `AwesomeBart`, or a plain BART."""

    default_length = "10%"  # of which the salient sentences are shown beside each part

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._too_long = 0

    @cached_property
    def _preparation(self) -> Preparation:
        summarizer = self.summarizer
        return Preparation(
            summarizer.tokenizer,
            load_config(summarizer.model),
            summarizer.encoder,
            summarizer.salience,
            say=self.notes.append,
        )

    def _segment_limits(self) -> tuple[int, int]:
        return self._preparation.limits

    def _check_memory(self) -> None:
        if self.settings.style == "extract":
            super()._check_memory()
            return
        model = self.summarizer.recurrent
        config = model.config
        beams, longest = model.generation_config.num_beams or 1, model.generation_config.max_length or 1024
        a_token = 2 * config.decoder_layers * config.d_model * model.dtype.itemsize
        encoder = self.summarizer.encoder.model.get_memory_footprint()
        fixed = RUNTIME + encoder + model.get_memory_footprint() + READING + beams * longest * a_token
        Footprint(fixed, 0).prompts(parse_size(self.settings.max_memory or ""), 1)

    def _load_model(self) -> object:
        return self.summarizer.recurrent

    def _number_format(self) -> tuple[str, str] | None:
        model = vars(self.summarizer).get("recurrent")
        return (str(model.dtype).removeprefix("torch."), choose_device()[2]) if model is not None else None

    def _inputs(self) -> DocumentInputs:
        """The document as the model takes it."""
        text = self.document.text
        divided = Divided(text, self.sentences, self.segments, self._salient())
        return self._preparation.inputs(self.document.path, divided, self.settings.query)

    def _salient(self) -> list[int]:
        """The sentences that segments are told of."""
        return self._preparation.salient(self.document.text, self.sentences, self._embeddings, self.settings.query)

    def _write(self) -> Iterator[Part]:
        yield from self._taken_over()
        known = self._known()
        self.progress("writing", len(known), len(self.segments))
        for number, text in self._answers(self._inputs(), known):
            if part := self._take(number, text):
                yield part

    def _known(self) -> list[str]:
        """What an interrupted run has written of the first segments."""
        texts = {part.segment: part.text for part in self.written}
        return [texts.get(number, "") for number in range(self._reached + 1)]

    def _take(self, number: int, text: str) -> Part | None:
        """The part that is made of an answer; none if it is known, or nothing is left of it."""
        if number <= self._reached:
            return None
        sentences = self._made_of(number, text)
        self._reached = number
        self.progress("writing", number + 1, len(self.segments))
        return self._add(number, sentences) if sentences else None

    def _made_of(self, number: int, text: str) -> list[SummarySentence]:
        """What of an answer becomes a part."""
        return self._kept(number, self._sentences_of(text))

    def _answers(self, inputs: DocumentInputs, known: Sequence[str]) -> Iterator[tuple[int, str]]:
        """What the model writes of each segment; what is `known` of the first ones is not written again."""
        tokenizer = self.summarizer.tokenizer
        before = [tokenizer(text)["input_ids"] for text in known]
        for _, number, tokens in generate(self.summarizer.recurrent, [inputs], trunk_batch=TRUNK_BATCH, known=before):
            yield number, tokenizer.decode(tokens, skip_special_tokens=True)

    def _sentences_of(self, text: str) -> list[str]:
        """What may be kept of an answer."""
        return tidy(text)

    def _kept(self, number: int, sentences: list[str]) -> list[SummarySentence]:
        """The sentences that the length has room for up to here, each with what in the segment is most like it."""
        if self.settings.length is not None:
            allowed, used = self._allowed(number), self._used
            fitting: list[str] = []
            for sentence in sentences:
                takes = self._amount_of_text(sentence)
                if used + takes / 2 <= allowed:
                    fitting.append(sentence)
                    used += takes
            self._too_long += len(sentences) - len(fitting)
            sentences = fitting
        if not sentences:
            return []
        segment = self.segments[number]
        cosines = self.summarizer.encoder.encode(sentences) @ self._embeddings[segment.first : segment.last].T
        return [
            SummarySentence(sentence, self._quote(segment.first + int(row.argmax())), round(float(row.max()), 3))
            for sentence, row in zip(sentences, cosines, strict=True)
        ]

    def _allowed(self, number: int) -> float:
        """The words (or sentences) that the length has room for up to a segment."""
        return sum(self._share(before) for before in range(number + 1))

    @property
    def _used(self) -> float:
        return sum(self._amount_of(part.sentences) for part in self.parts)

    def _notes_on_writing(self) -> Iterator[str]:
        if self.complete and not self.parts:
            hint = "give a --length, or take" if self.settings.length is None else "take"
            yield (
                "the summary is empty: the model had nothing to say of any segment, or nothing that could be kept; "
                f"{hint} --style extract"
            )
        if self._too_long:
            yield f"{count(self._too_long, 'sentence')} of the model left out to keep to the length"


class CausalRecurrentRun(RecurrentRun):
    """A run with a causal model and its adapter."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._cut_off = 0
        self._before = Said()

    @cached_property
    def _preparation(self) -> Preparation:
        summarizer = self.summarizer
        return CausalPreparation(
            summarizer.tokenizer,
            summarizer.equipment,
            summarizer.encoder,
            summarizer.salience,
            window=summarizer.window,
            end=0,  # no target is asked for here
            say=self.notes.append,
        )

    @cached_property
    def _facts(self) -> Facts:
        return Facts(self.document.text)

    def _check_memory(self) -> None:
        Run._check_memory(self)

    def _load_model(self) -> object:
        return Run._load_model(self)

    def _number_format(self) -> tuple[str, str] | None:
        return Run._number_format(self)

    def _answers(self, inputs: DocumentInputs, known: Sequence[str]) -> Iterator[tuple[int, str]]:
        for _, number, answer in self.summarizer.chat.follow([self._prompts_for(inputs, known)], 1):
            yield number, self._text_of(answer)

    def read(self) -> None:
        """All that comes before the first prompt; where the document is given as it is, that is all."""
        self._begin()
        if self._is_verbatim:
            for _ in self._verbatim():
                pass
            self.complete = True
        else:
            self._ready = self._inputs()  # here, where what is wrong with one document is its own affair

    def prompts(self) -> Iterator[Prompt]:
        """The prompts of a document that was read; none where it is given as it is."""
        if self.complete:
            return
        for _ in self._taken_over():
            pass
        yield from self._prompts_for(self._ready, self._known())

    def take(self, number: int, answer: Answer) -> Part | None:
        """An answer to one of the prompts, and the part that is made of it."""
        part = self._take(number, self._text_of(answer))
        self.complete = number == len(self.segments) - 1
        return part

    def _prompts_for(self, inputs: DocumentInputs, known: Sequence[str]) -> Iterator[Prompt]:
        prompts = prompts_of(inputs, [self.summarizer.chat.chat.ids(text) for text in known])
        return self._measured(prompts) if self._is_measured else prompts

    def _measured(self, prompts: Iterable[Prompt]) -> Iterator[Prompt]:
        """The prompts, each with what the length has left for it when it is asked for."""
        last = max((number for number, share in enumerate(self._shares) if share), default=0)
        chosen = [self.sentences[index].tokens for share in self._shares for index in share]
        tokens_a_unit = max(sum(chosen), 1) / max(self._allowed(last), 1)
        longest = min(2 * LONGEST_PART, self.summarizer.chat.window // 5)
        for number, prompt in enumerate(prompts):
            left = self._allowed(number) - self._used
            if number == last and not self.parts:  # no summary is empty because it is to be short
                left = max(left, SHORTEST_PART / tokens_a_unit)
            if prompt.known is not None:
                yield prompt
            elif left * tokens_a_unit < SHORTEST_PART:
                yield replace(prompt, known=())
            else:
                enough = round(left) if self.length.in_sentences else MOST * left
                tokens = left * tokens_a_unit
                yield replace(
                    prompt,
                    enough=partial(self._is_enough, amount=enough),
                    least=round(MOST * tokens),
                    limit=min(24 + round(2 * tokens), longest),
                )

    @property
    def _is_measured(self) -> bool:
        """Whether it is said how much is to be written."""
        return self.settings.length is not None

    def _is_enough(self, text: str, amount: float) -> bool:
        """Whether what will be kept of a text is that much."""
        return sum(map(self._amount_of_text, filter(self._is_kept, finished(text)))) >= amount

    def _taken_over(self) -> Iterator[Part]:
        for part in super()._taken_over():
            self._note(part)
            yield part

    def _take(self, number: int, text: str) -> Part | None:
        part = super()._take(number, text)
        if part:
            self._note(part)
        return part

    def _note(self, part: Part) -> None:
        for sentence in part.sentences:
            self._before.add(sentence.text)

    def _text_of(self, answer: Answer) -> str:
        self._cut_off += not answer.is_whole and self.settings.length is None
        return self.summarizer.chat.tokenizer.decode(answer.tokens, skip_special_tokens=True)

    def _sentences_of(self, text: str) -> list[str]:
        """Those that the document bears out, and that were not said before."""
        written = tidy(text)
        kept = list(filter(self._is_kept, written))
        self._left_out += len(written) - len(kept)
        return kept

    def _is_kept(self, sentence: str) -> bool:
        """A small model tends to invent figures, amounts and names; these may be another segment's, because the memory
        carries them on. And one that remembers tends to repeat itself."""
        return self._facts.bear_out(sentence) and not self._before.repeats(sentence)

    def _notes_on_writing(self) -> Iterator[str]:
        yield from super()._notes_on_writing()
        if self._left_out:
            yield self._note_on_left_out()
        if self._cut_off:
            yield f"{count(self._cut_off, 'part')} ended at {LONGEST_PART} tokens, before the model ended it"


class RewritingRun(CausalRecurrentRun):
    """A run with an adapter that was trained to put the salient sentences of each segment in other words.

    How much is written is known from these, also if no length was given; what is written is checked, and made up for
    with these sentences themselves, as it is for a model without an adapter.
    """

    default_length = Run.default_length
    _is_measured = True

    def _salient(self) -> list[int]:
        return self._chosen

    def _write(self) -> Iterator[Part]:
        # Without a memory, no part has to wait for another one.
        return super()._write() if self.summarizer.goes_in_order else Run._write(self)

    def _prompt(self, number: int) -> Prompt:
        alone = Divided(self.document.text, self.sentences, [self.segments[number]], self._chosen)
        inputs = self._preparation.inputs(self.document.path, alone, self.settings.query)
        return self._measure(number, next(prompts_of(inputs)))

    def _measured(self, prompts: Iterable[Prompt]) -> Iterator[Prompt]:
        for number, prompt in enumerate(prompts):
            yield prompt if prompt.known is not None else self._measure(number, prompt)

    def _measure(self, number: int, prompt: Prompt) -> Prompt:
        if not self._shares[number]:
            return replace(prompt, known=())
        return replace(prompt, enough=self._enough(number), limit=self._limit(number), least=SHORTEST)

    def _made_of(self, number: int, text: str) -> list[SummarySentence]:
        return self._checked(number, text) if self._shares[number] else []

    def _notes_on_writing(self) -> Iterator[str]:
        return Run._notes_on_writing(self)


def prompts_of(inputs: DocumentInputs, known: Sequence[Sequence[int]] = ()) -> Iterator[Prompt]:
    """A prompt for each segment of a document; the first ones may be answered already."""
    for number, (segment, request) in enumerate(zip(inputs.segments, inputs.requests, strict=True)):
        yield Prompt(
            [*segment, *request],
            lambda text: False,  # it was trained to end by itself
            LONGEST_PART,
            slice(inputs.frame, len(segment)),
            least=0,
            known=known[number] if number < len(known) else None,
        )


def write_together(
    chat: ChatModel, runs: Iterable[CausalRecurrentRun], side_by_side: int
) -> Iterator[tuple[CausalRecurrentRun, Part | None]]:
    """Several documents written side by side: each answer's document and the part that was made of it, if any.

    A run is asked for when there is room for it, and has to be read. One whose document is given as it is has no
    answer, and is not told of.
    """
    begun: dict[int, CausalRecurrentRun] = {}

    def prompts() -> Iterator[Iterator[Prompt]]:
        for number, run in enumerate(runs):
            begun[number] = run
            yield run.prompts()

    for document, number, answer in chat.follow(prompts(), side_by_side):
        run = begun[document]
        part = run.take(number, answer)
        if run.complete:
            del begun[document]  # its text need not be kept
        yield run, part


def finish_together(chat: ChatModel, runs: Iterable[CausalRecurrentRun], side_by_side: int) -> Iterator[Summary]:
    """The summaries of several documents that are written side by side, in their order."""
    waiting: deque[CausalRecurrentRun] = deque()

    def noted() -> Iterator[CausalRecurrentRun]:
        for run in runs:
            run.read()
            waiting.append(run)
            yield run

    for _ in write_together(chat, noted(), side_by_side):
        while waiting and waiting[0].complete:
            yield waiting.popleft().summary()
    yield from (run.summary() for run in waiting)
