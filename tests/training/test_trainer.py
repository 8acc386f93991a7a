"""The trainer: a step is what the recurrence says it is, however it is cut into batches, processes and checkpoints."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import TrainerCallback, TrainingArguments

from awesum.errors import AwesumError
from awesum.models.bart import AwesomeBart
from awesum.models.bart_config import AwesomeConfig
from awesum.recurrence import DocumentInputs
from awesum.recurrence import train as pass_over
from awesum.training import trainer as trainer_module
from awesum.training.trainer import AwesomeTrainer, collate, last_checkpoint
from tests.training.runs import in_two_processes

TINY: dict[str, Any] = {
    "vocab_size": 37,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 32,
    "dropout": 0.0,
    "init_std": 0.2,
    "memory_layers": 1,
    "memory_size": 4,
}


def tiny(**options: Any) -> AwesomeBart:
    """With a memory that is read: what begins as zero does not stay so."""
    torch.manual_seed(0)
    model = AwesomeBart(AwesomeConfig(**TINY | options))
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.1)
    return model


def document(segments: int, seed: int) -> DocumentInputs:
    chance = random.Random(seed)

    def framed(least: int, most: int) -> list[int]:
        return [0, *(chance.randrange(4, 37) for _ in range(chance.randint(least, most))), 2]

    return DocumentInputs(
        f"document {seed}", [framed(3, 8) for _ in range(segments)], [framed(1, 5) for _ in range(segments)]
    )


def documents() -> list[DocumentInputs]:
    """Only one of them has more than one segment: all others have nothing to update."""
    return [document(3, 1), document(1, 2), document(1, 3), document(1, 4)]


class Gradients(TrainerCallback):
    """What the optimizer is given at each step."""

    def __init__(self) -> None:
        self.steps: list[dict[str, torch.Tensor]] = []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        model = getattr(model, "module", model)
        self.steps.append(
            {
                name: torch.zeros_like(weight) if weight.grad is None else weight.grad.clone()
                for name, weight in model.named_parameters()
            }
        )


def make(
    folder: Path, model: AwesomeBart, data: list[Any], *callbacks: TrainerCallback, **options: Any
) -> AwesomeTrainer:
    own = {name: options.pop(name) for name in ("pass_over", "empty_targets", "label_smoothing") if name in options}
    evaluation = options.pop("eval_dataset", None)
    arguments: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 1,
        "per_device_eval_batch_size": 1,
        "num_train_epochs": 1,
        "optim": "sgd",
        "learning_rate": 0.1,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,
        "use_cpu": True,
        "save_strategy": "no",
        "logging_steps": 1,
        "disable_tqdm": True,
        "report_to": "none",
        "remove_unused_columns": False,
        "label_names": ["documents"],
    }
    return AwesomeTrainer(
        model=model,
        args=TrainingArguments(**arguments | options),
        train_dataset=data,
        eval_dataset=evaluation,
        callbacks=list(callbacks),
        **own,
    )


def gradients(folder: Path, model: AwesomeBart, data: list[Any], **options: Any) -> dict[str, torch.Tensor]:
    """Of the first step."""
    noted = Gradients()
    make(folder, model, data, noted, max_steps=1, **options).train()
    assert len(noted.steps) == 1
    return noted.steps[0]


def same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, gradient in theirs.items():
        scale = max(float(gradient.abs().max()), 1e-3)
        torch.testing.assert_close(
            ours[name], gradient, rtol=0, atol=1e-5 * scale, msg=lambda text, name=name: f"{name}: {text}"
        )
    assert sum(bool(gradient.abs().max() > 1e-4) for gradient in theirs.values()) > 0.9 * len(theirs)


def expected(model: AwesomeBart, data: list[DocumentInputs]) -> dict[str, torch.Tensor]:
    """The recurrence without a trainer."""
    model.zero_grad()
    pass_over(model, data, lambda loss: loss.backward())
    found = {
        name: torch.zeros_like(weight) if weight.grad is None else weight.grad.clone()
        for name, weight in model.named_parameters()
    }
    model.zero_grad()
    return found


# ------------------------------------------------------------------------------------------------------------ one step


@pytest.mark.parametrize(("batch", "accumulation"), [(1, 4), (2, 2), (4, 1)])
def test_accumulated_batches_are_one_batch(tmp_path: Path, batch: int, accumulation: int) -> None:
    found = gradients(
        tmp_path,
        tiny(),
        documents(),
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=accumulation,
    )
    same(found, expected(tiny(), documents()))


def test_last_step_of_an_epoch_is_the_mean_of_what_is_left(tmp_path: Path) -> None:
    """Three documents, two a step: the second step has one, with its whole weight."""
    noted = Gradients()
    alike = [document(2, 1)] * 3
    make(tmp_path, tiny(), alike, noted, gradient_accumulation_steps=2, learning_rate=1e-12).train()
    assert len(noted.steps) == 2
    same(noted.steps[1], noted.steps[0])


def test_layers_computed_twice_teach_the_same(tmp_path: Path) -> None:
    found = gradients(
        tmp_path,
        tiny(),
        documents(),
        per_device_train_batch_size=4,
        gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False},
    )
    same(found, expected(tiny(), documents()))


def test_options_reach_the_recurrence(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    def noting(model: Any, batch: Any, backward: Any, **how: Any) -> torch.Tensor:
        seen.append(how)
        return pass_over(model, batch, backward, **how)

    how = {"empty_targets": False, "label_smoothing": 0.2}
    measured = {"eval_dataset": [document(1, 2)], "eval_strategy": "epoch"}
    make(tmp_path, tiny(), [document(2, 1)], pass_over=noting, **measured, **how).train()
    assert seen == [how, how | {"label_smoothing": 0.0}]  # what is measured can be compared between runs


def test_logged_loss_is_the_mean_and_comes_with_speed_and_memory(tmp_path: Path) -> None:
    trainer = make(tmp_path, tiny(), documents(), gradient_accumulation_steps=2, learning_rate=1e-12)
    trainer.train()
    logged = [line for line in trainer.state.log_history if "loss" in line]
    with torch.no_grad():
        loss = float(pass_over(tiny(), documents(), lambda loss: None))
    assert sum(line["loss"] for line in logged) / 2 == pytest.approx(loss, rel=1e-5)
    assert trainer.tokens == sum(len(tokens) for text in documents() for tokens in (*text.segments, *text.targets))
    assert all(line["tokens_per_second"] > 0 and line["peak_memory_bytes"] > 2**20 for line in logged)


def test_without_a_bar_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make(tmp_path, tiny(), documents()).train()
    assert capfd.readouterr().out == ""


def test_bar_shows_loss_speed_and_memory(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    measured = {"eval_dataset": [document(1, 2)], "eval_strategy": "epoch"}
    make(tmp_path, tiny(), documents(), disable_tqdm=False, **measured).train()
    output = capfd.readouterr()
    assert output.out == ""
    assert all(word in output.err for word in ("loss ", "tokens/s", "GB", "validation loss"))


@pytest.mark.parametrize("batch", [1, 2])
def test_validation_loss_is_the_mean_over_documents(tmp_path: Path, batch: int) -> None:
    model = tiny(dropout=0.3, attention_dropout=0.3)
    three = [document(3, 1), document(1, 2), document(2, 3)]
    trainer = make(tmp_path, model, three, eval_dataset=three, per_device_eval_batch_size=batch)
    measured = trainer.evaluate()["eval_loss"]
    with torch.no_grad():
        alone = [float(pass_over(model.eval(), [text], lambda loss: None)) for text in three]
    assert measured == pytest.approx(sum(alone) / 3, rel=1e-5)
    assert all(weight.grad is None for weight in model.parameters())


def test_batch_is_its_documents() -> None:
    assert collate(documents()) == {"documents": documents()}


# ---------------------------------------------------------------------------------------------------- not a number


def test_loss_that_is_not_a_number_stops_before_the_weights_change(tmp_path: Path) -> None:
    model = tiny()
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    good, bad = document(2, 1), document(2, 2)
    forward = AwesomeBart.forward

    def poisoned(*args: Any, **kwargs: Any) -> Any:
        output = forward(model, *args, **kwargs)
        if kwargs["labels"][0].tolist() == list(bad.targets[1]):
            output.logits = output.logits * torch.nan
        return output

    model.forward = poisoned  # type: ignore[method-assign]
    trainer = make(tmp_path, model, [good, bad], gradient_accumulation_steps=2, logging_nan_inf_filter=False)
    with pytest.raises(AwesumError, match="not a number at document document 2, step 1: there is no") as output:
        trainer.train()
    assert "\n" not in str(output.value)
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight, before[name], rtol=0, atol=0)


# ------------------------------------------------------------------------------------------------------- checkpoints


def checkpoint(folder: Path, step: int | str, state: str | None = "{}") -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir()
    if state is not None:
        (path / "trainer_state.json").write_text(state)
    return path


def test_newest_checkpoint_is_that_of_the_last_step(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path) is None
    assert last_checkpoint(tmp_path / "no") is None
    for step in (9, 100, 20):
        checkpoint(tmp_path, step)
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-100"


@pytest.mark.parametrize("state", [None, "", '{"global_step": 30, "log_hist', "[]"])
def test_checkpoint_that_was_not_finished_is_passed_over(tmp_path: Path, state: str | None) -> None:
    checkpoint(tmp_path, 20)
    checkpoint(tmp_path, 30, state)
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-20"


def test_folder_of_somebody_else_is_no_checkpoint(tmp_path: Path) -> None:
    checkpoint(tmp_path, "best")
    checkpoint(tmp_path, "best-")
    assert last_checkpoint(tmp_path) is None


# --------------------------------------------------------------------------------------------------- several processes

BUCKET = 3000
"""Numbers of the gradient at a time, so that the tiny model has several buckets."""


def process(output: str) -> None:
    """One of two processes, or the only one: four documents, one step; what it was given and what it sent is noted."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    torch.set_num_threads(1)
    trainer_module.BUCKET = BUCKET
    noted = Gradients()
    trainer = make(
        Path(output) / "run", tiny(), documents(), noted, max_steps=1, gradient_accumulation_steps=4 // world
    )
    sent: list[int] = []  # by us, and by the wrapper, which is to send nothing
    wrapped: list[int] = []
    segments: list[int] = []
    step = trainer.training_step

    def counted(model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> torch.Tensor:
        if world > 1 and not segments:
            send = torch.distributed.all_reduce
            torch.distributed.all_reduce = lambda tensor, *how: (sent.append(tensor.numel()), send(tensor, *how))[1]
            model.register_comm_hook(None, lambda _, bucket: wrapped.append(1))
        segments.extend(len(text.segments) for text in inputs["documents"])
        return step(model, inputs, *args, **kwargs)

    trainer.training_step = counted  # type: ignore[method-assign]
    trainer.train()
    rank = int(os.environ.get("RANK", "0"))
    save_file(noted.steps[0], Path(output) / f"{rank}.gradients")
    model = trainer.accelerator.unwrap_model(trainer.model_wrapped)
    save_file({name: weight.detach() for name, weight in model.named_parameters()}, Path(output) / f"{rank}.weights")
    counts = {"sent": sent, "wrapped": len(wrapped), "segments": segments}
    (Path(output) / f"{rank}.json").write_text(json.dumps(counts | {"processes": trainer.accelerator.num_processes}))
    trainer.leave()


@pytest.mark.slow
def test_two_processes_give_the_gradients_of_one(tmp_path: Path) -> None:
    in_two_processes("-c", f"from tests.training.test_trainer import process; process({str(tmp_path)!r})")
    one = expected(tiny(), documents())
    both = [
        json.loads((tmp_path / f"{rank}.json").read_text())
        | {kind: load_file(tmp_path / f"{rank}.{kind}") for kind in ("gradients", "weights")}
        for rank in range(2)
    ]
    assert [found["processes"] for found in both] == [2, 2]
    assert sorted(both[0]["segments"] + both[1]["segments"]) == [1, 1, 1, 3]
    assert [1, 1] in [found["segments"] for found in both]  # one of them had nothing to update
    for found in both:
        same(found["gradients"], one)
        for name, weight in tiny().named_parameters():
            torch.testing.assert_close(found["weights"][name], weight - 0.1 * one[name], rtol=0, atol=1e-6)
        # Once a step: as many times as there are buckets, and all numbers once. Neither for each segment nor document.
        total = sum(weight.numel() for weight in tiny().parameters())
        assert sum(found["sent"]) == total
        assert 1 < len(found["sent"]) <= total / BUCKET + 1
        assert found["wrapped"] == 0


def test_one_process_sends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AwesomeTrainer, "_exchange_gradients", lambda *args: pytest.fail("nobody is there"))
    make(tmp_path, tiny(), documents()).train()


def test_unused_weights_take_part_with_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process sends the same numbers in the same order, whichever weights its documents have used."""
    model = tiny()
    trainer = make(tmp_path, model, documents())
    pass_over(model, [document(1, 2)], lambda loss: loss.backward())
    unused = {name for name, weight in model.named_parameters() if weight.grad is None}
    assert any("writing" in name for name in unused)
    before = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    before = {name: gradient.clone() for name, gradient in before.items()}
    monkeypatch.setattr(trainer_module, "BUCKET", 1000)
    monkeypatch.setattr(trainer.accelerator, "reduce", lambda flat, reduction: flat / 2)
    trainer._exchange_gradients(model)
    for name, weight in model.named_parameters():
        assert weight.grad is not None
        torch.testing.assert_close(weight.grad, torch.zeros_like(weight) if name in unused else before[name] / 2)


def test_state_of_a_run_is_json(tmp_path: Path) -> None:
    trainer = make(tmp_path, tiny(), documents(), save_strategy="steps", save_steps=2)
    trainer.train()
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-4"
    history = json.loads((tmp_path / "checkpoint-4" / "trainer_state.json").read_text())["log_history"]
    assert len([line for line in history if "loss" in line]) == 4
