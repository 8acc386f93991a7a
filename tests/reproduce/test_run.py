"""`awesum reproduce` with two rows of tiny models: what it writes, that it resumes, and what happens when a row fails.

Rows are made in this process, which saves its start; one slow test makes them as a user would.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers.utils import logging as library_logging

from awesum import systems
from awesum.analysis.embedding import SentenceEncoder
from awesum.cli import main
from awesum.errors import AwesumError
from awesum.evaluation import evaluate
from awesum.reproduce import row as rows_of
from awesum.reproduce.plan import Plan
from awesum.reproduce.result import Result
from awesum.reproduce.row import RowMaker
from awesum.reproduce.run import describe, reproduce
from awesum.training.trainer import AwesomeTrainer
from tests.training.interruptions import Interrupted, stopping_after
from tests.training.runs import ROOT, rows, write


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


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, data: Path, encoder: Path, tiny_bart_folder: Path) -> Plan:
    changes = {"encoder": str(encoder), "extractor": "centrality", "epochs": "1", "accumulation": "1", "max_part": "12",
               "num_beams": "1", "memory_size": "8", "memory_layers": "1", "warmup_steps": "0", "learning_rate": "0.01",
               "save_steps": "1", "log_steps": "1"}  # fmt: skip
    return Plan(
        "govreport",
        tmp_path_factory.mktemp("first") / "table",
        ("se3", "attentive"),
        str(data),
        documents=3,
        bases={"": str(tiny_bart_folder)},
        changes=changes,
    )


@pytest.fixture
def plan(first: Plan, tmp_path: Path) -> Plan:
    """The same in a new folder."""
    return replace(first, output=tmp_path / "table")


def make_here(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have rows made in this process, and listed."""

    def make(self: RowMaker, plan: Plan, row: str, *, quiet: bool = False) -> str | None:
        made.append(row)
        try:
            return rows_of._make(rows_of.job_of(plan, row, quiet=True))
        except AwesumError as error:
            return str(error)

    monkeypatch.setattr(RowMaker, "make", make)
    monkeypatch.setattr("awesum.reproduce.run.rows_at_once", lambda bases: 1)


