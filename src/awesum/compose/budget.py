"""The budget: how much of the summary's length each part may take, given what the parts before it took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from awesum.compose.drafts import enough_sentences, enough_words
from awesum.length import count_words
from awesum.summary import Part

if TYPE_CHECKING:
    from awesum.analysis.analysis import Analysis

LEAST_PACE, MOST_PACE = 0.6, 1.4
"""How far a part's budget may be cut or stretched to make up for the parts before it."""


@dataclass(frozen=True)
class Budget:
    """The budgets of one document's segments."""

    analysis: Analysis

    @property
    def in_sentences(self) -> bool:
        """Whether it counts sentences rather than words."""
        return self.analysis.selection.length.in_sentences

    def of(self, number: int) -> float:
        """The words (or sentences) of the summary that a segment should take."""
        return self.analysis.selection.budget(number)

    def up_to(self, number: int) -> float:
        """The words (or sentences) that the segments up to this one should take together."""
        return sum(self.of(before) for before in range(number + 1))

    def cost(self, sentence: str) -> float:
        """What a sentence takes of the summary's length."""
        return 1.0 if self.in_sentences else count_words(sentence)

    def used(self, parts: Iterable[Part]) -> float:
        """What some parts take of the summary's length."""
        return sum(self.cost(sentence.text) for part in parts for sentence in part.sentences)

    def pace(self, parts: Sequence[Part], reached: int) -> float:
        """What the parts up to segment `reached` left of the length, relative to what the later ones should take."""
        if self.in_sentences:
            return 1.0
        left = self.analysis.selection.amount - sum(count_words(part.text) for part in parts if part.segment <= reached)
        later = sum(self.of(number) for number in range(reached + 1, len(self.analysis.segments)))
        return min(max(left / later, LEAST_PACE), MOST_PACE)

    def enough(self, number: int, pace: float) -> Callable[[str], bool]:
        """Whether a draft fills a segment's budget at this pace."""
        wanted = self.of(number) * pace
        return enough_sentences(round(wanted)) if self.in_sentences else enough_words(wanted)

    def token_limit(self, number: int, window: int) -> int:
        """Tokens after which a paraphrase ends in any case: somewhat more than what it paraphrases."""
        sentences, share = self.analysis.sentences, self.analysis.selection.shares[number]
        return min(24 + round(1.4 * sum(sentences[index].tokens for index in share)), window // 5)
