"""A teacher is the pretrained model with the earlier segments before each one; the loss and its gradient say so."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from awesum.recurrence import DocumentInputs, causal
from awesum.recurrence.causal import train
from awesum.recurrence.teacher import Taught, in_view, teach
from awesum.training.trunk import CachedTeacher, TrunkCache, read_now
from tests.models.adapters import adapted, document, pretrained
from tests.recurrence.test_causal import documents, learn
from tests.reference.adapter import Document

WINDOW = 120


def never(document: DocumentInputs) -> Any:
    raise AssertionError("the teacher was asked")


@torch.no_grad()
def slow_teach(plain: PreTrainedModel, each: DocumentInputs, before: list[int], number: int) -> torch.Tensor:
    """The scores of a target's tokens with some tokens between the template and the segment, read at once."""
    frame, target = each.frame, each.targets[number]
    ids = [*each.segments[number][:frame], *before, *each.segments[number][frame:], *each.requests[number], *target]
    logits: torch.Tensor = plain(torch.tensor([ids])).logits[0, -len(target) - 1 : -1]
    return logits


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gemma3"])
def test_teacher_is_the_library_s_model_with_all_earlier_segments_before(family: str) -> None:
    base = pretrained(family)
    plain = deepcopy(base)
    model = adapted(base, trained=True)
    each = document(5, 1)
    found = list(teach(model.base, each, 128))
    assert len(found) == 5
    for number, hidden in enumerate(found):
        before = [token for segment in each.segments[:number] for token in segment[each.frame :]]
        with torch.no_grad():
            scores = model.logits(hidden)
        torch.testing.assert_close(scores, slow_teach(plain, each, before, number), rtol=1e-3, atol=1e-3)


def test_teacher_has_the_newest_segments_in_view_that_fit() -> None:
    base = pretrained()
    plain = deepcopy(base)
    model = adapted(base)
    each = document(9, 4)
    window, counts = 40, []
    for number, (before, hidden) in enumerate(zip(in_view(each, window), teach(model.base, each, window), strict=True)):
        frame, *earlier = before
        asked = [*each.segments[number], *each.requests[number], *each.targets[number][:-1]]
        assert frame == each.segments[0][: each.frame]
        assert earlier == [each.segments[at][each.frame :] for at in range(number - len(earlier), number)]
        assert len(asked) + sum(map(len, earlier)) <= window
        if len(earlier) < number:  # one more would not fit
            more = each.segments[number - len(earlier) - 1][each.frame :]
            assert len(asked) + sum(map(len, earlier)) + len(more) > window
        counts.append(number - len(earlier))
        with torch.no_grad():
            scores = model.logits(hidden)
        expected = slow_teach(plain, each, [token for tokens in earlier for token in tokens], number)
        torch.testing.assert_close(scores, expected, rtol=1e-3, atol=1e-3)
    assert counts[1] == 0
    assert counts[-1] > 2, "nothing had to go"


def test_some_tokens_of_earlier_segments_can_be_in_view() -> None:
    base = pretrained()
    plain = deepcopy(base)
    model = adapted(base)
    each = document(4, 2)
    kept = [segment[each.frame :: 2] for segment in each.segments]
    for number, hidden in enumerate(teach(model.base, each, 128, kept.__getitem__)):
        before = [token for tokens in kept[:number] for token in tokens]
        with torch.no_grad():
            scores = model.logits(hidden)
        torch.testing.assert_close(scores, slow_teach(plain, each, before, number), rtol=1e-3, atol=1e-3)


def test_segment_of_a_long_target_is_in_view_once() -> None:
    one = document(3, 1)
    twice = replace(
        one,
        segments=[one.segments[0], one.segments[0], one.segments[1]],
        requests=[one.requests[0], one.requests[0], one.requests[1]],
    )
    assert [len(before) - 1 for before in in_view(twice, 128)] == [0, 0, 1]


def test_each_token_is_read_once() -> None:
    model = adapted(pretrained())
    each = document(6, 3)
    looks: list[int] = []
    model.base.model.embed_tokens.register_forward_pre_hook(lambda _, given: looks.append(given[0].shape[1]))
    list(teach(model.base, each, 128))
    assert sum(looks) == each.tokens - each.frame * 5 - 6  # the template once, and no target's end


# ----------------------------------------------------------------------------------------------------------- the loss


@pytest.mark.parametrize("tokens", ["answer", "all"])
@pytest.mark.parametrize("memory", ["none", "attentive", "compressive", "salient"])
def test_weight_of_zero_is_the_loss_without_a_teacher(memory: str, tokens: str) -> None:
    model = adapted(pretrained(), trained=True, memory=memory, adapted_tokens=tokens)
    loss, ours = learn(model, documents())
    same, theirs = learn(model, documents(), teacher=never, distill=0.0)
    assert torch.equal(loss, same)
    for name, gradient in ours.items():
        assert torch.equal(gradient, theirs[name]), name


def slow_loss(model: Any, plain: PreTrainedModel, each: DocumentInputs, weight: float) -> float:
    """From the equations of the adapter, and a teacher that reads everything anew."""
    student, found = Document(model), []
    for number, target in enumerate(each.targets):
        prompt = [*each.segments[number], *each.requests[number]]
        logits, states = student.logits(prompt, target[:-1])
        own = slice(each.frame, len(each.segments[number]))
        student.remember(states, own, len(prompt), len(target) - 1)
        before = [token for segment in each.segments[:number] for token in segment[each.frame :]]
        wanted = slow_teach(plain, each, before, number).double().log_softmax(1).numpy()
        ours = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        divergence = (np.exp(wanted) * (wanted - ours)).sum(1)
        hit = np.array([row[token] for row, token in zip(ours, target, strict=True)])
        found += [*(weight * divergence - (1 - weight) * hit)]
    return float(np.mean(found))


