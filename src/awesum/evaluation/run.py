"""Score files of summaries: document by document, the summaries of all systems together, on all cores.

Metrics without a model run in worker processes; those with a model run in this process, where the model can use all
cores. Only scores are kept, so RAM does not grow with the number of documents.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from contextlib import closing
from functools import partial
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from awesum.errors import AwesumError
from awesum.evaluation.pairs import Pairs
from awesum.evaluation.result import Evaluation, System
from awesum.evaluation.scores import ScoresFile
from awesum.evaluation.significance import TRIALS
from awesum.evaluation.texts import files, stem
from awesum.files import check_output, sha256
from awesum.length import count_words
from awesum.metrics import METRICS, Metric, Sample, Score, load, needs
from awesum.stems import stems
from awesum.version import __version__
from awesum.workers import work

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COUNTS = ("words", "tokens", "document_words")
"""Recorded next to the scores of a summary: its words, its ROUGE tokens, and the words of the document."""

Scored = list[dict[str, float]]
"""The scores of one document's summaries, one per system."""


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
    """Score the summaries of one system, or of several on the same documents, each compared with the first.

    Without `metrics`, all are used that need no model and whose needs are met. `options` are for metrics with a model:
    `{"summac": {"model": FOLDER_OR_NAME}}`. `scores` is a file for the scores of every summary, written as they are
    computed; the same call resumes an interrupted run from it. With several `processes`, a calling script needs the
    guard `if __name__ == "__main__"`.
    """
    paths = [predictions, *compare]
    names = system_names(paths)
    if scores:
        check_output(scores, [*paths, references, *filter(None, [documents])], flag="--scores")
    chosen, notes = _select(metrics)
    pairs = Pairs(paths, references, documents)
    chosen, left_out = _without_documents(chosen, pairs, requested=bool(metrics), references=references)
    notes += [*pairs.notes, *left_out]
    options = options or {}
    models = [str(options.get(name, {}).get("model")) for name in chosen if "model" in needs(name)]
    heavy = [load(name, **options.get(name, {})) for name in chosen if "model" in needs(name)]
    light = [name for name in chosen if "model" not in needs(name)]
    columns = _columns(chosen, heavy)
    file = ScoresFile(scores, _key([*paths, references, documents], columns, models)) if scores else None
    found = _score_all(pairs, light, heavy, columns, names, file, processes, quiet)
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
        f"{name}: {number:,} of {len(pairs):,} summaries have no words in a-z or digits, the only ones that ROUGE, "
        "coverage and repetition compare"
        for name, number in zip(names, unknown, strict=True)
        if number
    ]
    notes += _notes(systems, columns, len(pairs), heavy)
    lengths = found["document_words"][:, 0].astype(np.int64)
    return Evaluation(columns, systems, tuple(pairs.ids), lengths, trials, tuple(notes)), pairs


def system_names(paths: Sequence[Path]) -> list[str]:
    """A short name for each file: its stem, or the whole path if two have the same stem."""
    short = [stem(Path(path.resolve().name)) for path in paths]
    names = [name if short.count(name) == 1 else str(path) for name, path in zip(short, paths, strict=True)]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise AwesumError(f"{twice} is given twice: compare it with another file")
    return names


def _select(metrics: Sequence[str]) -> tuple[list[str], list[str]]:
    """The requested metrics in the order of their columns, or else all that are available; and notes."""
    if metrics:
        for name in metrics:
            needs(name)  # an unknown one is reported before anything is read
        return [name for name in METRICS if name in metrics], []
    return available()


