"""The beginning of the document: the simplest baseline there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from awesum.settings import Settings
from awesum.systems.system import System, digest, no_progress

if TYPE_CHECKING:
    from awesum.analysis.analysis import Analysis, Progress
    from awesum.document import Document, Sentence
    from awesum.length import Length


class Lead(System):
    """The first sentences, as many as come closest to the length. It needs no weights; its tokens are words."""

    name = "lead"
    description = "the first sentences of the document: a baseline"

    def fingerprint(self) -> str:
        """There are no weights."""
        return digest(self.name)

    def analyse(
        self, document: Document, settings: Settings, progress: Progress = no_progress, reference: str | None = None
    ) -> Analysis:
        """Sentences and segments by their words; the selection is whatever `_selected` says."""
        import numpy as np

        from awesum.analysis.analysis import Analysis
        from awesum.analysis.salience.ratings import Ratings, usual_words
        from awesum.analysis.segmentation import segment
        from awesum.analysis.selection import Selection, within
        from awesum.analysis.sentences import sentence_spans
        from awesum.document import Sentence
        from awesum.length import count_words

        text, length = document.text, self.length(settings)
        sentences = [Sentence(start, end, count_words(text[start:end])) for start, end in sentence_spans(text)]
        vectors = np.zeros((len(sentences), 1), dtype=np.float32)
        segments = segment(sentences, vectors)
        words = sum(sentence.tokens for sentence in sentences)
        amount = length.amount(words, usual_words(words))
        selected = self._selected(document, sentences, length, amount, reference)
        costs = [float(sentence.tokens > 0) if length.in_sentences else sentence.tokens for sentence in sentences]
        selection = Selection(length, amount, costs, selected, [within(selected, each) for each in segments])
        progress("reading", 1, 1)
        ratings = Ratings(np.zeros(len(sentences), dtype=np.float32), amount)
        return Analysis(document, sentences, vectors, segments, ratings, selection, settings.query)

    def _selected(
        self,
        document: Document,
        sentences: Sequence[Sentence],
        length: Length,
        amount: float,
        reference: str | None,
    ) -> list[int]:
        """The sentences of the summary, in document order."""
        selected: list[int] = []
        used = 0.0
        for index, sentence in enumerate(sentences):
            cost = 1 if length.in_sentences else sentence.tokens
            if selected and used + cost - amount > amount - used:  # stopping here comes closer to the length
                break
            if sentence.tokens:
                selected.append(index)
                used += cost
        return selected
