"""Statements that a source supports, and corrupted ones that it does not: what the verifier learns from.

A true statement is a sentence of the source with something left out that it does not depend on, or one clause of it. A
false one is a true one in which a single thing was changed, the way small models go wrong: a figure or a name of the
next sentence, a swapped subject, a negation, "did" for "should", a direction, two sentences run together.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from awesum.verify.claims import OPPOSITES

if TYPE_CHECKING:
    from spacy.tokens import Span, Token

SHORTEST, LONGEST = 7, 60
"""Words of a sentence that statements are made of."""
_BESIDE = frozenset({"advcl", "appos", "relcl", "acl", "npadvmod", "parataxis", "prep"})
"""What a clause can often do without."""
_NEEDED = frozenset(("if unless until without except despite against instead unlike whether only than as").split())
"""Words that change what the rest says, so that it is not true without them."""
_LIGHT = frozenset(
    ("however also additionally moreover furthermore therefore thus further specifically similarly finally").split()
)
_MODALS = {
    "should": ["will", "did", "must not"], "may": ["will", "must", "did"], "might": ["will", "must"],
    "could": ["will", "must", "did"], "would": ["did", "must"], "will": ["may", "should", "did"],
    "can": ["must", "should", "cannot"], "must": ["may", "could"],
}  # fmt: skip


@dataclass(frozen=True)
class Statement:
    """A true statement about some sentences of a source, and one that was corrupted."""

    sources: tuple[str, ...]
    true: str
    false: str
    kind: str
    """How it was corrupted."""


class Corruptor:
    """Makes statements of texts that were parsed. One seed gives the same statements again."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self._past: dict[str, str] = {}  # the past tense of verbs that were met
        self._ways: tuple[tuple[str, Callable[[list[Token], Sequence[Span]], str | None], float], ...] = (
            ("name or figure", self._other_entity, 3.0),
            ("noun", self._other_noun, 3.0),
            ("swapped nouns", self._swapped_nouns, 1.5),
            ("fused clauses", self._fused, 3.0),
            ("spliced sentences", self._spliced, 2.0),
            ("place or time", self._other_phrase, 1.5),
            ("negation", self._negated, 1.2),
            ("modality", self._other_modality, 1.5),
            ("opposite", self._opposite, 2.0),
            ("figure", self._other_figure, 1.5),
        )

    def statements(self, sentences: Sequence[Span], each: int = 1, summary: Sequence[Span] = ()) -> Iterator[Statement]:
        """Up to `each` statements about some sentences of a document: about what they say, or what a summary does.

        All of them belong to one parsed text.
        """
        for sentence in sentences:
            for token in sentence:
                if token.tag_ == "VBD":
                    self._past.setdefault(token.lemma_.lower(), token.lower_)
        sources = tuple(plain(sentence) for sentence in sentences)
        told = [sentence for sentence in summary or sentences if is_usable(sentence)]
        for _ in range(each if told else 0):
            sentence = self.random.choice(told)
            statement = [*sentence] if summary else self._true(sentence)
            true = text_of(statement)
            known = " ".join(sources).lower()
            ways = [*self._ways]
            while ways:
                weights = [weight for *_, weight in ways]
                way = self.random.choices(ways, weights)[0]
                ways.remove(way)
                false = way[1](statement, [*sentences, *summary])
                if false and false.lower() != true.lower() and false.lower().rstrip(".") not in known:
                    yield Statement(sources, true, false, way[0])
                    break

    # True statements

    def _true(self, sentence: Span) -> list[Token]:
        """The tokens of a statement that a sentence makes."""
        clauses = [*_clauses(sentence)]
        tokens = self.random.choice(clauses) if clauses and self.random.random() < 0.45 else [*sentence]
        if self.random.random() < 0.85:
            tokens = self._shorter(tokens)
        return tokens

    def _shorter(self, tokens: list[Token]) -> list[Token]:
        """Without some of what it does not depend on."""
        kept = {token.i for token in tokens}
        share = self.random.choice((0.4, 0.7, 1.0))
        for token in tokens:
            if token.i not in kept or not _is_beside(token) or self.random.random() > share:
                continue
            subtree = {each.i for each in token.subtree}
            if len(kept - subtree) >= 5 and not subtree >= kept:
                kept -= subtree
        return [token for token in tokens if token.i in kept]

    # Corrupted ones

    def _other_entity(self, tokens: list[Token], around: Sequence[Span]) -> str | None:
        """A name, amount or date of the source in the place of another of its kind."""
        here = {token.i for token in tokens}
        named = [entity for sentence in around for entity in sentence.ents]
        own = [entity for entity in named if {token.i for token in entity} <= here]
        self.random.shuffle(own)
        said = text_of(tokens).lower()
        for entity in own:
            others = [
                other.text
                for other in named
                if _kind(other.label_) == _kind(entity.label_)
                and other.text.lower() not in entity.text.lower()
                and entity.text.lower() not in other.text.lower()
                and other.text.lower() not in said
            ]
            if others:
                return _replaced(tokens, entity, self.random.choice(others))
        return None

    def _other_figure(self, tokens: list[Token], around: Sequence[Span]) -> str | None:
        """A figure that is a little different."""
        figures = [token for token in tokens if re.fullmatch(r"\d[\d,]*(\.\d+)?", token.text)]
        if not figures:
            return None
        token = self.random.choice(figures)
        digits = [*token.text]
        places = [at for at, digit in enumerate(digits) if digit.isdigit()]
        at = self.random.choice(places)
        digits[at] = self.random.choice([digit for digit in "123456789" if digit != digits[at]])
        return _edited(tokens, {token.i: "".join(digits)})

    def _other_noun(self, tokens: list[Token], around: Sequence[Span]) -> str | None:
        """Another noun phrase of the source in the place of one."""
        own = [*_chunks(tokens, around)]
        said = text_of(tokens).lower()
        others = [
            chunk
            for sentence in around
            for chunk in sentence.noun_chunks
            if chunk.root.pos_ != "PRON" and chunk.text.lower() not in said and chunk.root.lower_ not in said.split()
        ]
        self.random.shuffle(own)
        for chunk in own:
            fitting = [other for other in others if other.root.tag_ == chunk.root.tag_ and len(other) <= 8]
            if fitting:
                return _replaced(tokens, chunk, _inside(self.random.choice(fitting)))
        return None

    def _swapped_nouns(self, tokens: list[Token], around: Sequence[Span]) -> str | None:
        """Two noun phrases of the statement, each in the place of the other."""
        own = [*_chunks(tokens, around)]
        pairs = [
            (one, other)
            for at, one in enumerate(own)
            for other in own[at + 1 :]
            if one.root.dep_ in ("nsubj", "nsubjpass")
            and other.root.dep_ in ("dobj", "pobj", "dative", "nsubj")
            and one.root.head.lemma_ != "be"
            and not one.root.is_ancestor(other.root)
            and one.root.lower_ != other.root.lower_
        ]
        if not pairs:
            return None
        one, other = self.random.choice(pairs)
        return _edited(tokens, {**_blank(one), **_blank(other), one[0].i: _inside(other), other[0].i: _inside(one)})

    def _fused(self, tokens: list[Token], around: Sequence[Span]) -> str | None:
        """The subject of one clause with what another clause says about its own."""
        subjects = [
            (token, [*token.subtree])
            for token in tokens
            if token.dep_ in ("nsubj", "nsubjpass") and token.pos_ in ("NOUN", "PROPN") and token.head in tokens
        ]
        if not subjects:
            return None
        subject, phrase = self.random.choice(subjects)
        endings = []
        for sentence in around:
            for clause in [[*sentence], *_clauses(sentence)]:
                found = next((token for token in clause if token.dep_ in ("nsubj", "nsubjpass")), None)
                if found is None or found.lemma_.lower() == subject.lemma_.lower() or found.pos_ == "PRON":
                    continue
                last = max(token.i for token in found.subtree)
                rest = [token for token in clause if token.i > last]
                if 3 <= len(rest) <= 40 and found.head in rest:
                    endings.append(rest)
        if not endings:
            return None
        return text_of(
            [*[token for token in phrase if token.dep_ != "relcl"][:12], *self._shorter(self.random.choice(endings))]
        )

    def _spliced(self, tokens: list[Token], around: Sequence[Span]) -> str | None:
        """The beginning of one sentence and the end of another, joined at a word that both have."""
        others = [token for sentence in around for token in sentence if token.sent != tokens[0].sent]
        joints: dict[str, list[Token]] = defaultdict(list)
        for token in others:
            if len(token) > 1 and not token.is_punct:
                joints[token.lower_].append(token)
        places = [at for at, token in enumerate(tokens) if 3 <= at < len(tokens) - 2 and token.lower_ in joints]
        if not places:
            return None
        at = self.random.choice(places)
        joint = self.random.choice(joints[tokens[at].lower_])
        rest = [token for token in joint.sent if token.i > joint.i][:24]
        own = {token.lower_ for token in tokens[at + 1 :]}
        if len(rest) < 3 or {token.lower_ for token in rest if token.is_alpha} <= own:
            return None
        return text_of([*tokens[: at + 1], *rest])

    def _other_phrase(self, tokens: list[Token], around: Sequence[Span]) -> str | None:
        """Another phrase with the same preposition."""
        said = text_of(tokens).lower()
        here = {token.i for token in tokens}
        own = [token for token in tokens if token.dep_ == "prep" and {each.i for each in token.subtree} <= here]
        self.random.shuffle(own)
        for prep in own:
            others = [
                [*token.subtree]
                for sentence in around
                for token in sentence
                if token.dep_ == "prep" and token.lower_ == prep.lower_ and token.i not in here
            ]
            others = [phrase for phrase in others if len(phrase) <= 10 and text_of(phrase).lower() not in said]
            if others:
                phrase = "".join(token.text_with_ws for token in self.random.choice(others)).strip(" ,.;")
                return _edited(tokens, {**_blank([*prep.subtree]), prep.i: phrase})
        return None

    def _negated(self, tokens: list[Token], around: Sequence[Span]) -> str | None:
        """With a negation more, or less."""
        negations = [token for token in tokens if token.dep_ == "neg"]
        if negations:
            return _edited(tokens, _blank([self.random.choice(negations)]))
        verb = _main_verb(tokens)
        if verb is None:
            return None
        first = next((token for token in tokens if token.head == verb and token.dep_ in ("aux", "auxpass")), None)
        if first is not None or verb.lemma_ == "be":
            place = first if first is not None else verb
            return _edited(tokens, {place.i: f"{place.text} not"})
        support = {"VBD": "did not", "VBZ": "does not", "VBP": "do not"}.get(verb.tag_)
        return _edited(tokens, {verb.i: f"{support} {verb.lemma_}"}) if support else None

    def _other_modality(self, tokens: list[Token], around: Sequence[Span]) -> str | None:
        """What happened as what should or may happen, and the other way round."""
        modals = [token for token in tokens if token.tag_ == "MD" and token.lower_ in _MODALS]
        if modals:
            modal = self.random.choice(modals)
            past = self._past.get(modal.head.lemma_.lower()) if modal.head.tag_ == "VB" else None
            if past and modal.head.i == modal.i + 1 and self.random.random() < 0.6:
                return _edited(tokens, {modal.i: past, modal.head.i: ""})
            return _edited(tokens, {modal.i: self.random.choice(_MODALS[modal.lower_])})
        verb = _main_verb(tokens)
        if verb is None or any(token.head == verb and token.dep_ in ("aux", "auxpass", "neg") for token in tokens):
            return None
        if verb.tag_ not in ("VBD", "VBZ", "VBP"):
            return None
        other = self.random.choice(["should", "may", "plans to" if verb.tag_ == "VBZ" else "would", "refused to"])
        return _edited(tokens, {verb.i: f"{other} {verb.lemma_}"})

    def _opposite(self, tokens: list[Token], around: Sequence[Span]) -> str | None:
        """A word and its opposite."""
        places = [token for token in tokens if token.lower_ in OPPOSITES]
        if not places:
            return None
        token = self.random.choice(places)
        return _edited(tokens, {token.i: self.random.choice(OPPOSITES[token.lower_])})


