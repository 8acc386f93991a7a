"""Which sentences must not be selected: those in headings, and in blocks that nobody wants in a summary.

Readers mark blocks (`Document.blocks`); here sentences are matched with them. `without_junk` is the one place where
selection asks: it empties the text of such a sentence, and an empty sentence costs nothing and is never selected.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from awesum.document import JUNK, Document, Kind, Sentence

NEVER_SELECTED: frozenset[Kind] = JUNK | {"heading"}


def without_junk(document: Document, sentences: Sequence[Sentence], texts: Sequence[str]) -> list[str]:
    """The texts of the sentences, empty where a sentence must not be selected. If none may be, all may."""
    junk = in_blocks(document, sentences, NEVER_SELECTED)
    kept = ["" if is_junk else text for text, is_junk in zip(texts, junk, strict=True)]
    return kept if any(text.strip() for text in kept) else list(texts)


def in_blocks(document: Document, sentences: Sequence[Sentence], kinds: Collection[Kind]) -> list[bool]:
    """Whether at least half of each sentence is in blocks of these kinds."""
    blocks = [block for block in document.blocks if block.kind in kinds]
    if not blocks:
        return [False] * len(sentences)
    found: list[bool] = []
    at = 0
    for sentence in sentences:
        while at < len(blocks) and blocks[at].end <= sentence.start:
            at += 1
        length = len(document.text[sentence.start : sentence.end].strip())
        covered, index = 0, at
        while index < len(blocks) and blocks[index].start < sentence.end:
            covered += min(blocks[index].end, sentence.end) - max(blocks[index].start, sentence.start)
            index += 1
        found.append(bool(length) and 2 * covered >= length)
    return found
