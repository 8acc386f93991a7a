"""The documents of the recall task, as tokens: what they state, what they ask for, and how salient each token is."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from awesum.recurrence import DocumentInputs

KEYS, VALUES, WORDS = 16, 64, 16
START, PAD, END, FACT, ASK = 0, 1, 2, 3, 4
KEY = 5
VALUE = KEY + KEYS
WORD = VALUE + VALUES
VOCABULARY = WORD + WORDS
LENGTH = 8
"""Words of a segment: a statement of three, three in between, a question of two."""
SENTENCES = (slice(0, 3), slice(3, 6), slice(6, 8))
"""Where in a segment they are."""
UNSEEN = 128
"""Pairs of key and value that only tests have."""
DISTANCES = (0, 1, 2, 4, 8, 16, 32, 63)
LONGEST, FIRST_LONGEST, QUESTIONS = 18, 3, 4
"""Segments of a document at the end of training and at its start, and how many of them ask."""
BATCH = 32

_pairs = [(key, value) for key in range(KEYS) for value in range(VALUES)]
random.Random(99).shuffle(_pairs)
UNSEEN_PAIRS = frozenset(_pairs[:UNSEEN])


def fact(chance: random.Random, unseen: bool, known: Iterable[int] = ()) -> tuple[int, int]:
    """A key that is not yet known and its value: a pair for training, or one that training never sees."""
    while True:
        pair = chance.randrange(KEYS), chance.randrange(VALUES)
        if (pair in UNSEEN_PAIRS) == unseen and pair[0] not in known:
            return pair


def segment(
    chance: random.Random, stated: tuple[int, int] | None = None, asked: int | None = None
) -> tuple[list[int], list[float]]:
    """The tokens of a segment, and how salient each is."""
    words = [WORD + chance.randrange(WORDS) for _ in range(LENGTH)]
    salience = [0.0] * LENGTH
    for sentence in SENTENCES:
        if chance.random() < 0.25:
            salience[sentence] = [chance.uniform(0.1, 0.9)] * len(words[sentence])
    if stated is not None:
        words[:3] = [FACT, KEY + stated[0], VALUE + stated[1]]
        salience[:3] = [1.0] * 3
    if asked is not None:
        words[-2:] = [ASK, KEY + asked]
    return [START, *words, END], [0.0, *salience, 0.0]


def document(
    stated: Sequence[tuple[int, int] | None], asked: Sequence[int | None], chance: random.Random
) -> DocumentInputs:
    """A document that states a fact, asks for one, or does neither, in each of its segments."""
    values = dict(pair for pair in stated if pair)
    made = [segment(chance, pair, key) for pair, key in zip(stated, asked, strict=True)]
    targets = [[END] if key is None else [VALUE + values[key], END] for key in asked]
    return DocumentInputs("", [tokens for tokens, _ in made], targets, special=1, salience=[how for _, how in made])


def alone(chance: random.Random) -> DocumentInputs:
    """A single segment, of which most state a fact and ask for it."""
    pair = fact(chance, False)
    has_fact, has_question = chance.random() < 0.9, chance.random() < 0.8
    return document([pair if has_fact else None], [pair[0] if has_fact and has_question else None], chance)


def to_train_on(
    chance: random.Random,
    longest: int,
    future: bool,
    facts: int = 1,
    *,
    questions: int = QUESTIONS,
    silent: float = 0.0,
) -> list[DocumentInputs]:
    """Documents of the same length that ask in the same segments, so that only those segments need a graph. Each
    states up to `facts` facts before the first question and perhaps another one beside a question, and asks for one
    that it has stated. With `future`, the other way round: it asks for facts to come. A single segment asks for what it
    states. A share of `silent` documents asks for nothing."""
    length = chance.randint(1, longest)
    most = min(chance.randint(1, facts), max(1, length - 1))
    asking = sorted(chance.sample(range(most, length), min(questions, length - most))) or [0]
    made = []
    for _ in range(BATCH):
        places = chance.sample(range(max(1, asking[0])), most)
        if chance.random() < 0.5:
            places.append(chance.choice(asking))
        stated: list[tuple[int, int] | None] = [None] * length
        known: dict[int, int] = {}
        for place in places:
            if stated[place] is None:
                stated[place] = pair = fact(chance, False, known)
                known[pair[0]] = place
        asked = [
            chance.choice([key for key, place in known.items() if place <= number]) if number in asking else None
            for number in range(length)
        ]
        if silent and chance.random() < silent:
            asked = [None] * length
        made.append(document(stated[::-1], asked[::-1], chance) if future else document(stated, asked, chance))
    return made


def to_test_on(chance: random.Random, distance: int, future: bool, facts: int = 1) -> DocumentInputs:
    """A fact in the first segment, the other facts in those behind it, and the question for the first one in the last
    segment; with `future`, the other way round."""
    stated: list[tuple[int, int] | None] = [None] * (distance + 1)
    known: dict[int, int] = {}
    for place in range(max(1, min(facts, distance))):
        stated[place] = pair = fact(chance, True, known)
        known[pair[0]] = place
    asked: list[int | None] = [*[None] * distance, next(iter(known))]
    if future:
        stated, asked = stated[::-1], asked[::-1]
    return document(stated, asked, chance)
