"""Validation by writing, the best checkpoint, early stopping, other optimizers, LoRA, and reports to other programs."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import awesum.training.lora
import awesum.training.run
from awesum.analysis.analysis import Analyst
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.errors import AwesumError
from awesum.metrics.metric import Sample
from awesum.metrics.rouge import Rouge
from awesum.models.bart import AwesomeBart
from awesum.predict import Job, predict
from awesum.systems import load
from awesum.training.settings import TrainingSettings
from awesum.verify.verifier import Verifier
from tests.training.interruptions import Interrupted, stopping_after
from tests.training.runs import Case, Go, history, in_one_line, record, rows, short_run, steps, write

pytestmark = pytest.mark.usefixtures("own_cache", "quiet_library")


@pytest.fixture
def case(tmp_path: Path, tiny_bart_folder: Path) -> Case:
    """Four documents, one a step, evaluated after each step on two others."""
    write(tmp_path / "data" / "validation.jsonl", rows(6, growth=1)[4:])  # of two segments
    return short_run(
        tmp_path,
        rows(4),
        tiny_bart_folder,
        memory_layers=1,
        memory_size=8,
        learning_rate=3e-3,
        save_steps=100,
        keep=1,
        num_beams=2,
        max_part=12,
    )


def scoring(values: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluations find these scores, one after the other."""
    coming = iter(values)

    def scores(*args: Any) -> list[dict[str, float]]:
        value = next(coming)
        return [{"rouge-1": value, "rouge-2": value, "rouge-l": value}]

    monkeypatch.setattr(awesum.training.run, "rouge", scores)


# ---------------------------------------------------------------------------------------------- validation by writing


def test_rouge_of_the_best_checkpoint_is_that_of_its_predictions(
    case: Case, go: Go, tiny_encoder: SentenceEncoder, tmp_path: Path
) -> None:
    """What `awesum predict --raw` writes with the trained model scores what training recorded."""
    output = go(case.but(evaluate_every=2))
    found = record(output)
    assert [entry["step"] for entry in found["validation"]] == [2, 4]
    assert all({"loss", "rouge-1", "rouge-2", "rouge-l", "rouge"} < entry.keys() for entry in found["validation"])
    best = max(found["validation"], key=lambda entry: entry["rouge"])
    assert found["best"] == {"step": best["step"], "rouge": best["rouge"]}
    assert best["rouge-1"] > 0

    system = load(str(output), analyst=Analyst(tiny_encoder, Centrality()))
    system.verifier = Verifier()
    data = tmp_path / "data" / "validation.jsonl"
    predict(system, Job(str(data), split="validation", raw=True), tmp_path / "written.jsonl", quiet=True)
    written = [json.loads(line) for line in (tmp_path / "written.jsonl").read_text().splitlines()]
    references = {row["id"]: row["summary"] for row in rows(6)}
    scores = [Rouge().measure(Sample(row["summary"], (references[row["id"]],))) for row in written]
    means = {name: sum(each[name] for each in scores) / 2 for name in scores[0]}
    assert {name: best[name] for name in means} == pytest.approx(means, abs=1e-6)
    assert best["rouge"] == pytest.approx(prod(means.values()) ** (1 / 3), abs=1e-6)


@pytest.mark.slow
def test_evaluating_does_not_change_what_is_learned(case: Case, go: Go, tmp_path: Path) -> None:
    go(case.but(save_steps=4))
    other = case.but(output=str(tmp_path / "evaluated"), evaluate_every=1, save_steps=4, keep=10)
    go(other)
    assert history(other.output) == history(case.output)


