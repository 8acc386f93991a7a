"""A training run from data to model, and what becomes of it when it is killed, poisoned, or the disk is full."""

from __future__ import annotations

import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers.modeling_utils
from safetensors import SafetensorError
from transformers import AutoTokenizer

import awesum.training.run
from awesum.analysis.analysis import Analyst
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.trained import SHIPPED
from awesum.compose.layouts import BartLayout
from awesum.errors import AwesumError
from awesum.models.bart import AwesomeBart
from awesum.prepared.prepare import prepare
from awesum.recurrence import generate
from awesum.training.run import train
from awesum.training.trainer import AwesomeTrainer
from tests.conftest import topical_text
from tests.training.interruptions import Interrupted, killed, stopping_after
from tests.training.preparing import InputsInSteps
from tests.training.runs import Case, Go, history, in_one_line, record, rows, short_run, steps, write

pytestmark = pytest.mark.usefixtures("own_cache", "quiet_library")


@pytest.fixture
def case(tmp_path: Path, tiny_bart_folder: Path) -> Case:
    """Four documents, one a step, with dropout as in BART; a checkpoint after each step."""
    return short_run(
        tmp_path,
        rows(4),
        tiny_bart_folder,
        memory_layers=2,
        memory_size=8,
        learning_rate=3e-3,
        keep=100,
        num_beams=3,
        max_part=40,
    )


# ---------------------------------------------------------------------------------------------------------- to the end


def test_from_data_to_a_model_that_writes(case: Case, go: Go, tiny_encoder: SentenceEncoder, tmp_path: Path) -> None:
    write(tmp_path / "data" / "validation.jsonl", rows(2))
    notes: list[str] = []
    case = case.but(epochs=6.0, batch_size=2, save_steps=100, memory_direction="both")
    output = go(case, say=notes.append)
    assert output == tmp_path / "out"
    losses = [loss for _, loss, _, _ in history(output)]
    assert len(losses) == 12
    assert sum(losses[-4:]) < 0.9 * sum(losses[:4])
    assert len(notes) == 1
    assert "of them trained, memory: attentive, salient content: none, float32 (as asked for)" in notes[0]

    model = AwesomeBart.from_pretrained(output).eval()
    assert (model.config.memory, model.config.memory_size, model.config.memory_layers) == ("attentive", 8, 2)
    assert model.config.system == "awesome"
    assert model.model.encoder.layers[-1].memory.reading.out_proj.weight.abs().max() > 0  # it has learned to read
    writing = model.generation_config
    assert (writing.num_beams, writing.no_repeat_ngram_size, writing.max_length) == (3, 5, 40)
    tokenizer = AutoTokenizer.from_pretrained(output)
    assert tokenizer("").input_ids == [0, 2]
    inputs = InputsInSteps(BartLayout(tokenizer, model.config), Analyst(tiny_encoder, Centrality()))
    text = inputs.lay_out(inputs.steps(topical_text(12, seed=9)))
    parts = list(generate(model, [text]))
    assert len(parts) == len(text.segments) > 1
    assert all(tokens[0] == 0 and len(tokens) <= 40 for _, _, tokens in parts)


