"""Measuring files of summaries: each document in turn, its summaries by all systems at once, on all cores.

Measures without a model work in processes of their own, those with one here, where it has all cores to itself. What is
kept of a document is its scores, so memory does not depend on how many there are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from awesum import __version__
from awesum.errors import AwesumError
from awesum.evaluation.kept import Kept
from awesum.evaluation.pairs import Pairs
from awesum.evaluation.result import Evaluation, System
from awesum.evaluation.significance import TRIALS
from awesum.evaluation.texts import files, stem
from awesum.files import sha256
from awesum.length import count_words
from awesum.metrics import METRICS, Metric, Sample, Score, load, needs
from awesum.scoring.rouge import tokens
from awesum.summary import count
from awesum.workers import work

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ABOUT = ("words", "tokens", "document_words")
"""What is kept of a summary beside its scores: its words, those of them that ROUGE knows, and the document's."""

Scored = list[dict[str, float]]
"""The scores of one document's summaries, a system each."""


def evaluate(
    predictions: Path,
    references: Path,
    *,
    documents: Path | None = None,
    compare: Sequence[Path] = (),
    metrics: Sequence[str] = (),
    options: dict[str, dict[str, Any]] | None = None,
    trials: int = TRIALS,
    scores: Path | None = None,
    processes: int = 1,
    quiet: bool = False,
) -> tuple[Evaluation, Pairs]:
    """Measure the summaries of one system, or of several on the same documents; the first is compared with the others.

    Without `metrics`, all are taken that need no model and whose needs are given. `options` are for the measures with a
    model: `{"summac": {"model": FOLDER_OR_NAME}}`. `scores` is a file for the scores of every summary, kept as soon as
    they are there: interrupted, the same call goes on from it. More `processes` than this one begin with the caller's
    main module, which must then do its work under `if __name__ == "__main__":`.
    """
    paths = [predictions, *compare]
    names = system_names(paths)
    chosen, notes = _chosen(metrics)
    pairs = Pairs(paths, references, documents)
    chosen, left_out = _with_their_needs(chosen, pairs, asked=bool(metrics), references=references)
    notes += [*pairs.notes, *left_out]
    options = options or {}
    models = [str(options.get(name, {}).get("model")) for name in chosen if "model" in needs(name)]
    heavy = [load(name, **options.get(name, {})) for name in chosen if "model" in needs(name)]
    light = [name for name in chosen if "model" not in needs(name)]
    columns = _columns(chosen, heavy)
    kept = Kept(scores, _key([*paths, references, documents], columns, models)) if scores else None
    found = _measured(pairs, light, heavy, columns, names, kept, processes, quiet)
    systems = tuple(
        System(
            name,
            {column.name: found[column.name][:, number] for column in columns},
            found["words"][:, number].astype(np.int64),
            int((found["words"][:, number] == 0).sum()),
        )
        for number, name in enumerate(names)
    )
    unknown = ((found["words"] > 0) & (found["tokens"] == 0)).sum(axis=0)
    notes += [
        f"{name}: {number:,} of {len(pairs):,} summaries have no word of a to z or digits, which is all that ROUGE, "
        "coverage and repetition compare"
        for name, number in zip(names, unknown, strict=True)
        if number
    ]
    notes += _notes(systems, columns, len(pairs), heavy)
    lengths = found["document_words"][:, 0].astype(np.int64)
    return Evaluation(columns, systems, tuple(pairs.ids), lengths, trials, tuple(notes)), pairs


def system_names(paths: Sequence[Path]) -> list[str]:
    """A short name for each file: its own, or the whole path where two are called alike."""
    short = [stem(Path(path.resolve().name)) for path in paths]
    names = [name if short.count(name) == 1 else str(path) for name, path in zip(short, paths, strict=True)]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise AwesumError(f"{twice} is given twice: compare it with something else")
    return names


def _chosen(metrics: Sequence[str]) -> tuple[list[str], list[str]]:
    """The measures in the order of their columns; without being asked for any, those that can be had."""
    if metrics:
        for name in metrics:
            needs(name)  # an unknown one is said before anything is read
        return [name for name in METRICS if name in metrics], []
    chosen = [name for name in METRICS if "model" not in needs(name)]
    from awesum.metrics.english import is_installed

    if is_installed():
        return chosen, []
    without = [name for name in chosen if "english" in needs(name)]
    said = f"{' and '.join(without)} are left out: they need `pip install 'awesum[evaluate]'`"
    return [name for name in chosen if name not in without], [said]


