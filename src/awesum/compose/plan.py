"""A plan: how one system writes one document. Which segments are asked about, with which prompts, and which sentences
of the answers become a part.

`Verbatim` copies the selected sentences, `Paraphrase` has a model paraphrase them, and `OwnWords` lets a model that was
trained to decide say what it has to say. A session carries a plan out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol

from awesum.compose.budget import Budget
from awesum.compose.drafts import RepetitionFilter, finished, is_cut_off, tidy
from awesum.compose.prompts import DocumentPrompt
from awesum.document import Segment
from awesum.models.prompt import SHORTEST, Answer, Prompt
from awesum.summary import Part, SummarySentence, count
from awesum.verify.facts import Facts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from awesum.analysis.analysis import Analysis
    from awesum.analysis.embedding import SentenceEncoder
    from awesum.compose.layouts import Layout
    from awesum.verify.verifier import Verifier

AHEAD = 8
"""Parts of one document that may be written at the same time. It is fixed, because a part's budget depends on the parts
before those: what a part says must not depend on how much RAM there is or on what else is being written."""
UNLIKE, ALIKE, REPEATED = 0.5, 0.75, 0.87
"""Cosines of sentences. A written sentence that is less like anything in its segment than `UNLIKE` was made up; one
that is more like an earlier one than `REPEATED` says the same again. A sentence of the source stands in only where its
part has nothing `ALIKE`."""
ENOUGH = 0.75
"""The share of a segment's budget that its part has to fill; below it, the segment's selected sentences stand in."""
LONGEST_PART = 200
"""Tokens after which a trained model's part ends in any case; twice as many where a length asks for more."""
SHORTEST_PART = 12
"""Tokens. For less than this, a segment is not asked about, only written to memory."""
ELSEWHERE = 20
"""Sentences of the whole document, most like what was written, that may support it besides those of its segment."""
LANGUAGE_SHOWS = 10_000
"""Characters of a document from which its language shows."""
MOST = 0.8
"""The share of the remaining length that makes a part enough: another sentence would often be too much."""


class PromptMaker(Protocol):
    """Makes the bare prompts of one document: their tokens, without a budget."""

    def __call__(self, number: int) -> Prompt:
        """The prompt for a segment."""

    def ids(self, text: str) -> Sequence[int]:
        """The tokens of an answer."""


class Plan(ABC):
    """How one document is written."""

    order: Sequence[int] = ()
    """The segments that get a prompt, in order; their parts come in this order too."""
    is_sequential = False
    """Whether each segment's prompt waits for the answer to the one before, because a memory flows between them."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.budget = Budget(analysis)

    @abstractmethod
    def prompt(self, number: int, parts: Sequence[Part], reached: int) -> Prompt:
        """The prompt for a segment, given the parts up to segment `reached`."""

    @abstractmethod
    def compose(self, number: int, answer: Answer, parts: Sequence[Part]) -> list[SummarySentence]:
        """The sentences that an answer contributes, after the parts so far."""

    def resume(self, part: Part) -> None:  # noqa: B027
        """Take a part of an interrupted run into account."""

    def replay(self, number: int, text: str) -> Prompt:
        """The prompt that writes the known answer of an interrupted run to memory."""
        raise AssertionError("there is no memory")

    @property
    def tokens_read(self) -> int:
        """The tokens of the document that were read."""
        return self.analysis.tokens

    def notes(self, parts: Sequence[Part], complete: bool) -> Iterator[str]:
        """What was removed, cut or replaced."""
        return iter(())

    def notes_on_drafts(self) -> Iterator[str]:
        """What is to be said of the drafts themselves, which nothing was removed from."""
        return iter(())


class Verbatim(Plan):
    """The selected sentences as they stand in the source; nothing is prompted."""

    def prompt(self, number: int, parts: Sequence[Part], reached: int) -> Prompt:
        """There is none."""
        raise AssertionError("nothing is written")

    def compose(self, number: int, answer: Answer, parts: Sequence[Part]) -> list[SummarySentence]:
        """The segment's selected sentences; those of a transcript with their speakers, and without hesitations."""
        turns, speaker = self.analysis.turns, None
        sentences = []
        for index in self.analysis.selection.shares[number]:
            quote = self.analysis.quote(index)
            text, speaker = turns.quote(quote.start, quote.text, speaker)
            sentences.append(SummarySentence(text, quote, 1.0))
        return sentences

    def notes(self, parts: Sequence[Part], complete: bool) -> Iterator[str]:
        """What was left out of speech."""
        if self.analysis.turns:
            yield "a transcript: speakers are named, and hesitations and repeated words are left out"


