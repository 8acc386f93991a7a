"""Prepare a dataset: compute what training needs from each document, once, and store it.

    OUT/KEY/settings.json           how the documents were prepared; KEY is a hash of these settings
    OUT/KEY/train-00000.parquet     a shard, moved into place when complete
    OUT/KEY/train.json              written when all shards of the split exist: their number of documents and figures

Each shard stores the digests of its examples, so an existing shard is reused if it is intact and its source has not
changed. `splits.prepared` reads the result.
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

from awesum import files
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
from awesum.settings import SMOLLM2
from awesum.stems import stems
from awesum.version import __version__
from awesum.weights import MINILM_WHEEL, minilm_folder, smollm2_folder
from awesum.workers import cores, work

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerBase

VERSION = 1
"""Increase this when the same documents give other results, or when the file format changes."""


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
    """Prepare the chosen splits, or all that exist; of each, the first `documents`, or all.

    `tokenizer` measures sentences and segments: a folder or a hub name, by default that of SmolLM2. `encoder` computes
    the embeddings: a folder or a hub name, by default MiniLM. Shards of an earlier run are reused. With several
    `processes` (default: one per core), a calling script needs the guard `if __name__ == "__main__"`.
    """
    shards.require()
    for name, number in (("documents", documents), ("processes", processes)):
        if number is not None and number < 1:
            raise AwesumError(f"--{name} {number} is too few: give at least 1, or leave it out")
    names = tuple(dict.fromkeys(chosen)) or splits(source) or ("train",)  # "train" leads to the error for no dataset
    streams = [_stream(source, name) for name in names]  # a missing split is refused before any is read
    folder = smollm2_folder() if tokenizer == SMOLLM2 else None
    recipe = Recipe(tokenizer, folder, encoder or minilm_folder(), lower, upper)
    settings = _settings(source, recipe)
    key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
    target = Path(out).expanduser() / key
    if not (target / SETTINGS).is_file():
        # The name is for people and not part of the key: it may refer to another tokenizer tomorrow.
        settings["tokenizer"] = {"name": tokenizer, **settings["tokenizer"]}
        _write_file(target / SETTINGS, json.dumps(settings, indent=1) + "\n")
    figures = [_Split(stream, target, documents, quiet).run(recipe, processes or cores()) for stream in streams]
    return Preparations(target, tuple(figures))


@dataclass(frozen=True)
class Recipe:
    """How to prepare a document, in a form that can be sent to other processes."""

    tokenizer: str
    tokenizer_folder: Path | None
    encoder: SentenceEncoder | Path | str
    lower: int = LOWER
    upper: int = UPPER

    def load(self) -> Preparer:
        """Load the models."""
        encoder = self.encoder if isinstance(self.encoder, SentenceEncoder) else SentenceEncoder.load(self.encoder)
        return Preparer(load_tokenizer(self.tokenizer, self.tokenizer_folder), encoder, self.lower, self.upper)


class Preparer:
    """Prepares documents one at a time."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, encoder: SentenceEncoder, lower: int = LOWER, upper: int = UPPER
    ) -> None:
        self.tokenizer, self.encoder, self.lower, self.upper = tokenizer, encoder, lower, upper
        self._last: tuple[str, _Analysis] | None = None

    def __call__(self, example: Example) -> PreparedDocument:
        """Prepare one example."""
        text = example.document
        if self._last is None or self._last[0] != text:  # consecutive rows may share a document (queries on a meeting)
            self._last = text, self._analyze(text)
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

    def _analyze(self, text: str) -> _Analysis:
        sentences = measure(text, sentence_spans(text), self.tokenizer, self.upper)
        embeddings = self.encoder.encode([text[sentence.start : sentence.end] for sentence in sentences])
        return sentences, embeddings, segmentation.segment(sentences, embeddings, self.lower, self.upper)


_Analysis = tuple[list[Sentence], "NDArray[np.float32]", list[Segment]]


def coverage(summary: str, assigned: Sequence[str], segments: Sequence[str]) -> float | None:
    """The share of the summary's distinct words (ROUGE stems) that occur in a segment whose target contains them."""
    words = set(stems(summary))
    if not words:
        return None
    covered: set[str] = set()
    for target, segment in zip(assigned, segments, strict=True):
        if target:
            covered |= set(stems(target)) & set(stems(segment))
    return len(covered & words) / len(words)


@dataclass
class Figures:
    """Figures of a prepared split."""

    split: str
    documents: int = 0
    shards: int = 0
    written: int = 0
    """Shards written by this run; the others were reused."""
    sentences: int = 0
    segments: int = 0
    oracle: int = 0
    """Sentences selected by the oracle."""
    covered: float = 0.0
    """The sum of `coverage` over the `coverable` documents: those whose summary has ROUGE tokens."""
    coverable: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """Invalid rows, by kind."""
    seconds: float = 0.0

    @property
    def coverage(self) -> float | None:
        """The mean coverage over documents."""
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
        """The figures that are the same for every run."""
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
            f"{self.split}: {self.documents:,} documents in {files} ({self.written:,} written, "
            f"{self.shards - self.written:,} reused), {self.sentences:,} sentences ({self.oracle:,} in the oracle), "
            f"{self.segments:,} segments; coverage {covered} (share of the summary's distinct words found in the "
            f"segment that has to write them); skipped {skipped}; {self.seconds:.1f} s"
        )


