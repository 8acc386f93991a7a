"""The sentences that come nearest to the reference summary: what selecting could reach at best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from awesum.errors import AwesumError
from awesum.systems.lead import Lead

if TYPE_CHECKING:
    from awesum.document import Document, Sentence
    from awesum.length import Length


class Oracle(Lead):
    """The greedy oracle on ROUGE-1 + ROUGE-2, an upper bound for every extract. It ignores the length."""

    name = "oracle"
    description = "the sentences nearest to the reference summary: the upper bound of every extract"
    needs_reference = True

    def _selected(
        self,
        document: Document,
        sentences: Sequence[Sentence],
        length: Length,
        amount: float,
        reference: str | None,
    ) -> list[int]:
        from awesum.scoring.oracle import greedy

        if not reference:
            raise AwesumError("the oracle needs a reference summary: run it on a dataset with `awesum predict oracle`")
        return sorted(greedy([document.text[each.start : each.end] for each in sentences], reference))