@pytest.mark.parametrize("weight", [0.3, 1.0])
@pytest.mark.parametrize(("memory", "tokens"), [("none", "answer"), ("attentive", "all"), ("compressive", "answer")])
def test_loss_is_that_of_the_equations(memory: str, tokens: str, weight: float) -> None:
    """Documents of several lengths side by side, with gradients and without."""
    base = pretrained()
    plain = deepcopy(base)
    model = adapted(base, trained=True, memory=memory, adapted_tokens=tokens)
    expected = np.mean([slow_loss(model, plain, each, weight) for each in documents()])
    teacher = CachedTeacher(model, WINDOW)
    loss, _ = learn(model, documents(), teacher=teacher, distill=weight)
    assert float(loss) == pytest.approx(expected, rel=1e-4)
    with torch.no_grad():
        read = partial(read_now, model)
        measured = train(model, documents(), lambda loss: None, read=read, teacher=teacher, distill=weight)
    assert float(measured) == pytest.approx(expected, rel=1e-4)


def test_gradient_is_the_slope_of_the_equations_loss() -> None:
    base = pretrained()
    plain = deepcopy(base)
    model = adapted(base, trained=True, memory="compressive", adapted_tokens="all")
    each = document(3, 5)
    _, slopes = learn(model, [each], depth=None, teacher=CachedTeacher(model, WINDOW), distill=0.6)
    size = sum(float(slope.square().sum()) for slope in slopes.values()) ** 0.5

    def loss_at(step: float) -> float:
        with torch.no_grad():
            for name, weight in model.new_weights().items():
                weight += step / size * slopes[name]
            loss = slow_loss(model, plain, each, 0.6)
            for name, weight in model.new_weights().items():
                weight -= step / size * slopes[name]
        return loss

    assert (loss_at(0.01) - loss_at(-0.01)) / 0.02 == pytest.approx(size, rel=1e-2)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weight", [0.4, 1.0])
@pytest.mark.parametrize("count", [1, 150])
def test_cross_entropy_with_a_teacher_and_its_gradient_are_torch_s(count: int, weight: float, smoothing: float) -> None:
    torch.manual_seed(count)
    head, targets, weights = torch.randn(300, 16), torch.randint(0, 300, (count,)), torch.rand(count)
    taught = Taught(torch.randn(count, 16), weight)
    ours = torch.randn(count, 16, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()
    found = causal._CrossEntropy.apply(ours, head, targets, smoothing, taught)
    logits = theirs @ head.T
    divergence = torch.nn.functional.kl_div(
        logits.log_softmax(1), (taught.hidden @ head.T).log_softmax(1), reduction="none", log_target=True
    ).sum(1)
    hard = torch.nn.functional.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing)
    expected = (1 - weight) * hard + weight * divergence
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    (found * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)


def test_model_that_caps_its_scores_is_taught_as_well() -> None:
    base = pretrained("gemma2")
    plain = deepcopy(base)
    model = adapted(base, trained=True, memory="none", update="low-rank")
    each = document(2, 3)
    loss, found = learn(model, [each], teacher=CachedTeacher(model, WINDOW), distill=1.0)
    assert float(loss) > 0
    assert max(float(gradient.abs().max()) for gradient in found.values()) > 1e-4
    untrained = adapted(plain, memory="none")
    loss, _ = learn(untrained, [document(1, 3)], teacher=CachedTeacher(untrained, WINDOW), distill=1.0)
    assert abs(float(loss)) < 1e-4, "with nothing before the segment, student and teacher are one"


# ---------------------------------------------------------------------------------------------------------- the cache


def test_cached_teacher_computes_once(tmp_path: Path) -> None:
    model = adapted(pretrained(), trained=True)
    each = document(6, 1)
    expected = list(teach(model.base, each, WINDOW))
    looks: list[int] = []
    model.base.model.embed_tokens.register_forward_pre_hook(lambda *args: looks.append(1))
    for attempt in range(2):
        teacher = CachedTeacher(model, WINDOW, TrunkCache(model, tmp_path))
        found = teacher(each)
        assert bool(looks) == (attempt == 0)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=2e-3, atol=2e-3)
        looks.clear()
    sizes = dict(teacher.files(each))
    assert sum(sizes.values()) == sum(np.load(path).nbytes for path in sizes) == 2 * 32 * sum(map(len, each.targets))
    next(iter(sizes)).write_bytes(b"damaged")
    for one, other in zip(teacher(each), found, strict=True):
        assert torch.equal(one, other)
    assert looks
    looks.clear()
    narrow = CachedTeacher(model, 24, teacher.cache)
    narrow(each)
    assert looks, "with less in view, it predicts something else"


def test_learning_from_a_cached_teacher_is_learning_from_it(tmp_path: Path) -> None:
    model = adapted(pretrained(), trained=True, adapted_tokens="all")
    losses, found = [], []
    for cache in (None, TrunkCache(model, tmp_path)):
        loss, gradient = learn(model, documents(), teacher=CachedTeacher(model, WINDOW, cache), distill=0.5)
        losses.append(loss)
        found.append(gradient)
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-3, atol=0)
    for name, gradient in found[0].items():
        scale = float(gradient.abs().max())
        torch.testing.assert_close(found[1][name], gradient, rtol=0, atol=0.02 * scale + 1e-6)
