"""Sharded training (FSDP2): two processes with shards = two with whole weights = one process.

Accelerate ignores FSDP on a CPU and runs DDP, so the sharding itself is tested here, on two gloo processes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from awesum.models.bart import AwesomeBart
from awesum.training.sharding import copy_weights, gathered, is_sharded, release, whole
from tests.training.runs import in_two_processes
from tests.training.test_trainer import tiny
from tests.training.two_processes import KINDS, SAVED, STEPS, batches, model_of, take_step


def alone(kind: str) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The same steps in one process: losses, and the gradients of the first."""
    model = model_of(kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses, gradients = [], {}
    for step, documents in enumerate(batches(kind)):
        losses.append(take_step(model, documents, optimizer))
        if step == 0:
            gradients = {
                name: torch.zeros_like(weight) if weight.grad is None else weight.grad.clone()
                for name, weight in model.named_parameters()
            }
        optimizer.step()
        optimizer.zero_grad()
    return losses, gradients


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("two-processes")
    in_two_processes("-m", "tests.training.two_processes", str(made))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_shards_and_whole_weights_and_one_process_agree(kind: str, folder: Path) -> None:
    losses, gradients = alone(kind)
    found = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]
    for way in ("fsdp", "ddp"):
        for rank in range(2):
            run: dict[str, Any] = found[rank][f"{kind} {way}"]
            torch.testing.assert_close(run["losses"], losses, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(run["resumed"], losses[SAVED:], rtol=1e-5, atol=1e-5)
            theirs = load_file(folder / f"{kind}.{way}.{rank}.gradients")
            assert theirs.keys() == gradients.keys()
            for name, gradient in gradients.items():
                torch.testing.assert_close(theirs[name], gradient, rtol=1e-5, atol=1e-5, msg=f"{way} {name}")
            assert run["all_sharded"] is (way == "fsdp")
            for share in run["shares"]:  # of the weights and of the optimizer's states, after each step
                assert share == pytest.approx(0.5 if way == "fsdp" else 1.0, abs=0.01)
            # Once per step and group of weights (four layers, and the rest), however many segments there were.
            times = 5 if way == "fsdp" else 0
            assert run["gathered"] == [times] * STEPS
            assert run["exchanged"] == [times] * STEPS
    if kind == "attentive":
        assert sum("memory" in name and bool(gradient.any()) for name, gradient in gradients.items()) > 10


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fsdp", "ddp"])
def test_one_process_loads_what_two_have_saved(way: str, folder: Path) -> None:
    for kind in KINDS:
        model = AwesomeBart.from_pretrained(folder / f"{kind}.{way}")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        expected = model_of(kind)
        same = torch.optim.AdamW(expected.parameters(), lr=1e-2)
        for documents in batches(kind)[:SAVED]:
            take_step(expected, documents, same)
            same.step()
            same.zero_grad()
        (last,) = batches(kind)[SAVED:]
        assert take_step(model, last, optimizer) == pytest.approx(take_step(expected, last, same), rel=1e-5)


def test_models_that_are_not_sharded_stay_as_they_are() -> None:
    model = tiny()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert not is_sharded(model)
    weights = dict(model.named_parameters())
    with gathered(model, exchange=True), whole(model):
        assert all(weight is weights[name] for name, weight in model.named_parameters())
    release(model)
    other = tiny()
    with torch.no_grad():
        for weight in other.parameters():
            weight.zero_()
    copy_weights(model, other.state_dict())
    assert not any(weight.any() for weight in model.parameters())
    copy_weights(model, before)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