@pytest.fixture
def made_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The rows that were made, in this process."""
    made: list[str] = []
    make_here(made, monkeypatch)
    return made


@pytest.fixture(scope="module")
def done(first: Plan, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Two rows, made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWESUM_CACHE", str(tmp_path_factory.mktemp("cache")))
        made: list[str] = []
        make_here(made, patch)
        result = reproduce(first, quiet=True, say=silent, trials=100)
        assert made == ["se3", "attentive"]
        return result


@pytest.fixture
def copy(done: Result, plan: Plan) -> Plan:
    """A copy of the folder of `done`."""
    shutil.copytree(done.plan.output, plan.output)
    return plan


def silent(note: str) -> None:
    pass


def table(plan: Plan) -> Any:
    return json.loads((plan.output / "table.json").read_text(encoding="utf-8"))


# --------------------------------------------------------------------------------------------------- from end to end


def test_two_rows_beside_the_paper(done: Result) -> None:
    plan = done.plan
    assert not done.failed
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


def test_nothing_is_made_twice(copy: Plan, made_here: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    before = table(copy)
    monkeypatch.setattr("awesum.evaluation.run._scores", None)  # no summary is scored again either
    notes: list[str] = []
    reproduce(copy, quiet=True, say=notes.append, trials=100)
    assert made_here == []
    assert "row 1 of 2, Se3: made already" in notes
    assert table(copy) == before


def test_a_further_row_joins_the_others(copy: Plan, made_here: list[str]) -> None:
    reproduce(replace(copy, rows=("se3", "beyond/cached")), quiet=True, say=silent, trials=50)
    assert made_here == ["beyond/cached"]
    found = table(copy)
    assert found["rows"]["beyond/cached"]["paper"] == {}
    assert "*Beyond the paper*" in (copy.output / "table.md").read_text(encoding="utf-8")


def test_interrupted_training_is_resumed(
    plan: Plan, done: Result, made_here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = replace(plan, rows=("se3",))
    with monkeypatch.context() as patch:
        stopping_after(1, patch)
        with pytest.raises(Interrupted):
            reproduce(plan, quiet=True, say=silent, trials=50)
    steps = []
    step = AwesomeTrainer.training_step

    def counting(self: AwesomeTrainer, *args: Any, **kwargs: Any) -> Any:
        steps.append(1)
        return step(self, *args, **kwargs)

    monkeypatch.setattr(AwesomeTrainer, "training_step", counting)
    (plan.output / "extractor.json").write_text((done.plan.output / "extractor.json").read_text())
    reproduce(plan, quiet=True, say=silent, trials=50)
    assert len(steps) == 2
    assert _summaries(plan, "se3") == _summaries(done.plan, "se3")


def _summaries(plan: Plan, row: str) -> list[str]:
    return [json.loads(line)["summary"] for line in plan.predictions(row).read_text().splitlines()]


def test_documents_that_are_not_read_whole_are_noted(copy: Plan, made_here: list[str]) -> None:
    """By the names of the table, as are summaries that a metric does not apply to."""
    path = copy.predictions("attentive")
    rows_of_it = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows_of_it[0]["notes"] = ["a: the first 1,024 of 2,000 tokens are read (max_tokens=1,024)", "something else"]
    rows_of_it[2]["notes"] = ["c: 1 selected sentence, 27 of 3,000 tokens are read (the abstractor's 1,024)"]
    rows_of_it[2]["summary"] = ""
    write(path, rows_of_it)
    reproduce(copy, quiet=True, say=silent, trials=50)
    assert made_here == []
    text = (copy.output / "table.md").read_text(encoding="utf-8")
    assert "- Attentive (Attn): 2 documents not read whole: 1,051 of the 5,000 tokens of these\n" in text
    assert "- Attentive (Attn): 1 of 3 summaries have no text" in text
    assert "not read whole" not in text.replace("Attentive (Attn): 2 documents not read whole", "")


# --------------------------------------------------------------------------------------------------- what goes wrong


def test_a_row_that_fails_is_reported_and_the_others_go_on(copy: Plan, made_here: list[str]) -> None:
    """LongT5 is not a BART, and its own weights cannot be fetched here."""
    notes: list[str] = []
    result = reproduce(replace(copy, rows=("long-t5", "attentive")), quiet=True, say=notes.append, trials=50)
    assert made_here == ["long-t5"]
    assert [row.key for row in result.failed] == ["long-t5"]
    [failed] = [note for note in notes if "FAILED" in note]
    assert failed.startswith("row 1 of 2, LongT5 FAILED: cannot load the model 'google/long-t5-tglobal-base'")
    found = table(copy)
    assert found["rows"]["long-t5"]["error"]
    assert found["rows"]["attentive"]["scores"]["rouge-1"]["mean"] is not None
    assert found["rows"]["attentive"]["scores"]["rouge-1"]["p_se3"] is None
    assert "| LongT5 | failed: " in (copy.output / "table.md").read_text(encoding="utf-8")


def test_the_papers_extractor_is_trained_first(
    plan: Plan, made_here: list[str], tiny_roberta_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It selects the sentences of the rows that show some, and its F1 is in the table."""
    changes = {name: value for name, value in plan.changes.items() if name != "extractor"}
    plan = replace(
        plan, rows=("text-concat",), changes=changes, bases={**plan.bases, "extractor": str(tiny_roberta_folder)}
    )
    assert plan.settings("text-concat")[0].extractor == str(plan.model("extractor"))
    assert plan.settings("se3")[0].extractor == ""
    reproduce(plan, quiet=True, say=silent, trials=50)
    assert made_here == ["extractor", "text-concat"]
    found = table(plan)["extractor"]
    assert "random weights, tiny" in found["ours"]["extractor"]
    assert [row["name"] for row in found["ours"]["rows"]] == ["lead", "unsupervised", "trained", "oracle"]
    system = systems.load(str(plan.model("text-concat")))
    assert type(system.analyst.extractor).__name__ == "SentenceSalience"  # it writes with it, too