def test_the_best_checkpoint_is_the_result(case: Case, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    scoring([0.3, 0.5, 0.5, 0.1], monkeypatch)
    output = go(case.but(evaluate_every=1, keep=2))
    assert steps(output) == [2, 4]  # the best, and the last to resume from
    result, best, last = (
        load_file(folder / "model.safetensors") for folder in (output, output / "checkpoint-2", output / "checkpoint-4")
    )
    assert all(torch.equal(result[name], best[name]) for name in best)
    assert any(not torch.equal(result[name], last[name]) for name in last)
    assert record(output)["best"] == {"step": 2, "rouge": pytest.approx(0.5)}


def test_the_last_weights_are_evaluated_too(case: Case, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    scoring([0.3, 0.4], monkeypatch)
    output = go(case.but(evaluate_every=3))
    assert [entry["step"] for entry in record(output)["validation"]] == [3, 4]
    assert record(output)["best"]["step"] == 4


def test_training_stops_early(case: Case, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    scoring([0.3, 0.5, 0.4, 0.4], monkeypatch)
    case = case.but(evaluate_every=1, patience=2, epochs=3.0)
    output = go(case)
    found = record(output)
    assert (found["state"], found["history"][-1]["step"], found["best"]["step"]) == ("finished", 4, 2)
    notes: list[str] = []
    go(case, say=notes.append)
    assert notes == [f"{output} is trained already with these settings: nothing to do"]


def test_early_stopping_survives_an_interruption(case: Case, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case.but(evaluate_every=1, patience=2, epochs=3.0, save_steps=1)
    with monkeypatch.context() as patch:
        scoring([0.3, 0.5, 0.4], patch)
        stopping_after(3, patch)
        with pytest.raises(Interrupted):
            go(case)
    scoring([0.4], monkeypatch)  # one more is enough: the evaluations before the interruption count
    output = go(case)
    found = record(output)
    assert (found["history"][-1]["step"], found["best"]["step"]) == (4, 2)
    assert [entry["rouge"] for entry in found["validation"]] == pytest.approx([0.3, 0.5, 0.4, 0.4])
    result, best = (load_file(folder / "model.safetensors") for folder in (output, output / "checkpoint-2"))
    assert all(torch.equal(result[name], best[name]) for name in best)


def test_evaluating_without_validation_documents_is_refused(case: Case, go: Go, tmp_path: Path) -> None:
    (tmp_path / "data" / "validation.jsonl").unlink()
    with pytest.raises(AwesumError, match="--evaluate-every needs a validation split") as error:
        go(case.but(evaluate_every=2))
    in_one_line(error)


def test_patience_alone_means_nothing() -> None:
    with pytest.raises(AwesumError, match="--evaluate-every STEPS"):
        TrainingSettings(data="data", output="out", patience=2)


# ------------------------------------------------------------------------------------------------- memory and speed


def test_peak_memory_and_speed_are_recorded(case: Case, go: Go) -> None:
    found = record(go(case))
    assert found["peak_memory_bytes"] > 100_000_000
    assert found["peak_memory_reserved_bytes"] is None  # there is no GPU
    assert found["batches_per_second"] > 0
    assert found["device"] == "cpu"


# ------------------------------------------------------------------------------------------------------- optimizers


def test_another_optimizer(case: Case, go: Go) -> None:
    output = go(case.but(optim="adafactor", documents=1))
    assert record(output)["settings"]["optim"] == "adafactor"
    with pytest.raises(AwesumError, match="was trained with optim='adafactor', not 'sgd'"):
        go(case.but(optim="sgd", documents=1))


def test_unknown_optimizer_suggests_the_nearest(case: Case, go: Go) -> None:
    with pytest.raises(AwesumError, match=r"did you mean paged_adamw_8bit\?") as error:
        go(case.but(optim="paged_adam_8bit"))
    in_one_line(error)
    assert not case.output.exists()


@pytest.mark.parametrize("name", ["adamw_8bit", "paged_adamw_8bit", "paged_adamw_32bit", "adamw_bnb_8bit"])
def test_optimizer_without_its_package(case: Case, go: Go, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    import transformers.trainer_optimizer

    monkeypatch.setattr(transformers.trainer_optimizer, "is_bitsandbytes_available", lambda *args: False)
    monkeypatch.setattr(awesum.training.run, "find_spec", lambda name: None)
    with pytest.raises(AwesumError, match=f"--optim {name} cannot be used here .*pip install bitsandbytes") as error:
        go(case.but(optim=name))
    in_one_line(error)


# ------------------------------------------------------------------------------------------------------------ LoRA


def test_lora_trains_updates_and_leaves_the_rest(case: Case, go: Go, tiny_bart_folder: Path) -> None:
    notes: list[str] = []
    output = go(case.but(lora_rank=2, save_steps=2, keep=9), say=notes.append)
    assert "LoRA of rank 2" in notes[0]
    before, after = (
        AwesomeBart.from_pretrained(folder, memory="attentive", memory_size=8, memory_layers=1).state_dict()
        for folder in (tiny_bart_folder, output)
    )
    assert before.keys() == after.keys()  # merged: a model like any other
    changed = {name for name in before if ".memory." not in name and not torch.equal(before[name], after[name])}
    assert changed
    assert all(name.endswith(("q_proj.weight", "v_proj.weight")) for name in changed)
    for name in changed:
        assert torch.linalg.matrix_rank(after[name] - before[name], atol=1e-5) <= 2
    assert any(".memory." in name and not torch.equal(before[name], after[name]) for name in before)
    again = case.but(base=str(output), output=str(output.parent / "again"), learning_rate=1e-12, documents=1)
    assert record(go(again))["validation"][-1]["loss"] == pytest.approx(record(output)["validation"][-1]["loss"], 1e-4)
    saved = load_file(output / "checkpoint-2" / "lora.safetensors")
    assert all(".lora_" in name or ".memory." in name for name in saved)
    assert not (output / "checkpoint-2" / "model.safetensors").exists()


def test_lora_resumes_with_the_same_losses(case: Case, go: Go, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case.but(lora_rank=2, save_steps=1, keep=9)
    whole = case.but(output=str(tmp_path / "whole"))
    go(whole)
    with monkeypatch.context() as patch:
        stopping_after(2, patch)
        with pytest.raises(Interrupted):
            go(case)
    go(case)
    assert history(case.output) == [pytest.approx(line, rel=1e-5) for line in history(whole.output)]
    weights = [load_file(folder / "model.safetensors") for folder in (case.output, whole.output)]
    for name, weight in weights[1].items():
        torch.testing.assert_close(weights[0][name], weight)


def test_lora_without_its_package(case: Case, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awesum.training.lora, "find_spec", lambda name: None)
    with pytest.raises(AwesumError, match=r"pip install 'awesum\[lora\]'") as error:
        go(case.but(lora_rank=2))
    in_one_line(error)


# ------------------------------------------------------------------------------------------------------- reporting


def test_report_to_tensorboard(case: Case, go: Go) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    output = go(case.but(report_to="tensorboard", documents=2))
    [events] = output.glob("runs/*/events.*")
    log = EventAccumulator(str(events)).Reload()
    assert [event.step for event in log.Scalars("train/loss")] == [1, 2]
    assert log.Scalars("train/peak_memory_bytes")[-1].value > 100_000_000


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_report_to_what_is_not_installed(case: Case, go: Go, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(awesum.training.run, "find_spec", lambda name: None)
    with pytest.raises(AwesumError, match=f"--report-to {name} needs the package: pip install {name}") as error:
        go(case.but(report_to=name))
    in_one_line(error)


def test_report_to_nobody_knows() -> None:
    with pytest.raises(AwesumError, match="not one of none, tensorboard, wandb"):
        TrainingSettings(data="data", output="out", report_to="mlflow")
