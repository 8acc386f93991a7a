"""The loop from segment to segment with a causal model teaches what the slow one teaches, and holds no more for many
segments than for few."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from awesum.models.adapter import AwesomeCausal, States
from awesum.recurrence import DocumentInputs, causal
from awesum.recurrence.causal import Reading, Step, answer, train
from awesum.training.trunk import read_now
from tests.graphs import counting
from tests.models.adapters import END, adapted, document, plain_losses, pretrained, step_of
from tests.recurrence import models
from tests.reference.adapter import Document

MEMORIES = ["none", "attentive", "attentive-literal", "compressive"]


def documents(empty: tuple[int, ...] = ()) -> list[DocumentInputs]:
    """The longest is not the first, and one has a single segment."""
    return [document(2, 1), document(4, 2, empty), document(1, 3), document(3, 4)]


def learn(
    model: AwesomeCausal, batch: list[DocumentInputs], **options: Any
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model.zero_grad()
    loss = train(model, batch, lambda loss: loss.backward(), read=partial(read_now, model), **options)
    return loss, gradients(model)


def gradients(model: AwesomeCausal) -> dict[str, torch.Tensor]:
    """Of every new weight; one that was not used has none, which is zero."""
    return {
        name: torch.zeros_like(weight) if weight.grad is None else weight.grad.clone()
        for name, weight in model.new_weights().items()
        if weight.requires_grad
    }


def slow_loss(
    model: AwesomeCausal,
    each: DocumentInputs,
    empty_targets: bool = True,
    label_smoothing: float = 0.0,
    depth: int | None = 1,
) -> torch.Tensor:
    """One document, and one loss over all of its segments: every graph is kept."""
    states: States = model.start(1, depth)
    found = []
    for number in range(len(each.segments)):
        losses, states = answer(model, states, step_of(model, [each], number), label_smoothing)
        if empty_targets or len(each.targets[number]) > 1:
            found.append(losses.flatten())
    return torch.cat(found).mean() if found else torch.zeros(())


def slow(model: AwesomeCausal, batch: list[DocumentInputs], **options: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    model.zero_grad()
    loss = torch.stack([slow_loss(model, each, **options) for each in batch]).mean()
    loss.backward()
    return loss.detach(), gradients(model)


def same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor], tolerance: float = 1e-4) -> None:
    assert ours.keys() == theirs.keys()
    models.same(ours, theirs, tolerance)


@pytest.mark.parametrize("tokens", ["answer", "all"])
@pytest.mark.parametrize("update", ["low-rank", "full"])
@pytest.mark.parametrize("memory", MEMORIES)
def test_batched_documents_are_the_mean_of_each_alone(memory: str, update: str, tokens: str) -> None:
    model = adapted(pretrained(), trained=True, memory=memory, update=update, adapted_tokens=tokens)
    loss, ours = learn(model, documents())
    expected, theirs = slow(model, documents())
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=0)
    same(ours, theirs)
    for name, gradient in ours.items():  # nothing is compared that is zero on both sides
        assert gradient.abs().max() > 1e-7, name
    alone = [learn(model, [each])[0] for each in documents()]
    torch.testing.assert_close(loss, torch.stack(alone).mean(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("tokens", ["answer", "all"])
@pytest.mark.parametrize("depth", [1, 2, 4, None])
@pytest.mark.parametrize("memory", ["attentive", "compressive", "salient"])
def test_gradients_of_each_depth_are_those_of_one_loss(memory: str, depth: int | None, tokens: str) -> None:
    model = adapted(pretrained(), trained=True, memory=memory, update="low-rank", adapted_tokens=tokens)
    batch = documents()
    if memory == "salient":
        batch = [replace(each, salience=[[0.5] * len(tokens) for tokens in each.segments]) for each in batch]
    loss, ours = learn(model, batch, depth=depth)
    expected, theirs = slow(model, batch, depth=depth)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=0)
    same(ours, theirs, 1e-3)
    for name, gradient in ours.items():
        assert gradient.abs().max() > 1e-7, name


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma3"])
def test_without_memory_the_loss_is_that_of_the_library_s_model(family: str) -> None:
    base = pretrained(family)
    plain = deepcopy(base)
    loss, _ = learn(adapted(base, memory="none"), documents())
    each = [
        torch.cat([plain_losses(plain, text, number) for number in range(len(text.segments))]).mean()
        for text in documents()
    ]
    torch.testing.assert_close(loss, torch.stack(each).mean(), rtol=1e-4, atol=0)


@pytest.mark.parametrize("memory", MEMORIES)
def test_loss_is_that_of_the_equations(memory: str) -> None:
    model = adapted(pretrained(), trained=True, memory=memory)
    loss, _ = learn(model, documents())
    means = []
    for each in documents():
        alone = Document(model)
        losses = [loss for number in range(len(each.segments)) for loss in alone.losses(each, number)]
        means.append(sum(losses) / len(losses))
    assert float(loss) == pytest.approx(sum(means) / len(means), rel=1e-4)


@pytest.mark.parametrize(("memory", "tokens"), [("none", "answer"), ("none", "all"), ("compressive", "all")])
def test_gradient_is_the_slope_of_the_equations_loss(memory: str, tokens: str) -> None:
    """Where nothing is cut off, a small step along the gradient changes the loss as it says."""
    model = adapted(pretrained(), trained=True, memory=memory, adapted_tokens=tokens)
    each = document(2, 5)
    _, slopes = learn(model, [each], depth=None)
    size = sum(float(slope.square().sum()) for slope in slopes.values()) ** 0.5

    def loss_at(step: float) -> float:
        with torch.no_grad():
            for name, weight in model.new_weights().items():
                weight += step / size * slopes[name]
            alone = Document(model)
            losses = [loss for number in range(2) for loss in alone.losses(each, number)]
            for name, weight in model.new_weights().items():
                weight -= step / size * slopes[name]
        return sum(losses) / len(losses)

    assert (loss_at(0.01) - loss_at(-0.01)) / 0.02 == pytest.approx(size, rel=1e-2)


@pytest.mark.parametrize("memory", MEMORIES)
def test_empty_targets_carry_no_loss_but_pass_through_memory(memory: str) -> None:
    model = adapted(pretrained(), trained=True, memory=memory)
    batch = documents(empty=(0, 2))
    loss, ours = learn(model, batch, empty_targets=False)
    expected, theirs = slow(model, batch, empty_targets=False)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=0)
    same(ours, theirs)
    with_them, _ = learn(model, batch)
    assert abs(float(with_them - loss)) > 1e-3


def test_document_of_empty_targets_only_teaches_nothing() -> None:
    model = adapted(pretrained(), trained=True)
    silent = document(3, 5, empty=(0, 1, 2))
    called: list[torch.Tensor] = []
    read = partial(read_now, model)
    assert train(model, [silent], called.append, read=read, empty_targets=False) == 0
    assert not called
    # Beside another it counts as a document: the mean is over both.
    alone, _ = learn(model, [document(3, 6)], empty_targets=False)
    both, _ = learn(model, [silent, document(3, 6)], empty_targets=False)
    torch.testing.assert_close(both, alone / 2, rtol=1e-5, atol=0)


@pytest.mark.parametrize("smoothing", [0.1, 0.4])
def test_label_smoothing_is_torch_s(smoothing: float) -> None:
    base = pretrained()
    plain = deepcopy(base)
    model = adapted(base, memory="none")
    batch = [document(1, 3)]
    loss, ours = learn(model, batch, label_smoothing=smoothing)
    expected, theirs = slow(model, batch, label_smoothing=smoothing)
    same(ours, theirs)
    target = torch.tensor(batch[0].targets[0])
    ids = torch.tensor([[*batch[0].segments[0], *batch[0].requests[0], *batch[0].targets[0]]])
    with torch.no_grad():
        logits = plain(ids).logits[0, -len(target) - 1 : -1]
    by_torch = torch.nn.functional.cross_entropy(logits, target, label_smoothing=smoothing)
    torch.testing.assert_close(loss, by_torch, rtol=1e-4, atol=0)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=0)
    assert abs(float(loss - learn(model, batch)[0])) > 1e-3


def test_losses_are_reported_segment_by_segment() -> None:
    model = adapted(pretrained(), trained=True)
    batch = documents(empty=(0,))
    reported: dict[tuple[str, int], tuple[float, int]] = {}

    def note(each: DocumentInputs, number: int, loss: float, tokens: int) -> None:
        assert (each.name, number) not in reported
        reported[each.name, number] = (loss, tokens)

    loss, _ = learn(model, batch, on_segment=note)
    assert reported.keys() == {(each.name, number) for each in batch for number in range(len(each.segments))}
    means = []
    for each in batch:
        of = [reported[each.name, number] for number in range(len(each.segments))]
        assert [tokens for _, tokens in of] == [len(target) for target in each.targets]
        means.append(sum(loss for loss, _ in of) / sum(tokens for _, tokens in of))
    assert float(loss) == pytest.approx(sum(means) / 4, rel=1e-5)
    # Those that carry no loss are reported as well.
    again = dict(reported)
    reported.clear()
    learn(model, batch, on_segment=note, empty_targets=False)
    assert reported.keys() == again.keys()
    for place, (loss, tokens) in again.items():
        assert reported[place] == (pytest.approx(loss, rel=1e-4), tokens)


def test_measuring_learns_nothing_and_gives_the_same_loss() -> None:
    model = adapted(pretrained(), trained=True)
    loss, _ = learn(model, documents())
    model.zero_grad()
    with torch.no_grad():
        measured = train(model, documents(), lambda loss: None, read=partial(read_now, model))
    torch.testing.assert_close(measured, loss, rtol=1e-6, atol=0)
    assert all(weight.grad is None for weight in model.parameters())


def test_memory_that_is_still_empty_is_nothing_to_learn_from() -> None:
    """Compressive, without an update: in the first segment no weight of the adapter takes part."""
    model = adapted(pretrained(), memory="compressive", update="none", memory_size=4)
    loss, found = learn(model, documents())
    assert loss > 0
    assert all(gradient.abs().max() > 0 for gradient in found.values())
    loss, found = learn(model, [document(1, 3)])
    assert loss > 0
    assert all(gradient.abs().max() == 0 for gradient in found.values())


def test_document_twice_in_a_batch_counts_twice() -> None:
    model = adapted(pretrained(), trained=True)
    one, other = document(2, 1), document(3, 2)
    losses = [learn(model, [each])[0] for each in (one, one, other)]
    torch.testing.assert_close(learn(model, [one, one, other])[0], torch.stack(losses).mean(), rtol=1e-5, atol=0)


def test_each_pass_is_read_once() -> None:
    model = adapted(pretrained(), trained=True)
    asked: list[tuple[Any, ...]] = []

    def read(*part: Any) -> Reading:
        asked.append(part)
        return read_now(model, *part)

    each = document(3, 2)
    train(model, [each], lambda loss: loss.backward(), read=read)
    assert asked == list(zip(each.segments, each.requests, each.targets, strict=True))


def test_request_of_one_token_and_a_segment_without_a_frame() -> None:
    """The prompt's last token is all that the request is."""
    model = adapted(pretrained(), trained=True)
    bare = DocumentInputs("bare", [[5], [6, 7]], [[END], [8, END]], requests=[[9], [9]], special=1)
    step = Step.of([bare], 0, partial(read_now, model), model.device)
    assert step.keys.shape[:2] == (2, 1)
    assert step.keys.shape[3] == 1
    loss, _ = learn(model, [bare])
    alone = Document(model)
    losses = [*alone.losses(bare, 0), *alone.losses(bare, 1)]
    assert float(loss) == pytest.approx(sum(losses) / 3, rel=1e-4)