def test_without_an_extractor_the_rows_that_take_none_are_made(copy: Plan, made_here: list[str]) -> None:
    changes = {name: value for name, value in copy.changes.items() if name != "extractor"}
    shutil.rmtree(copy.output)
    plan = replace(copy, rows=("awesome",), changes=changes)
    notes: list[str] = []
    result = reproduce(plan, quiet=True, say=notes.append, trials=50)
    assert made_here == ["extractor"]
    assert result.failed[0].error is not None
    assert "the extractor, which failed (--set extractor=shipped" in result.failed[0].error
    assert notes[0] == "the extractor: from FacebookAI/roberta-base"


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


def test_a_base_of_another_family_is_refused_before_any_work(
    first: Plan, tiny_bart_folder: Path, tiny_long_t5_folder: Path, tiny_folder: Path
) -> None:
    for bases, text in (
        ({"se3": str(tiny_long_t5_folder)}, "and se3 takes bart or awesome-bart: it is for --system long-t5"),
        ({"long-t5": str(tiny_bart_folder)}, "and long-t5 takes longt5: it is for --system"),
        ({"": str(tiny_folder)}, "and no row takes that: give another --base"),
    ):
        with pytest.raises(AwesumError) as error:
            replace(first, rows=("se3", "long-t5"), bases=bases)
        assert text in str(error.value)
        assert "\n" not in str(error.value)
    replace(first, rows=("se3", "long-t5"), bases={"": str(tiny_long_t5_folder)})  # one of them takes it


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
        (["govreport", "--data", "DATA", "--rows", "se3", "--base", "awesum=x"], "names a row that there is not"),
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


def test_dry_run_says_what_would_run_and_does_nothing(plan: Plan, done: Result) -> None:
    notes: list[str] = []
    seconds = describe(plan, notes.append)
    assert seconds > 0
    assert "train on 3 documents, test on 3 (test)" in notes[0]
    assert notes[1].split()[:3] == ["Se3", "new;", "se3"]
    assert re.search(r"\(random weights, tiny\); 3 steps, 1 x 3 documents; (less than|about) \d+ s", notes[1])
    assert not plan.output.exists()
    notes.clear()
    assert describe(done.plan, notes.append) == 0
    assert notes[1].split() == ["Se3", "made", "already"]


# ------------------------------------------------------------------------------------------------- in its own process


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_rows_in_processes_of_their_own(processes: int, plan: Plan, tmp_path: Path) -> None:
    """As a user calls it; killed while the second row is trained, alone or beside the first, it resumes."""
    command = [
        sys.executable, "-m", "awesum", "reproduce", "govreport", "--rows", *plan.rows, "--data", plan.data,
        "--documents", "3", "--base", plan.bases[""], "--output", str(plan.output), "--trials", "50",
        "--processes", str(processes), "--set", *(f"{name}={value}" for name, value in plan.changes.items()),
    ]  # fmt: skip
    running = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert running.stderr is not None
    for line in running.stderr:
        if "row 2 of 2" in line:
            break
    running.kill()
    running.communicate()
    assert processes > 1 or _summaries(plan, "se3")
    assert not (plan.output / "table.md").exists()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert processes > 1 or "row 1 of 2, Se3: made already" in done.stderr
    assert len(_summaries(plan, "se3")) == len(_summaries(plan, "attentive")) == 3
    assert done.stdout.startswith("# GovReport: our numbers, and in brackets the paper's\n")


@pytest.mark.slow
def test_a_process_that_dies_is_one_failed_row(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_of, "_PROGRAM", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    result = reproduce(replace(plan, rows=("se3",)), quiet=True, say=silent)
    assert result.failed[0].error is not None
    assert "killed" in result.failed[0].error
