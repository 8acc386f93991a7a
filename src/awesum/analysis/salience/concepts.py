"""Concepts: the different stems and word pairs of a document's sentences, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from awesum.analysis.salience.words import pair_rows, stem_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ConceptArrays(NamedTuple):
    """The different stems or pairs of the sentences that may be selected."""

    rows: NDArray[np.int64]
    """Their rows in the table, (C,)."""
    features: NDArray[np.float32]
    """How often they occur, and how rare their stems are in general, (C, 3)."""
    place: NDArray[np.int64]
    """The concept of each occurrence, (O,)."""
    owner: NDArray[np.int64]
    """The sentence of each occurrence, (O,)."""


def concept_ids(
    ids: NDArray[Any], owners: NDArray[np.int64], selectable: NDArray[np.bool_]
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The different stems or pairs of the selectable sentences, their counts, and the concept and sentence of each
    occurrence."""
    kept = selectable[owners] if len(owners) else np.zeros(0, dtype=bool)
    found, place, counts = np.unique(ids[kept], return_inverse=True, return_counts=True)
    return found, counts, place, owners[kept]


def concepts(
    ids: NDArray[Any], owners: NDArray[np.int64], selectable: NDArray[np.bool_], rarity: NDArray[np.float32]
) -> ConceptArrays:
    """The concepts of the selectable sentences."""
    found, counts, place, owner = concept_ids(ids, owners, selectable)
    if found.dtype == np.uint32:
        rows = stem_rows(found)
        first = second = rarity[rows]
    else:
        rows = pair_rows(found)
        first = rarity[stem_rows((found >> np.uint64(32)).astype(np.uint32))]
        second = rarity[stem_rows((found & np.uint64(0xFFFFFFFF)).astype(np.uint32))]
    counted = np.stack([np.log(counts), first / 5, second / 5], axis=1).astype(np.float32)
    return ConceptArrays(rows, counted, place, owner)
