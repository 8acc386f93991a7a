"""A training run from data to model, and what becomes of it when it is killed, poisoned, or the disk is full."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers.modeling_utils
from safetensors import SafetensorError
from transformers import AutoTokenizer
from transformers.utils import logging as library_logging

from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.errors import AwesumError
from awesum.models.bart import AwesomeBart
from awesum.preparation import Preparation
from awesum.prepared.prepare import prepare
from awesum.recurrence import generate
from awesum.training.run import train
from awesum.training.settings import TrainingSettings
from awesum.training.trainer import AwesomeTrainer, last_checkpoint
from tests.conftest import topical_text

ROOT = Path(__file__).parents[2]
Go = Callable[..., Path]


@pytest.fixture(autouse=True)
def _quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The library shows a bar for each file that it writes; and what is prepared belongs to the test."""
    monkeypatch.setenv("AWESUM_CACHE", str(tmp_path / "cache"))
    library_logging.disable_progress_bar()
    yield
    library_logging.enable_progress_bar()


def rows(count: int) -> list[dict[str, str]]:
    """Documents of one to six segments, whose summaries are sentences like their own."""
    return [
        {
            "id": f"report {number}",
            "document": topical_text(2 + 4 * number, seed=number),
            "summary": " ".join(topical_text(3, seed=number).split()),
        }
        for number in range(count)
    ]


def write(path: Path, examples: list[dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in examples), encoding="utf-8")


@pytest.fixture
def settings(tmp_path: Path, tiny_bart_folder: Path) -> TrainingSettings:
    """Four documents, one a step, with dropout as in BART; a checkpoint after each step."""
    write(tmp_path / "data" / "train.jsonl", rows(4))
    return TrainingSettings(
        data=str(tmp_path / "data"),
        output=str(tmp_path / "out"),
        model=str(tiny_bart_folder),
        memory_layers=2,
        memory_size=8,
        learning_rate=3e-3,
        epochs=1,
        warmup_steps=0,
        accumulation=1,
        save_steps=1,
        keep=100,
        log_steps=1,
        num_beams=3,
        max_part=40,
        precision="float32",
    )


@pytest.fixture
def go(tiny_encoder: SentenceEncoder) -> Go:
    def run(settings: TrainingSettings, **options: Any) -> Path:
        return train(settings, encoder=tiny_encoder, quiet=True, **{"say": lambda note: None, **options})

    return run


def history(output: str | Path, name: str = "loss") -> list[tuple[float, ...]]:
    last = last_checkpoint(Path(output))
    assert last is not None
    lines = json.loads((last / "trainer_state.json").read_text())["log_history"]
    return [(line["step"], line["loss"], line["grad_norm"], line["learning_rate"]) for line in lines if name in line]


