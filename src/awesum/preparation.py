"""From a document and its reference summary to what an AWESOME model takes: segments, targets, salient content.

Slow beside a training step (the sentence encoder reads the document), so that what it gives is kept on disk and each
further epoch only reads it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from awesum import files
from awesum.analysis import segmentation
from awesum.analysis.salience.choice import choose, longest_share, outermost, word_costs
from awesum.analysis.salience.text import augment
from awesum.analysis.segmentation import LOWER, UPPER, measure
from awesum.analysis.sentences import sentence_spans
from awesum.document import Segment, Sentence
from awesum.errors import AwesumError
from awesum.length import count_words
from awesum.models.chat import Chat
from awesum.prepared.shards import PreparedDocument
from awesum.prompting import behind_segment
from awesum.recurrence import DocumentInputs
from awesum.scoring.targets import assign

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerBase

    from awesum.analysis.embedding import SentenceEncoder
    from awesum.analysis.salience import Salience
    from awesum.datasets import Example
    from awesum.models.adapter import AdapterConfig
    from awesum.models.bart import AwesomeConfig

SALIENT_SHARE = 0.1
"""The part of a document's tokens that counts as salient. Of these, the outermost are shown to each segment."""
FRAME = 24
"""Tokens for the headings of salient text, and for what sentences take more together than each alone."""
_VERSION = 3  # of what is kept on disk


@dataclass(frozen=True)
class Divided:
    """A document in segments, with its salient sentences."""

    text: str
    sentences: Sequence[Sentence]
    segments: Sequence[Segment]
    chosen: Sequence[int]


