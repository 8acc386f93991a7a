"""Match summaries with their references and documents: by id if all have one, otherwise by order.

Nothing is skipped: a summary without a reference, or a reference without a summary, is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from awesum.datasets.rows import NAMES, references_of
from awesum.errors import AwesumError
from awesum.evaluation.texts import PREDICTION, REFERENCE, Texts
from awesum.metrics.metric import Sample
from awesum.summary import count


class Pairs(Sequence[list[Sample]]):
    """One sample per system for each document, read on access."""

    def __init__(self, predictions: Sequence[Path], references: Path, documents: Path | None = None) -> None:
        self._references = Texts(references)
        ids = self._references.ids
        if ids is not None:
            _check_unique(ids, self._references)
        self.ids = ids or [str(number) for number in range(1, len(self._references) + 1)]
        self._predictions = [Texts(path) for path in predictions]
        self._orders = [_order(texts, self._references, ids, "prediction") for texts in self._predictions]
        self._documents = Texts(documents, are_documents=True) if documents else self._references
        self._document_order = _order(self._documents, self._references, ids, "document") if documents else None
        lacking = None if documents else self._references.first_without(NAMES["document"])
        self.has_documents = lacking is None
        self.without_document = "" if lacking is None else self._references.where(lacking)
        """The place of the first row without a document."""
        self.notes = [
            f"{texts.path} is matched with {references} by order: only one of them has ids"
            for texts in (*self._predictions, *([self._documents] if documents else []))
            if (texts.ids is None) != (ids is None)
        ]

    def __len__(self) -> int:
        return len(self._references)

    def __getitem__(self, index: int) -> list[Sample]:  # type: ignore[override]
        references = self._reference_texts(index)
        document = self._document(index) if self.has_documents else ""
        return [
            Sample(texts.text(order[index] if order else index, PREDICTION), references, document)
            for texts, order in zip(self._predictions, self._orders, strict=True)
        ]

    def _reference_texts(self, index: int) -> tuple[str, ...]:
        where = self._references.where(index)
        found = references_of(self._references[index], where) or (self._references.text(index, REFERENCE),)
        if not all(text.strip() for text in found):
            raise AwesumError(f"{where} has an empty reference: add the text, or remove it and its prediction")
        return found

    def _document(self, index: int) -> str:
        place = self._document_order[index] if self._document_order else index
        text = self._documents.text(place, NAMES["document"])
        if not text.strip():
            raise AwesumError(f"{self._documents.where(place)} has an empty document: add the text")
        return text


def _order(texts: Texts, references: Texts, wanted: list[str] | None, what: str) -> list[int] | None:
    """The index of the text for each reference; None if they are in the same order."""
    ids = texts.ids
    if wanted is None or ids is None:
        if (references if ids is None else texts).is_folder and (wanted is None) != (ids is None):
            folder, other = (references, texts) if ids is None else (texts, references)
            raise AwesumError(
                f"the files of {folder.path} are matched by their names, and {other.path} has none: "
                "add an id to every row of it, or give a folder there too"
            )
        if len(texts) != len(references):
            raise AwesumError(
                f"{texts.path} has {len(texts):,} {what}s and {references.path} {len(references):,} references: "
                "without an id in every row they are matched by order, so give equally many, in the same order"
            )
        return None
    _check_unique(ids, texts)
    places = {name: place for place, name in enumerate(ids)}
    _check_complete([name for name in wanted if name not in places], "reference", references, what, texts)
    known = set(wanted)
    _check_complete([name for name in ids if name not in known], what, texts, "reference", references)
    return None if ids == wanted else [places[name] for name in wanted]


def _check_unique(ids: list[str], texts: Texts) -> None:
    seen: set[str] = set()
    for index, name in enumerate(ids):
        if name in seen:
            raise AwesumError(
                f"{texts.where(index)} has the id {name!r} of an earlier row: make ids unique, or drop them"
            )
        seen.add(name)


def _check_complete(missing: list[str], one: str, of: Texts, what: str, where: Texts) -> None:
    if missing:
        raise AwesumError(
            f"{count(len(missing), one)} of {of.path} {'has' if len(missing) == 1 else 'have'} no {what} in "
            f"{where.path} (first: {missing[0]!r}): add what is missing, or remove the others"
        )
