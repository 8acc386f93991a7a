"""A causal model gets its adapter: from data to a folder with the adapter alone, interrupted or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.tiny_models import FOUR_LAYERS, tiny_llama
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerFast

import awesum.models.causal
import awesum.training.run
from awesum import Document, Settings, Summarizer
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.errors import AwesumError
from awesum.models.adapter import WEIGHTS, AwesomeCausal
from awesum.models.adapter_config import read_config
from awesum.models.causal import ChatModel
from awesum.recurrence import DocumentInputs
from awesum.settings import ADAPTER
from awesum.training import trunk
from awesum.training.trainer import last_checkpoint
from tests.conftest import topical_text
from tests.training.interruptions import Interrupted, killed, stopping_after
from tests.training.runs import Case, Go, causal_rows, history, in_one_line, short_run, steps, write

pytestmark = pytest.mark.usefixtures("own_cache", "quiet_library", "float32")


@pytest.fixture
def case(tmp_path: Path, causal_base: Path) -> Case:
    """Three documents, one a step; a checkpoint after each step."""
    return short_run(
        tmp_path,
        causal_rows(3),
        causal_base,
        memory_layers=2,
        memory_size=8,
        rank=4,
        learning_rate=3e-3,
        keep=100,
    )


# ---------------------------------------------------------------------------------------------------------- to the end


def test_from_data_to_a_folder_that_holds_the_adapter_alone(case: Case, go: Go, tmp_path: Path) -> None:
    write(tmp_path / "data" / "validation.jsonl", causal_rows(2))
    notes: list[str] = []
    case = case.but(epochs=5.0, batch_size=2, save_steps=100, learning_rate=2e-2)
    output = go(case, say=notes.append)
    losses = [loss for _, loss, _, _ in history(output)]
    assert len(losses) == 10
    assert sum(losses[-3:]) < 0.95 * sum(losses[:3])
    assert any(
        "memory: attentive, salient content: none, update: low-rank, float32 (as asked for)" in note for note in notes
    )
    config = read_config(output)
    assert (config.base, config.memory, config.memory_layers, config.memory_size) == (
        case.settings.base,
        "attentive",
        2,
        8,
    )
    assert not (output / "model.safetensors").exists()
    saved = load_file(output / WEIGHTS)
    assert not any("prompted" in name or "original" in name for name in saved)
    assert saved["3.memory.source.reading.out_proj.weight"].abs().max() > 0  # it has learned to read
    last = last_checkpoint(output)
    assert last is not None
    assert (last / ADAPTER).is_file()


@pytest.mark.parametrize(
    "options",
    [
        {"memory": "none"},
        {"memory": "compressive", "update": "none", "freeze_trunk": True},
        {"memory": "salient", "adapted_tokens": "all", "update_layers": 3, "freeze_trunk": True},
        {"memory": "none", "adapted_tokens": "all"},
        {"memory": "attentive", "distill": 0.5},
        {"memory": "attentive", "update": "full", "salient": "text", "salient_size": 40, "precision": "bfloat16"},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_every_variant_trains(case: Case, go: Go, options: dict[str, Any]) -> None:
    case = case.but(save_steps=100, label_smoothing=0.1, empty_targets=False, **options)
    output = go(case)
    config = read_config(output)
    for name in ("memory", "salient", "update"):
        assert getattr(config, name) == getattr(case.own, name)
    assert all(torch.isfinite(weight).all() for weight in load_file(output / WEIGHTS).values())
    assert len(history(output)) == 3


def test_machine_that_is_fast_with_bfloat16_trains_in_it(
    case: Case, go: Go, monkeypatch: pytest.MonkeyPatch, tiny_encoder: SentenceEncoder
) -> None:
    for module in (awesum.models.causal, awesum.training.run):
        monkeypatch.setattr(module, "choose_device", lambda: (torch.device("cpu"), torch.bfloat16, "in tests"))
    monkeypatch.setattr("awesum.compose.plan.LONGEST_PART", 4)
    output = go(case.but(precision="auto", save_steps=100, documents=2))
    saved = load_file(output / WEIGHTS)
    assert all(torch.isfinite(weight).all() for weight in saved.values())
    assert saved["3.memory.source.reading.out_proj.weight"].abs().max() > 0
    summarizer = Summarizer(str(output), encoder=tiny_encoder, extractor=Centrality())
    summary = summarizer.start(Document(topical_text(12)), Settings()).finish()
    assert summary.complete


def test_trunk_is_kept_and_gives_the_same_losses(
    case: Case, go: Go, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case.but(documents=2, save_steps=100)
    go(case)
    notes: list[str] = []
    looks: list[int] = []
    real = AwesomeCausal.trunk

    def counting(self: AwesomeCausal, input_ids: torch.Tensor, *args: Any) -> torch.Tensor:
        looks.append(input_ids.shape[1])
        return real(self, input_ids, *args)

    monkeypatch.setattr(AwesomeCausal, "trunk", counting)
    frozen = case.but(output=str(tmp_path / "frozen"), freeze_trunk=True)
    go(frozen, say=notes.append)
    assert any("the frozen layers read" in note for note in notes)
    assert any(str(tmp_path / "cache" / "trunk") in note for note in notes)
    found, expected = history(frozen.output), history(case.output)
    assert [loss for _, loss, _, _ in found[:1]] == pytest.approx([expected[0][1]], rel=1e-3)
    first = len(looks)
    assert first > 0
    go(frozen.but(output=str(tmp_path / "again"), memory="none"))
    assert len(looks) - first <= 3  # the trial
    kept = list((tmp_path / "cache" / "trunk").rglob("*.npy"))
    assert kept
    go(frozen.but(output=str(tmp_path / "third"), memory="compressive"))
    further = set((tmp_path / "cache" / "trunk").rglob("*.npy")).difference(kept)
    assert 0 < len(further) < len(kept) / 2  # what this memory takes of the segments; the rest is shared


def test_teacher_is_asked_once_and_not_for_validation(
    case: Case, go: Go, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same weights, the validation loss is that of a run without a teacher."""
    write(tmp_path / "data" / "validation.jsonl", causal_rows(1))
    taught: list[str] = []
    real = trunk.teach

    def counting(model: Any, document: DocumentInputs, *args: Any) -> Any:
        assert torch.is_grad_enabled()
        taught.append(document.name)
        return real(model, document, *args)

    monkeypatch.setattr(trunk, "teach", counting)
    notes: list[str] = []
    case = case.but(documents=2, epochs=2.0, save_steps=100, freeze_trunk=True, learning_rate=1e-9)
    go(case.but(distill=0.5), say=notes.append)
    assert any(note.startswith("the teacher reads ") for note in notes)
    assert len(taught) == 2 + 2  # for the plan, and for training
    output = go(case.but(output=str(tmp_path / "plain")))
    assert len(taught) == 4
    with_teacher, without = (
        json.loads((Path(folder) / "run.json").read_text())["validation"] for folder in (case.output, output)
    )
    assert [each["loss"] for each in with_teacher] == pytest.approx([each["loss"] for each in without], rel=1e-4)
    ours, theirs = (history(folder)[0][1] for folder in (case.output, output))
    assert abs(ours - theirs) > 1e-3


