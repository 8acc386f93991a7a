"""All of it: the test documents, each row, the scores, the extractor, the statistics, and the tables.

Every stage leaves what it made in the folder and is not done twice: after a kill the same command resumes. A row that
fails is reported, and the others go on. Rows of real models are made one after the other, so that each has the machine
to itself; those of stand-ins side by side.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from awesum import files
from awesum.datasets import Example, examples
from awesum.datasets.stats import measure
from awesum.errors import AwesumError
from awesum.files import check_output, sha256
from awesum.footprint import total_memory
from awesum.loading import choose_device
from awesum.reproduce import estimate
from awesum.reproduce.plan import EXTRACTOR, Plan
from awesum.reproduce.result import Made, Result, choose_sample
from awesum.reproduce.row import STOPPED, RowMaker
from awesum.reproduce.weights import look
from awesum.settings import CENTRALITY, SHIPPED
from awesum.summary import count
from awesum.training import record
from awesum.workers import cores

WORTH_A_PROCESS = 50
"""Documents."""
ROOM = 4_000_000_000
"""Bytes of RAM that a row of a stand-in may take before fewer are made side by side."""
_READ = re.compile(r"([\d,]+) of ([\d,]+) tokens are read")
"""In the notes of a summary."""
Say = Callable[[str], object]


def reproduce(
    plan: Plan,
    *,
    models: Mapping[str, dict[str, Any]] | None = None,
    trials: int | None = None,
    processes: int | None = None,
    quiet: bool = False,
    say: Say = print,
) -> Result:
    """Make every row that is not made yet, and write the tables. `models` are the options of metrics with a model,
    `processes` is the number of rows to make side by side (by default as `rows_at_once` says)."""
    plan.check_folder()
    stages = [*([EXTRACTOR] if plan.trains_extractor else []), *plan.rows]
    bases = {each: plan.settings(each)[0].base for each in stages}  # every wrong setting is reported before any work
    inputs = [Path(name).expanduser() for name in (plan.data, *plan.bases.values())]
    check_output(plan.output, inputs, is_folder=True, flag="--output")
    plan.output.mkdir(parents=True, exist_ok=True)
    lock = files.Lock(plan.output / "reproduce")
    if not lock.acquire():
        raise AwesumError(f"another process is making {plan.output}: wait for it, or give another --output")
    try:
        plan.write()
        documents = _write_references(plan, say)
        errors = _make_rows(plan, bases, documents, processes or rows_at_once(bases.values()), quiet, say)
        return _report(plan, errors, documents, dict(models or {}), trials, quiet, say)
    finally:
        lock.release()


def rows_at_once(bases: Collection[str]) -> int:
    """How many rows to make side by side if nobody says: one for each core if all start from stand-ins, whose speed
    says nothing. A real model has the machine to itself, so that its speed is its own and there is memory for it."""
    if len(bases) < 2 or not all(look(base).is_tiny for base in {*bases}):
        return 1
    if choose_device()[0].type != "cpu":
        return 1
    return max(1, min(cores(), (total_memory() or 0) // ROOM))


def _make_rows(
    plan: Plan, bases: Mapping[str, str], documents: int, processes: int, quiet: bool, say: Say
) -> dict[str, str]:
    """Make the rows that are not made yet, several side by side. Returns the reasons of those that failed."""
    made: dict[str, Future[str | None]] = {}
    at_once = min(processes, len(bases))
    with ExitStack() as makers:
        free: SimpleQueue[RowMaker] = SimpleQueue()
        for _ in range(at_once):
            free.put(makers.enter_context(RowMaker(at_once)))

        def make(each: str) -> str | None:
            title = _title(plan, each)
            try:
                if is_made(plan, each, documents):
                    say(f"{title}: made already")
                    return None
                # The extractor is the first stage: it has begun before anybody waits for it.
                takes_it = each != EXTRACTOR and EXTRACTOR in made and plan.selects(each)
                failure = made[EXTRACTOR].result() if takes_it else None
                if failure == STOPPED:
                    return STOPPED
                if failure is not None:
                    raise AwesumError("it takes the extractor, which failed (--set extractor=shipped: the shipped one)")
                say(f"{title}: from {bases[each]}")
                maker = free.get()
                try:
                    error = maker.make(plan, each, quiet=quiet)
                finally:
                    free.put(maker)
            except AwesumError as known:
                error = str(known)
            if error not in (None, STOPPED):
                say(f"{title} FAILED: {error}")
            return error

        with ThreadPoolExecutor(at_once) as threads:
            try:
                for each in bases:
                    made[each] = threads.submit(make, each)
                wait(made.values(), return_when=FIRST_EXCEPTION)
                found = {each: future.result() for each, future in made.items() if future.done()}
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                makers.close()  # ends what is being made
                raise
    return {each: error for each, error in found.items() if error is not None}


def _title(plan: Plan, stage: str) -> str:
    if stage == EXTRACTOR:
        return plan.name(stage)
    return f"row {plan.rows.index(stage) + 1} of {len(plan.rows)}, {plan.name(stage)}"


def _write_references(plan: Plan, say: Say) -> int:
    """Write the documents to summarize; returns how many."""
    if not plan.references.exists():
        stream = examples(plan.data, plan.split)
        files.write(plan.references, (_line(example) for example in islice(stream, plan.documents)))
        if stream.skipped:
            say(f"{stream.skipped.total():,} invalid rows of {plan.data} were skipped")
    with plan.references.open("rb") as file:
        number = sum(1 for _ in file)
    if not number:
        plan.references.unlink()
        raise AwesumError(f"the split {plan.split!r} of {plan.data} has no documents: give another --data or --split")
    return number


def _line(example: Example) -> bytes:
    row: dict[str, Any] = {"id": example.id, "document": example.document, "summary": example.summary}
    if example.query:
        row["query"] = example.query
    if len(example.references) > 1:
        row["references"] = list(example.references)
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def is_made(plan: Plan, row: str, documents: int) -> bool:
    """Whether a row is trained with the same settings, and every document summarized by that model."""
    trained = record.read(plan.model(row)) if plan.model(row).is_dir() else None
    if trained is None or not record.is_finished(trained):
        return False
    record.check_same(plan.model(row), trained, *plan.settings(row))
    if row == EXTRACTOR:
        return True
    try:
        predicted = json.loads(plan.predictions(row).with_suffix(".run.json").read_text(encoding="utf-8"))
        return bool(predicted["finished"] and predicted["totals"]["documents"] == documents)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _report(
    plan: Plan,
    errors: Mapping[str, str],
    documents: int,
    models: dict[str, dict[str, Any]],
    trials: int | None,
    quiet: bool,
    say: Say,
) -> Result:
    from awesum.evaluation.significance import TRIALS
    from awesum.reproduce import table

    rows: list[Made] = []
    notes = [f"the extractor failed: {errors[EXTRACTOR]}"] if EXTRACTOR in errors else []
    for each in plan.rows:
        base = look(plan.settings(each)[0].base)
        if each in errors:
            rows.append(Made(each, plan.name(each), plan.table.rows.get(each), base, error=errors[each]))
            continue
        say(f"scoring {plan.name(each)}")
        evaluation, left_out = _scores(plan, each, models, _processes(documents), quiet)
        own = [note.replace(f"{plan.predictions(each).stem}: ", f"{plan.name(each)}: ", 1) for note in evaluation.notes]
        notes += [note for note in (*left_out, *own, *_cut(plan, each)) if note not in notes]
        rows.append(
            Made(
                each,
                plan.name(each),
                plan.table.rows.get(each),
                base,
                record=record.read(plan.model(each)) or {},
                evaluation=evaluation,
            )
        )
    say("extractor and statistics")
    result = Result(
        plan,
        tuple(rows),
        documents=documents,
        extractor=None
        if EXTRACTOR in errors
        else _once(plan.output / "extractor.json", lambda: _extractor(plan, _processes(documents), quiet), say),
        statistics=_once(plan.output / "statistics.json", lambda: _statistics(plan, quiet), say),
        sample=choose_sample(plan, rows),
        notes=tuple(notes),
        trials=trials or TRIALS,
    )
    for name, content in table.written(result).items():
        files.write(plan.output / name, content)
    return result


def _scores(plan: Plan, row: str, models: dict[str, dict[str, Any]], processes: int, quiet: bool) -> Any:
    """The scores of a row by all measures that are available; those of an interrupted run are not computed again."""
    from awesum.evaluation.run import available, evaluate

    chosen, left_out = available(models)
    predictions = plan.predictions(row)
    # Named after the summaries and the measures: those of a row that was made anew are other scores.
    kind = f"{sha256(predictions)[:12]}-{_digest(chosen, models)}"
    evaluation, _ = evaluate(
        predictions,
        plan.references,
        metrics=chosen,
        options=models,
        scores=plan.output / "scores" / f"{predictions.stem}-{kind}.jsonl",
        processes=processes,
        quiet=quiet,
    )
    return evaluation, left_out


def _cut(plan: Plan, row: str) -> list[str]:
    """How much of the test documents a row did not read, from the notes of its summaries."""
    with plan.predictions(row).open(encoding="utf-8") as file:
        notes = [note for line in file for note in json.loads(line)["notes"]]
    found = [
        (int(match[1].replace(",", "")), int(match[2].replace(",", ""))) for match in map(_READ.search, notes) if match
    ]
    if not found:
        return []
    read, total = map(sum, zip(*found, strict=True))
    return [
        f"{plan.name(row)}: {count(len(found), 'document')} not read whole: {read:,} of the {total:,} tokens of these"
    ]


def _processes(documents: int) -> int:
    """Starting a process takes longer than scoring some documents."""
    return min(cores(), 1 + documents // WORTH_A_PROCESS)


def _digest(chosen: Collection[str], models: Mapping[str, Any]) -> str:
    import hashlib

    return hashlib.sha256(json.dumps([list(chosen), models], sort_keys=True).encode()).hexdigest()[:12]


def _once(path: Path, make: Callable[[], Any], say: Say) -> Any:
    """What a stage makes, from its file if it was made before; None if it fails, which is reported."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        pass
    try:
        made = make()
    except AwesumError as error:
        say(f"{path.stem}: {error}")
        return None
    files.write(path, json.dumps(made, indent=1) + "\n")
    return made


