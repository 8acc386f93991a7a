"""The segment of each summary sentence by brute force: Google's package scores every pair."""

from __future__ import annotations

from collections.abc import Sequence

from rouge_score.rouge_scorer import RougeScorer

SCORER = RougeScorer(["rouge1", "rouge2"], use_stemmer=True)


def nearest(sentences: Sequence[str], texts: Sequence[str]) -> list[int]:
    places = []
    for number, sentence in enumerate(sentences):
        best, best_score = number * len(texts) // len(sentences), 0.0
        for place, text in enumerate(texts):
            scores = SCORER.score(text, sentence)
            score = scores["rouge1"].fmeasure + scores["rouge2"].fmeasure
            if score > best_score:
                best, best_score = place, score
        places.append(best)
    return places