def is_usable(sentence: Span) -> bool:
    """Whether a sentence is one that says something: neither a heading nor a table."""
    words = [token for token in sentence if not token.is_punct and not token.is_space]
    alphabetic = sum(token.is_alpha for token in words)
    return (
        SHORTEST <= len(words) <= LONGEST
        and alphabetic >= 0.7 * len(words)
        and any(token.dep_ in ("nsubj", "nsubjpass") for token in sentence)
        and sentence.text.rstrip(" \n\"'”’)")[-1:] == "."
    )


def plain(sentence: Span) -> str:
    """A sentence on one line."""
    return " ".join(sentence.text.split())


def text_of(tokens: Sequence[Token]) -> str:
    """The text of a statement."""
    return _edited(tokens, {})


def _edited(tokens: Sequence[Token], changes: Mapping[int, str]) -> str:
    """The statement with other words for some of its tokens."""
    pieces = []
    for at, token in enumerate(tokens):
        follows = at + 1 < len(tokens) and tokens[at + 1].i == token.i + 1
        pieces.append(changes.get(token.i, token.text) + (token.whitespace_ if follows else " "))
    return _tidy("".join(pieces))


def _blank(tokens: Iterable[Token]) -> dict[int, str]:
    return {token.i: "" for token in tokens}