class Paraphrase(Plan):
    """Each segment's selected sentences in the model's own words.

    The model may write several candidates. A written sentence is kept if the segment supports it and no earlier one
    says the same. Where too few are left, the selected sentences stand in as they are: they are what the part was meant
    to say.
    """

    def __init__(
        self,
        analysis: Analysis,
        encoder: SentenceEncoder,
        make: PromptMaker,
        window: int,
        verifier: Verifier,
        *,
        strict: bool = False,
        by_large: bool = False,
        is_sequential: bool = False,
        candidates: int = 1,
    ) -> None:
        super().__init__(analysis)
        self.encoder, self.make, self.window = encoder, make, window
        self.verifier, self.strict, self.by_large, self.candidates = verifier, strict, by_large, candidates
        self.is_sequential = is_sequential
        shares = analysis.selection.shares
        self.order = [number for number, share in enumerate(shares) if share or is_sequential]
        self._vectors: list[NDArray[np.float32]] = []  # of the summary's sentences so far
        self._judged = self._unsupported = self._repeated = 0

    def prompt(self, number: int, parts: Sequence[Part], reached: int) -> Prompt:
        """With the segment's budget; a segment without one is only written to memory."""
        prompt = self.make(number)
        if not self.analysis.selection.shares[number]:
            return replace(prompt, known=())
        pace = self.budget.pace(parts, reached)
        limit = self.budget.token_limit(number, self.window)
        enough = self.budget.enough(number, pace)
        return replace(prompt, enough=enough, limit=limit, least=SHORTEST, candidates=self.candidates)

    def compose(self, number: int, answer: Answer, parts: Sequence[Part]) -> list[SummarySentence]:
        """The supported and new sentences, each with its source, and what stands in for the others."""
        share = self.analysis.selection.shares[number]
        if not share:
            return []
        segment = self.analysis.segments[number]
        kept = self._best_supported(segment, answer, self.budget.of(number))
        paraphrased = self._vectors[len(self._vectors) - len(kept) :]
        for index in share:
            if sum(self.budget.cost(sentence.text) for sentence in kept) >= ENOUGH * self.budget.of(number):
                break
            if all(float(vector @ self.analysis.vectors[index]) <= ALIKE for vector in paraphrased):
                found = self._if_new(self.analysis.plain(index), 1.0, segment, index)
                kept += [found] if found else []
        return sorted(kept, key=lambda sentence: sentence.source.start)

    def _best_supported(self, segment: Segment, answer: Answer, budget: float) -> list[SummarySentence]:
        """Of everything that was written about a segment, the best supported sentences that say different things; of
        what a large model wrote, the supported ones of its likeliest answer, then of the others."""
        likeliest = tidy(answer.text)
        written = [*dict.fromkeys([*likeliest, *(sentence for text in answer.others for sentence in tidy(text))])]
        sources = [self.analysis.plain(index) for index in range(segment.first, segment.last)]
        written = [sentence for sentence in written if not sentence.endswith(":")]  # what it announces is missing
        judged = [*zip(written, self.verifier.judge(sources, written), strict=True)]
        supported = [
            (text, verdict)
            for text, verdict in judged
            if self.verifier.supports(verdict, strict=self.strict, by_large=self.by_large) and not is_cut_off(text)
        ]
        self._judged += len(judged)
        self._unsupported += len(judged) - len(supported)
        # Copies are perfectly supported, and what the reader gets anyway where nothing was written. What a large model
        # wrote first is a text, and goes first as it is.
        if not self.by_large:
            supported.sort(key=lambda pair: (pair[1].support == 1.0, -pair[1].support))
        kept: list[SummarySentence] = []
        for text, verdict in supported:
            wanted = budget if not self.by_large or text in likeliest else ENOUGH * budget
            if kept and sum(self.budget.cost(sentence.text) for sentence in kept) >= wanted:
                break
            found = self._if_new(text, verdict.support, segment, segment.first + verdict.sources[0])
            kept += [found] if found else []
            self._repeated += found is None and text in likeliest
        return kept

    def _if_new(self, text: str, support: float, segment: Segment, source: int) -> SummarySentence | None:
        """A sentence with its source; none if the segment has nothing like it, or the summary has it already."""
        vector = self.encoder.encode([text])[0]
        cosines = self.analysis.vectors[segment.first : segment.last] @ vector
        if float(cosines.max()) < UNLIKE or any(float(earlier @ vector) > REPEATED for earlier in self._vectors):
            return None
        self._vectors.append(vector)
        similarity = round(float(cosines[source - segment.first]), 3)
        return SummarySentence(text, self.analysis.quote(source), similarity, round(support, 3))

    def replay(self, number: int, text: str) -> Prompt:
        """See `Plan.replay`."""
        return replace(self.make(number), known=self.make.ids(text))

    def resume(self, part: Part) -> None:
        """Later sentences must not repeat it."""
        self._vectors.extend(self.encoder.encode([sentence.text for sentence in part.sentences]))

    def notes(self, parts: Sequence[Part], complete: bool) -> Iterator[str]:
        """What was removed, and what stood in."""
        if self._unsupported:
            written = count(self._judged, "sentence")
            yield f"{self._unsupported:,} of {written} that the model wrote left out: not supported by the source"
        if self._repeated:
            number = count(self._repeated, "sentence")
            yield f"{number} of the model removed: repeated, or like nothing in its segment"
        if copied := sum(sentence.is_copy for part in parts for sentence in part.sentences):
            yield f"{count(copied, 'sentence')} of the summary copied verbatim from the source"
        yield from _note_on_language(self.verifier, self.analysis)


