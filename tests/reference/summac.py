"""SummaC as defined: every pair of sentences through the model on its own, then loops."""

from __future__ import annotations

import math

import torch

from awesum.analysis.sentences import sentence_spans

EDGES = (
    "0 .01 .02 .03 .04 .07 .13 .37 .90 .91 .92 .93 .94 .95 .955 .96 .965 .97 .975 .98 .985 .99 .995 1"  # as published
)
WEIGHTS = (
    "-.0045 -.0148 -.0224 .0213 -.0110 -.0796 -.0559 -.0842 -.2454 -.5176 -.3848 -.4864 -.6251 -.4775 -.7724 -.9259 "
    "-1.0009 -1.0923 -1.1168 -1.1111 -1.5993 -2.0340 -2.3670"
)


def sentences(text: str) -> list[str]:
    kept = []
    for start, end in sentence_spans(text):
        sentence = text[start:end].strip()
        if len(sentence) <= 10:
            continue
        kept.append(sentence)
    return kept


@torch.inference_mode()
def ask(model, tokenizer, premise: str, hypothesis: str, longest: int) -> list[float]:
    pair = tokenizer(premise, hypothesis, truncation=True, max_length=longest, return_tensors="pt")
    return model(**pair).logits[0].softmax(-1).tolist()


def images(model, tokenizer, document: str, summary: str, entails: int, contradicts: int, longest: int = 500):
    """E and C as lists of rows, one per document sentence."""
    entailment, contradiction = [], []
    for premise in sentences(document):
        asked = [ask(model, tokenizer, premise, hypothesis, longest) for hypothesis in sentences(summary)]
        entailment.append([probabilities[entails] for probabilities in asked])
        contradiction.append([probabilities[contradicts] for probabilities in asked])
    if not entailment or not entailment[0]:
        return [[0.0]], [[0.0]]
    return entailment, contradiction


def zero_shot(entailment: list[list[float]], contradiction: list[list[float]]) -> float:
    total = 0.0
    for j in range(len(entailment[0])):
        total += max(row[j] for row in entailment) - max(row[j] for row in contradiction)
    return total / len(entailment[0])


def histogram(values: list[float]) -> list[int]:
    edges = [float(edge) for edge in EDGES.split()]
    counts = [0] * (len(edges) - 1)
    for value in values:
        for number in range(len(counts)):
            last = number == len(counts) - 1
            if edges[number] <= value < edges[number + 1] or (last and value == edges[-1]):
                counts[number] += 1
    return counts


def conv(entailment: list[list[float]]) -> float:
    rows = []
    for j in range(min(10, len(entailment[0]))):
        counts = histogram([row[j] for row in entailment[:100]])
        rows.append(sum(float(w) * n for w, n in zip(WEIGHTS.split(), counts, strict=True)) + 0.6318)
    mean = sum(rows) / len(rows)
    return 1 / (1 + math.exp(1.6173 * mean + 0.3712))