def _replaced(tokens: Sequence[Token], span: Span, text: str) -> str:
    return _edited(tokens, {**_blank(span), span[0].i: text})


def _inside(chunk: Span) -> str:
    """A noun phrase as it stands within a sentence."""
    text = chunk.text.strip()
    if chunk[0].is_sent_start and chunk[0].pos_ in ("DET", "PRON", "ADJ", "NOUN") and not chunk[0].ent_type_:
        return text[:1].lower() + text[1:]
    return text


def _tidy(text: str) -> str:
    """With the spaces, the capital and the full stop of a sentence."""
    text = " ".join(text.split())
    text = re.sub(r"\s+([,.;:)])", r"\1", text)
    text = re.sub(r"\(\s*\)|\[\s*\]", "", text)
    text = re.sub(r"([,;:])(?:\s*[,;:])+", r"\1", text)
    text = re.sub(r"^[\s,.;:)\-–—]+|[\s,.;:(\-–—]+$", "", text)
    text = " ".join(text.split())
    return text[:1].upper() + text[1:] + "."


def _kind(label: str) -> str:
    """Entities of one kind can stand in each other's places."""
    return {"GPE": "place", "LOC": "place", "FAC": "place", "ORG": "group", "NORP": "group"}.get(label, label)


def _is_beside(token: Token) -> bool:
    """Whether a clause says the same without this token's subtree, only less."""
    if token.dep_ == "advmod":
        return token.lower_ in _LIGHT
    if token.dep_ not in _BESIDE or token.head.lemma_ == "be" or token.lower_ in _NEEDED:
        return False
    if any(each.dep_ == "neg" or each.lower_ in ("no", "only", "not") for each in token.head.lefts):
        return False
    if token.dep_ == "prep" and token.head.pos_ not in ("VERB", "NOUN"):
        return False
    if token.dep_ == "prep" and token.lower_ in ("of", "to", "for"):
        return False
    return not any(each.lower_ in _NEEDED and each.dep_ in ("mark", "advmod") for each in token.children)


