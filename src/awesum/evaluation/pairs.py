"""Which summary belongs to which reference and document: by id if all have one, otherwise by their order.

Nothing is passed over: a summary without a reference, or a reference without a summary, is refused.
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
    """For each document one sample a system, read when they are asked for."""

    def __init__(self, predictions: Sequence[Path], references: Path, documents: Path | None = None) -> None:
        self._references = Texts(references)
        given = self._references.ids
        if given is not None:
            _no_duplicates(given, self._references)
        self.ids = given or [str(number) for number in range(1, len(self._references) + 1)]
        self._predictions = [Texts(path) for path in predictions]
        self._orders = [_order(texts, self._references, given, "prediction") for texts in self._predictions]
        self._documents = Texts(documents, are_documents=True) if documents else self._references
        self._document_order = _order(self._documents, self._references, given, "document") if documents else None
        lacking = None if documents else self._references.first_without(NAMES["document"])
        self.has_documents = lacking is None
        self.without_document = "" if lacking is None else self._references.where(lacking)
        """Where the first row is that has none."""
        self.notes = [
            f"{texts.path} is matched with {references} by order: only one of them has ids"
            for texts in (*self._predictions, *([self._documents] if documents else []))
            if (texts.ids is None) != (given is None)
        ]

    def __len__(self) -> int:
        return len(self._references)

    def __getitem__(self, index: int) -> list[Sample]:  # type: ignore[override]
        references = self._texts_to_compare_with(index)
        document = self._document(index) if self.has_documents else ""
        return [
            Sample(texts.text(order[index] if order else index, PREDICTION), references, document)
            for texts, order in zip(self._predictions, self._orders, strict=True)
        ]

    def _texts_to_compare_with(self, index: int) -> tuple[str, ...]:
        where = self._references.where(index)
        found = references_of(self._references[index], where) or (self._references.text(index, REFERENCE),)
        if not all(text.strip() for text in found):
            raise AwesumError(f"{where} has an empty reference: give it its text, or remove it and its prediction")
        return found

    def _document(self, index: int) -> str:
        place = self._document_order[index] if self._document_order else index
        text = self._documents.text(place, NAMES["document"])
        if not text.strip():
            raise AwesumError(f"{self._documents.where(place)} has an empty document: give it its text")
        return text


def _order(texts: Texts, references: Texts, wanted: list[str] | None, what: str) -> list[int] | None:
    """Where the text for each reference is; nothing if they stand in the same order."""
    ids = texts.ids
    if wanted is None or ids is None:
        if (references if ids is None else texts).is_folder and (wanted is None) != (ids is None):
            folder, other = (references, texts) if ids is None else (texts, references)
            raise AwesumError(
                f"the files of {folder.path} are matched by their names, and {other.path} has none: "
                "give it an id in every row, or a folder too"
            )
        if len(texts) != len(references):
            raise AwesumError(
                f"{texts.path} has {len(texts):,} {what}s and {references.path} {len(references):,} references: "
                "without an id in every row they are matched by their order, so give as many, in the same order"
            )
        return None
    _no_duplicates(ids, texts)
    places = {name: place for place, name in enumerate(ids)}
    _all_there([name for name in wanted if name not in places], "reference", references, what, texts)
    known = set(wanted)
    _all_there([name for name in ids if name not in known], what, texts, "reference", references)
    return None if ids == wanted else [places[name] for name in wanted]


def _no_duplicates(ids: list[str], texts: Texts) -> None:
    seen: set[str] = set()
    for index, name in enumerate(ids):
        if name in seen:
            raise AwesumError(f"{texts.where(index)} has the id {name!r} of an earlier one: give each its own, or none")
        seen.add(name)


def _all_there(missing: list[str], one: str, of: Texts, what: str, where: Texts) -> None:
    if missing:
        raise AwesumError(
            f"{count(len(missing), one)} of {of.path} {'has' if len(missing) == 1 else 'have'} no {what} in "
            f"{where.path} (first: {missing[0]!r}): give what is missing, or leave the others out"
        )
