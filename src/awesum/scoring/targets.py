"""Targets: the part of the reference summary that each segment of a document learns to write.

Each sentence of the summary is assigned to the segment it overlaps most with, by ROUGE-1 + ROUGE-2. Every sentence is
assigned exactly once, so the targets of all segments together are the summary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from awesum.analysis.sentences import sentence_spans
from awesum.document import Segment
from awesum.scoring.rouge import Index, NGrams, Vocabulary


def assign(summary: str, document_text: str, segments: Sequence[Segment]) -> list[str]:
    """The target of each segment: its sentences of the summary, in order, joined by spaces; "" if it has none."""
    sentences = [sentence for start, end in sentence_spans(summary) if (sentence := summary[start:end].strip())]
    places = nearest(sentences, [document_text[segment.start : segment.end] for segment in segments])
    targets: list[list[str]] = [[] for _ in segments]
    for sentence, place in zip(sentences, places, strict=True):
        targets[place].append(sentence)
    return [" ".join(target) for target in targets]


def nearest(sentences: Sequence[str], texts: Sequence[str]) -> list[int]:
    """The index of the text with the highest ROUGE-1 F + ROUGE-2 F for each sentence; of equal ones, the first.

    A sentence that shares no word with any text (a row of dashes; Chinese, which has no ROUGE tokens) is assigned by
    position: sentence i of n to the text at i/n. Summaries mostly follow their document, and assigning all of these to
    the first text would teach it to write what it cannot know.
    """
    if sentences and not texts:
        raise ValueError("there is no text to assign the sentences to")
    vocabulary = Vocabulary()
    words = [vocabulary.words(text) for text in texts]
    unigrams, bigrams = (Index([NGrams.of(text, n) for text in words]) for n in (1, 2))
    places = []
    for number, sentence in enumerate(sentences):
        own = vocabulary.words(sentence)
        scores = unigrams.scores(NGrams.of(own, 1)) + bigrams.scores(NGrams.of(own, 2))
        best = int(np.argmax(scores))
        places.append(best if scores[best] > 0 else number * len(texts) // len(sentences))
    return places
