"""The planned peak before a run: reported, recorded beside the measured one, and on a small GPU a refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.tiny_models import save_both, tiny_roberta
from transformers import PreTrainedTokenizerFast

from awesum.analysis.analysis import Analyst
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.errors import AwesumError
from awesum.planning import before, plan
from awesum.planning.before import before_training, before_writing
from awesum.systems.awesome import Awesome
from awesum.systems.lead import Lead
from awesum.training.run import Coming, train
from tests.conftest import topical_text
from tests.training.runs import Case, write

NO_TRACE = RuntimeError("no trace today")


@pytest.fixture(autouse=True)
def _tiny_models_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(before, "WORTHWHILE", 0)


class Trained:
    """One run with its plan, and what was said and seen on the way."""

    def __init__(self, case: Case, analyst: Analyst) -> None:
        self.notes: list[str] = []
        train(case.settings, case.own, analyst=analyst, quiet=True, say=self.notes.append, planner=self._plan)
        self.record: dict[str, Any] = json.loads((case.output / "run.json").read_text())

    def _plan(self, coming: Coming, say: before.Report) -> int | None:
        self.coming = coming
        return before_training(coming, say)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, tiny_bart_folder: Path, tiny_encoder: SentenceEncoder) -> Trained:
    folder = tmp_path_factory.mktemp("planned")
    rows = [{"id": "1", "document": "It rained on the hills. " * 12, "summary": "It rained for a long time."}]
    write(folder / "data" / "train.jsonl", rows)
    case = Case.of(
        data=str(folder / "data"),
        output=str(folder / "out"),
        base=str(tiny_bart_folder),
        system="truncated",
        epochs=1.0,
        accumulation=1,
        precision="float32",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWESUM_CACHE", str(folder / "cache"))
        patch.setattr(before, "WORTHWHILE", 0)
        return Trained(case, Analyst(tiny_encoder, Centrality()))


def test_planned_peak_is_reported_before_and_recorded_beside_the_measured_one(trained: Trained) -> None:
    planned, measured = trained.record["planned_peak_memory_bytes"], trained.record["peak_memory_bytes"]
    weights = 4 * trained.coming.parameters
    assert planned is not None, trained.notes
    assert 4 * weights <= planned < measured  # weights, gradients and two states; measured with Python and torch
    assert any(note.startswith("planned peak: ") and " of tensors, in " in note for note in trained.notes)
    assert trained.notes[-1].startswith("peak memory: ")
    assert trained.notes[-1].endswith("planned")


def test_plan_is_for_the_longest_document_of_the_data(trained: Trained) -> None:
    assert trained.coming.target_tokens < 40 < trained.coming.input_tokens <= 128


def test_plan_that_fails_stops_nothing(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(coming: Coming, *, on_gpu: bool) -> None:
        raise NO_TRACE

    monkeypatch.setattr(before, "_request", fail)
    notes: list[str] = []
    assert before_training(trained.coming, notes.append) is None
    assert notes == ["the peak memory could not be planned (no trace today)"]


def test_gpu_that_is_too_small_is_refused_with_advice_unless_forced(
    trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = trained.record["planned_peak_memory_bytes"]
    monkeypatch.setattr(plan, "CHANGES", [{"gradient_checkpointing": True}])  # one to trace
    monkeypatch.setattr(before, "free_gpu_memory", lambda: 4 * trained.coming.parameters)
    with pytest.raises(AwesumError, match=r"at its peak, and the GPU has .* free: .*, or --force to try it") as error:
        before_training(trained.coming, lambda note: None)
    assert "\n" not in str(error.value)
    assert before_training(trained.coming, lambda note: None, force=True) == pytest.approx(planned, rel=0.5)
    monkeypatch.setattr(before, "free_gpu_memory", lambda: round(0.8 * planned))
    with pytest.raises(AwesumError, match=r"say --gradient-checkpointing"):
        before_training(trained.coming, lambda note: None)


def test_small_models_are_not_planned_on_the_processor(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(before, "WORTHWHILE", 10**9)
    notes: list[str] = []
    assert before_training(trained.coming, notes.append) is None
    assert not notes


def test_writing_is_planned_for_an_encoder_decoder_and_for_nothing_else(
    tiny_bart_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    system = Awesome(str(tiny_bart_folder))
    weights = sum(file.stat().st_size for file in tiny_bart_folder.glob("*.safetensors"))
    planned = before_writing(system, notes.append)
    assert planned is not None
    assert planned > weights
    assert "_writer" not in vars(system)  # nothing was loaded for it
    assert notes[0].startswith("planned peak: ")
    assert before_writing(Lead(), notes.append) is None
    assert len(notes) == 1
    monkeypatch.setattr(before, "free_gpu_memory", lambda: 1_000_000)
    with pytest.raises(AwesumError, match="the GPU has 1 MB free"):
        before_writing(system, notes.append)
    assert before_writing(system, notes.append, force=True)


@pytest.mark.parametrize("system", ["adapter", "extractor"])
def test_other_kinds_of_models_are_planned_too(
    system: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tiny_folder: Path,
    tiny_bart_tokenizer: PreTrainedTokenizerFast,
    tiny_encoder: SentenceEncoder,
) -> None:
    base = tiny_folder
    own: dict[str, Any] = {"memory_layers": 1, "memory_size": 16, "update_layers": 1}
    if system == "extractor":
        roberta = tiny_roberta(tiny_bart_tokenizer, max_position_embeddings=140)
        base, own = save_both(roberta, tiny_bart_tokenizer, tmp_path / "roberta"), {"heads": 4}
    rows = [{"id": "1", "document": topical_text(12), "summary": topical_text(2)}]
    write(tmp_path / "data" / "train.jsonl", rows)
    case = Case.of(
        data=str(tmp_path / "data"), output=str(tmp_path / "out"), base=str(base), system=system, epochs=1.0, **own
    )
    monkeypatch.setenv("AWESUM_CACHE", str(tmp_path / "cache"))
    trained = Trained(case, Analyst(tiny_encoder, Centrality()))
    assert trained.record["planned_peak_memory_bytes"], trained.notes
    assert any(note.startswith("planned peak: ") and " of tensors, in " in note for note in trained.notes)