@pytest.mark.parametrize("tokens", ["answer", "all"])
@pytest.mark.parametrize("memory", MEMORIES)
def test_mixed_precision_teaches_every_weight(memory: str, tokens: str) -> None:
    """Autocast keeps the weights that it has rounded: those of a pass without gradient must not be used to learn."""
    model = adapted(pretrained(), trained=True, memory=memory, update="full", adapted_tokens=tokens)
    batch = documents(empty=(0,))  # and a segment without loss before those with one
    _, expected = learn(model, batch, empty_targets=False)
    with torch.autocast("cpu", torch.bfloat16):
        _, ours = learn(model, batch, empty_targets=False)
    models.same_direction(ours, expected, 0.7)


# ----------------------------------------------------------------------------------------------------------- memory


@pytest.mark.usefixtures("nothing_older")
@pytest.mark.parametrize("tokens", ["answer", "all"])
@pytest.mark.parametrize("memory", MEMORIES)
def test_memory_does_not_grow_with_the_document(memory: str, tokens: str) -> None:
    model = adapted(pretrained(), trained=True, memory=memory, adapted_tokens=tokens)
    one = document(1, 5)
    alike = DocumentInputs("alike", one.segments * 7, one.targets * 7, requests=one.requests * 7, frame=2, special=1)
    held: list[int] = []

    def backward(loss: torch.Tensor) -> None:
        held.append(len(kept))
        loss.backward()

    with counting() as kept:
        train(model, [alike], backward, read=partial(read_now, model))
        assert len(kept) == 0  # nothing is left
        assert len(set(held[2:])) == 1
        losses: list[torch.Tensor] = []
        counts: list[int] = []

        def hold(loss: torch.Tensor) -> None:
            losses.append(loss)
            counts.append(len(kept))

        train(model, [alike], hold, read=partial(read_now, model))
    assert counts == sorted(set(counts)), "a consumer that keeps its losses would be seen"


