"""DiscoScore with loops and lists: one window and one word piece at a time, without a mask."""

from __future__ import annotations

import math

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from awesum.analysis.sentences import sentence_spans
from awesum.metrics.english import nouns
from tests.reference.entities import links

Vector = list[float]


class Text:
    """A text as word pieces: their states, the sentence of each, and the positions of the nouns."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str, window: int) -> None:
        self.nouns = nouns(text)
        lemmas = [noun for sentence in self.nouns for noun in sentence]
        ids = [tokenizer.cls_token_id]
        self.sentence_of = [0]
        self.positions: dict[str, list[int]] = {}
        for number, (start, end) in enumerate(sentence_spans(text)):
            for word in text[start:end].lower().split():
                for piece in tokenizer.tokenize(word):
                    ids.append(tokenizer.convert_tokens_to_ids(piece))
                    self.sentence_of.append(number)
                if word in lemmas:
                    self.positions.setdefault(word, []).append(len(ids) - 1)
        self.states = states(model, ids, window)
        assert len(self.states) == len(self.sentence_of)

    def focus(self, noun: str) -> Vector:
        total = [0.0] * len(self.states[0])
        for position in self.positions[noun]:
            length = math.sqrt(sum(x * x for x in self.states[position])) + 1e-30
            for k, x in enumerate(self.states[position]):
                total[k] += x / length
        return total

    def sentences(self) -> list[Vector]:
        count, size = len(self.nouns), len(self.states[0])
        means = []
        for number in range(count):
            own = [state for state, owner in zip(self.states, self.sentence_of, strict=True) if owner == number]
            means.append([sum(state[k] for state in own) / len(own) for k in range(size)])
        weights = links(self.nouns)
        rows = []
        for i in range(count):
            row = list(means[i])
            for j in range(count):
                for k in range(size):
                    row[k] += weights[i][j] * means[j][k]
            length = math.sqrt(sum(x * x for x in row))
            rows.append([x / length for x in row])
        return rows


@torch.no_grad()
def states(model: PreTrainedModel, ids: list[int], window: int) -> list[Vector]:
    """Windows [i - window, i) for i = window, 1.5 windows, ...; all of the first, the last half of the others."""
    kept: list[Vector] = []
    end = window
    while True:
        start = end - window
        found = model(input_ids=torch.tensor([ids[start:end]])).last_hidden_state[0].tolist()
        kept += found if start == 0 else found[window // 2 :]
        if end >= len(ids):
            return kept
        end += window // 2


def cosine(one: Vector, other: Vector) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / math.sqrt(sum(a * a for a in one)) / math.sqrt(sum(b * b for b in other))


def focus(prediction: Text, reference: Text) -> float:
    common = [noun for noun in prediction.positions if noun in reference.positions]
    total = 0.0
    for noun in common:
        for a, b in zip(prediction.focus(noun), reference.focus(noun), strict=True):
            total += (a - b) ** 2
    return total / (len(prediction.positions) + 1e-9)


def sent(prediction: Text, reference: Text) -> float:
    one, other = prediction.sentences(), reference.sentences()
    if len(other) == 1:
        return sum(cosine(row, other[0]) for row in one) / len(one)
    return cosine(summary(one), summary(other))


def summary(rows: list[Vector]) -> Vector:
    columns = list(zip(*rows, strict=True))
    parts = [min(c) for c in columns], [sum(c) / len(c) for c in columns], [max(c) for c in columns]
    return [*parts[0], *parts[1], *parts[2], *(sum(c) for c in columns)]
