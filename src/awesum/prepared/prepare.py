"""Preparing: what training needs to know of each document, made once and kept on disk.

    OUT/KEY/settings.json           how the documents were prepared; KEY stands for all of it and for nothing else
    OUT/KEY/train-00000.parquet     a shard, moved into place when it is whole
    OUT/KEY/train.json              when all shards of the split are there: how many documents, and their figures

A shard remembers what its documents were made of, so that one that is there is kept if it is intact and its source has
not changed. `prepared` reads them back.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from awesum import __version__, files
from awesum.analysis import segmentation
from awesum.analysis.embedding import WINDOW, SentenceEncoder
from awesum.analysis.segmentation import LOWER, UPPER, measure
from awesum.analysis.sentences import sentence_spans
from awesum.datasets.dataset import Dataset
from awesum.datasets.files import lines
from awesum.datasets.rows import Example
from awesum.datasets.sources import is_public, splits
from awesum.datasets.stream import Stream, examples
from awesum.document import Segment, Sentence
from awesum.errors import AwesumError
from awesum.loading import load_tokenizer
from awesum.prepared import shards
from awesum.prepared.shards import SIZE, PreparedDocument
from awesum.prepared.splits import GIVEN, SETTINGS, finished_path, shard_path
from awesum.scoring import oracle, targets
from awesum.scoring.rouge import tokens
from awesum.settings import SMOLLM2
from awesum.weights import MINILM_WHEEL, minilm_folder, smollm2_folder
from awesum.workers import cores, work

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerBase

VERSION = 1
"""To be raised when something else is made of the same documents, or is written down otherwise."""


def prepare(
    source: str | Path,
    out: str | Path,
    chosen: Sequence[str] = (),
    *,
    tokenizer: str = SMOLLM2,
    encoder: SentenceEncoder | str | None = None,
    documents: int | None = None,
    processes: int | None = None,
    lower: int = LOWER,
    upper: int = UPPER,
    quiet: bool = False,
) -> Preparations:
    """Prepare the splits that were chosen, or all that are there; of each the first `documents`, or all.

    `tokenizer` measures sentences and segments: the embedded one, a folder, or a name on the hub. `encoder` gives the
    embeddings: a folder, a name on the hub, or the embedded one if it is not said. What an earlier run has made is not
    made again. With more than one of `processes` (as many as there are cores if it is not said) a script has to be
    guarded by `if __name__ == ...`.
    """
    shards.require()
    for name, number in (("documents", documents), ("processes", processes)):
        if number is not None and number < 1:
            raise AwesumError(f"--{name} {number} is too few: give at least 1, or leave it out")
    names = tuple(dict.fromkeys(chosen)) or splits(source) or ("train",)  # the last for the error that there is nothing
    streams = [_stream(source, name) for name in names]  # before any is read: a missing one is refused at once
    folder = smollm2_folder() if tokenizer == SMOLLM2 else None
    recipe = Recipe(tokenizer, folder, encoder or minilm_folder(), lower, upper)
    known = _settings(source, recipe)
    key = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:12]
    target = Path(out).expanduser() / key
    if not (target / SETTINGS).is_file():
        known["tokenizer"] = {"name": tokenizer, **known["tokenizer"]}  # in words only: it may name another tomorrow
        _keep(target / SETTINGS, json.dumps(known, indent=1) + "\n")
    made = [_Split(stream, target, documents, quiet).run(recipe, processes or cores()) for stream in streams]
    return Preparations(target, tuple(made))


@dataclass(frozen=True)
class Recipe:
    """How a document is prepared, in a form that other processes can be sent."""

    tokenizer: str
    tokenizer_folder: Path | None
    encoder: SentenceEncoder | Path | str
    lower: int = LOWER
    upper: int = UPPER

    def load(self) -> Maker:
        """Ready to prepare, with models loaded."""
        encoder = self.encoder if isinstance(self.encoder, SentenceEncoder) else SentenceEncoder.load(self.encoder)
        return Maker(load_tokenizer(self.tokenizer, self.tokenizer_folder), encoder, self.lower, self.upper)


class Maker:
    """Prepares one document after the other."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, encoder: SentenceEncoder, lower: int = LOWER, upper: int = UPPER
    ) -> None:
        self.tokenizer, self.encoder, self.lower, self.upper = tokenizer, encoder, lower, upper
        self._last: tuple[str, _Divided] | None = None

    def __call__(self, example: Example) -> PreparedDocument:
        """All that is known of an example."""
        text = example.document
        if self._last is None or self._last[0] != text:  # a meeting comes as often as it has questions
            self._last = text, self._divide(text)
        sentences, embeddings, segments = self._last[1]
        texts = [text[sentence.start : sentence.end] for sentence in sentences]
        assigned = targets.assign(example.summary, text, segments)
        return PreparedDocument(
            id=example.id,
            document=text,
            summary=example.summary,
            query=example.query,
            sentences=[(sentence.start, sentence.end) for sentence in sentences],
            tokens=[sentence.tokens for sentence in sentences],
            segments=[(segment.first, segment.last) for segment in segments],
            targets=assigned,
            coverage=coverage(example.summary, assigned, [text[segment.start : segment.end] for segment in segments]),
            oracle=sorted(oracle.greedy(texts, example.summary)),
            embeddings=embeddings.astype(np.float16),
        )

    def _divide(self, text: str) -> _Divided:
        sentences = measure(text, sentence_spans(text), self.tokenizer, self.upper)
        embeddings = self.encoder.encode([text[sentence.start : sentence.end] for sentence in sentences])
        return sentences, embeddings, segmentation.segment(sentences, embeddings, self.lower, self.upper)