def _extractor(plan: Plan, processes: int, quiet: bool) -> dict[str, Any]:
    """F1 of the extractor's sentences against the oracle's. The one that needs no training is there in any case."""
    from awesum.analysis.salience.loading import load_extractor
    from awesum.analysis.salience.trained import SHIPPED as PATH
    from awesum.training.extractor_evaluation import evaluate

    named = str(plan.model(EXTRACTOR)) if plan.trains_extractor else plan.changes.get(EXTRACTOR, SHIPPED)
    if named in ("", SHIPPED, CENTRALITY):
        named = SHIPPED
    salience = load_extractor(PATH if named == SHIPPED else named)
    rows = evaluate(salience, str(plan.references), "test", processes=processes, quiet=quiet)
    name = look(plan.settings(EXTRACTOR)[0].base) if plan.trains_extractor else named
    return {"extractor": str(name), "rows": [asdict(each) for each in rows]}


def _statistics(plan: Plan, quiet: bool) -> dict[str, Any]:
    """Counts and lengths of the whole dataset."""
    return measure(plan.data, quiet=quiet).as_dict()


def describe(plan: Plan, say: Say = print) -> float:
    """Say what would be done and how long it takes, and do nothing. Returns the seconds."""
    plan.check_folder()
    train, test = estimate.size(plan, "train"), estimate.size(plan, plan.split)
    say(
        f"{plan.table.title} from {plan.data}: train on {train.documents:,} documents, test on {test.documents:,} "
        f"({plan.split}), about {train.tokens:,.0f} tokens each, into {plan.output}"
    )
    speed, total = estimate.machine_speed(), 0.0
    width = max(len(plan.name(each)) for each in (*plan.rows, EXTRACTOR))
    for each in (*([EXTRACTOR] if plan.trains_extractor else []), *plan.rows):
        settings, _ = plan.settings(each)
        name = f"  {plan.name(each):{width}}"
        if is_made(plan, each, test.documents):
            say(f"{name}  made already")
            continue
        needed = estimate.estimate(plan, each, train, test, speed)
        total += needed.seconds
        say(
            f"{name}  {needed.state}; {settings.system} from {look(settings.base)}; {count(needed.steps, 'step')}, "
            f"{settings.epochs:g} x {train.documents:,} documents; {_about(needed.seconds)}"
        )
    say(f"{_about(total)} on this machine: a rough figure by arithmetic, without loading and scoring")
    return total


def _about(seconds: float) -> str:
    return "less than 1 s" if seconds < 1 else f"about {estimate.shown_time(seconds)}"


def to_stderr(note: str) -> None:
    """A line for the user."""
    print(f"awesum: {note}", file=sys.stderr, flush=True)
