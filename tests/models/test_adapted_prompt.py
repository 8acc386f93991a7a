"""A prompt that passes through the adapter: its tokens read the memories too, and what they write has read them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from awesum.models.adapter import AwesomeCausal, States, after
from awesum.models.adapter_layers import KINDS
from awesum.recurrence import DocumentInputs
from awesum.recurrence.causal import answer, first_rows, train
from awesum.training.trunk import read_now
from tests.models.adapters import FAMILIES, UPDATES, adapted, document, documents, plain_losses, pretrained, step_of
from tests.models.test_adapter_equations import compared
from tests.reference.adapter import Document

KINDS_OF_MEMORY = ["attentive", "attentive-literal", "compressive", "salient"]


def with_salience(batch: Sequence[DocumentInputs]) -> list[DocumentInputs]:
    chance = random.Random(5)
    return [
        replace(each, salience=[[chance.choice([0, 0.25, 0.5, 1]) for _ in tokens] for tokens in each.segments])
        for each in batch
    ]


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("memory", ["none", *KINDS_OF_MEMORY])
def test_losses_and_memories_are_those_of_the_equations(memory: str, family: str) -> None:
    model = adapted(pretrained(family), trained=True, memory=memory, adapted_tokens="all")
    assert compared(model, with_salience(documents())) == (set() if memory == "none" else {2, 3})


@pytest.mark.parametrize("layers", [(1, 2), (0, 3), "all"], ids=str)
@pytest.mark.parametrize("memory", ["attentive", "compressive", "salient"])
def test_memory_in_any_layers_is_that_of_the_equations(memory: str, layers: Any) -> None:
    """Also where layers above it or between neither remember nor change."""
    options: dict[str, Any] = {"memory_layers": layers, "update_layers": 1, "adapted_tokens": "all"}
    model = adapted(pretrained(), trained=True, memory=memory, **options)
    assert compared(model, with_salience(documents())) == set(range(4) if layers == "all" else layers)


@pytest.mark.parametrize("memory", ["attentive", "compressive", "salient"])
def test_documents_of_many_segments_side_by_side_are_those_of_the_equations(memory: str) -> None:
    """Of 24, 21 and 2 segments; those that have ended drop out."""
    model = adapted(pretrained(), trained=True, memory=memory, adapted_tokens="all")
    batch = with_salience([document(24, 1), document(21, 2, empty=(3, 20)), document(2, 3)])
    found: dict[str, list[float]] = {each.name: [] for each in batch}

    def note(each: DocumentInputs, number: int, loss: float, tokens: int) -> None:
        found[each.name].append(loss)

    with torch.no_grad():
        train(model, batch, lambda loss: None, read=partial(read_now, model), on_segment=note)
    for each in batch:
        alone = Document(model)
        expected = [sum(alone.losses(each, number)) for number in range(len(each.segments))]
        np.testing.assert_allclose(found[each.name], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("memory", ["none", "attentive"])
@pytest.mark.parametrize("family", FAMILIES)
def test_fresh_adapter_is_the_pretrained_model_number_for_number(family: str, memory: str, update: str) -> None:
    """With all that its memories hold of earlier segments in view."""
    base = pretrained(family)
    plain = deepcopy(base)
    plain.set_attn_implementation("awesum_grouped")
    model = adapted(base, memory=memory, update=update, adapted_tokens="all")
    states: States = model.start(1)
    for tokens in ([5, 6, 7, 8, 9, 10, 11], [12, 13, 14, 15], [20, 21, 22, 23, 24, 25]):
        ids = torch.tensor([tokens])
        with torch.no_grad():
            recalled = model.recall(states)
            passage = model.for_prompt(recalled)
            assert torch.equal(model.base(ids, passage=passage).logits, plain(ids).logits)
        states = after(recalled, passage.written, slice(None), {}, 0)
    assert bool(states) == (memory == "attentive")


@pytest.mark.parametrize("memory", ["compressive", "salient"])
@pytest.mark.parametrize("family", FAMILIES)
def test_memory_that_is_empty_changes_nothing(family: str, memory: str) -> None:
    """The first segment is answered as by the pretrained model, and the second is not."""
    base = pretrained(family)
    plain = deepcopy(base)
    model = adapted(base, memory=memory, adapted_tokens="all")
    batch = documents()
    states: States = model.start(3)
    for number in range(2):
        with torch.no_grad():
            losses, states = answer(model, states, step_of(model, batch, number))
        for row, each in zip(losses, batch, strict=True):
            expected = plain_losses(plain, each, number)
            difference = (row[: len(expected)] - expected).abs().max()
            assert difference < 1e-4 if number == 0 else difference > 1e-4


@pytest.mark.parametrize("memory", ["attentive", "compressive", "salient"])
def test_segment_reads_each_memory_of_a_lower_layer(memory: str) -> None:
    """Where the answer alone reads them, what a segment writes does not depend on the segments before it."""
    segment = [5, 9, 12, 7, 30, 31]
    for tokens, is_read in (("all", True), ("answer", False)):
        model = adapted(pretrained(), trained=True, memory=memory, adapted_tokens=tokens)
        with torch.no_grad():
            _, states = answer(model, model.start(1), step_of(model, documents()[:1], 0))
            for kind in KINDS:
                without = {number: dict(of) for number, of in states.items()}
                without[2][kind] = model.start(1)[2][kind]
                one, other = (_written(model, each, segment) for each in (states, without))
                assert (not torch.equal(one[3], other[3])) == is_read, kind


def _written(model: AwesomeCausal, states: States, segment: list[int]) -> dict[int, torch.Tensor]:
    passage = model.for_prompt(model.recall(states))
    model.base.model(input_ids=torch.tensor([segment]), passage=passage)
    return passage.written


@pytest.mark.parametrize("memory", ["none", "attentive", "compressive", "salient"])
def test_request_and_answer_alone_leave_no_trace_in_the_memory_of_the_source(memory: str) -> None:
    """What is written to it are the segment's own tokens, however long the prompts beside it are."""
    model = adapted(pretrained(), trained=True, memory=memory, adapted_tokens="all")
    each = replace(document(2, 1), requests=[[5] * 9, [6]])
    beside = replace(document(2, 2), requests=[[7], [8] * 12])
    with torch.no_grad():
        _, together = answer(model, model.start(2), step_of(model, [each, beside], 0))
        _, alone = answer(model, model.start(1), step_of(model, [each], 0))
    for layer, of in first_rows(together, 1).items():
        for kind, state in of.items():
            ours, theirs = state.pending[0], alone[layer][kind].pending[0]
            count = len(each.segments[0]) - each.frame if kind == "source" else len(each.targets[0]) - 1
            assert int(ours.mask.sum()) == int(theirs.mask.sum()) == count
            torch.testing.assert_close(ours.states[ours.mask], theirs.states[theirs.mask], rtol=1e-4, atol=1e-5)
    assert set(together) == (set() if memory == "none" else {2, 3})