class OwnWords(Plan):
    """What a model that was trained to decide has to say about each segment.

    Every segment passes through the model, because its memory flows from one to the next. With a length given,
    sentences beyond the segment's budget are removed; a causal model also goes on until it has filled its budget.
    """

    is_sequential = True

    def __init__(
        self,
        analysis: Analysis,
        encoder: SentenceEncoder,
        make: PromptMaker | None,
        window: int,
        *,
        verifier: Verifier,
        has_length: bool,
        removes_repeats: bool,
        strict: bool = False,
    ) -> None:
        super().__init__(analysis)
        self.encoder, self.make, self.window = encoder, make, window
        self.verifier, self.strict = verifier, strict
        self.has_length, self.removes_repeats = has_length, removes_repeats
        self.order = range(len(analysis.segments))
        self._said = RepetitionFilter()
        self._too_long = self._removed = self._doubtful = self._cut_off = 0

    @cached_property
    def _facts(self) -> Facts:
        """Of the whole document: a memory carries figures and names from one segment to another."""
        return Facts(self.analysis.document.text)

    def prompt(self, number: int, parts: Sequence[Part], reached: int) -> Prompt:
        """With whatever budget the length has left for the segment."""
        assert self.make is not None, "an encoder-decoder takes the document whole"
        prompt = self.make(number)
        return self._with_budget(number, prompt, parts) if self.has_length else prompt

    def _with_budget(self, number: int, prompt: Prompt, parts: Sequence[Part]) -> Prompt:
        left = self.budget.up_to(number) - self.budget.used(parts)
        if number == self._last and not parts:  # a short summary is not an empty one
            left = max(left, SHORTEST_PART / self._tokens_per_unit)
        tokens = left * self._tokens_per_unit
        if tokens < SHORTEST_PART:
            return replace(prompt, known=())
        enough = round(left) if self.budget.in_sentences else MOST * left
        return replace(
            prompt,
            enough=lambda text: self._reached_budget(text, enough),
            least=round(MOST * tokens),
            limit=min(24 + round(2 * tokens), 2 * LONGEST_PART, self.window // 5),
        )

    @cached_property
    def _last(self) -> int:
        """The last segment with a budget."""
        shares = self.analysis.selection.shares
        return max((number for number, share in enumerate(shares) if share), default=0)

    @cached_property
    def _tokens_per_unit(self) -> float:
        """Tokens of a word (or of a sentence) of the summary, going by the selected sentences."""
        selected = sum(self.analysis.sentences[index].tokens for index in self.analysis.selection.selected)
        return max(selected, 1) / max(self.budget.up_to(self._last), 1)

    def _reached_budget(self, text: str, amount: float) -> bool:
        """Whether what will be kept of a draft is that much."""
        return sum(map(self.budget.cost, filter(self._is_kept, finished(text)))) >= amount

    def compose(self, number: int, answer: Answer, parts: Sequence[Part]) -> list[SummarySentence]:
        """The supported sentences that the length has room for, each with what in its segment is most like it."""
        self._cut_off += not answer.is_whole and not self.has_length
        written = tidy(answer.text)
        kept = list(filter(self._is_kept, written))
        self._removed += len(written) - len(kept)
        supported = self._supported(number, kept)
        if self.has_length:
            supported = self._fit_length(number, supported, parts)
        for sentence in supported:
            self._said.add(sentence.text)
        return supported

    def _supported(self, number: int, written: Sequence[str]) -> list[SummarySentence]:
        """The sentences with their support by the document: the segment itself, or what a memory carried from others.

        They are the model's own words, so a doubtful one is only counted, unless the user is strict.
        """
        if not written:
            return []
        cosines = self.encoder.encode(written) @ self.analysis.vectors.T  # (sentences, N)
        segment = self.analysis.segments[number]
        own = itemgetter(slice(segment.first, segment.last))
        found = []
        for text, row in zip(written, cosines, strict=True):
            near = self._possible_sources(segment, row)
            [verdict] = self.verifier.judge([self.analysis.plain(index) for index in near], [text])
            if self.strict and not self.verifier.supports(verdict, strict=True):
                self._removed += 1
                continue
            self._doubtful += not self.verifier.supports(verdict)
            source = near[verdict.sources[0]] if verdict.sources else segment.first + int(own(row).argmax())
            similarity = round(float(row[source]), 3)
            found.append(SummarySentence(text, self.analysis.quote(source), similarity, round(verdict.support, 3)))
        return found

    def _possible_sources(self, segment: Segment, cosines: NDArray[np.float32]) -> list[int]:
        """The sentences that may support one that was written: those of its segment, and those most like it."""
        return sorted({*range(segment.first, segment.last), *(int(index) for index in cosines.argsort()[-ELSEWHERE:])})

    def _is_kept(self, sentence: str) -> bool:
        """A small model tends to invent figures, amounts and names, and one with a memory to repeat itself."""
        return self._facts.supports(sentence) and not (self.removes_repeats and self._said.repeats(sentence))

    def _fit_length(
        self, number: int, sentences: Sequence[SummarySentence], parts: Sequence[Part]
    ) -> list[SummarySentence]:
        allowed, used = self.budget.up_to(number), self.budget.used(parts)
        fitting: list[SummarySentence] = []
        for sentence in sentences:
            cost = self.budget.cost(sentence.text)
            if used + cost / 2 <= allowed:
                fitting.append(sentence)
                used += cost
        self._too_long += len(sentences) - len(fitting)
        return fitting

    def replay(self, number: int, text: str) -> Prompt:
        """See `Plan.replay`."""
        assert self.make is not None, "an encoder-decoder takes the document whole"
        return replace(self.make(number), known=self.make.ids(text))

    def resume(self, part: Part) -> None:
        """Later sentences must not repeat it."""
        for sentence in part.sentences:
            self._said.add(sentence.text)

    def notes(self, parts: Sequence[Part], complete: bool) -> Iterator[str]:
        """What was removed or cut, and whether anything is left."""
        if complete and not parts:
            hint = "use" if self.has_length else "give a --length, or use"
            yield (
                "the summary is empty: the model had nothing to say about any segment, or nothing that could be kept; "
                f"{hint} --style extract"
            )
        if self._too_long:
            yield f"{count(self._too_long, 'sentence')} of the model removed to keep to the length"
        if self._removed:
            yield f"{count(self._removed, 'sentence')} of the model removed: unsupported by the source, or repeated"
        if self._doubtful:
            yield f"{count(self._doubtful, 'sentence')} of the model may be wrong: little support in the source"
        yield from _note_on_language(self.verifier, self.analysis)
        yield from self.notes_on_drafts()

    def notes_on_drafts(self) -> Iterator[str]:
        """See `Plan.notes_on_drafts`."""
        if self._cut_off:
            yield f"{count(self._cut_off, 'part')} cut off at {LONGEST_PART} tokens, before the model ended it"


class WholeDocument(OwnWords):
    """`OwnWords` with an encoder-decoder, which takes the document whole and answers segment by segment."""

    def __init__(
        self,
        analysis: Analysis,
        encoder: SentenceEncoder,
        layout: Layout,
        selected: Sequence[int],
        *,
        verifier: Verifier,
        has_length: bool,
        strict: bool = False,
    ) -> None:
        super().__init__(
            analysis,
            encoder,
            None,
            layout.window,
            verifier=verifier,
            has_length=has_length,
            removes_repeats=False,
            strict=strict,
        )
        self.layout, self.selected = layout, selected

    def document_prompt(self, known: Sequence[str]) -> DocumentPrompt:
        """The document, and the answers to its first segments that an interrupted run has left."""
        ids = [self.layout.tokenizer(text)["input_ids"] for text in known]
        return DocumentPrompt(self.layout.inputs(self.analysis, self.selected), ids)


def _note_on_language(verifier: Verifier, analysis: Analysis) -> Iterator[str]:
    if verifier.scorer and not verifier.can_judge(analysis.document.text[:LANGUAGE_SHOWS]):
        yield "the verifier knows English only: it trusts nothing but copied sentences; --verifier takes another"
