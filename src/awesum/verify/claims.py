"""The exact part of verification: what a statement claims, compared with the source sentences nearest to it.

A figure must be a figure of the same thing in the source, a name and an address must be there, and negation, modality
and direction must agree. Everything is a share from 0 (contradicted or missing) to 1 (agrees, or nothing to compare).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache, lru_cache

from awesum.analysis.language import capitalizes_nouns

NEAREST = 3
"""Source sentences that a statement is compared with, at most: it was seldom made of more."""
STEMS, CACHED = 50_000, 8192
"""Words whose stems are cached, and sentences whose tokens are: a report has a few hundred."""
REACH = 4
"""Words on each side of a figure that show what it is a figure of."""
OF_SOMETHING_ELSE = 0.25
"""The agreement of a figure that the source has, but of something else."""

_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af"
"""Scripts that are written without spaces: each character counts as a word."""
_TOKEN = re.compile(
    r"(?P<address>(?:https?://|www\.)\S*[\w/]|[\w.+-]+@[\w-]+\.[\w.-]*\w"
    r"|\b(?:[a-z0-9-]+\.)+(?:com|org|net|gov|edu|io)\b(?:/\S*[\w/])?)"
    r"|(?P<figure>\d+(?:[.,:]\d+)*)|(?P<sign>[$€£%])|(?P<initials>\b(?-i:[A-Z]\.){2,})"
    rf"|(?P<word>[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W\d_])+(?:['’-][^\W\d_]+)*)",
    re.IGNORECASE,
)
_CONTRACTED = {"ca": "can", "wo": "will", "sha": "shall"}
_AMOUNTS = frozenset(
    "half twice double triple quarter third decade century dozen hundred thousand million billion trillion "
    "percent".split()
)
"""Amounts in words, which a source must have as well."""
_OPENING = frozenset(
    "although under since because despite during while unlike according however some only many most several few such "
    "through without within until once given based using as like both each every no not among across between".split()
)
"""Words that often stand before a name at the beginning of a sentence."""
_NAME_FOLLOWS = re.compile(r"\s[A-Z][a-z]")
_NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        (
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
            "seventeen eighteen nineteen twenty"
        ).split()
    )
} | {"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80", "ninety": "90"}
_SIGNS = {"$": "dollar", "€": "euro", "£": "pound", "%": "percent"}
_RANGING = frozenset({"to", "through", "until"})
_SCALES = frozenset({"hundred", "thousand", "million", "billion", "trillion", "dozen"})
_STOP = frozenset(
    (
        "a an and are as at be been being but by did do does for from had has have he her his i in is it its of on or "
        "our she such than that the their them there these they this those to was we were which who with you also "
        "other about into over any all both each if then so more most one up out when where while after before "
        "between during"
    ).split()
)
_NEGATIONS = frozenset(("not no never none neither nor cannot without nobody nothing hardly").split())
_MODALITIES = {
    "obligation": "should must shall ought need needs recommend recommends recommended required",
    "possibility": "may might could can possibly perhaps",
    "future": "will would plan plans planned intend intends propose proposes proposed",
}
_MODALITY = {word: kind for kind, words in _MODALITIES.items() for word in words.split()}
_OPPOSITES = (
    "increase/decrease increased/decreased increases/decreases increasing/decreasing rise/fall rose/fell "
    "rising/falling higher/lower more/fewer more/less most/least above/below before/after first/last first/second "
    "up/down with/without approved/rejected approve/reject accept/refuse accepted/refused agreed/disagreed "
    "agree/disagree support/oppose supports/opposes supported/opposed includes/excludes included/excluded "
    "include/exclude began/ended begin/end begins/ends start/stop started/stopped won/lost win/lose gain/loss "
    "gained/lost buy/sell bought/sold open/closed improved/worsened improve/worsen better/worse best/worst "
    "larger/smaller large/small largest/smallest high/low long/short longer/shorter early/late earlier/later "
    "new/old many/few all/some always/never often/rarely allow/prevent allows/prevents allowed/prevented "
    "strong/weak success/failure successful/unsuccessful positive/negative maximum/minimum majority/minority "
    "public/private domestic/foreign same/different male/female man/woman men/women father/mother son/daughter "
    "brother/sister husband/wife he/she his/her internal/external inside/outside north/south east/west "
    "million/billion thousand/million years/months months/weeks days/weeks hours/days daily/monthly "
    "annual/monthly remain/leave remains/leaves stay/leave save/spend saved/spent loves/hates likes/dislikes "
    "alive/dead left/right recommended/rejected confirmed/denied confirm/deny confirms/denies permits/prohibits "
    "permitted/prohibited required/optional federal/local former/current over/under advantage/disadvantage "
    "profit/loss"
)
OPPOSITES: dict[str, list[str]] = defaultdict(list)
"""Words that turn a claim around when one stands in the place of the other."""
for _pair in _OPPOSITES.split():
    _one, _other = _pair.split("/")
    OPPOSITES[_one].append(_other)
    OPPOSITES[_other].append(_one)


@dataclass(frozen=True)
class Agreement:
    """How far a statement agrees with the source sentences nearest to it, point by point, from 0 to 1."""

    figures: float = 1.0
    """The worst figure: 0 if the source lacks it, low if there it is a figure of something else."""
    names: float = 1.0
    """The share of names that the source has."""
    addresses: float = 1.0
    negation: float = 1.0
    modality: float = 1.0
    direction: float = 1.0
    words: float = 1.0
    """The share of content words that the source has."""
    pairs: float = 1.0
    """The share of word pairs that the source has in a row."""
    triples: float = 1.0

    def values(self) -> list[float]:
        """All of them, in order."""
        return [getattr(self, field.name) for field in fields(self)]

    @property
    def exact(self) -> float:
        """The worst of those that leave no room for interpretation."""
        return min(self.figures, self.names, self.addresses)


@dataclass(frozen=True)
class Tokens:
    """A sentence as words and figures."""

    words: tuple[str, ...]
    """In lower case, figures in digits."""
    stems: tuple[str, ...]
    is_figure: tuple[bool, ...]
    names: frozenset[str]
    """Words that are written with a capital inside the sentence."""
    addresses: frozenset[str]
    sure_names: frozenset[str] = frozenset()
    """Those that are names even where every noun has a capital: next to each other, or in several capitals."""

    @property
    def content(self) -> set[str]:
        """The stems of words that carry meaning."""
        return {stem for word, stem in zip(self.words, self.stems, strict=True) if word not in _STOP}


@lru_cache(CACHED)
def tokens(sentence: str) -> Tokens:
    """The words and figures of a sentence."""
    words: list[str] = []
    figures: list[bool] = []
    names: set[str] = set()
    sure_names: set[str] = set()
    addresses: set[str] = set()
    is_first, last_name, last_end = True, "", -2
    for match in _TOKEN.finditer(sentence):
        text = match[0]
        if match["address"]:
            plain = text.lower().removeprefix("https://").removeprefix("http://").removeprefix("www.")
            addresses.add(plain.rstrip("/"))
            words.append(text.lower())
            figures.append(False)
        elif match["figure"]:
            words.append(text.replace(",", "").rstrip(".:"))
            figures.append(True)
        elif match["sign"]:
            words.append(_SIGNS[text])
            figures.append(False)
        elif match["initials"]:
            words.append(text.replace(".", "").lower())
            figures.append(False)
            names.add(words[-1])
            sure_names.add(words[-1])
        elif text.lower().replace("’", "'").endswith("n't"):
            verb = text.lower()[:-3]
            words += [_CONTRACTED.get(verb, verb), "not"]
            figures += [False, False]
        elif text == "May" and not is_first:
            words.append("may.")  # the month, which is no modality
            figures.append(False)
        elif (number := _number(text.lower())) is not None:
            words.append(number)
            figures.append(True)
        else:
            word = text.lower().replace("’", "'").removesuffix("'s")
            # The first word has a capital anyway: it is taken for a name if it has several, or if another name follows.
            is_name = text[:1].isupper() and word not in _STOP
            opens = word not in _OPENING and _NAME_FOLLOWS.match(sentence, match.end())
            if is_name and (not is_first or text[1:2].isupper() or opens):
                names.add(word)
                if match.start() == last_end + 1:
                    sure_names |= {last_name, word}
                elif text[1:2].isupper():
                    sure_names.add(word)
                if not is_first:
                    last_name, last_end = word, match.end()
            words.append(word)
            figures.append(False)
        is_first = False
    return Tokens(
        tuple(words),
        tuple(map(_stemmer(), words)),
        tuple(figures),
        frozenset(names),
        frozenset(addresses),
        frozenset(sure_names),
    )


def _number(word: str) -> str | None:
    """A number in words in digits, such as twelve or twenty-five."""
    if word == "one":  # seldom a number
        return None
    tens, _, ones = word.partition("-")
    if ones:
        return str(int(_NUMBERS[tens]) + int(_NUMBERS[ones])) if tens in _NUMBERS and ones in _NUMBERS else None
    return _NUMBERS.get(word)


@cache
def _stemmer() -> Callable[[str], str]:
    from nltk.stem.porter import PorterStemmer

    return lru_cache(STEMS)(PorterStemmer().stem)


def nearest(sources: Sequence[str], statement: str, most: int = NEAREST) -> list[int]:
    """The source sentences that have the most of a statement's words and word pairs, the nearest first.

    After the first, a sentence is taken for what the ones before it lack. None has anything in common with some.
    """
    wanted = _features(statement)
    having = [*map(_features, sources)]
    taken: list[int] = []
    while wanted and len(taken) < most:
        best = max(range(len(sources)), key=lambda index: len(wanted & having[index]), default=None)
        if best is None:
            break
        gain = wanted & having[best]
        if not gain or (taken and len(gain) < 2):
            break
        taken.append(best)
        wanted = wanted - gain
    return taken


@lru_cache(CACHED)
def _features(sentence: str) -> frozenset[str]:
    """What sentences are compared by: content words and word pairs."""
    of = tokens(sentence)
    return frozenset(of.content | _runs(of.stems, 2))


def agreement(sources: Sequence[str], statement: str) -> Agreement:
    """How a statement agrees with some source sentences; give the `nearest`."""
    said = tokens(statement)
    read = [tokens(source) for source in sources]
    stems = set[str]().union(*(each.stems for each in read)) if read else set()
    content = said.content
    return Agreement(
        figures=_figures(said, read),
        names=_share(_names(said, statement, sources), {word for each in read for word in each.words}),
        addresses=float(all(any(_is_there(address, each) for each in read) for address in said.addresses)),
        negation=_negation(said, read),
        modality=_modality(said, read),
        direction=_direction(said, read),
        words=_share(content, stems),
        pairs=_share(_runs(said.stems, 2), _all_runs(read, 2)),
        triples=_share(_runs(said.stems, 3), _all_runs(read, 3)),
    )


def has_all(sources: Sequence[str], statement: str) -> bool:
    """Whether some source has each figure, amount, name and address of a statement, wherever."""
    said = tokens(statement)
    read = [*map(tokens, sources)]
    stem = _stemmer()
    amounts = {stem(word) for word in said.words} & {*map(stem, _AMOUNTS)}
    figures = {word for word, is_one in zip(said.words, said.is_figure, strict=True) if is_one}
    missing = figures | _names(said, statement, sources)
    for each in read:
        missing, amounts = missing - {*each.words}, amounts - {*each.stems}
    return not missing and not amounts and all(any(_is_there(one, each) for each in read) for one in said.addresses)


def _names(said: Tokens, statement: str, sources: Sequence[str]) -> frozenset[str]:
    """The names of a statement. A capital tells none in German, where every noun has one."""
    is_german = any(capitalizes_nouns(text) for text in (statement, *sources[:NEAREST]))
    return said.sure_names if is_german else said.names


def _is_there(address: str, of: Tokens) -> bool:
    """Whether a sentence has an address, or a longer one of the same host."""
    return any(other == address or other.startswith(f"{address}/") for other in of.addresses)


def _figures(said: Tokens, read: Sequence[Tokens]) -> float:
    """The worst figure; a range of which no source sentence has both ends in this order is as bad as a wrong scale."""
    if not all(any(_in_order(each, ends) for each in read) for ends in _ranges(said)):
        return OF_SOMETHING_ELSE / 2
    return min((_figure(said, at, read) for at, is_one in enumerate(said.is_figure) if is_one), default=1.0)


def _figure(said: Tokens, at: int, read: Sequence[Tokens]) -> float:
    """Whether the source has a figure, and of the same thing."""
    best = 0.0
    scale, unit, around = _context(said, at)
    for each in read:
        for place, word in enumerate(each.words):
            if word != said.words[at]:
                continue
            other_scale, other_unit, other_around = _context(each, place)
            if scale != other_scale:
                found = OF_SOMETHING_ELSE / 2
            elif unit == other_unit or not unit or not other_unit:
                found = 1.0 if around & other_around or not around else 0.6
            else:
                found = 0.6 if len(around & other_around) > 1 else OF_SOMETHING_ELSE
            best = max(best, found)
    return best


def _ranges(of: Tokens) -> list[tuple[str, str]]:
    """The ends of ranges, such as 2013 and 2016 of "from 2013 to 2016"."""
    return [
        (of.words[at], of.words[at + 2])
        for at in range(len(of.words) - 2)
        if of.is_figure[at] and of.words[at + 1] in _RANGING and of.is_figure[at + 2]
    ]


def _in_order(of: Tokens, ends: tuple[str, str]) -> bool:
    """Whether a sentence has both ends of a range, the first of them first."""
    first, last = ends
    return first in of.words and last in of.words[of.words.index(first) + 1 :]


def _context(of: Tokens, at: int) -> tuple[str, str, set[str]]:
    """The scale of a figure, its unit, and the words around it."""
    following = at + 1
    scale = ""
    if following < len(of.words) and of.words[following] in _SCALES:
        scale, following = of.words[following], following + 1
    unit = of.stems[following] if following < len(of.words) and of.words[following] not in _STOP else ""
    near = range(max(at - REACH, 0), min(at + REACH + 1, len(of.words)))
    around = {of.stems[place] for place in near if place != at and of.words[place] not in _STOP}
    return scale, unit, around


def _negation(said: Tokens, read: Sequence[Tokens]) -> float:
    """Zero if a word is negated on one side only."""
    here, there = _negated(said), set[str]().union(*map(_negated, read))
    plain = set[str]().union(*(set(each.content) - _negated(each) for each in read))
    if any(stem in plain and stem not in there for stem in here):
        return 0.0
    own = said.content - here
    if any(stem in own and stem not in plain for stem in there):
        return 0.0
    return 1.0 if bool(here) <= bool(there) else 0.5


def _negated(of: Tokens) -> set[str]:
    """The stems of the words that a negation belongs to: the first with a meaning after it."""
    found = set()
    for at, word in enumerate(of.words):
        if word in _NEGATIONS:
            after = (place for place in range(at + 1, min(at + 5, len(of.words))) if of.words[place] not in _STOP)
            found |= {of.stems[place] for place in [*after][:1]}
    return found


def _modality(said: Tokens, read: Sequence[Tokens]) -> float:
    """Zero if what should, may or will be according to one side is otherwise on the other."""
    here = _modalities(said)
    there: dict[str, set[str]] = defaultdict(set)
    for each in read:
        for stem, kinds in _modalities(each).items():
            there[stem] |= kinds
    differing = [stem for stem in here if stem in there and not here[stem] & there[stem]]
    return 0.0 if differing else 1.0


def _modalities(of: Tokens) -> dict[str, set[str]]:
    """Words of a sentence, each with the modalities it has there; `fact` for none."""
    found: dict[str, set[str]] = defaultdict(set)
    current, left = "fact", 0
    for word, stem in zip(of.words, of.stems, strict=True):
        if word in _MODALITY:
            current, left = _MODALITY[word], 3
            continue
        if word in _STOP or word in _NEGATIONS:
            left -= left > 0
            continue
        found[stem].add(current if left else "fact")
        left = 0  # a modality belongs to the first word with a meaning after it
    return found


def _direction(said: Tokens, read: Sequence[Tokens]) -> float:
    """Zero if the statement has a word, and the source only its opposite."""
    there = {word for each in read for word in each.words}
    turned = (
        word not in there and any(other in there for other in OPPOSITES[word])
        for word in said.words
        if word in OPPOSITES
    )
    return 0.0 if any(turned) else 1.0


def _runs(stems: Sequence[str], size: int) -> set[str]:
    return {" ".join(stems[at : at + size]) for at in range(len(stems) - size + 1)}


def _all_runs(read: Iterable[Tokens], size: int) -> set[str]:
    return set[str]().union(*(_runs(each.stems, size) for each in read))


def _share(wanted: Iterable[str], there: set[str]) -> float:
    wanted = [*wanted]
    return sum(each in there for each in wanted) / len(wanted) if wanted else 1.0