def _clauses(sentence: Span) -> Iterator[list[Token]]:
    """The statements that a sentence contains: one of its predicates with the subject, or a relative clause."""
    for token in sentence:
        if token.dep_ == "conj" and token.pos_ in ("VERB", "AUX") and token.head.pos_ in ("VERB", "AUX"):
            subject = next((child for child in token.head.lefts if child.dep_ in ("nsubj", "nsubjpass")), None)
            own = any(child.dep_ in ("nsubj", "nsubjpass") for child in token.children)
            head_is_plain = not any(child.dep_ in ("aux", "auxpass", "neg") for child in token.head.lefts)
            if subject is not None and not own and head_is_plain and token.tag_ in ("VBD", "VBZ", "VBP"):
                yield [*subject.subtree, *token.subtree]
            if subject is not None and token.head.dep_ == "ROOT":
                behind = {each.i for each in token.subtree} | {
                    child.i for child in token.head.children if child.dep_ == "cc"
                }
                first = [each for each in sentence if each.i not in behind]
                if len(first) >= 5:
                    yield first
        if token.dep_ == "relcl":
            pronoun = next(
                (
                    child
                    for child in token.lefts
                    if child.dep_ in ("nsubj", "nsubjpass") and child.tag_ in ("WDT", "WP")
                ),
                None,
            )
            if pronoun is not None and token.head.pos_ in ("NOUN", "PROPN"):
                phrase = [each for each in token.head.subtree if each.i < pronoun.i and not each.is_punct]
                rest = [each for each in token.subtree if each.i > pronoun.i]
                if phrase and len(rest) >= 3:
                    yield [*phrase, *rest]


def _chunks(tokens: Sequence[Token], around: Sequence[Span]) -> Iterator[Span]:
    """The noun phrases of a statement, without pronouns."""
    here = {token.i for token in tokens}
    for sentence in around:
        for chunk in sentence.noun_chunks:
            if chunk.root.pos_ != "PRON" and {token.i for token in chunk} <= here:
                yield chunk


def _main_verb(tokens: Sequence[Token]) -> Token | None:
    here = {token.i for token in tokens}
    for token in tokens:
        if token.pos_ in ("VERB", "AUX") and any(
            child.dep_ in ("nsubj", "nsubjpass") and child.i in here for child in token.children
        ):
            return token
    return None