# ------------------------------------------------------------------------------------------------ killed and resumed


@pytest.mark.parametrize(
    "options",
    [{"freeze_trunk": False}, {"freeze_trunk": True}, {"freeze_trunk": True, "adapted_tokens": "all"}],
    ids=str,
)
def test_interrupted_and_resumed_gives_the_losses_of_an_uninterrupted_run(
    case: Case, go: Go, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    case = case.but(documents=2, epochs=2.0, **options)
    whole = case.but(output=str(tmp_path / "whole"))
    go(whole)
    expected = history(whole.output)
    assert [step for step, *_ in expected] == [1, 2, 3, 4]
    with monkeypatch.context() as patch:
        stopping_after(3, patch)
        with pytest.raises(Interrupted):
            go(case)
    assert steps(case.output) == [1, 2, 3]
    other = "answer" if case.own.adapted_tokens == "all" else "all"
    with pytest.raises(AwesumError, match=f"was trained with adapted_tokens=.*, not '{other}'") as error:
        go(case.but(adapted_tokens=other))
    in_one_line(error)
    assert steps(case.output) == [1, 2, 3]
    notes: list[str] = []
    go(case, say=notes.append)
    assert notes[0].endswith("checkpoint-3")
    assert history(case.output) == [pytest.approx(line, rel=1e-5) for line in expected]
    ours, theirs = (load_file(Path(each.output) / WEIGHTS) for each in (case, whole))
    assert ours.keys() == theirs.keys()
    for name, weight in theirs.items():
        torch.testing.assert_close(ours[name], weight, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.slow
def test_killed_and_resumed_gives_the_losses_of_an_uninterrupted_run(
    case: Case, go: Go, tiny_encoder: SentenceEncoder, tmp_path: Path
) -> None:
    case = case.but(epochs=4.0, freeze_trunk=True)
    whole = case.but(output=str(tmp_path / "whole"))
    go(whole)
    reached = killed(case, tiny_encoder, tmp_path)
    notes: list[str] = []
    go(case, say=notes.append)
    assert notes[0] == f"resuming from {reached}"
    assert history(case.output) == [pytest.approx(line, rel=1e-5) for line in history(whole.output)]


# --------------------------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"base": "no/such/model"}, "no folder"),
        ({"memory": "atentive"}, "did you mean 'attentive'"),
        ({"salient": "key-value"}, "is not one of none, text, rewrite for a causal model"),
        ({"update": "lowrank"}, "did you mean 'low-rank'"),
        ({"memory_layers": 9}, "there are 4 layers"),
        ({"distill": 1.5}, "distill=1.5 is a share of the loss: give a number from 0 to 1"),
        ({"memory_layers": (17, 18, 19)}, "there are 4 layers, 0 to 3; name some of them"),
        ({"adapted_tokens": "segment"}, "is not one of answer, all for a causal model"),
        ({"update_layers": 9}, "there are 4 layers"),
        ({"memory": "compressive", "memory_size": 7}, "odd"),
        ({"memory": "none", "update": "none"}, "nothing"),
    ],
    ids=str,
)
def test_bad_settings_are_refused_in_one_line(case: Case, go: Go, change: dict[str, Any], text: str) -> None:
    with pytest.raises(AwesumError, match=text) as error:
        go(case.but(**change))
    in_one_line(error)