class Preparation:
    """What is the same for all documents of a training run: tokenizer, sentence encoder, salience, limits."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        config: AwesomeConfig | AdapterConfig,
        encoder: SentenceEncoder,
        salience: Salience,
        *,
        window: int | None = None,
        max_tokens: int | None = None,
        say: Callable[[str], object] = lambda note: None,
    ) -> None:
        self.tokenizer, self.config, self.encoder, self.salience = tokenizer, config, encoder, salience
        self.max_tokens, self.say = max_tokens, say
        self.window = window or int(getattr(config, "max_position_embeddings", 0))
        self.longest_target = self.window
        self.marks = len(tokenizer("")["input_ids"])

    @property
    def key(self) -> list[Any]:
        """All that its inputs depend on, beside the example."""
        tokenizer = getattr(self.tokenizer, "backend_tokenizer", None)
        return [
            _VERSION,
            type(self).__name__,
            tokenizer.to_str() if tokenizer is not None else repr(self.tokenizer),
            self.config.salient,
            self.config.salient_size,
            self.window,
            self.max_tokens,
            self.salience.name,
            self.encoder.model.config.to_json_string(),
        ]

    def __call__(self, example: Example | PreparedDocument) -> DocumentInputs:
        """Segments and targets of an example; what is longer than `max_tokens` is left out, and that is said.

        A prepared document brings the vectors of its sentences, which are most of the work.
        """
        known = _vectors(example) if isinstance(example, PreparedDocument) else {}
        words = count_words(example.summary)
        divided = self._cut(example.id, self.divide(example.document, example.id, example.query, known, words))
        return self.inputs(example.id, divided, example.query, self._targets(example.summary, divided))

    def _targets(self, summary: str, divided: Divided) -> list[str]:
        """What of a summary each segment has to learn to write."""
        return assign(summary, divided.text, divided.segments)

    def divide(
        self,
        text: str,
        name: str = "the document",
        query: str | None = None,
        known: Mapping[str, NDArray[np.float32]] | None = None,
        words: int | None = None,
    ) -> Divided:
        """Sentences, segments and salient sentences of a text; with a query, salient for it.

        `known` are the vectors of sentences that need not be read again, `words` the length of the summary.
        """
        lower, upper = self.limits
        sentences = measure(text, sentence_spans(text), self.tokenizer, upper)
        if not text.strip() or not any(sentence.tokens for sentence in sentences):
            raise AwesumError(f"{name} has no sentence: take it out of the data, or give it its text")
        embeddings = self._embeddings([text[sentence.start : sentence.end] for sentence in sentences], known or {})
        segments = segmentation.segment(sentences, embeddings, lower, upper)
        return Divided(text, sentences, segments, self._chosen(text, sentences, segments, embeddings, query, words))

    def _chosen(
        self,
        text: str,
        sentences: Sequence[Sentence],
        segments: Sequence[Segment],
        embeddings: NDArray[np.float32],
        query: str | None,
        words: int | None,
    ) -> list[int]:
        """The salient sentences of a document whose summary is to have so many words."""
        return self.salient(text, sentences, embeddings, query)

    def _embeddings(self, texts: Sequence[str], known: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        unknown = [text for text in texts if text not in known]  # as where another tokenizer has cut a long sentence
        if len(unknown) == len(texts):
            return self.encoder.encode(texts)
        read = iter(self.encoder.encode(unknown)) if unknown else iter(())
        return np.stack([known[text] if text in known else next(read) for text in texts])

    @property
    def limits(self) -> tuple[int, int]:
        """The paper's limits of a segment, or less for a model with a smaller window."""
        upper = min(UPPER, self.window * 3 // 4)
        return LOWER * upper // UPPER, upper

    def salient(
        self, text: str, sentences: Sequence[Sentence], embeddings: NDArray[np.float32], query: str | None = None
    ) -> list[int]:
        """The sentences that the segments are told of; none if the model does not want to be told."""
        if self.config.salient == "none":
            return []
        texts = [text[sentence.start : sentence.end] for sentence in sentences]
        costs = [
            float(sentence.tokens) * (cost > 0) for sentence, cost in zip(sentences, word_costs(texts), strict=True)
        ]
        if not any(costs):
            return []
        amount = SALIENT_SHARE * sum(sentence.tokens for sentence in sentences)
        redundant = self.salience.calibration.redundant
        return choose(self._scores(texts, embeddings, query), embeddings, costs, amount, redundant=redundant)

    def _scores(self, texts: Sequence[str], embeddings: NDArray[np.float32], query: str | None) -> NDArray[np.float32]:
        asked = self.encoder.encode([query])[0] if query else None
        return self.salience.score(texts, embeddings, asked)

    def _cut(self, name: str, divided: Divided) -> Divided:
        """The first segments, of `max_tokens` tokens together."""
        if self.max_tokens is None:
            return divided
        ends = np.cumsum([segment.tokens for segment in divided.segments])
        kept = max(1, int((ends <= self.max_tokens).sum()))
        if kept < len(divided.segments):
            self.say(
                f"{name}: {ends[kept - 1]:,} of {ends[-1]:,} tokens are trained on, for max_tokens={self.max_tokens:,}"
            )
        segments = divided.segments[:kept]
        return Divided(
            divided.text,
            divided.sentences,
            segments,
            [index for index in divided.chosen if index < segments[-1].last],
        )

    def inputs(
        self, name: str, divided: Divided, query: str | None = None, targets: Sequence[str] | None = None
    ) -> DocumentInputs:
        """The tokens of each segment, with the query before it and salient content around it or beside it.

        A target that is longer than the decoder's window is split over several passes of its segment.
        """
        steps: list[tuple[Segment, list[int]]] = []
        for number, segment in enumerate(divided.segments):
            pieces = self._target(name, targets[number]) if targets is not None else [[]]
            steps += [(segment, piece) for piece in pieces]
        segments = [self._tokens(name, divided, segment, query) for segment, _ in steps]
        spans: list[tuple[int, int, int]] = []
        salient: list[list[int]] = []
        if self.config.salient == "key-value":
            place: dict[int, int] = {}
            for number, (segment, _) in enumerate(steps):
                for index in divided.chosen:
                    if segment.first <= index < segment.last and index not in place:
                        place[index] = len(spans)
                        spans.append((number, *self._span(divided, segment, index, query)))
            for segment, _ in steps:
                before, behind = outermost(divided.chosen, segment, divided.sentences, self.config.salient_size)
                salient.append([place[index] for index in (*before, *behind)])
        return DocumentInputs(
            name, segments, [target for _, target in steps] if targets is not None else (), spans, salient
        )

    def _target(self, name: str, text: str) -> list[list[int]]:
        """The tokens of a target, in as many pieces as the decoder's window asks for; no sentence is divided but one
        that is longer than the window."""
        whole = self._ids(text)
        if len(whole) <= self.longest_target:
            return [whole]
        room = self.longest_target - self.marks
        sentences = measure(text, sentence_spans(text), self.tokenizer, room - 8)  # together they may take a few more
        pieces: list[tuple[int, int]] = []
        used = room
        for sentence in sentences:
            if used + sentence.tokens > room - 8:
                pieces.append((sentence.start, sentence.end))
                used = sentence.tokens
            else:
                pieces[-1] = (pieces[-1][0], sentence.end)
                used += sentence.tokens
        self.say(
            f"{name}: a target of {len(whole):,} tokens is split into {len(pieces)}, of at most "
            f"{self.longest_target:,} tokens each"
        )
        return [self._ids(text[start:end].strip()) for start, end in pieces]

    def _tokens(self, name: str, divided: Divided, segment: Segment, query: str | None) -> list[int]:
        text = divided.text[segment.start : segment.end].strip()
        before: list[int] = []
        behind: list[int] = []
        if self.config.salient == "text":
            frame = len(self._ids(self._asked(augment("-", ["-"], ["-"]), query)))
            before, behind = outermost(divided.chosen, segment, divided.sentences, self.window - segment.tokens - frame)
        while True:
            content = text
            if self.config.salient == "text":
                content = augment(text, *([_plain(divided, index) for index in side] for side in (before, behind)))
            ids = self._ids(self._asked(content, query))
            if len(ids) <= self.window:
                return ids
            if not before and not behind:
                raise AwesumError(
                    f"{name}: a segment of {segment.tokens} tokens and the query take {len(ids)} tokens, more than the "
                    f"model's {self.window}: shorten the query"
                )
            # Sentences joined up may take a few tokens more than each alone: the one that was taken last goes.
            before, behind = (before[:-1], behind) if len(before) > len(behind) else (before, behind[1:])

    def _span(self, divided: Divided, segment: Segment, index: int, query: str | None) -> tuple[int, int]:
        """The tokens of a sentence among those of its segment, whose content is then the segment's own text."""
        text = divided.text[segment.start : segment.end]
        asked = self._asked(text.strip(), query)
        shift = len(asked) - len(text.strip()) - (segment.start + len(text) - len(text.lstrip()))
        whole = divided.sentences[index]
        # Without the white space around it, which many tokenizers count to the first token of the next sentence.
        sentence = divided.text[whole.start : whole.end]
        start = whole.start + len(sentence) - len(sentence.lstrip()) + shift
        end = start + len(sentence.strip())
        offsets = self.tokenizer(asked, return_offsets_mapping=True, split_special_tokens=True, verbose=False)[
            "offset_mapping"
        ]
        inside = [at for at, (first, last) in enumerate(offsets) if first < last and first < end and last > start]
        return inside[0], inside[-1] + 1

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, split_special_tokens=True, verbose=False)["input_ids"]

    @staticmethod
    def _asked(text: str, query: str | None) -> str:
        """The query stands before every segment."""
        return f"{query.strip()} {text}" if query else text