# ------------------------------------------------------------------------------------------------- what memory is for

KEYS = list(range(10, 18))


def riddles() -> list[DocumentInputs]:
    """The answer of segment 2 stands in segment 1, and nowhere else: all segments 2 are equal. The first target is
    empty, so that no loss but that of segment 2 asks for the key."""
    return [
        DocumentInputs(
            f"key {key}", [[1, 5, key, 6], [1, 7, 8]], [[END], [key, END]], requests=[[4], [4]], frame=1, special=1
        )
        for key in KEYS
    ]


def solved(memory: str, steps: int) -> int:
    """Riddles whose answer is more likely than all else together, after some steps of training on all of them."""
    model = adapted(pretrained(), memory=memory, update="full", memory_size=8)
    known: dict[tuple[int, ...], Reading] = {}

    def read(*part: Any) -> Reading:
        place = tuple(token for tokens in part for token in tokens)
        if place not in known:
            known[place] = read_now(model, *part)
        return known[place]

    optimizer = torch.optim.Adam([weight for weight in model.parameters() if weight.requires_grad], lr=3e-3)
    best = 0
    for _ in range(steps):
        optimizer.zero_grad()
        right: list[bool] = []

        def note(each: DocumentInputs, number: int, loss: float, _: int, right: list[bool] = right) -> None:
            right += [loss < 0.69] if number else []

        train(model, riddles(), lambda loss: loss.backward(), read=read, on_segment=note)
        optimizer.step()
        best = max(best, sum(right))
        if best == len(KEYS):
            break
    return best


@pytest.mark.parametrize("memory", ["attentive", "compressive"])
def test_answer_that_stands_only_in_segment_1_is_learned(memory: str) -> None:
    assert solved(memory, 150) == len(KEYS)


def test_without_memory_the_answer_cannot_be_known() -> None:
    assert solved("none", 60) <= 1  # all documents look the same where it matters: one guess fits one of them


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("count", [1, 128, 150])
def test_cross_entropy_and_its_gradient_are_torch_s(count: int, smoothing: float) -> None:
    torch.manual_seed(count)
    head, targets, weights = torch.randn(300, 16), torch.randint(0, 300, (count,)), torch.rand(count)
    ours = torch.randn(count, 16, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()
    found = causal._CrossEntropy.apply(ours, head, targets, smoothing)
    expected = torch.nn.functional.cross_entropy(theirs @ head.T, targets, reduction="none", label_smoothing=smoothing)
    torch.testing.assert_close(found, expected)
    (found * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