def told_in_one_line(error: pytest.ExceptionInfo[AwesumError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


def steps(output: str | Path) -> list[int]:
    return sorted(int(path.name.rpartition("-")[2]) for path in Path(output).glob("checkpoint-*"))


# ---------------------------------------------------------------------------------------------------------- to the end


def test_from_data_to_a_model_that_writes(
    settings: TrainingSettings, go: Go, tiny_encoder: SentenceEncoder, tmp_path: Path
) -> None:
    write(tmp_path / "data" / "validation.jsonl", rows(2))
    said: list[str] = []
    settings = replace(settings, epochs=6, batch_size=2, save_steps=100, memory_direction="both")
    output = go(settings, say=said.append)
    assert output == tmp_path / "out"
    losses = [loss for _, loss, _, _ in history(output)]
    assert len(losses) == 12
    assert sum(losses[-4:]) < 0.9 * sum(losses[:4])
    assert said == [
        note
        for note in said
        if "of them trained, memory: attentive, salient content: none, float32 (as asked for)" in note
    ]

    model = AwesomeBart.from_pretrained(output).eval()
    assert (model.config.memory, model.config.memory_size, model.config.memory_layers) == ("attentive", 8, 2)
    assert model.model.encoder.layers[-1].memory.reading.out_proj.weight.abs().max() > 0  # it has learned to read
    told = model.generation_config
    assert (told.num_beams, told.no_repeat_ngram_size, told.max_length) == (3, 5, 40)
    tokenizer = AutoTokenizer.from_pretrained(output)
    assert tokenizer("").input_ids == [0, 2]
    preparation = Preparation(tokenizer, model.config, tiny_encoder, Centrality())
    text = preparation.inputs("new", preparation.divide(topical_text(12, seed=9)))
    parts = list(generate(model, [text]))
    assert len(parts) == len(text.segments) > 1
    assert all(tokens[0] == 0 and len(tokens) <= 40 for _, _, tokens in parts)

    # A second time there is nothing to do: the same model is there.
    before = (output / "model.safetensors").read_bytes()
    go(settings, say=said.append)
    assert said[-2] == f"going on from {output / 'checkpoint-12'}"
    assert (output / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    "options",
    [
        {"memory": "none"},
        {"memory": "compressive", "salient": "text", "gradient_checkpointing": True},
        {"memory": "attentive", "salient": "key-value", "salient_size": 60, "trunk_batch": 2, "precision": "bfloat16"},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_every_variant_trains(settings: TrainingSettings, go: Go, options: dict[str, Any]) -> None:
    settings = replace(settings, documents=3, save_steps=100, label_smoothing=0.1, empty_targets=False, **options)
    output = go(settings)
    model = AwesomeBart.from_pretrained(output)
    for name in ("memory", "salient"):
        assert getattr(model.config, name) == options.get(name, getattr(settings, name))
    assert all(torch.isfinite(weight).all() for weight in model.parameters())
    assert len(history(output)) == 3


def test_trained_model_can_be_trained_on(settings: TrainingSettings, go: Go, tmp_path: Path) -> None:
    first = go(replace(settings, documents=1))
    second = replace(settings, model=str(first), output=str(tmp_path / "more"), documents=1)
    go(second)
    with pytest.raises(AwesumError, match="memory='attentive', not 'none'"):
        go(replace(second, output=str(tmp_path / "other"), memory="none"))


# ------------------------------------------------------------------------------------------------ killed and resumed


def drive(settings: dict[str, Any], encoder: str) -> None:
    """What the process that is killed does."""
    torch.set_num_threads(1)
    train(TrainingSettings(**settings), encoder=SentenceEncoder.load(encoder), quiet=True)


def test_killed_and_resumed_gives_the_losses_of_an_uninterrupted_run(
    settings: TrainingSettings, go: Go, tiny_encoder: SentenceEncoder, tmp_path: Path
) -> None:
    settings = replace(settings, epochs=3)
    tiny_encoder.model.save_pretrained(tmp_path / "encoder")
    tiny_encoder.tokenizer.save_pretrained(tmp_path / "encoder")
    whole = replace(settings, output=str(tmp_path / "whole"))
    go(whole)
    expected = history(whole.output)
    assert [step for step, *_ in expected] == list(range(1, 13))
    assert len({loss for _, loss, *_ in expected}) == 12

    code = f"from tests.training.test_run import drive; drive({asdict(settings)!r}, {str(tmp_path / 'encoder')!r})"
    running = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        end = time.monotonic() + 240
        while not (tmp_path / "out" / "checkpoint-2" / "trainer_state.json").exists():
            assert running.poll() is None, running.communicate()[1]
            assert time.monotonic() < end
            time.sleep(0.005)
    finally:
        running.send_signal(signal.SIGKILL)
        running.communicate()
    assert running.returncode == -signal.SIGKILL
    reached = last_checkpoint(tmp_path / "out")
    assert reached is not None
    at = int(reached.name.rpartition("-")[2])
    assert 2 <= at < 12
    said: list[str] = []
    go(settings, say=said.append)
    assert said[0] == f"going on from {reached}"
    found = history(settings.output)
    assert found == [pytest.approx(line, rel=1e-5) for line in expected]
    weights = [AwesomeBart.from_pretrained(folder).state_dict() for folder in (settings.output, whole.output)]
    for name, weight in weights[1].items():
        torch.testing.assert_close(weights[0][name], weight, msg=lambda text, name=name: f"{name}: {text}")


class Interrupted(Exception):
    pass


def stopping_after(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends after so many documents, as by a power cut."""
    step, done = AwesomeTrainer.training_step, []

    def stopping(self: AwesomeTrainer, *args: Any, **kwargs: Any) -> torch.Tensor:
        if len(done) == count:
            raise Interrupted
        done.append(1)
        return step(self, *args, **kwargs)

    monkeypatch.setattr(AwesomeTrainer, "training_step", stopping)


@pytest.mark.parametrize("state", [None, '{"best_global'], ids=["without its state", "with half of it"])
def test_checkpoint_that_was_not_finished_is_not_resumed_from(
    settings: TrainingSettings, go: Go, monkeypatch: pytest.MonkeyPatch, state: str | None
) -> None:
    with monkeypatch.context() as patch:
        stopping_after(2, patch)
        with pytest.raises(Interrupted):
            go(settings)
    assert steps(settings.output) == [1, 2]
    half = Path(settings.output) / "checkpoint-3"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    if state is not None:
        (half / "trainer_state.json").write_text(state)
    said: list[str] = []
    go(settings, say=said.append)
    assert said[0].endswith("checkpoint-2")
    assert [step for step, *_ in history(settings.output)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("memory", "compressive", "memory='attentive', not 'compressive'"),
        ("memory_size", 6, "memory_size=8, not 6"),
        ("memory_layers", (1, 2), r"memory_layers=2, not \[1, 2\]"),
        ("memory_direction", "both", "memory_direction='forward', not 'both'"),
        ("salient", "text", "salient='none', not 'text'"),
    ],
)
def test_resuming_with_other_equipment_is_refused(
    settings: TrainingSettings, go: Go, tmp_path: Path, name: str, value: Any, text: str
) -> None:
    folder = tmp_path / "out" / "checkpoint-1"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text("{}")
    (folder / "config.json").write_text(json.dumps(settings.equipment))
    with pytest.raises(AwesumError, match=text) as error:
        go(replace(settings, **{name: value}))
    assert str(folder) in told_in_one_line(error)


def test_resuming_with_other_equipment_leaves_the_run_as_it_was(settings: TrainingSettings, go: Go) -> None:
    go(replace(settings, documents=1))
    with pytest.raises(AwesumError, match="memory='attentive', not 'compressive'"):
        go(replace(settings, memory="compressive"))
    assert steps(settings.output) == [1]
    go(replace(settings, documents=1, memory_layers=2))


def test_checkpoint_without_its_configuration(settings: TrainingSettings, go: Go, tmp_path: Path) -> None:
    folder = tmp_path / "out" / "checkpoint-1"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text("{}")
    with pytest.raises(AwesumError, match=r"no readable config\.json") as error:
        go(settings)
    told_in_one_line(error)


def test_only_so_many_checkpoints_are_kept(settings: TrainingSettings, go: Go) -> None:
    go(replace(settings, keep=2))
    assert steps(settings.output) == [3, 4]


# --------------------------------------------------------------------------------------------------- what goes wrong


def test_loss_that_is_not_a_number_names_the_document(
    settings: TrainingSettings, go: Go, monkeypatch: pytest.MonkeyPatch
) -> None:
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
            go(settings)
    told = told_in_one_line(error)
    assert f"at document {seen[2]}, step 3" in told
    assert f"{Path(settings.output) / 'checkpoint-2'} is the last good checkpoint" in told
    assert steps(settings.output) == [1, 2]
    good = AwesomeBart.from_pretrained(Path(settings.output) / "checkpoint-2")
    assert all(torch.isfinite(weight).all() for weight in good.parameters())
    go(settings)
    assert [step for step, *_ in history(settings.output)] == [1, 2, 3, 4]


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
    ("kind", "at"), [("torch", 5), ("torch, as its writer says it", 6), ("safetensors", 2)]
)  # four files of torch's in a checkpoint: arguments, optimizer, schedule, chance
def test_full_disk_leaves_the_earlier_checkpoint(
    settings: TrainingSettings, go: Go, monkeypatch: pytest.MonkeyPatch, kind: str, at: int
) -> None:
    settings = replace(settings, documents=2)
    with monkeypatch.context() as patch:
        full_disk(kind, at, patch)
        with pytest.raises(AwesumError, match=r"cannot save the checkpoint .*checkpoint-2") as error:
            go(settings)
    told = told_in_one_line(error)
    assert f"{Path(settings.output) / 'checkpoint-1'} is whole" in told
    assert "make room" in told
    assert steps(settings.output) == [1]  # no part of the second is left
    AwesomeBart.from_pretrained(Path(settings.output) / "checkpoint-1")
    said: list[str] = []
    go(settings, say=said.append)
    assert said[0].endswith("checkpoint-1")
    assert [step for step, *_ in history(settings.output)] == [1, 2]


def test_full_disk_at_the_first_checkpoint(settings: TrainingSettings, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    full_disk("safetensors", 1, monkeypatch)
    with pytest.raises(AwesumError, match="there is no earlier one") as error:
        go(settings)
    told_in_one_line(error)
    assert steps(settings.output) == []


def test_full_disk_at_the_very_end(settings: TrainingSettings, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(settings, documents=1)
    with monkeypatch.context() as patch:
        full_disk("safetensors", 2, patch)
        with pytest.raises(AwesumError, match=r"cannot save the trained model in .*checkpoint-1 is whole") as error:
            go(settings)
    told_in_one_line(error)
    AwesomeBart.from_pretrained(go(settings))


def test_output_that_cannot_be_written(settings: TrainingSettings, go: Go, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for output in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(AwesumError, match="give another folder as output") as error:
            go(replace(settings, output=str(output)))
        told_in_one_line(error)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"data": "no-such-folder"}, "there is no dataset"),
        ({"model": "no/such/model"}, "no folder"),
        ({"memory": "atentive"}, "did you mean 'attentive'"),
        ({"salient": "keyvalue"}, "did you mean 'key-value'"),
        ({"memory_layers": 9}, "there are 3 layers"),
        ({"memory": "compressive", "memory_size": 7}, "odd"),
        ({"precision": "float16"}, "GPU"),
    ],
    ids=str,
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="float16 is a good choice here")
def test_bad_settings_are_told_in_one_line(settings: TrainingSettings, go: Go, change: Any, text: str) -> None:
    with pytest.raises(AwesumError, match=text) as error:
        go(replace(settings, **change))
    told_in_one_line(error)


def test_document_that_cannot_be_prepared_is_told_in_one_line(
    settings: TrainingSettings, go: Go, tmp_path: Path
) -> None:
    asked = [row | {"query": "budget audit " * 80} for row in rows(2)]
    write(tmp_path / "data" / "train.jsonl", asked)
    with pytest.raises(AwesumError, match=r"report \d: .* shorten the query") as error:
        go(settings)
    told_in_one_line(error)


def test_what_is_prepared_is_kept_for_the_next_epoch_and_run(
    settings: TrainingSettings, go: Go, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[int] = []
    encode = SentenceEncoder.encode
    monkeypatch.setattr(SentenceEncoder, "encode", lambda *args: (calls.append(1), encode(*args))[1])
    settings = replace(settings, epochs=2, documents=2, save_steps=100)
    go(settings)
    assert len(calls) == 2
    go(replace(settings, output=str(tmp_path / "again"), memory="none"))
    assert len(calls) == 2
    assert len(os.listdir(tmp_path / "cache" / "prepared")) == 2


def test_prepared_documents_are_trained_on_without_reading_them_again(
    settings: TrainingSettings,
    go: Go,
    tmp_path: Path,
    tiny_encoder: SentenceEncoder,
    tiny_bart_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for split in ("train", "validation"):
        write(tmp_path / "data" / f"{split}.jsonl", rows(5)[1:])  # the first has less text than summary
    tokenizer = str(tiny_bart_folder)
    prepare(settings.data, tmp_path / "p", tokenizer=tokenizer, encoder=tiny_encoder, processes=1, quiet=True)
    settings = replace(settings, documents=3, validation_documents=2)
    go(settings)
    made = replace(settings, data=str(tmp_path / "p"), output=str(tmp_path / "from prepared"))
    monkeypatch.setattr(SentenceEncoder, "encode", lambda *args: pytest.fail("read again"))
    go(made)
    expected = history(settings.output)
    assert len(expected) == 3
    for ours, theirs in zip(history(made.output), expected, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3)  # vectors are kept in half precision


def test_prepared_documents_of_another_encoder_are_refused(
    settings: TrainingSettings, tmp_path: Path, tiny_encoder: SentenceEncoder, tiny_bart_folder: Path
) -> None:
    folder = tmp_path / "p"
    prepare(settings.data, folder, tokenizer=str(tiny_bart_folder), encoder=tiny_encoder, processes=1, quiet=True)
    with pytest.raises(AwesumError, match="training reads with the embedded encoder") as error:
        train(replace(settings, data=str(folder)), quiet=True)
    told_in_one_line(error)
