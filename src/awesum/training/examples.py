"""From examples to the inputs of a model: the document in segments, each with its target, as token ids.

Slow compared with a training step, because the sentence encoder reads the whole document: so the inputs are cached on
disk, and each further epoch only reads them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from awesum import files
from awesum.analysis.selection import within
from awesum.document import Document
from awesum.errors import AwesumError
from awesum.length import Length, count_words
from awesum.prepared.shards import PreparedDocument
from awesum.recurrence import DocumentInputs
from awesum.scoring.targets import assign

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from awesum.analysis.analysis import Analysis, Analyst
    from awesum.compose.layouts import Layout
    from awesum.datasets import Example
    from awesum.training.trainable import Report

VERSION = 4
"""Of the inputs: to be raised when the same example would give others."""


class Inputs(Protocol):
    """Turns an example into the inputs of a model."""

    @property
    def key(self) -> list[Any]:
        """Cache key: changes whenever the inputs of an example would."""
        ...

    def __call__(self, example: Example | PreparedDocument) -> DocumentInputs:
        """The inputs of one example."""
        ...


class SegmentInputs:
    """The inputs of a model that goes from segment to segment: each segment with the sentences that it is shown, and
    the sentences of the reference summary that it should write."""

    def __init__(
        self, layout: Layout, analyst: Analyst, *, max_tokens: int | None = None, report: Report = lambda note: None
    ) -> None:
        self.layout, self.analyst, self.max_tokens, self.report = layout, analyst, max_tokens, report

    @property
    def key(self) -> list[Any]:
        """See `Inputs.key`. The encoder and the extractor count by their weights."""
        return [VERSION, *self.layout.key, self.max_tokens, *self.analyst.fingerprint()]

    @property
    def salient(self) -> str:
        """How the model is shown salient sentences."""
        return str(self.layout.config.salient)

    @property
    def _selects(self) -> bool:
        """Whether it matters to the model which sentences are salient."""
        return self.salient != "none" or self.layout.keeps_salient

    def __call__(self, example: Example | PreparedDocument) -> DocumentInputs:
        """See `Inputs.__call__`. A prepared document brings its sentence vectors, which are most of the work."""
        analysis = self.analyse(example)
        selected = self.selected(analysis)
        analysis = self._cut(analysis)
        # Sentences after the cut are not shown either.
        selected = [index for index in selected if index < analysis.segments[-1].last]
        return self.layout.inputs(analysis, selected, self._targets(example.summary, analysis, selected))

    def analyse(self, example: Example | PreparedDocument) -> Analysis:
        """The document, with a selection of as many words as the reference summary has."""
        if not example.document.strip():
            raise AwesumError(f"{example.id} has no sentence: remove it from the data, or add its text")
        words = count_words(example.summary)
        analysis = self.analyst.analyse(
            Document(example.document, path=example.id),
            tokenizer=self.layout.tokenizer,
            limits=self.layout.limits,
            length=Length.parse(f"{words}w" if words else "auto"),
            query=example.query if self._selects else None,  # where nothing is selected, it need not be encoded
            known=_vectors(example) if isinstance(example, PreparedDocument) else None,
        )
        if not analysis.tokens:
            raise AwesumError(f"{example.id} has no sentence: remove it from the data, or add its text")
        return replace(analysis, query=example.query)

    def selected(self, analysis: Analysis) -> Sequence[int]:
        """The sentences that the model is shown: those to paraphrase, the salient tenth of the document, or none."""
        if self.salient == "rewrite":
            return analysis.selection.selected
        return analysis.salient if self.salient != "none" else []

    def _cut(self, analysis: Analysis) -> Analysis:
        """The first segments, of at most `max_tokens` tokens together."""
        if self.max_tokens is None:
            return analysis
        ends = np.cumsum([segment.tokens for segment in analysis.segments])
        count = max(1, int((ends <= self.max_tokens).sum()))
        if count < len(analysis.segments):
            self.report(
                f"{analysis.document.path}: trained on {ends[count - 1]:,} of {ends[-1]:,} tokens "
                f"(max_tokens={self.max_tokens:,})"
            )
        return replace(analysis, segments=analysis.segments[:count])

    def _targets(self, summary: str, analysis: Analysis, selected: Sequence[int]) -> list[str]:
        """The sentences of the summary that each segment should write.

        A segment that is asked to paraphrase nothing has no target: when the model writes, it will not be asked.
        """
        targets = assign(summary, analysis.document.text, analysis.segments)
        if self.salient != "rewrite":
            return targets
        return [
            target if within(selected, segment) else ""
            for target, segment in zip(targets, analysis.segments, strict=True)
        ]


def _vectors(document: PreparedDocument) -> dict[str, NDArray[np.float32]]:
    """The vector of each sentence, by its text."""
    vectors = document.embeddings.astype(np.float32)
    return {
        document.document[start:end]: vector for (start, end), vector in zip(document.sentences, vectors, strict=True)
    }


class Examples(Sequence[DocumentInputs]):
    """The inputs of some examples, computed when they are first needed and cached in `folder`."""

    def __init__(self, examples: Sequence[Example] | Sequence[PreparedDocument], inputs: Inputs, folder: Path) -> None:
        self.examples, self.inputs, self.folder = examples, inputs, folder
        self._key = json.dumps(inputs.key)

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: int) -> DocumentInputs:  # type: ignore[override]
        example = self.examples[index]
        is_prepared = isinstance(example, PreparedDocument)  # its vectors are in half precision
        known = json.dumps([self._key, is_prepared, example.id, example.document, example.summary, example.query])
        path = self.folder / f"{hashlib.sha256(known.encode()).hexdigest()[:32]}.json"
        try:
            return DocumentInputs(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            inputs = self.inputs(example)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            files.write(path, json.dumps(asdict(inputs)))
        except OSError as error:
            raise AwesumError(
                f"cannot cache the inputs of training in {self.folder} ({error.strerror or error}): free some space "
                "there, or set AWESUM_CACHE to another folder"
            ) from error
        return inputs