def available(models: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """All metrics that can be used here, of those with a model only `models`; and what is left out and why."""
    chosen = [name for name in METRICS if "model" not in needs(name) or name in models]
    from awesum.metrics.english import is_installed

    if is_installed():
        return chosen, []
    without = [name for name in chosen if "english" in needs(name)]
    note = f"{' and '.join(without)} are left out: they need `pip install 'awesum[evaluate]'`"
    return [name for name in chosen if name not in without], [note]


def _without_documents(
    chosen: list[str], pairs: Pairs, *, requested: bool, references: Path
) -> tuple[list[str], list[str]]:
    """If there are no documents, drop the metrics that need them, with a note; an error if they were requested."""
    if pairs.has_documents:
        return chosen, []
    without = [name for name in chosen if "document" in needs(name)]
    if without and requested:
        raise AwesumError(
            f"{without[0]} compares with the documents, and {pairs.without_document or references} has none: "
            "give them with --documents FILE"
        )
    notes = [f"{' and '.join(without)} are left out: they need the documents (--documents FILE)"] if without else []
    return [name for name in chosen if name not in without], notes


def _columns(chosen: Sequence[str], heavy: Sequence[Metric]) -> tuple[Score, ...]:
    loaded = {metric.name: metric for metric in heavy}
    return tuple(score for name in chosen for score in (loaded.get(name) or load(name)).scores)


def _key(paths: Sequence[Path | None], columns: Sequence[Score], models: Sequence[str]) -> str:
    """Cache key: changes with the texts, the metrics, the models and the version."""
    texts = [_hashes(path) if path else None for path in paths]
    parts = [__version__, [[column.name, column.settings] for column in columns], texts]
    parts += [_hashes(Path(model)) or model for model in models]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _hashes(path: Path) -> list[str]:
    """The hash of a file, or of all files in a folder; empty if there is neither."""
    found = files(path) if path.is_dir() else [path] if path.is_file() else []
    return [sha256(file) for file in found]


def _score_all(
    pairs: Pairs,
    light: Sequence[str],
    heavy: Sequence[Metric],
    columns: Sequence[Score],
    names: Sequence[str],
    file: ScoresFile | None,
    processes: int,
    quiet: bool,
) -> dict[str, NDArray[np.float64]]:
    """Every score and every count of `_COUNTS`: an array of documents by systems for each."""
    from tqdm import tqdm

    fields = [*(column.name for column in columns), *_COUNTS]
    table = np.full((len(pairs), len(names), len(fields)), nan)
    done = file.read(pairs.ids, names, fields) if file else []
    table[: len(done)] = np.array(done).reshape(len(done), len(names), len(fields))
    remaining = range(len(done), len(pairs))
    bar = tqdm(
        total=len(pairs), initial=len(done), desc="scoring", unit=" documents", leave=False, disable=quiet or None
    )
    with bar, closing(work(partial(_LightMetrics, light), map(pairs.__getitem__, remaining), processes)) as found:
        for index, rows in zip(remaining, found, strict=True):
            if heavy:
                for row, sample in zip(rows, pairs[index], strict=True):
                    row |= _scores(heavy, sample)
            table[index] = [[row[field] for field in fields] for row in rows]
            if file:
                file.add(pairs.ids[index], dict(zip(names, rows, strict=True)))
            bar.update()
    return dict(zip(fields, np.moveaxis(table, 2, 0), strict=True))


class _LightMetrics:
    """The work of each process: all metrics without a model, for the summaries of one document."""

    def __init__(self, names: Sequence[str]) -> None:
        self.metrics = [load(name) for name in names]

    def __call__(self, samples: list[Sample]) -> Scored:
        length = count_words(samples[0].document)
        return [
            _scores(self.metrics, sample)
            | {
                "words": count_words(sample.prediction),
                "tokens": len(stems(sample.prediction)),
                "document_words": length,
            }
            for sample in samples
        ]


def _scores(metrics: Sequence[Metric], sample: Sample) -> dict[str, float]:
    """Scores by name. A summary without text scores 0, or NaN where 0 would be the best score."""
    if not sample.prediction.strip():
        return {score.name: nan if score.better == "lower" else 0.0 for metric in metrics for score in metric.scores}
    found: dict[str, float] = {}
    for metric in metrics:
        found.update(metric.measure(sample))
    return found


def _notes(systems: Sequence[System], columns: Sequence[Score], documents: int, heavy: Sequence[Metric]) -> list[str]:
    """Everything that was scored as 0, left out of a mean, or truncated."""
    notes = []
    for system in systems:
        if system.empty:
            notes.append(
                f"{system.name}: {system.empty:,} of {documents:,} summaries have no text: they score 0, or are left "
                "out where lower is better"
            )
        for column in columns:
            without = int(np.isnan(system.scores[column.name]).sum())
            if without:
                notes.append(
                    f"{system.name}: {column.title} is over {documents - without:,} of {documents:,} summaries; it "
                    "does not apply to the others"
                )
    for metric in heavy:
        notes += getattr(metric, "notes", list)()
    return notes
