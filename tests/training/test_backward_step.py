"""The optimizer's step inside the backward pass changes no weight, and keeps no gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration, TrainingArguments

from awesum.errors import AwesumError
from awesum.recurrence import DocumentInputs
from awesum.training.backward_step import check_step_in_backward, step_in_backward
from awesum.training.settings import read_settings
from awesum.training.trainable import make
from awesum.training.trainer import AwesomeTrainer

TINY = dict.fromkeys(("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"), 2)


def tiny() -> BartForConditionalGeneration:
    torch.manual_seed(0)
    config = BartConfig(
        **TINY,
        vocab_size=40,
        d_model=16,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        dropout=0.0,
        max_position_embeddings=16,
    )
    return BartForConditionalGeneration(config)


def pass_over(model: Any, documents: list[DocumentInputs], backward: Any, **options: Any) -> torch.Tensor:
    """One backward pass over a batch; the embeddings are tied, so that their gradient comes in three parts."""
    ids = torch.tensor([document.segments[0] for document in documents])
    labels = torch.tensor([document.targets[0] for document in documents])
    loss: torch.Tensor = model(input_ids=ids, labels=labels).loss
    backward(loss)
    return loss.detach()


def trained(folder: Path, optim: str, *, inside: bool) -> AwesomeTrainer:
    data = [DocumentInputs(str(n), [[0, 4 + n, 9, 12, 2]], [[0, 7 + n, 5, 2]]) for n in range(6)]
    arguments = TrainingArguments(
        output_dir=str(folder), optim=optim, num_train_epochs=1, warmup_steps=2, learning_rate=1e-2, weight_decay=0.1,
        per_device_train_batch_size=1, max_grad_norm=0, use_cpu=True, report_to="none", disable_tqdm=True,
        remove_unused_columns=False, save_strategy="no", label_names=["documents"],
    )  # fmt: skip
    trainer = AwesomeTrainer(
        model=tiny(), args=arguments, train_dataset=data, pass_over=pass_over, step_in_backward=inside
    )
    trainer.train()
    return trainer


@pytest.mark.parametrize("optim", ["adamw_torch_fused", "adafactor"])
def test_weights_and_states_are_those_of_an_ordinary_run(tmp_path: Path, optim: str) -> None:
    ours, theirs = (trained(tmp_path, optim, inside=inside) for inside in (True, False))
    begun = dict(tiny().named_parameters())
    for (name, weight), other in zip(ours.model.named_parameters(), theirs.model.parameters(), strict=True):
        torch.testing.assert_close(weight, other, rtol=1e-5, atol=1e-7)
        assert "k_proj.bias" in name or not torch.equal(weight, begun[name])
    assert ours.optimizer is not None
    assert theirs.optimizer is not None
    ours_saved, theirs_saved = ours.optimizer.state_dict(), theirs.optimizer.state_dict()
    assert ours_saved["param_groups"] == theirs_saved["param_groups"]
    assert ours_saved["state"].keys() == theirs_saved["state"].keys()


def test_no_two_gradients_are_there_at_once() -> None:
    model = tiny()
    step_in_backward(torch.optim.SGD(model.parameters(), lr=0.1))
    most = 0

    def count(weight: torch.Tensor) -> None:
        nonlocal most
        most = max(most, sum(each.grad is not None for each in model.parameters()))

    for weight in model.parameters():
        weight.register_post_accumulate_grad_hook(count)  # after the one that takes the step
    model(input_ids=torch.tensor([[0, 4, 2]]), labels=torch.tensor([[0, 5, 2]])).loss.backward()
    assert most == 0
    assert all(weight.grad is None for weight in model.parameters())


@pytest.mark.parametrize("wrong", [{"accumulation": 8}, {"clipping": 1.0}, {"precision": "float16"}])
def test_contradictions_are_refused_in_one_line(wrong: dict[str, Any]) -> None:
    right = {"system": "truncated", "data": "x", "output": "y", "step_in_backward": True, "accumulation": 1}
    with pytest.raises(AwesumError, match="--accumulation 1 --clipping 0") as error:
        read_settings(None, {**right, "clipping": 0.0, **wrong})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("system", "is_fine"), [("truncated", True), ("awesome", False), ("cached", False)])
def test_systems_that_go_back_several_times_are_refused(system: str, is_fine: bool) -> None:
    given = {"system": system, "data": "x", "output": "y", "step_in_backward": True, "accumulation": 1, "clipping": 0.0}
    settings, own = read_settings(None, given)
    trainable = make(system, "tiny", own)
    if is_fine:
        check_step_in_backward(trainable, settings)
        return
    with pytest.raises(AwesumError, match=f"and {system} has several: leave it out"):
        check_step_in_backward(trainable, settings)