class CausalPreparation(Preparation):
    """For a causal model: the segment first, behind it what else it is told and asked, then the answer."""

    def __init__(self, *args: Any, end: int, **options: Any) -> None:
        super().__init__(*args, **options)
        self.chat, self.end = Chat(self.tokenizer), end
        self.marks = 1  # the token with which an answer ends
        self.longest_target = self.window // 5

    @property
    def limits(self) -> tuple[int, int]:
        """The paper's limits of a segment, or less for a model with a smaller window."""
        upper = min(UPPER, self.window * 3 // 5)
        return LOWER * upper // UPPER, upper

    def inputs(
        self, name: str, divided: Divided, query: str | None = None, targets: Sequence[str] | None = None
    ) -> DocumentInputs:
        """The tokens of each segment, of what stands behind it, and of its answer.

        A target that is too long for the model's window is split over several passes of its segment.
        """
        steps: list[tuple[Segment, list[int]]] = []
        for number, segment in enumerate(divided.segments):
            pieces = self._target(name, targets[number]) if targets is not None else [[]]
            steps += [(segment, piece) for piece in pieces]
        return DocumentInputs(
            name,
            [
                [*self.chat.before, *self.chat.ids(divided.text[segment.start : segment.end].strip())]
                for segment, _ in steps
            ],
            [target for _, target in steps] if targets is not None else (),
            requests=[self._request(name, divided, segment, query) for segment, _ in steps],
            frame=len(self.chat.before),
            special=self.marks,
        )

    def _chosen(
        self,
        text: str,
        sentences: Sequence[Sentence],
        segments: Sequence[Segment],
        embeddings: NDArray[np.float32],
        query: str | None,
        words: int | None,
    ) -> list[int]:
        """With points, the sentences that the segments are asked to put in other words: a summary of so many words."""
        if self.config.salient != "points":
            return super()._chosen(text, sentences, segments, embeddings, query, words)
        texts = [text[sentence.start : sentence.end] for sentence in sentences]
        calibration = self.salience.calibration
        amount = words or calibration.words(sum(map(count_words, texts)))
        return choose(
            self._scores(texts, embeddings, query),
            embeddings,
            word_costs(texts),
            amount,
            segments=segments,
            most=longest_share(amount, len(segments)),
            redundant=calibration.redundant,
        )

    def _targets(self, summary: str, divided: Divided) -> list[str]:
        """With points, a segment that has none has no target: nobody will ask for it."""
        targets = super()._targets(summary, divided)
        if self.config.salient != "points":
            return targets
        return [
            target if _within(divided.chosen, segment) else ""
            for target, segment in zip(targets, divided.segments, strict=True)
        ]

    def _request(self, name: str, divided: Divided, segment: Segment, query: str | None) -> list[int]:
        """The tokens between a segment and its answer."""
        bare = len(self.chat.before) + len(self.chat.ids(behind_segment(query))) + len(self.chat.behind)
        left = self.window - self.longest_target - segment.tokens - bare
        if left < 0:
            raise AwesumError(
                f"{name}: a segment of {segment.tokens} tokens and the query take more than the model's {self.window} "
                "leave beside the answer: shorten the query"
            )
        before: list[int] = []
        behind: list[int] = []
        if self.config.salient == "text":
            room = min(self.config.salient_size, left - FRAME)
            before, behind = outermost(divided.chosen, segment, divided.sentences, room)
        points: list[int] = []
        if self.config.salient == "points":
            room = left - FRAME
            for index in _within(divided.chosen, segment):
                room -= divided.sentences[index].tokens
                points += [index] if room >= 0 else []
        told = ([_plain(divided, index) for index in some] for some in (before, behind, points))
        return [*self.chat.ids(behind_segment(query, *told)), *self.chat.behind]

    def _ids(self, text: str) -> list[int]:
        return [*self.chat.ids(text), self.end]


def _vectors(document: PreparedDocument) -> dict[str, NDArray[np.float32]]:
    """The vector of each sentence, by its text."""
    vectors = document.embeddings.astype(np.float32)
    return {
        document.document[start:end]: vector for (start, end), vector in zip(document.sentences, vectors, strict=True)
    }


def _within(chosen: Sequence[int], segment: Segment) -> list[int]:
    return [index for index in chosen if segment.first <= index < segment.last]


def _plain(divided: Divided, index: int) -> str:
    sentence = divided.sentences[index]
    return " ".join(divided.text[sentence.start : sentence.end].split())


class Prepared(Sequence[DocumentInputs]):
    """Examples as inputs, prepared when they are first asked for and kept in `folder` from then on."""

    def __init__(
        self, examples: Sequence[Example] | Sequence[PreparedDocument], preparation: Preparation, folder: Path
    ) -> None:
        self.examples, self.preparation, self.folder = examples, preparation, folder
        self._key = json.dumps(preparation.key)

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: int) -> DocumentInputs:  # type: ignore[override]
        example = self.examples[index]
        origin = isinstance(example, PreparedDocument)  # whose vectors are rounded
        known = json.dumps([self._key, origin, example.id, example.document, example.summary, example.query])
        path = self.folder / f"{hashlib.sha256(known.encode()).hexdigest()[:32]}.json"
        try:
            return DocumentInputs(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            inputs = self.preparation(example)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            files.write(path, json.dumps(asdict(inputs)))
        except OSError as error:
            raise AwesumError(
                f"cannot keep what was prepared in {self.folder} ({error.strerror or error}): make room there, or set "
                "AWESUM_CACHE to another folder"
            ) from error
        return inputs