def test_full_disk_leaves_the_earlier_checkpoint(case: Case, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    save, calls = AwesomeCausal.save_pretrained, []

    def failing(self: AwesomeCausal, *args: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        save(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(AwesomeCausal, "save_pretrained", failing)
        with pytest.raises(AwesumError, match=r"cannot save the checkpoint .*checkpoint-2") as error:
            go(case)
    assert f"{Path(case.output) / 'checkpoint-1'} is whole" in in_one_line(error)
    assert steps(case.output) == [1]
    go(case)
    assert [step for step, *_ in history(case.output)] == [1, 2, 3]


def test_adapter_of_other_weights_is_refused(
    case: Case, go: Go, tmp_path: Path, tiny_tokenizer: PreTrainedTokenizerFast
) -> None:
    """With other weights than those it was trained with, it would be silently wrong."""
    base = tmp_path / "base"
    model = tiny_llama(tiny_tokenizer, **FOUR_LAYERS, max_position_embeddings=640)
    model.save_pretrained(base)
    tiny_tokenizer.save_pretrained(base)
    output = go(case.but(base=str(base), documents=1))
    assert read_config(output).base_sha256
    ChatModel.load(str(output))
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight[0, 0] += 1
    model.save_pretrained(base)
    with pytest.raises(AwesumError) as error:
        ChatModel.load(str(output))
    assert str(base) in in_one_line(error)