@dataclass(frozen=True)
class Preparations:
    """The folder of the prepared documents, and the figures of each split."""

    folder: Path
    splits: tuple[Figures, ...]

    def __str__(self) -> str:
        return "\n".join([*map(str, self.splits), f"in {self.folder}"])


class _Split:
    """Prepares one split and writes its shards."""

    def __init__(self, stream: Stream, folder: Path, documents: int | None, quiet: bool) -> None:
        from tqdm import tqdm

        self.stream, self.folder, self.documents = stream, folder, documents
        self.figures = Figures(stream.split)
        self.pending: deque[tuple[int, list[str]]] = deque()  # shards being prepared: their numbers and digests
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
        """Prepare the missing shards."""
        started = time.perf_counter()
        shard: list[PreparedDocument] = []
        with self.bar, closing(work(recipe.load, self._missing(), processes)) as documents:
            for document in documents:
                shard.append(document)
                self.bar.update()
                number, digests = self.pending[0]
                if len(shard) == len(digests):
                    self._write(number, shard, digests)
                    self.pending.popleft()
                    shard = []
        self.figures.skipped = self.stream.skipped.copy()
        content = json.dumps(self.figures.as_dict(), indent=1) + "\n"
        if not self.finished.is_file() or self.finished.read_text(encoding="utf-8") != content:
            _write_file(self.finished, content)
        self.figures.seconds = time.perf_counter() - started
        return self.figures

    def _missing(self) -> Iterator[Example]:
        """The examples of the shards that are missing, damaged, or prepared from other examples."""
        rows = islice(self.stream, self.documents)
        number = 0
        while shard := list(islice(rows, SIZE)):
            digests = [_digest(example) for example in shard]
            if reused := self._existing(number, digests):
                self.figures.count(reused)
                if not self.bar.disable:
                    self.bar.initial += len(reused)  # they took no time, so they must not affect the estimate
                    self.bar.n += len(reused)
                    self.bar.refresh()
            else:
                self.pending.append((number, digests))
                yield from shard
            number += 1

    def _existing(self, number: int, digests: list[str]) -> list[PreparedDocument]:
        """The documents of a shard, if an earlier run prepared it from these examples, possibly among others."""
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
        self.finished.unlink(missing_ok=True)  # an interrupted run must not pass old and new shards off as finished
        _write_file(shard_path(self.folder, self.stream.split, number), shards.to_bytes(documents, digests))
        self.figures.written += 1
        self.figures.count(documents)


def _write_file(path: Path, content: str | bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, content)
    except OSError as error:
        raise AwesumError(
            f"cannot write {path} ({error.strerror or error}): free some space there, or give another folder as --out"
        ) from error


def _stream(source: str | Path, split: str) -> Stream:
    from tqdm import tqdm

    if Path(split).name != split:
        raise AwesumError(f"{split!r} cannot be the name of a split, because it contains a folder: give a plain name")
    return examples(source, split, say=lambda note: tqdm.write(f"awesum: {note}", file=sys.stderr))


def _count(stream: Stream, documents: int | None) -> int | None:
    """The expected number of documents, for the progress bar: the rows of a file, or the paper's figure, if any."""
    if isinstance(stream.found, Dataset):
        if (paper := stream.found.paper) is None:
            return documents
        expected = {"train": paper.train, "validation": paper.validation, "test": paper.test}[stream.split]
        return min(expected, documents or expected)
    return sum(1 for _ in islice(lines(stream.found), documents))


def _digest(example: Example) -> str:
    """A hash of everything in an example that preparation uses."""
    content = json.dumps([example.id, example.document, example.summary, example.query])
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def _settings(source: str | Path, recipe: Recipe) -> dict[str, Any]:
    """Everything the result depends on, except the rows themselves."""
    tokenizer = load_tokenizer(recipe.tokenizer, recipe.tokenizer_folder)
    if not tokenizer.is_fast:
        raise AwesumError(
            f"the tokenizer of {recipe.tokenizer} does not report the offsets of its tokens: "
            "give a model with a tokenizer.json"
        )
    return {
        "dataset": str(source) if is_public(source) else Path(source).expanduser().resolve().name,
        "awesum": __version__,
        "version": VERSION,
        "libraries": {name: version(name) for name in ("nupunkt", "rouge-score", "nltk")},
        "tokenizer": {"sha256": _tokenizer_hash(tokenizer)},
        "sentence encoder": encoder_settings(recipe.encoder),
        "segments": {"lower limit in tokens": recipe.lower, "upper limit in tokens": recipe.upper},
        "documents in a shard": SIZE,
    }


def encoder_settings(encoder: SentenceEncoder | Path | str) -> dict[str, Any]:
    """What identifies the encoder of prepared documents: its name and the hash of its weights."""
    if isinstance(encoder, Path):
        return {"name": MINILM_WHEEL.requirement, "sha256": MINILM_WHEEL.sha256, "window in tokens": WINDOW}
    encoder_name = encoder if isinstance(encoder, str) else GIVEN
    encoder = SentenceEncoder.load(encoder) if isinstance(encoder, str) else encoder
    digest = hashlib.sha256(_tokenizer_hash(encoder.tokenizer).encode())
    digest.update(encoder.model.config.to_json_string().encode())
    for name, weight in sorted(encoder.model.state_dict().items()):
        digest.update(name.encode() + weight.float().cpu().numpy().tobytes())
    return {"name": encoder_name, "sha256": digest.hexdigest(), "window in tokens": WINDOW}


def _tokenizer_hash(tokenizer: PreTrainedTokenizerBase) -> str:
    return hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest()