@pytest.mark.parametrize(
    "options",
    [
        {"memory": "none"},
        {"memory": "compressive", "salient": "text", "gradient_checkpointing": True},
        {"memory": "attentive", "salient": "key-value", "salient_size": 60, "trunk_batch": 2, "precision": "bfloat16"},
        {"memory": "salient", "salient": "text"},
        {"memory": "attentive", "memory_depth": 2},
        {"memory": "attentive", "memory_depth": None},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_every_variant_trains(case: Case, go: Go, options: dict[str, Any]) -> None:
    case = case.but(documents=3, save_steps=100, label_smoothing=0.1, empty_targets=False, **options)
    output = go(case)
    model = AwesomeBart.from_pretrained(output)
    for name in ("memory", "salient"):
        assert getattr(model.config, name) == getattr(case.own, name)
    assert all(torch.isfinite(weight).all() for weight in model.parameters())
    assert len(history(output)) == 3


def test_depth_beyond_the_segments_is_reported_once(case: Case, go: Go) -> None:
    notes: list[str] = []
    go(case.but(memory_depth=50, save_steps=100), say=notes.append)
    said = [note for note in notes if "memory_depth=50 is more than the" in note]
    assert len(said) == 1
    assert "the gradient goes back to the first segment" in said[0]


def test_new_weights_have_their_own_learning_rate(case: Case, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    create = AwesomeTrainer.create_optimizer

    def watched(self: AwesomeTrainer, *args: Any, **kwargs: Any) -> Any:
        made.append((self.model, create(self, *args, **kwargs)))
        return made[-1][1]

    monkeypatch.setattr(AwesomeTrainer, "create_optimizer", watched)
    go(case.but(new_learning_rate=7e-3, documents=2, save_steps=100, warmup_steps=0))
    model, optimizer = made[0]
    rates = {id(weight): group["initial_lr"] for group in optimizer.param_groups for weight in group["params"]}
    assert len(rates) == len(list(model.parameters()))
    for name, weight in model.named_parameters():
        assert rates[id(weight)] == (7e-3 if ".memory." in name else 3e-3), name


def test_trained_model_can_be_trained_on(case: Case, go: Go, tmp_path: Path) -> None:
    first = go(case.but(documents=1))
    second = case.but(base=str(first), output=str(tmp_path / "more"), documents=1)
    go(second)
    with pytest.raises(AwesumError, match="memory='attentive', not 'none'"):
        go(second.but(output=str(tmp_path / "other"), memory="none"))


# ------------------------------------------------------------------------------------------------ killed and resumed


@pytest.mark.slow
def test_killed_and_resumed_gives_the_losses_of_an_uninterrupted_run(
    case: Case, go: Go, tiny_encoder: SentenceEncoder, tmp_path: Path
) -> None:
    case = case.but(epochs=2.0)
    whole = case.but(output=str(tmp_path / "whole"))
    go(whole)
    expected = history(whole.output)
    assert [step for step, *_ in expected] == list(range(1, 9))
    assert len({loss for _, loss, *_ in expected}) == 8
    reached = killed(case, tiny_encoder, tmp_path)
    assert 2 <= int(reached.name.rpartition("-")[2]) < 8
    assert record(case.output)["state"] == "running"
    notes: list[str] = []
    go(case, say=notes.append)
    assert notes[0] == f"resuming from {reached}"
    found = history(case.output)
    assert found == [pytest.approx(line, rel=1e-5) for line in expected]
    recorded = [(entry["step"], entry["loss"]) for entry in record(case.output)["history"]]
    assert recorded == [line[:2] for line in found]
    weights = [AwesomeBart.from_pretrained(folder).state_dict() for folder in (case.output, whole.output)]
    for name, weight in weights[1].items():
        torch.testing.assert_close(weights[0][name], weight, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("state", [None, '{"best_global'], ids=["without its state", "with half of it"])
def test_checkpoint_that_was_not_finished_is_not_resumed_from(
    case: Case, go: Go, monkeypatch: pytest.MonkeyPatch, state: str | None
) -> None:
    with monkeypatch.context() as patch:
        stopping_after(2, patch)
        with pytest.raises(Interrupted):
            go(case)
    assert steps(case.output) == [1, 2]
    half = Path(case.output) / "checkpoint-3"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    if state is not None:
        (half / "trainer_state.json").write_text(state)
    notes: list[str] = []
    go(case, say=notes.append)
    assert notes[0].endswith("checkpoint-2")
    assert [step for step, *_ in history(case.output)] == [1, 2, 3, 4]


def test_old_checkpoints_are_deleted(case: Case, go: Go) -> None:
    go(case.but(keep=2))
    assert steps(case.output) == [3, 4]


# --------------------------------------------------------------------------------------------------- what goes wrong


def test_loss_that_is_not_a_number_names_the_document(case: Case, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    step, seen = AwesomeTrainer.training_step, []

    def poisoning(self: AwesomeTrainer, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> torch.Tensor:
        seen.append(inputs["documents"][0].name)
        if len(seen) == 3:
            with torch.no_grad():
                model.model.decoder.layers[-1].fc1.weight[0, 0] = torch.nan
        return step(self, model, inputs, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(AwesomeTrainer, "training_step", poisoning)
        with pytest.raises(AwesumError, match="the loss is not a number") as error:
            go(case)
    line = in_one_line(error)
    assert f"at document {seen[2]}, step 3" in line
    assert f"{Path(case.output) / 'checkpoint-2'} is the last good checkpoint" in line
    assert steps(case.output) == [1, 2]
    good = AwesomeBart.from_pretrained(Path(case.output) / "checkpoint-2")
    assert all(torch.isfinite(weight).all() for weight in good.parameters())
    go(case)
    assert [step for step, *_ in history(case.output)] == [1, 2, 3, 4]


def full_disk(kind: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a certain file on there is no room, as each library says it."""
    error = {
        "torch": OSError(28, "No space left on device"),
        "torch, as its writer says it": RuntimeError("[enforce fail at inline_container.cc:672] .\nunexpected pos"),
        "safetensors": SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    }[kind]
    owner, name = (transformers.modeling_utils, "safe_save_file") if kind == "safetensors" else (torch, "save")
    real, calls = getattr(owner, name), []

    def failing(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) >= at:
            raise error
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, failing)


@pytest.mark.parametrize(
    ("kind", "at"), [("torch", 4), ("torch, as its writer says it", 5), ("safetensors", 2)]
)  # three files of torch's in a checkpoint: optimizer, schedule, random numbers
def test_full_disk_leaves_the_earlier_checkpoint(
    case: Case, go: Go, monkeypatch: pytest.MonkeyPatch, kind: str, at: int
) -> None:
    case = case.but(documents=2)
    with monkeypatch.context() as patch:
        full_disk(kind, at, patch)
        with pytest.raises(AwesumError, match=r"cannot save the checkpoint .*checkpoint-2") as error:
            go(case)
    line = in_one_line(error)
    assert f"{Path(case.output) / 'checkpoint-1'} is whole" in line
    assert "make room" in line
    assert steps(case.output) == [1]  # no part of the second is left
    AwesomeBart.from_pretrained(Path(case.output) / "checkpoint-1")
    notes: list[str] = []
    go(case, say=notes.append)
    assert notes[0].endswith("checkpoint-1")
    assert [step for step, *_ in history(case.output)] == [1, 2]


def test_full_disk_at_the_first_checkpoint(case: Case, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    full_disk("safetensors", 1, monkeypatch)
    with pytest.raises(AwesumError, match="there is no earlier one") as error:
        go(case)
    in_one_line(error)
    assert steps(case.output) == []


def test_full_disk_at_the_very_end(case: Case, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case.but(documents=1)
    with monkeypatch.context() as patch:
        full_disk("safetensors", 2, patch)
        with pytest.raises(AwesumError, match=r"cannot save the trained model in .*checkpoint-1 is whole") as error:
            go(case)
    in_one_line(error)
    AwesomeBart.from_pretrained(go(case))


def test_output_that_cannot_be_written(case: Case, go: Go, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for output in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(AwesumError, match="give another --output folder") as error:
            go(case.but(output=str(output)))
        in_one_line(error)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"data": "no-such-folder"}, "there is no dataset"),
        ({"base": "no/such/model"}, "no folder"),
        ({"memory": "atentive"}, "did you mean 'attentive'"),
        ({"salient": "keyvalue"}, "did you mean 'key-value'"),
        ({"memory_layers": 9}, "there are 3 layers"),
        ({"memory": "compressive", "memory_size": 7}, "odd"),
        ({"precision": "float16"}, "CUDA"),
    ],
    ids=str,
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="float16 is a good choice here")
def test_bad_settings_are_refused_in_one_line(case: Case, go: Go, change: Any, text: str) -> None:
    with pytest.raises(AwesumError, match=text) as error:
        go(case.but(**change))
    in_one_line(error)


def test_document_that_cannot_be_used_is_reported_in_one_line(case: Case, go: Go, tmp_path: Path) -> None:
    asked = [row | {"query": "budget audit " * 80} for row in rows(2)]
    write(tmp_path / "data" / "train.jsonl", asked)
    with pytest.raises(AwesumError, match=r"report \d: .* shorten the query") as error:
        go(case)
    in_one_line(error)


def test_inputs_are_cached_for_the_next_epoch_and_run(
    case: Case, go: Go, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[int] = []
    encode = SentenceEncoder.encode
    monkeypatch.setattr(SentenceEncoder, "encode", lambda *args: (calls.append(1), encode(*args))[1])
    case = case.but(epochs=2.0, documents=2, save_steps=100)
    go(case)
    assert len(calls) == 2
    go(case.but(output=str(tmp_path / "again"), memory="none"))
    assert len(calls) == 2
    assert len(os.listdir(tmp_path / "cache" / "inputs")) == 2


def test_prepared_documents_are_trained_on_without_reading_them_again(
    case: Case,
    go: Go,
    tmp_path: Path,
    tiny_encoder: SentenceEncoder,
    tiny_bart_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for split in ("train", "validation"):
        write(tmp_path / "data" / f"{split}.jsonl", rows(5)[1:])  # the first has less text than summary
    tokenizer = str(tiny_bart_folder)
    prepare(case.settings.data, tmp_path / "p", tokenizer=tokenizer, encoder=tiny_encoder, processes=1, quiet=True)
    case = case.but(documents=3, validation_documents=2)
    go(case)
    made = case.but(data=str(tmp_path / "p"), output=str(tmp_path / "from prepared"))
    monkeypatch.setattr(SentenceEncoder, "encode", lambda *args: pytest.fail("read again"))
    go(made)
    expected = history(case.output)
    assert len(expected) == 3
    for ours, theirs in zip(history(made.output), expected, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3)  # vectors are kept in half precision


def test_prepared_documents_of_another_encoder_are_refused(
    case: Case, go: Go, tmp_path: Path, tiny_encoder: SentenceEncoder, tiny_bart_folder: Path
) -> None:
    folder = tmp_path / "p"
    prepare(case.settings.data, folder, tokenizer=str(tiny_bart_folder), encoder=tiny_encoder, processes=1, quiet=True)
    case = case.but(data=str(folder))
    with pytest.raises(AwesumError, match="training uses the embedded encoder: prepare the documents again") as error:
        train(case.settings, case.own, quiet=True)
    in_one_line(error)
    other = SentenceEncoder(deepcopy(tiny_encoder.model), tiny_encoder.tokenizer)
    with torch.no_grad():
        other.model.embeddings.word_embeddings.weight += 1
    with pytest.raises(AwesumError, match="prepare the documents again with the same --encoder") as error:
        go(case, analyst=Analyst(other, Centrality()))
    in_one_line(error)


def test_encoder_and_extractor_of_the_settings(case: Case, tiny_encoder: SentenceEncoder, tmp_path: Path) -> None:
    tiny_encoder.model.save_pretrained(tmp_path / "encoder")
    tiny_encoder.tokenizer.save_pretrained(tmp_path / "encoder")
    encoder = {"encoder": str(tmp_path / "encoder")}
    case = case.but(documents=1, salient="text", extractor="centrality", **encoder)
    output = train(case.settings, case.own, quiet=True, say=lambda note: None)
    assert record(output)["settings"]["encoder"] == str(tmp_path / "encoder")
    other = case.but(output=str(tmp_path / "other"), extractor=str(SHIPPED))  # it reads words: any encoder will do
    assert record(train(other.settings, other.own, quiet=True, say=lambda note: None))["settings"]["extractor"]
    with pytest.raises(AwesumError, match="is not an extractor") as error:
        train(other.but(extractor=str(tmp_path / "none")).settings, quiet=True)
    in_one_line(error)


@pytest.mark.parametrize(
    ("device", "dtype", "expected"),
    [
        ("mps", torch.float16, "float32"),
        ("cuda", torch.float16, "float16"),
        ("cuda", torch.bfloat16, "bfloat16"),
        ("cpu", torch.bfloat16, "bfloat16"),
        ("cpu", torch.float32, "float32"),
    ],
)
def test_number_format_of_each_device(
    case: Case, monkeypatch: pytest.MonkeyPatch, device: str, dtype: torch.dtype, expected: str
) -> None:
    """An Apple GPU writes in half precision; training there needs single precision."""
    monkeypatch.setattr(awesum.training.run, "choose_device", lambda: (torch.device(device), dtype, "it is there"))
    precision, reason = awesum.training.run._precision(case.but(precision="auto").settings)
    assert precision == expected
    assert reason.startswith("it is there")
