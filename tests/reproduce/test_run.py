"""`awesum reproduce` with two rows of tiny models: what it writes, that it resumes, and what happens when a row fails.

Rows are made in this process, which saves its start; one slow test makes them as a user would.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers.utils import logging as library_logging

from awesum.analysis.embedding import SentenceEncoder
from awesum.cli import main
from awesum.errors import AwesumError
from awesum.evaluation import evaluate
from awesum.reproduce import row as rows_of
from awesum.reproduce.plan import Plan
from awesum.reproduce.row import RowMaker
from awesum.reproduce.run import describe, reproduce
from awesum.training.settings import as_dict
from awesum.training.trainer import AwesomeTrainer
from tests.training.runs import ROOT, Interrupted, stopping_after, write
from tests.training.test_run import rows

Making = Callable[..., Any]


@pytest.fixture(autouse=True)
def _quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWESUM_CACHE", str(tmp_path / "cache"))
    yield
    library_logging.enable_progress_bar()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    made = rows(8)[1:]
    write(folder / "train.jsonl", made[:3])
    write(folder / "test.jsonl", made[3:])
    return folder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: SentenceEncoder) -> Path:
    folder = tmp_path_factory.mktemp("encoder")
    tiny_encoder.model.save_pretrained(folder)
    tiny_encoder.tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def plan(tmp_path: Path, data: Path, encoder: Path, tiny_bart_folder: Path) -> Plan:
    changes = {"encoder": str(encoder), "extractor": "centrality", "epochs": "1", "accumulation": "1", "max_part": "12",
               "num_beams": "1", "memory_size": "8", "memory_layers": "1", "warmup_steps": "0", "learning_rate": "0.01",
               "save_steps": "1", "log_steps": "1"}  # fmt: skip
    return Plan(
        "govreport",
        tmp_path / "table",
        ("se3", "attentive"),
        str(data),
        documents=3,
        bases={"": str(tiny_bart_folder)},
        changes=changes,
    )


@pytest.fixture
def made_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Makes rows in this process; the list has those that were made."""
    made: list[str] = []

    def make(self: RowMaker, plan: Plan, row: str, *, quiet: bool = False) -> str | None:
        made.append(row)
        job = {
            "settings": as_dict(*plan.settings(row)),
            "documents": str(plan.references),
            "predictions": str(plan.predictions(row)),
            "quiet": True,
        }
        try:
            return rows_of._make(job)
        except AwesumError as error:
            return str(error)

    monkeypatch.setattr(RowMaker, "make", make)
    return made


def silent(note: str) -> None:
    pass


def table(plan: Plan) -> Any:
    return json.loads((plan.output / "table.json").read_text(encoding="utf-8"))


# --------------------------------------------------------------------------------------------------- from end to end


def test_two_rows_beside_the_paper(plan: Plan, made_here: list[str]) -> None:
    result = reproduce(plan, quiet=True, say=silent, trials=100)
    assert made_here == ["se3", "attentive"]
    assert not result.failed
    found = table(plan)
    assert list(found["rows"]) == ["se3", "attentive"]
    assert found["documents"] == 3
    evaluation, _ = evaluate(
        plan.predictions("se3"), plan.references, compare=[plan.predictions("attentive")], trials=100
    )
    for name in ("rouge-1", "rouge-2", "rouge-l", "entity-precision", "entity-graph", "coverage", "length"):
        for row in ("se3", "attentive"):
            mean = evaluation.table[row][name].mean if name in evaluation.table[row] else None
            ours = found["rows"][row]["scores"].get(name, {}).get("mean")
            assert ours == pytest.approx(mean, nan_ok=True) or (mean != mean and ours is None)
    assert found["rows"]["attentive"]["scores"]["rouge-1"]["p_se3"] == evaluation.table["attentive"]["rouge-1"].p
    assert found["rows"]["attentive"]["paper"]["rouge-1"] == {"value": 58.44, "mark": "*"}
    for row in found["rows"].values():
        assert row["base"]["random"]
        assert row["base"]["tiny"]
        assert row["peak_memory_bytes"] > 100_000_000
        assert row["batches_per_second"] > 0
    assert found["extractor"]["paper_f1"] == 27.85
    assert found["extractor"]["ours"]["rows"][-1]["f1"] == 100  # the oracle against itself
    assert found["statistics"]["all"]["documents"] == 7
    assert found["statistics"]["paper"] is None or found["statistics"]["paper"]["train"] == 17_516

    text = (plan.output / "table.md").read_text(encoding="utf-8")
    assert "random weights, tiny" in text
    assert "From random weights, so that their scores say nothing about the systems: Se3, Attentive (Attn)." in text
    assert "Trained on 3 documents, tested on 3 documents (the paper: 17,516 and 973)." in text
    assert "*AWESOME using External Memory Only*" in text
    assert "(58.44\\*)" in text
    assert "SummaC was not measured: name its model with --nli-model" in text
    latex = (plan.output / "table.tex").read_text(encoding="utf-8")
    assert r"(58.44$^\ast$)" in latex
    assert latex.count("{") == latex.count("}")
    assert "[random, tiny]" in latex
    assert (plan.output / "speed.svg").read_text().count("<rect") == 3


