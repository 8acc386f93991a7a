"""Documents whose summaries are their sentences about money, and extractors to train on them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

from awesum.analysis.salience.extractor import Extractor, Shape
from awesum.analysis.salience.trained import Calibration, TrainedSalience
from awesum.datasets import Example
from awesum.training.extractor import Item
from tests.conftest import TOPICS

MARKED = "budget"
SHAPE = Shape(stem=16, pair=8, size=16, heads=4, inner=24, concept=8, dropout=0.1)


def row(number: int, query: str | None = None) -> dict[str, Any]:
    """A document of 16 to 24 sentences, a fifth of them about money; those, slightly changed, are its summary."""
    chance = random.Random(number)
    others = [topic for topic in TOPICS if topic != MARKED]
    count = 16 + number % 3 * 4
    marked = set(chance.sample(range(3, count), count // 5))
    sentences = []
    for at in range(count):
        words = chance.sample(TOPICS[MARKED if at in marked else chance.choice(others)].split(), 8)
        sentences.append(f"{' '.join(words).capitalize()} {number * 100 + at}.")
    summary = " ".join(sentences[at].replace(".", " as well.") for at in sorted(marked))
    return {"id": f"r{number}", "document": " ".join(sentences), "summary": summary, "query": query}


SPLITS = {
    "train": [row(number) for number in range(36)],
    "validation": [row(number) for number in range(100, 106)],
    "test": [row(number) for number in range(200, 208)],
}


def example(number: int, query: str | None = None) -> Example:
    made = row(number, query)
    return Example(made["id"], made["document"], made["summary"], query)


def untrained(seed: int = 0) -> TrainedSalience:
    torch.manual_seed(seed)
    return TrainedSalience(Extractor(SHAPE))


def quality(extractor: Extractor, calibration: Calibration, folders: list[list[Item]], *, own_length: bool) -> float:
    salience = TrainedSalience(extractor, calibration)
    total = 0.0
    for some in folders:
        found = []
        for item in some:
            ratings = salience.rate(item.texts, item.vectors, item.query)
            found.append(item.rouge(item.choose(ratings, ratings.usual_words if own_length else item.length)))
        total += float(np.mean(found)) if found else 0.0
    return total