def _with_their_needs(chosen: list[str], pairs: Pairs, *, asked: bool, references: Path) -> tuple[list[str], list[str]]:
    """Those whose needs are given: what was asked for and cannot be is an error, what was not is only said."""
    if pairs.has_documents:
        return chosen, []
    without = [name for name in chosen if "document" in needs(name)]
    if without and asked:
        raise AwesumError(
            f"{without[0]} compares with the documents, and {pairs.without_document or references} has none: "
            "give them with --documents FILE"
        )
    said = [f"{' and '.join(without)} are left out: they need the documents (--documents FILE)"] if without else []
    return [name for name in chosen if name not in without], said


def _columns(chosen: Sequence[str], heavy: Sequence[Metric]) -> tuple[Score, ...]:
    loaded = {metric.name: metric for metric in heavy}
    return tuple(score for name in chosen for score in (loaded.get(name) or load(name)).scores)


def _key(paths: Sequence[Path | None], columns: Sequence[Score], models: Sequence[str]) -> str:
    """The same for the same texts, measures and models, and for nothing else."""
    texts = [_hashes(path) if path else None for path in paths]
    known = [__version__, [[column.name, column.settings] for column in columns], texts]
    known += [_hashes(Path(model)) or model for model in models]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()


def _hashes(path: Path) -> list[str]:
    """Of the content of a file, or of all files of a folder; none if there is neither."""
    found = files(path) if path.is_dir() else [path] if path.is_file() else []
    return [sha256(file) for file in found]


def _measured(
    pairs: Pairs,
    light: Sequence[str],
    heavy: Sequence[Metric],
    columns: Sequence[Score],
    names: Sequence[str],
    kept: Kept | None,
    processes: int,
    quiet: bool,
) -> dict[str, NDArray[np.float64]]:
    """Every score, and what `_ABOUT` names: documents by systems."""
    from tqdm import tqdm

    fields = [*(column.name for column in columns), *_ABOUT]
    table = np.full((len(pairs), len(names), len(fields)), nan)
    done = kept.read(pairs.ids, names, fields) if kept else []
    table[: len(done)] = np.array(done).reshape(len(done), len(names), len(fields))
    left = range(len(done), len(pairs))
    bar = tqdm(
        total=len(pairs), initial=len(done), desc="measuring", unit=" documents", leave=False, disable=quiet or None
    )
    with bar, closing(work(partial(_Light, light), map(pairs.__getitem__, left), processes)) as found:
        for index, rows in zip(left, found, strict=True):
            if heavy:
                for row, sample in zip(rows, pairs[index], strict=True):
                    row |= _scores(heavy, sample)
            table[index] = [[row[field] for field in fields] for row in rows]
            if kept:
                kept.add(pairs.ids[index], dict(zip(names, rows, strict=True)))
            bar.update()
    return dict(zip(fields, np.moveaxis(table, 2, 0), strict=True))


class _Light:
    """What each process does: all measures without a model, of one document's summaries."""

    def __init__(self, names: Sequence[str]) -> None:
        self.metrics = [load(name) for name in names]

    def __call__(self, samples: list[Sample]) -> Scored:
        length = count_words(samples[0].document)
        return [
            _scores(self.metrics, sample)
            | {
                "words": count_words(sample.prediction),
                "tokens": len(tokens(sample.prediction)),
                "document_words": length,
            }
            for sample in samples
        ]


def _scores(metrics: Sequence[Metric], sample: Sample) -> dict[str, float]:
    """By name. A summary without text is worth nothing; where nothing would be the best score, it has none."""
    if not sample.prediction.strip():
        return {score.name: nan if score.better == "lower" else 0.0 for metric in metrics for score in metric.scores}
    found: dict[str, float] = {}
    for metric in metrics:
        found.update(metric.measure(sample))
    return found


def _notes(systems: Sequence[System], columns: Sequence[Score], documents: int, heavy: Sequence[Metric]) -> list[str]:
    """Whatever was scored as nothing, left out of a mean, or cut."""
    notes = []
    for system in systems:
        if system.empty:
            notes.append(
                f"{system.name}: {system.empty:,} of {documents:,} summaries have no text: they score 0, or nothing "
                "where lower is better"
            )
        for column in columns:
            without = int(np.isnan(system.scores[column.name]).sum())
            if without:
                notes.append(
                    f"{system.name}: {column.title} is over {documents - without:,} of {documents:,} summaries, the "
                    "others have nothing that it measures"
                )
    for metric in heavy:
        if cut := getattr(metric, "cut", 0) + getattr(metric, "cut_summary", 0):
            notes.append(f"{metric.name}: {count(cut, 'sentence')} longer than the model reads, cut to what it does")
    return notes