_Divided = tuple[list[Sentence], "NDArray[np.float32]", list[Segment]]


def coverage(summary: str, assigned: Sequence[str], segments: Sequence[str]) -> float | None:
    """Of the summary's distinct words (ROUGE's stems), the share that stands in a segment whose target has them."""
    words = set(tokens(summary))
    if not words:
        return None
    covered: set[str] = set()
    for target, segment in zip(assigned, segments, strict=True):
        if target:
            covered |= set(tokens(target)) & set(tokens(segment))
    return len(covered & words) / len(words)


@dataclass
class Figures:
    """Of a split that was prepared."""

    split: str
    documents: int = 0
    shards: int = 0
    made: int = 0
    """Shards that were not there already."""
    sentences: int = 0
    segments: int = 0
    oracle: int = 0
    """Sentences that the oracle chose."""
    covered: float = 0.0
    """The sum of the coverages of `coverable` documents: those whose summary has a word of ROUGE."""
    coverable: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """Rows that are no examples, by kind."""
    seconds: float = 0.0

    @property
    def coverage(self) -> float | None:
        """The mean over documents."""
        return self.covered / self.coverable if self.coverable else None

    def count(self, documents: Iterable[PreparedDocument]) -> None:
        """Add the documents of a shard."""
        self.shards += 1
        for document in documents:
            self.documents += 1
            self.sentences += len(document.sentences)
            self.segments += len(document.segments)
            self.oracle += len(document.oracle)
            if document.coverage is not None:
                self.covered += document.coverage
                self.coverable += 1

    def as_dict(self) -> dict[str, Any]:
        """What does not depend on the run."""
        return {
            "documents": self.documents,
            "shards": self.shards,
            "sentences": self.sentences,
            "segments": self.segments,
            "oracle_sentences": self.oracle,
            "coverage": None if self.coverage is None else round(self.coverage, 6),
            "skipped": dict(sorted(self.skipped.items())),
        }

    def __str__(self) -> str:
        skipped = ", ".join(f"{number:,} × {kind}" for kind, number in sorted(self.skipped.items())) or "nothing"
        covered = "-" if self.coverage is None else f"{self.coverage:.1%}"
        files = "1 shard" if self.shards == 1 else f"{self.shards:,} shards"
        return (
            f"{self.split}: {self.documents:,} documents in {files} ({self.made:,} made, "
            f"{self.shards - self.made:,} were there), {self.sentences:,} sentences ({self.oracle:,} of the oracle), "
            f"{self.segments:,} segments; coverage {covered} (of the summary's distinct words, those in the segment "
            f"that has to write them); skipped {skipped}; {self.seconds:.1f} s"
        )


@dataclass(frozen=True)
class Preparations:
    """What was asked for, and where it is now."""

    folder: Path
    splits: tuple[Figures, ...]

    def __str__(self) -> str:
        return "\n".join([*map(str, self.splits), f"in {self.folder}"])


