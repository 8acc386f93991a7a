"""The greedy oracle by brute force: Google's package scores the selection with every sentence added, each round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rouge_score.rouge_scorer import RougeScorer

SCORER = RougeScorer(["rouge1", "rouge2"], use_stemmer=True)


def score(sentences: Sequence[str], chosen: Iterable[int], summary: str) -> float:
    scores = SCORER.score(summary, " ".join(sentences[number] for number in sorted(chosen)))
    return float(scores["rouge1"].fmeasure + scores["rouge2"].fmeasure)


def greedy(sentences: Sequence[str], summary: str) -> list[int]:
    chosen: list[int] = []
    best_score = 0.0
    while True:
        best = None
        for number in range(len(sentences)):
            if number in chosen:
                continue
            candidate_score = score(sentences, [*chosen, number], summary)
            if candidate_score > best_score:
                best, best_score = number, candidate_score
        if best is None:
            return chosen
        chosen.append(best)
