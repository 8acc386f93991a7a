"""The loop from segment to segment teaches what the slow one teaches."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from awesum.models.bart import AwesomeBart
from awesum.models.bart_config import AwesomeConfig
from awesum.recurrence import train
from tests.recurrence.models import (
    EVERYTHING,
    KINDS,
    TINY,
    VARIANTS,
    document,
    documents,
    gradients,
    learn,
    named,
    same,
    same_direction,
    tiny,
)
from tests.reference import recurrence as reference


@pytest.mark.parametrize("variant", VARIANTS, ids=named)
def test_gradients_of_segment_after_segment_are_those_of_one_loss(variant: dict[str, Any]) -> None:
    model = tiny(**variant)
    text = document(4, 2)
    loss, ours = learn(model, [text])
    model.zero_grad()
    expected = reference.losses(model, text)
    expected.backward()
    torch.testing.assert_close(loss.double(), expected.detach(), rtol=1e-5, atol=0)
    same(ours, gradients(model))
    for name, gradient in ours.items():  # nothing is compared that is zero on both sides
        assert gradient.abs().max() > 1e-7 or "k_proj.bias" in name, name


@pytest.mark.parametrize("variant", [*KINDS, VARIANTS[1], *EVERYTHING], ids=named)
def test_batched_documents_are_the_mean_of_each_alone(variant: dict[str, Any]) -> None:
    model = tiny(**variant)
    loss, ours = learn(model, documents())
    model.zero_grad()
    expected = reference.mean_loss(model, documents())
    expected.backward()
    torch.testing.assert_close(loss.double(), expected.detach(), rtol=1e-5, atol=0)
    same(ours, gradients(model))


@pytest.mark.parametrize("together", [1, 2])
@pytest.mark.parametrize("depth", [1, 2, 4, None])
@pytest.mark.parametrize("variant", [*KINDS[1:], *EVERYTHING], ids=named)
def test_gradients_of_each_depth_are_those_of_one_loss(
    variant: dict[str, Any], depth: int | None, together: int
) -> None:
    """Several documents of other lengths, with every graph kept, and every weight of the memory reached."""
    model = tiny(**variant, memory_layers=2)
    loss, ours = learn(model, documents(), depth=depth, trunk_batch=together)
    model.zero_grad()
    expected = reference.mean_loss(model, documents(), depth=depth)
    expected.backward()
    torch.testing.assert_close(loss.double(), expected.detach(), rtol=1e-5, atol=0)
    same(ours, gradients(model))
    for name, gradient in ours.items():
        assert gradient.abs().max() > 1e-7 or "k_proj.bias" in name, name
    if depth != 1 and variant["memory"] != "salient":
        _, shallow = learn(model, documents(), depth=1)
        assert any(not torch.allclose(ours[name], shallow[name]) for name in ours if ".memory." in name)


@pytest.mark.parametrize("variant", [*KINDS, *EVERYTHING], ids=named)
@pytest.mark.parametrize(("layers", "numbers"), [([-1], (2, 3, 10)), ("all", (2,))], ids=["last", "all"])
def test_batched_trunk_learns_what_the_plain_loop_learns(
    variant: dict[str, Any], layers: Any, numbers: tuple[int, ...]
) -> None:
    model = tiny(**variant, memory_layers=layers)
    loss, expected = learn(model, documents())
    for together in numbers:
        batched, ours = learn(model, documents(), trunk_batch=together)
        torch.testing.assert_close(batched, loss, rtol=1e-6, atol=0)
        same(ours, expected)


@pytest.mark.parametrize("variant", [*KINDS, *EVERYTHING], ids=named)
def test_empty_targets_carry_no_loss_but_pass_through_memory(variant: dict[str, Any]) -> None:
    model = tiny(**variant)
    batch = documents(empty=(0, 2))
    runs = [learn(model, batch, empty_targets=False, trunk_batch=together) for together in (1, 2)]
    model.zero_grad()
    expected = reference.mean_loss(model, batch, empty_targets=False)
    expected.backward()
    for loss, ours in runs:
        torch.testing.assert_close(loss.double(), expected.detach(), rtol=1e-5, atol=0)
        same(ours, gradients(model))
    with_them, _ = learn(model, batch)
    assert abs(float(with_them - loss)) > 1e-3


@pytest.mark.parametrize("variant", [KINDS[1], *EVERYTHING], ids=named)
def test_document_of_empty_targets_only_teaches_nothing(variant: dict[str, Any]) -> None:
    model = tiny(**variant).train()
    silent = document(3, 5, empty=(0, 1, 2))
    called: list[torch.Tensor] = []
    assert train(model, [silent], called.append, empty_targets=False) == 0
    assert not called
    assert all(weight.grad is None for weight in model.parameters())
    # Beside another it counts as a document: the mean is over both.
    alone, _ = learn(model, [document(3, 6)], empty_targets=False)
    both, _ = learn(model, [silent, document(3, 6)], empty_targets=False)
    torch.testing.assert_close(both, alone / 2, rtol=1e-6, atol=0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_label_smoothing_is_torch_s(smoothing: float) -> None:
    model = tiny(memory="attentive")
    loss, ours = learn(model, documents(), label_smoothing=smoothing)
    model.zero_grad()
    expected = reference.mean_loss(model, documents(), label_smoothing=smoothing)
    expected.backward()
    torch.testing.assert_close(loss.double(), expected.detach(), rtol=1e-5, atol=0)
    same(ours, gradients(model))
    logits = torch.randn(7, dtype=torch.float64)
    torch.testing.assert_close(
        reference.smoothed(logits.log_softmax(0), 3, smoothing),
        torch.nn.functional.cross_entropy(logits, torch.tensor(3), label_smoothing=smoothing),
    )


def test_measuring_learns_nothing_and_gives_the_same_loss() -> None:
    model = tiny(memory="attentive", salient="key-value", memory_direction="both")
    loss, _ = learn(model, documents())
    model.zero_grad()
    with torch.no_grad():
        measured = train(model, documents(), lambda loss: None)
    torch.testing.assert_close(measured, loss, rtol=1e-6, atol=0)
    assert all(weight.grad is None for weight in model.parameters())


def test_first_passes_are_without_dropout_and_leave_the_model_training() -> None:
    """The salient vectors and the memory from the end are the same each time, however the model is trained."""
    model = tiny(memory="attentive", salient="key-value", memory_direction="both", dropout=0.5).train()
    seen: list[bool] = []
    handle = model.model.encoder.layers[0].register_forward_pre_hook(lambda layer, _: seen.append(layer.training))
    learn(model, [document(2, 1)])
    handle.remove()
    assert seen == [False] * 4 + [True] * 2  # salient vectors, then from the end, then learning
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize("variant", [*KINDS, *EVERYTHING], ids=named)
def test_mixed_precision_teaches_every_weight(variant: dict[str, Any]) -> None:
    """Autocast keeps the weights that it has rounded: those of a pass without gradient must not be used to learn."""
    model = AwesomeBart(AwesomeConfig(**TINY | variant))
    model.load_state_dict(tiny(**variant).float().state_dict())
    batch = documents(empty=(0,))  # and a segment without loss before those with one
    _, expected = learn(model, batch, empty_targets=False)
    with torch.autocast("cpu", torch.bfloat16):
        _, ours = learn(model, batch, empty_targets=False)
    same_direction(ours, expected, 0.9)


@pytest.mark.parametrize("variant", [*KINDS, *EVERYTHING], ids=named)
def test_layers_computed_twice_teach_the_same(variant: dict[str, Any]) -> None:
    model = tiny(**variant).train()
    _, expected = learn(model, documents(), trunk_batch=2)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    calls: list[int] = []
    handle = model.model.encoder.layers[-1].self_attn.register_forward_hook(lambda *_: calls.append(1))
    _, ours = learn(model, documents(), trunk_batch=2)
    handle.remove()
    same(ours, expected)
    steps = 2 if variant["memory"] == "none" else 4  # where it is part of the trunk, it takes two at a time
    looks = (variant["salient"] != "none") * 2 + (variant["memory_direction"] == "both") * 4
    assert len(calls) == looks + 2 * steps