def test_nothing_is_made_twice(plan: Plan, made_here: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    reproduce(plan, quiet=True, say=silent, trials=50)
    before = table(plan)
    made_here.clear()
    monkeypatch.setattr("awesum.evaluation.run._scores", None)  # no summary is scored again either
    notes: list[str] = []
    reproduce(plan, quiet=True, say=notes.append, trials=50)
    assert made_here == []
    assert "row 1 of 2, Se3: made already" in notes
    assert table(plan) == before


def test_a_further_row_joins_the_others(plan: Plan, made_here: list[str], tiny_bart_folder: Path) -> None:
    reproduce(replace(plan, rows=("se3",)), quiet=True, say=silent, trials=50)
    made_here.clear()
    reproduce(replace(plan, rows=("se3", "beyond/cached")), quiet=True, say=silent, trials=50)
    assert made_here == ["beyond/cached"]
    found = table(plan)
    assert found["rows"]["beyond/cached"]["paper"] == {}
    assert "*Beyond the paper*" in (plan.output / "table.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("documents", [1, 4], ids=["in the first row", "in the second row"])
def test_interrupted_training_is_resumed(
    plan: Plan, made_here: list[str], monkeypatch: pytest.MonkeyPatch, documents: int
) -> None:
    whole = replace(plan, output=plan.output.with_name("whole"))
    reproduce(whole, quiet=True, say=silent, trials=50)
    with monkeypatch.context() as patch:
        stopping_after(documents, patch)
        with pytest.raises(Interrupted):
            reproduce(plan, quiet=True, say=silent, trials=50)
    steps = []
    step = AwesomeTrainer.training_step

    def counting(self: AwesomeTrainer, *args: Any, **kwargs: Any) -> Any:
        steps.append(1)
        return step(self, *args, **kwargs)

    monkeypatch.setattr(AwesomeTrainer, "training_step", counting)
    reproduce(plan, quiet=True, say=silent, trials=50)
    assert len(steps) == 6 - documents
    for row in plan.rows:
        assert _summaries(plan, row) == _summaries(whole, row)


def _summaries(plan: Plan, row: str) -> list[str]:
    return [json.loads(line)["summary"] for line in plan.predictions(row).read_text().splitlines()]


# --------------------------------------------------------------------------------------------------- what goes wrong


def test_a_row_that_fails_is_reported_and_the_others_go_on(plan: Plan, made_here: list[str], tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    plan = replace(plan, bases={**plan.bases, "se3": str(tmp_path / "broken")})
    notes: list[str] = []
    result = reproduce(plan, quiet=True, say=notes.append, trials=50)
    assert [row.key for row in result.failed] == ["se3"]
    [failed] = [note for note in notes if "FAILED" in note]
    assert failed.startswith("row 1 of 2, Se3 FAILED: ")
    found = table(plan)
    assert found["rows"]["se3"]["error"]
    assert found["rows"]["attentive"]["scores"]["rouge-1"]["mean"] is not None
    assert found["rows"]["attentive"]["scores"]["rouge-1"]["p_se3"] is None
    assert "| Se3 | failed: " in (plan.output / "table.md").read_text(encoding="utf-8")


def test_a_folder_of_other_settings_is_refused(plan: Plan, made_here: list[str]) -> None:
    plan.write()
    for other, text in (
        (replace(plan, documents=2), "was begun with documents=3, not 2"),
        (replace(plan, dataset="arxiv", rows=("se3",)), 'was begun with dataset="govreport", not "arxiv"'),
        (replace(plan, changes={**plan.changes, "epochs": "2"}), "was begun with settings="),
        (replace(plan, bases={}), "was begun with bases="),
    ):
        with pytest.raises(AwesumError) as error:
            reproduce(other, quiet=True, say=silent)
        assert text in str(error.value)
        assert "\n" not in str(error.value)
    assert made_here == []


def test_a_folder_of_something_else_is_refused(plan: Plan) -> None:
    plan.output.mkdir()
    (plan.output / "thesis.tex").write_text("years of work")
    with pytest.raises(AwesumError, match="not of `awesum reproduce`"):
        reproduce(plan, say=silent)
    assert [path.name for path in plan.output.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["govreprot"], "did you mean govreport?"),
        (["govreport", "--rows", "se4"], "did you mean se3?"),
        (["govreport", "--data", "nowhere"], "there is no dataset nowhere"),
        (["govreport", "--data", "DATA", "--split", "dev"], "has no split 'dev'"),
        (["govreport", "--data", "DATA", "--set", "epoch=1"], "did you mean epochs?"),
        (["govreport", "--data", "DATA", "--set", "epochs"], "write NAME=VALUE"),
        (["govreport", "--data", "DATA", "--set", "epochs=many"], "epochs='many' does not fit"),
        (["govreport", "--data", "DATA", "--set", "output=x"], "decided by `awesum reproduce`"),
        (["govreport", "--data", "DATA", "--documents", "0"], "--documents must be more than 0"),
        (["govreport", "--data", "DATA", "--rows", "se3", "--base", "awesome=x"], "names a row that is not made"),
        (["govreport", "--data", "DATA", "--nli-model", "x", "--premises", "none"], "--premises"),
    ],
)
def test_wrong_calls(
    arguments: list[str], text: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(data) if argument == "DATA" else argument for argument in arguments]
    code = main(["reproduce", *given, "--output", str(tmp_path / "out")])
    printed = capsys.readouterr()
    assert code == 1
    assert text in printed.err
    assert printed.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


# --------------------------------------------------------------------------------------------------------- dry runs


def test_dry_run_says_what_would_run_and_does_nothing(plan: Plan, made_here: list[str]) -> None:
    notes: list[str] = []
    seconds = describe(plan, notes.append)
    assert seconds > 0
    assert "train on 3 documents, test on 3 (test)" in notes[0]
    assert notes[1].split()[:3] == ["Se3", "new;", "se3"]
    assert "(random weights, tiny); 3 steps of 1 batches, 1 epochs; about" in notes[1]
    assert not plan.output.exists()
    reproduce(replace(plan, rows=("se3",)), quiet=True, say=silent, trials=50)
    notes.clear()
    describe(plan, notes.append)
    assert notes[1].split() == ["Se3", "made", "already"]


# ------------------------------------------------------------------------------------------------- in its own process


@pytest.mark.slow
def test_rows_in_processes_of_their_own(plan: Plan, tmp_path: Path) -> None:
    """As a user calls it; killed while the second row is trained, it resumes."""
    command = [
        sys.executable, "-m", "awesum", "reproduce", "govreport", "--rows", *plan.rows, "--data", plan.data,
        "--documents", "3", "--base", plan.bases[""], "--output", str(plan.output), "--trials", "50",
        "--set", *(f"{name}={value}" for name, value in plan.changes.items()),
    ]  # fmt: skip
    running = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert running.stderr is not None
    for line in running.stderr:
        if "row 2 of 2" in line:
            break
    running.kill()
    running.communicate()
    assert _summaries(plan, "se3")
    assert not (plan.output / "table.md").exists()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "row 1 of 2, Se3: made already" in done.stderr
    assert done.stdout.startswith("# GovReport: our numbers, and in brackets the paper's\n")


@pytest.mark.slow
def test_a_process_that_dies_is_one_failed_row(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_of, "_PROGRAM", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    result = reproduce(replace(plan, rows=("se3",)), quiet=True, say=silent)
    assert result.failed[0].error is not None
    assert "killed" in result.failed[0].error
