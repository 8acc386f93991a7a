"""The main job: a document in, a summary out, segment by segment, in memory that does not grow with the document.

`Summarizer` keeps the models; `Run` is one document on its way. Reading files is `reading`'s, the models' work is
`models`' and `embedding`'s, showing the result is `rendering`'s.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.choice import choose, longest_share, outermost, word_costs
from awesum.analysis.salience.text import augment
from awesum.analysis.segmentation import LOWER, UPPER, measure, segment
from awesum.analysis.sentences import sentence_spans
from awesum.document import Document, Segment, Sentence
from awesum.errors import AwesumError
from awesum.footprint import READING, RUNTIME, Footprint, parse_size, peak_memory
from awesum.length import Length, count_words
from awesum.prompting import ask, enough_sentences, enough_words, is_borne_out, tidy
from awesum.settings import ADAPTER, AWESUM, SMOLLM2, Settings
from awesum.summary import Figures, Part, Quote, Summary, SummarySentence, count
from awesum.weights import minilm_folder, smollm2_folder, writer_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerBase

    from awesum.analysis.embedding import SentenceEncoder
    from awesum.analysis.salience import Salience
    from awesum.models.adapter import AdapterConfig
    from awesum.models.bart import AwesomeBart
    from awesum.models.causal import ChatModel, Prompt

Progress = Callable[[str, int, int], object]
"""Told the stage, how much of it is done, and how much there is."""

INPUT = 896
"""Tokens of a prompt: a segment of at most 768, the salient sentences of the others, and the request."""
SIDE_BY_SIDE = 8
"""Segments that are written at the same time. More would be a little faster, take 50 MB each, and make the peak depend
on how many segments a document has."""
LONGEST_PART = 192
"""Tokens of a part to reckon with before the parts are known."""
UNLIKE, ALIKE, REPEATED = 0.5, 0.75, 0.87
"""Cosines of sentences. A sentence of the model that is less like anything in its segment than `UNLIKE` was made up;
one that is more like an earlier one than `REPEATED` has been said. A sentence of the source stands in only where its
part has nothing `ALIKE`."""
ENOUGH = 0.75
"""The part of a segment's share that its part has to fill before the segment's own sentences need not stand in."""


class Summarizer:
    """The models, loaded once and used for many documents. Each is loaded when it is first needed.

    With another `encoder` and no `salience`, what is central counts as salient: the shipped extractor was trained with
    the vectors of the shipped encoder.
    """

    def __init__(
        self,
        model: str = AWESUM,
        *,
        encoder: SentenceEncoder | None = None,
        chat: ChatModel | None = None,
        salience: Salience | None = None,
    ) -> None:
        self.model = model
        if encoder is not None:
            self.encoder = encoder
            salience = salience or Centrality()
        if salience is not None:
            self.salience = salience
        if chat is not None:
            self.chat = chat
            self.model = chat.name if model == AWESUM else model

    @classmethod
    def load(cls, model: str = AWESUM) -> Summarizer:
        """Load everything now: `model` is `awesum`, `smollm2`, a folder, or the name of a causal model on the hub."""
        summarizer = cls(model)
        _ = summarizer.encoder, summarizer.chat
        return summarizer

    @cached_property
    def encoder(self) -> SentenceEncoder:
        """The sentence encoder that segmentation and salience rest on."""
        from awesum.analysis.embedding import SentenceEncoder

        return SentenceEncoder.load(minilm_folder())

    @cached_property
    def salience(self) -> Salience:
        """What says which sentences matter: the shipped extractor."""
        from awesum.analysis.salience.trained import TrainedSalience

        return TrainedSalience.load()

    @cached_property
    def chat(self) -> ChatModel:
        """The model that writes."""
        from awesum.models.causal import ChatModel

        return ChatModel.load(str(self.adapter)) if self.adapter else ChatModel.load(self.model, self.folder)

    @cached_property
    def recurrent(self) -> AwesomeBart:
        """The model that writes, where it is one that remembers."""
        from awesum.models.bart import load_recurrent

        return load_recurrent(self.model)

    @cached_property
    def adapter(self) -> Path | None:
        """The folder of the adapter, if the model has one: the shipped one, or one that `awesum train` made."""
        if self.model == AWESUM:
            return writer_folder()
        return Path(self.model) if (Path(self.model) / ADAPTER).is_file() else None

    @cached_property
    def equipment(self) -> AdapterConfig | None:
        """What the adapter is made of."""
        from awesum.models.adapter import read_config

        return read_config(self.adapter) if self.adapter else None

    @property
    def goes_in_order(self) -> bool:
        """Whether the model's adapter writes a document's parts one after the other."""
        return self.equipment is not None and (self.equipment.salient != "points" or self.equipment.memory != "none")

    @cached_property
    def is_recurrent(self) -> bool:
        """Whether the model goes from segment to segment with a memory, or is a BART, which can do so without one."""
        if self.base == SMOLLM2 or "chat" in vars(self):
            return False
        from awesum.loading import load_model_type

        return load_model_type(self.model) in ("bart", "awesome-bart")

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of the model that writes, which is there without the model: extracting needs only this."""
        if "chat" in vars(self):
            return self.chat.tokenizer
        from awesum.loading import load_tokenizer

        return load_tokenizer(self.base, self.folder)

    @cached_property
    def window(self) -> int:
        """How many tokens the model that writes can look at, which is known without the model, too."""
        from awesum.loading import load_window

        return self.chat.window if "chat" in vars(self) else load_window(self.base, self.folder)

    @cached_property
    def folder(self) -> Path | None:
        """Where the embedded model is, converted and checked; none for a model that the user named."""
        return smollm2_folder() if self.base == SMOLLM2 else None

    @cached_property
    def base(self) -> str:
        """The pretrained model: what an adapter is for, or the model itself."""
        return self.equipment.base if self.equipment else self.model

    def side_by_side(self, settings: Settings, longest_part: int = LONGEST_PART) -> int:
        """How many segments may be written at the same time within the memory that the user allows."""
        limit = parse_size(settings.max_memory) if settings.max_memory else None
        encoder = self.encoder.model.get_memory_footprint()
        if settings.style == "extract":
            return Footprint(RUNTIME + encoder, 0).prompts(limit, 1)
        chat = self.chat
        fixed = RUNTIME + encoder + chat.model.get_memory_footprint() + READING
        a_prompt = chat.bytes_per_token() * (INPUT + longest_part) + chat.bytes_of_memory()
        return Footprint(fixed, a_prompt).prompts(limit, SIDE_BY_SIDE)

    def start(
        self,
        document: Document,
        settings: Settings | None = None,
        progress: Progress | None = None,
        written: Sequence[Part] = (),
    ) -> Run:
        """A run over one document: iterate over it for the parts, ask it for the summary.

        `written` are parts of an earlier, interrupted run over the same document with the same settings: they come
        first and are not written again.
        """
        kind: type[Run] = Run
        if self.equipment:
            from awesum.recurrent import CausalRecurrentRun, RewritingRun

            kind = RewritingRun if self.equipment.salient == "points" else CausalRecurrentRun
        elif self.is_recurrent:
            from awesum.recurrent import RecurrentRun

            kind = RecurrentRun
        return kind(self, document, settings or Settings(), progress or (lambda stage, done, total: None), written)

    def stream(self, source: str | Path | Document, **settings: Any) -> Iterator[Part]:
        """The parts of the summary, each as soon as it is written."""
        return iter(self.start(_read(source), Settings(**settings)))

    def summarize(self, source: str | Path | Document, **settings: Any) -> Summary:
        """The whole summary."""
        return self.start(_read(source), Settings(**settings)).finish()

    def summarize_all(self, sources: Iterable[str | Path | Document], **settings: Any) -> Iterator[Summary]:
        """The summaries of many documents, in their order; each document is asked for when there is room for it.

        A model that was trained to go from segment to segment writes one part of a document at a time: there, several
        documents are written side by side, which is faster than one after the other.
        """
        wanted = Settings(**settings)
        runs = (self.start(_read(source), wanted) for source in sources)
        if not self.goes_in_order:
            yield from (run.finish() for run in runs)
            return
        from awesum.recurrent import CausalRecurrentRun, finish_together

        yield from finish_together(self.chat, cast("Iterator[CausalRecurrentRun]", runs), self.side_by_side(wanted))