class _Split:
    """One split on its way to disk."""

    def __init__(self, stream: Stream, folder: Path, documents: int | None, quiet: bool) -> None:
        from tqdm import tqdm

        self.stream, self.folder, self.documents = stream, folder, documents
        self.figures = Figures(stream.split)
        self.coming: deque[tuple[int, list[str]]] = deque()  # the shards whose documents are under way, with digests
        self.finished = finished_path(folder, stream.split)
        hidden = quiet or not sys.stderr.isatty()
        self.bar = tqdm(
            total=None if hidden else _count(stream, documents),
            desc=stream.split,
            unit=" documents",
            leave=False,
            file=sys.stderr,
            disable=hidden,
        )

    def run(self, recipe: Recipe, processes: int) -> Figures:
        """Make what is missing."""
        started = time.perf_counter()
        made: list[PreparedDocument] = []
        with self.bar, closing(work(recipe.load, self._missing(), processes)) as documents:
            for document in documents:
                made.append(document)
                self.bar.update()
                number, digests = self.coming[0]
                if len(made) == len(digests):
                    self._write(number, made, digests)
                    self.coming.popleft()
                    made = []
        self.figures.skipped = self.stream.skipped.copy()
        content = json.dumps(self.figures.as_dict(), indent=1) + "\n"
        if not self.finished.is_file() or self.finished.read_text(encoding="utf-8") != content:
            _keep(self.finished, content)
        self.figures.seconds = time.perf_counter() - started
        return self.figures

    def _missing(self) -> Iterator[Example]:
        """The examples of the shards that are not there, or not intact, or made of something else."""
        rows = islice(self.stream, self.documents)
        number = 0
        while shard := list(islice(rows, SIZE)):
            digests = [_digest(example) for example in shard]
            if there := self._there(number, digests):
                self.figures.count(there)
                if not self.bar.disable:
                    self.bar.initial += len(there)  # which took no time, and so says nothing of the time left
                    self.bar.n += len(there)
                    self.bar.refresh()
            else:
                self.coming.append((number, digests))
                yield from shard
            number += 1

    def _there(self, number: int, digests: list[str]) -> list[PreparedDocument]:
        """The documents of a shard, if an earlier run has made it of the same examples; more of them do no harm."""
        path = shard_path(self.folder, self.stream.split, number)
        if not path.exists():
            return []
        try:
            shard = shards.read(path)
        except AwesumError:
            return []
        same = shard.digests[: len(digests)] == digests
        return shard.documents[: len(digests)] if same else []

    def _write(self, number: int, documents: list[PreparedDocument], digests: list[str]) -> None:
        self.finished.unlink(missing_ok=True)  # until all are: an interruption must not leave old and new together
        _keep(shard_path(self.folder, self.stream.split, number), shards.to_bytes(documents, digests))
        self.figures.made += 1
        self.figures.count(documents)


def _keep(path: Path, content: str | bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, content)
    except OSError as error:
        raise AwesumError(
            f"cannot write {path} ({error.strerror or error}): make room there, or give another folder as --out"
        ) from error


def _stream(source: str | Path, split: str) -> Stream:
    from tqdm import tqdm

    if Path(split).name != split:
        raise AwesumError(f"{split!r} cannot be the name of a split: it would be a file in another folder")
    return examples(source, split, say=lambda note: tqdm.write(f"awesum: {note}", file=sys.stderr))


def _count(stream: Stream, documents: int | None) -> int | None:
    """How many documents to expect, for the time that is left: rows of a file, or what the paper says."""
    if isinstance(stream.found, Dataset):
        paper = stream.found.paper
        expected = {"train": paper.train, "validation": paper.validation, "test": paper.test}[stream.split]
        return min(expected, documents or expected)
    return sum(1 for _ in islice(lines(stream.found), documents))


def _digest(example: Example) -> str:
    """The same for the same example."""
    known = json.dumps([example.id, example.document, example.summary, example.query])
    return hashlib.sha256(known.encode()).hexdigest()[:32]


def _settings(source: str | Path, recipe: Recipe) -> dict[str, Any]:
    """All that the result depends on but the rows themselves."""
    tokenizer = load_tokenizer(recipe.tokenizer, recipe.tokenizer_folder)
    if not tokenizer.is_fast:
        raise AwesumError(
            f"the tokenizer of {recipe.tokenizer} cannot say where its tokens stand in a text: "
            "give a model that has a tokenizer.json"
        )
    return {
        "dataset": str(source) if is_public(source) else Path(source).expanduser().resolve().name,
        "awesum": __version__,
        "version": VERSION,
        "libraries": {name: version(name) for name in ("nupunkt", "rouge-score", "nltk")},
        "tokenizer": {"sha256": _tokenizer_hash(tokenizer)},
        "sentence encoder": _encoder_settings(recipe.encoder),
        "segments": {"lower limit in tokens": recipe.lower, "upper limit in tokens": recipe.upper},
        "documents in a shard": SIZE,
    }


def _encoder_settings(encoder: SentenceEncoder | Path | str) -> dict[str, Any]:
    if isinstance(encoder, Path):
        return {"name": MINILM_WHEEL.requirement, "sha256": MINILM_WHEEL.sha256, "window in tokens": WINDOW}
    called = encoder if isinstance(encoder, str) else GIVEN
    encoder = SentenceEncoder.load(encoder) if isinstance(encoder, str) else encoder
    digest = hashlib.sha256(_tokenizer_hash(encoder.tokenizer).encode())
    digest.update(encoder.model.config.to_json_string().encode())
    for name, weight in sorted(encoder.model.state_dict().items()):
        digest.update(name.encode() + weight.float().cpu().numpy().tobytes())
    return {"name": called, "sha256": digest.hexdigest(), "window in tokens": WINDOW}


def _tokenizer_hash(tokenizer: PreTrainedTokenizerBase) -> str:
    return hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest()
