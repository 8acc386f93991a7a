"""run.json: what was set and what came of it; and that a run is resumed only with the settings it was started with."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from transformers import BartForConditionalGeneration

from awesum import __version__, files
from awesum.errors import AwesumError
from awesum.loading import fingerprint
from awesum.training.settings import as_dict
from awesum.training.trainer import AwesomeTrainer
from tests.training.interruptions import Interrupted, stopping_after
from tests.training.runs import Case, Go, history, in_one_line, record, rows, short_run, steps, write

pytestmark = pytest.mark.usefixtures("own_cache", "quiet_library")


@pytest.fixture
def case(tmp_path: Path, tiny_bart_folder: Path) -> Case:
    """Two documents, one a step; a checkpoint after each step."""
    shutil.copytree(tiny_bart_folder, tmp_path / "base")
    return short_run(tmp_path, rows(2), tmp_path / "base", system="se3", epochs=2.0)


def nothing_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AwesomeTrainer, "training_step", lambda *args, **kwargs: pytest.fail("trained"))


# ------------------------------------------------------------------------------------------------------------- record


def test_record_has_settings_versions_losses_and_figures(case: Case, go: Go, tmp_path: Path) -> None:
    write(tmp_path / "data" / "validation.jsonl", rows(3))
    output = go(case.but(validation_documents=1))
    found = record(output)
    assert (found["state"], found["system"], found["base"]) == ("finished", "se3", case.settings.base)
    assert found["settings"] == json.loads(json.dumps(as_dict(case.settings, case.own))) | {"validation_documents": 1}
    assert found["versions"] == {"awesum": __version__} | {name: version(name) for name in ("torch", "transformers")}
    assert found["data"] == {"source": case.settings.data, "documents": 2, "validation_documents": 1}
    assert found["base_fingerprint"] == fingerprint(case.settings.base)
    expected = [(step, loss, rate) for step, loss, _, rate in history(output)]
    assert [(entry["step"], entry["loss"], entry["learning_rate"]) for entry in found["history"]] == expected
    assert [entry["step"] for entry in found["validation"]] == [2, 4]
    assert all(entry["loss"] > 0 for entry in found["validation"])
    assert found["seconds"] > 0
    assert found["tokens_per_second"] > 0
    assert found["peak_memory_bytes"] > 2**20


def test_record_is_written_from_the_start(case: Case, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    stopping_after(0, monkeypatch)
    with pytest.raises(Interrupted):
        go(case)
    found = record(case.output)
    assert (found["state"], found["history"]) == ("running", [])
    assert found["settings"]["learning_rate"] == case.settings.learning_rate


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_resumed_run_has_each_step_once(case: Case, go: Go, monkeypatch: pytest.MonkeyPatch, stop: int) -> None:
    write(Path(case.settings.data) / "validation.jsonl", rows(1))
    case = case.but(save_steps=2)  # so that steps after a checkpoint are repeated
    with monkeypatch.context() as patch:
        stopping_after(stop, patch)
        with pytest.raises(Interrupted):
            go(case)
    before = record(case.output)
    assert before["state"] == "running"
    assert [entry["step"] for entry in before["history"]] == list(range(1, stop + 1))
    go(case)
    found = record(case.output)
    assert found["state"] == "finished"
    assert [entry["step"] for entry in found["history"]] == [1, 2, 3, 4]
    assert [entry["step"] for entry in found["validation"]] == [2, 4]
    assert found["seconds"] > before["seconds"]


def test_disk_that_is_full_is_reported_in_one_line(case: Case, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.write

    def full(path: Path, content: str) -> None:
        if path.name == "run.json":
            raise OSError(28, "No space left on device")
        real(path, content)

    monkeypatch.setattr(files, "write", full)
    with pytest.raises(AwesumError, match=r"cannot write .*run\.json \(No space left on device\)") as error:
        go(case)
    in_one_line(error)


# ------------------------------------------------------------------------------------------------- repeated, or resumed


def test_finished_run_repeated_does_nothing(
    case: Case, go: Go, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    output = go(case)
    before = {path: path.stat().st_mtime_ns for path in output.rglob("*")}
    nothing_is_trained(monkeypatch)
    notes: list[str] = []
    monkeypatch.chdir(tmp_path)
    assert go(case.but(data="data/", log_steps=5, keep=7, trunk_batch=3), say=notes.append) == output
    assert notes == [f"{output} is trained already with these settings: nothing to do"]
    assert {path: path.stat().st_mtime_ns for path in output.rglob("*")} == before


CHANGES = [
    ("learning_rate", 1e-3, "learning_rate=5e-05, not 0.001"),
    ("documents", 1, "documents=None, not 1"),
    ("epochs", 1.0, "epochs=2.0, not 1.0"),
    ("batch_size", 2, "batch_size=1, not 2"),
    ("seed", 3, "seed=0, not 3"),
    ("num_beams", 2, "num_beams=4, not 2"),
]


@pytest.mark.parametrize("is_finished", [True, False])
def test_run_with_other_settings_is_refused(
    case: Case, go: Go, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_finished: bool
) -> None:
    with monkeypatch.context() as patch:
        if not is_finished:
            stopping_after(2, patch)
        try:
            go(case)
        except Interrupted:
            assert not is_finished
    before = record(case.output)
    assert before["state"] == ("finished" if is_finished else "running")
    nothing_is_trained(monkeypatch)
    write(tmp_path / "other" / "train.jsonl", rows(2))
    other_data = ("data", str(tmp_path / "other"), f"data='{case.settings.data}', not '{tmp_path / 'other'}'")
    for name, value, text in (*CHANGES, other_data):
        with pytest.raises(AwesumError) as error:
            go(case.but(**{name: value}))
        line = in_one_line(error)
        assert f"{case.output} was trained with {text}: " in line
        assert "give another --output, delete that folder to train anew" in line
    assert record(case.output) == before


def test_run_of_another_system_is_refused(case: Case, go: Go) -> None:
    go(case)
    other = Case.of(data=case.settings.data, output=case.settings.output, base=case.settings.base, memory="none")
    with pytest.raises(AwesumError, match="was trained with system='se3', not 'awesome'") as error:
        go(other)
    in_one_line(error)


def test_run_from_other_weights_is_refused(case: Case, go: Go) -> None:
    """The pretrained model at the same path has been replaced."""
    go(case)
    model = BartForConditionalGeneration.from_pretrained(case.settings.base)
    with torch.no_grad():
        model.model.shared.weight += 1
    model.save_pretrained(case.settings.base)
    with pytest.raises(AwesumError, match=r"the weights of .* are not those that .* was trained from") as error:
        go(case)
    in_one_line(error)


def test_more_epochs_continue_a_finished_run(case: Case, go: Go) -> None:
    go(case)
    notes: list[str] = []
    go(case.but(epochs=3.0), say=notes.append)
    assert notes[0] == f"resuming from {case.output / 'checkpoint-4'}"
    found = record(case.output)
    assert (found["state"], found["settings"]["epochs"]) == ("finished", 3.0)
    assert [entry["step"] for entry in found["history"]] == [1, 2, 3, 4, 5, 6]


def test_more_epochs_without_a_checkpoint_are_refused(case: Case, go: Go) -> None:
    output = go(case)
    for checkpoint in output.glob("checkpoint-*"):
        shutil.rmtree(checkpoint)
    assert go(case) == output
    with pytest.raises(AwesumError, match="no checkpoint from which to train for 3 epochs") as error:
        go(case.but(epochs=3.0))
    in_one_line(error)


def test_trained_model_that_was_deleted_is_saved_again(case: Case, go: Go) -> None:
    output = go(case)
    expected = (output / "model.safetensors").read_bytes()
    (output / "model.safetensors").unlink()
    go(case)
    assert (output / "model.safetensors").read_bytes() == expected


def test_run_that_never_saved_anything_may_be_started_with_other_settings(
    case: Case, go: Go, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stopping_after(0, patch)
        with pytest.raises(Interrupted):
            go(case)
    go(case.but(learning_rate=1e-3))
    assert record(case.output)["settings"]["learning_rate"] == 1e-3


def test_checkpoints_without_a_record_are_refused(case: Case, go: Go) -> None:
    """As an older version has left them: nobody knows what they were trained with."""
    output = go(case)
    (output / "run.json").unlink()
    with pytest.raises(AwesumError, match=r"has checkpoints but no run\.json") as error:
        go(case)
    in_one_line(error)
    assert steps(output) == [3, 4]


@pytest.mark.parametrize("content", ["", "{", "[]", "{}"])
def test_damaged_record_is_reported_in_one_line(case: Case, go: Go, content: str) -> None:
    case.output.mkdir()
    (case.output / "run.json").write_text(content)
    with pytest.raises(AwesumError, match=r"cannot read .*run\.json") as error:
        go(case)
    in_one_line(error)