def _read(source: str | Path | Document) -> Document:
    if isinstance(source, Document):
        if not source.text.strip():
            raise AwesumError(f"{source.path} holds no text: there is nothing to summarize")
        return source
    from awesum.reading import read

    return read(source)


class Run:
    """One document on its way to a summary. Whatever is there can be had at any time, also after an interruption."""

    default_length = "200w"

    def __init__(
        self,
        summarizer: Summarizer,
        document: Document,
        settings: Settings,
        progress: Progress,
        written: Sequence[Part],
    ) -> None:
        self.summarizer, self.document, self.settings, self.progress = summarizer, document, settings, progress
        self.length = Length.parse(settings.length or self.default_length)
        self.notes = list(document.notes)
        self.parts: list[Part] = []
        self.sentences: list[Sentence] = []
        self.segments: list[Segment] = []
        self.tokens_read = 0
        self.complete = False
        self.written = list(written)
        """Parts of an earlier, interrupted run."""
        self._said: list[NDArray[np.float32]] = []  # the vectors of the summary's sentences so far
        self._reached = -1  # the last segment whose part is written
        self._left_out = self._stood_in = 0  # sentences: of the model's, of the source's
        self._started = time.perf_counter()

    def finish(self) -> Summary:
        """Write what is left to write, and return the summary."""
        for _ in self:
            pass
        return self.summary()

    def summary(self) -> Summary:
        """The summary as far as it has come."""
        settings = asdict(self.settings) | {"model": self.summarizer.model}
        if number_format := self._number_format():
            settings |= dict(zip(("dtype", "dtype_reason"), number_format, strict=True))
        return Summary(
            parts=list(self.parts),
            document=self.document,
            tokens=sum(sentence.tokens for sentence in self.sentences),
            segments=self.segments,
            figures=Figures(self.tokens_read, round(time.perf_counter() - self._started, 2), peak_memory()),
            settings=settings,
            notes=[*self.notes, *self._notes_on_writing()],
            complete=self.complete,
        )

    def __iter__(self) -> Iterator[Part]:
        self._begin()
        yield from self._verbatim() if self._is_verbatim else self._write()
        self.complete = True

    def _begin(self) -> None:
        """All that comes before the first part."""
        self._started = time.perf_counter()
        if self.settings.max_memory:
            self._check_memory()  # a limit that is too low is said before minutes of work, not after
        with ThreadPoolExecutor(1) as aside:
            # The model that writes is loaded while the document is read: that is a second less to wait for. What
            # reading needs comes first, because models are loaded one at a time, and while one is, torch's default
            # number format may be that one's.
            _ = self.summarizer.encoder, self.summarizer.tokenizer, self.summarizer.window, self.summarizer.salience
            loading = aside.submit(self._load_model) if self.settings.style == "abstract" else None
            self._read()
            self._choose()
            if loading:
                loading.result()

    def _load_model(self) -> object:
        return self.summarizer.chat

    def _number_format(self) -> tuple[str, str] | None:
        """The format that the model computes in, and why; none while there is no model."""
        chat = vars(self.summarizer).get("chat")
        return (str(chat.model.dtype).removeprefix("torch."), chat.reason) if chat else None

    def _check_memory(self) -> None:
        self._side_by_side()

    def _side_by_side(self, longest_part: int = LONGEST_PART) -> int:
        return self.summarizer.side_by_side(self.settings, longest_part)

    def _read(self) -> None:
        """Sentences, their vectors, and the segments: every token of the document passes through here."""
        text = self.document.text
        lower, upper = self._segment_limits()
        self.sentences = measure(text, sentence_spans(text), self.summarizer.tokenizer, upper)
        total = sum(sentence.tokens for sentence in self.sentences)
        done = 0

        def advance(sentences: int) -> None:
            nonlocal done
            self.tokens_read += sum(sentence.tokens for sentence in self.sentences[done : done + sentences])
            done += sentences
            self.progress("reading", self.tokens_read, total)

        self.progress("reading", 0, total)
        self._embeddings = self.summarizer.encoder.encode(
            [text[sentence.start : sentence.end] for sentence in self.sentences], advance
        )
        self.segments = segment(self.sentences, self._embeddings, lower, upper)

    def _segment_limits(self) -> tuple[int, int]:
        """The paper's limits, or less for a model whose window is too small for them."""
        upper = min(UPPER, self.summarizer.window * 3 // 5)
        return LOWER * upper // UPPER, upper

    def _choose(self) -> None:
        """The salient sentences of the document, as many as the length allows, and with them each segment's share."""
        texts = [self.document.text[sentence.start : sentence.end] for sentence in self.sentences]
        words = [count_words(text) for text in texts]
        salience = self.summarizer.salience
        self._amount = self.length.amount(sum(words), salience.calibration.words)
        costs = word_costs(texts)
        if self.length.in_sentences:
            costs = [float(cost > 0) for cost in costs]
        query = self.settings.query
        asked = self.summarizer.encoder.encode([query])[0] if query is not None else None
        scores = salience.score(texts, self._embeddings, asked)
        self._is_verbatim = self.settings.style == "extract"
        if sum(count > 0 if self.length.in_sentences else count for count in words) <= self._amount:
            self._is_verbatim = True
            self._chosen = [index for index, count in enumerate(words) if count]
            self.notes.append("the document is no longer than the summary asked for, and is given as it stands")
        else:
            most = float("inf") if self._is_verbatim else self._longest_share()
            redundant = salience.calibration.redundant
            self._chosen = choose(
                scores, self._embeddings, costs, self._amount, segments=self.segments, most=most, redundant=redundant
            )
        self._shares = [
            [index for index in self._chosen if segment.first <= index < segment.last] for segment in self.segments
        ]
        self._costs = costs

    def _longest_share(self) -> float:
        """What one segment may take of the length."""
        if self.length.in_sentences:
            return max(3.0, 1.5 * self._amount / len(self.segments))
        return longest_share(self._amount, len(self.segments))

    def _verbatim(self) -> Iterator[Part]:
        """The chosen sentences as they stand in the source."""
        for number, share in enumerate(self._shares):
            if share:
                quotes = [self._quote(index) for index in share]
                yield self._add(number, [SummarySentence(quote.text, quote, 1.0) for quote in quotes])

    def _write(self) -> Iterator[Part]:
        """The segments that have something to say, summarized side by side, given out in document order."""
        waiting = [number for number, share in enumerate(self._shares) if share]
        total = len(waiting)
        yield from self._taken_over()
        if self.written:  # what lies before the last one and has no part had nothing to say then, and has not now
            waiting = [number for number in waiting if number > self._reached]
        self.progress("writing", total - len(waiting), total)
        for number, text in self._texts(waiting):
            self._reached = number
            sentences = self._checked(number, text)
            if sentences:
                yield self._add(number, sentences)
            self.progress("writing", total - len(waiting) + waiting.index(number) + 1, total)

    def _texts(self, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
        """What the model writes of some segments, in their order."""
        # The first part is written alone, so that the reader soon has something to read.
        for some in filter(None, (numbers[:1], numbers[1:])):
            side_by_side = self._side_by_side(max(map(self._limit, some)))
            yield from zip(some, self.summarizer.chat.write(map(self._prompt, some), side_by_side), strict=True)

    def _taken_over(self) -> Iterator[Part]:
        """The parts that an interrupted run left."""
        for part in self.written:
            self.parts.append(part)
            self._reached = part.segment
            self._said.extend(self.summarizer.encoder.encode([sentence.text for sentence in part.sentences]))
            yield part

    def _pace(self) -> float:
        """What the parts so far have left of the length, against what the segments behind them were meant to take."""
        if self.length.in_sentences:
            return 1.0
        left = self._amount - sum(count_words(part.text) for part in self.parts)
        meant = sum(self._share(number) for number in range(self._reached + 1, len(self.segments)))
        return float(np.clip(left / meant, 0.6, 1.4))

    def _share(self, number: int) -> float:
        """The words (or sentences) of the summary that a segment is meant to take."""
        return sum(self._costs[index] for index in self._shares[number])

    def _prompt(self, number: int) -> Prompt:
        """What the model is asked about a segment; made when there is room to write to it."""
        from awesum.models.causal import Prompt

        chat = self.summarizer.chat
        segment = self.segments[number]
        limit = self._limit(number)
        frame = len(chat.prompt(augment("", ["-"], ["-"]) + ask(self.settings.query, [])))
        left = chat.window - limit - segment.tokens - frame
        points: list[int] = []
        for index in self._shares[number]:
            left -= self.sentences[index].tokens
            if left >= 0:
                points.append(index)
        request = ask(self.settings.query, [self._quote(index).text for index in points])
        room = min(INPUT - segment.tokens - frame - sum(self.sentences[index].tokens for index in points), left)
        previous, following = outermost(self._chosen, segment, self.sentences, room)
        content = augment(
            self.document.text[segment.start : segment.end].strip(),
            [self._quote(index).text for index in previous],
            [self._quote(index).text for index in following],
        )
        return Prompt(chat.prompt(f"{content}\n\n{request}"), self._enough(number), limit)

    def _enough(self, number: int) -> Callable[[str], bool]:
        """Whether a text is what a segment is meant to take, at the pace of this moment."""
        share = self._share(number) * self._pace()
        return enough_sentences(round(share)) if self.length.in_sentences else enough_words(share)

    def _limit(self, number: int) -> int:
        """Tokens after which a part ends in any case: somewhat more than what it is to put in other words."""
        tokens = sum(self.sentences[index].tokens for index in self._shares[number])
        return min(24 + round(1.4 * tokens), self.summarizer.chat.window // 5)

    def _checked(self, number: int, text: str) -> list[SummarySentence]:
        """The sentences of a part that the segment bears out and that say something new, each with its source.

        Where too few are left, the segment's salient sentences stand in as they are: they are what the part was meant
        to say.
        """
        segment = self.segments[number]
        source = self.document.text[segment.start : segment.end]
        written = tidy(text)
        kept = [
            found for sentence in written if is_borne_out(sentence, source) and (found := self._new(sentence, segment))
        ]
        self._left_out += len(written) - len(kept)
        put_in_other_words = self._said[len(self._said) - len(kept) :]
        for index in self._shares[number]:
            if self._amount_of(kept) >= ENOUGH * self._share(number):
                break
            if all(float(said @ self._embeddings[index]) <= ALIKE for said in put_in_other_words):
                found = self._new(" ".join(self._quote(index).text.split()), segment)
                kept += [found] if found else []
        self._stood_in += len(kept) - len(put_in_other_words)
        return kept

    def _note_on_left_out(self) -> str:
        return f"{count(self._left_out, 'sentence')} of the model left out: not borne out by the source, or said before"

    def _notes_on_writing(self) -> Iterator[str]:
        if self._left_out:
            yield self._note_on_left_out()
        if self._stood_in:
            yield f"{count(self._stood_in, 'sentence')} of the summary taken from the source as it stands"

    def _new(self, text: str, segment: Segment) -> SummarySentence | None:
        """A sentence with its source; none if the segment has nothing like it, or the summary has it already."""
        vector = self.summarizer.encoder.encode([text])[0]
        cosines = self._embeddings[segment.first : segment.last] @ vector
        nearest = int(cosines.argmax())
        if cosines[nearest] < UNLIKE or any(float(said @ vector) > REPEATED for said in self._said):
            return None
        self._said.append(vector)
        return SummarySentence(text, self._quote(segment.first + nearest), round(float(cosines[nearest]), 3))

    def _amount_of(self, sentences: Sequence[SummarySentence]) -> float:
        """The words (or the number) of some sentences of the summary."""
        return sum(self._amount_of_text(sentence.text) for sentence in sentences)

    def _amount_of_text(self, sentence: str) -> float:
        return 1.0 if self.length.in_sentences else count_words(sentence)

    def _add(self, number: int, sentences: list[SummarySentence]) -> Part:
        segment = self.segments[number]
        part = Part(
            text=" ".join(sentence.text for sentence in sentences),
            segment=number,
            start=segment.start,
            end=segment.end,
            pages=self.document.pages(segment.start, segment.end),
            salient=[self._quote(index) for index in self._shares[number]],
            sentences=sentences,
        )
        self.parts.append(part)
        return part

    def _text(self, sentence: Sentence) -> str:
        return self.document.text[sentence.start : sentence.end]

    def _quote(self, index: int) -> Quote:
        """A sentence without the white space behind it."""
        text = self._text(self.sentences[index])
        start = self.sentences[index].start + len(text) - len(text.lstrip())
        return Quote(start, start + len(text.strip()), text.strip())
