"""An adapter that knows nothing yet changes nothing, and only what is its own learns."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from transformers import DynamicCache, PreTrainedModel

from awesum.errors import AwesumError
from awesum.models.adapter import States, ends_of
from awesum.models.adapter_layers import Passage
from awesum.models.memory_slots import MemorySlots
from awesum.recurrence import DocumentInputs
from awesum.recurrence.causal import answer, first_rows
from tests.graphs import counting
from tests.models.adapters import (
    END,
    FAMILIES,
    MEMORIES,
    UPDATES,
    VOCABULARY,
    adapted,
    document,
    documents,
    one_line,
    plain_losses,
    pretrained,
    rows,
    step_of,
)

# -------------------------------------------------------------------------------------------------------- zero start


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("memory", ["none", "attentive"])
@pytest.mark.parametrize("family", FAMILIES)
def test_fresh_adapter_answers_as_the_pretrained_model(family: str, memory: str, update: str) -> None:
    base = pretrained(family)
    plain = deepcopy(base)
    model = adapted(base, memory=memory, update=update)
    for batch in (documents(), documents()[:1]):  # padded, and not
        states: States = model.start(len(batch))
        for number in range(3):
            with torch.no_grad():
                losses, states = answer(model, states, step_of(model, batch, number))
            for row, each in zip(rows(losses, batch, number), batch, strict=True):
                torch.testing.assert_close(row, plain_losses(plain, each, number), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_compressive_memory_begins_with_nothing(family: str) -> None:
    """The first segment is answered as by the pretrained model, and the second is not."""
    base = pretrained(family)
    plain = deepcopy(base)
    model = adapted(base, memory="compressive")
    batch = documents()
    with torch.no_grad():
        losses, states = answer(model, model.start(3), step_of(model, batch, 0))
        for row, each in zip(rows(losses, batch, 0), batch, strict=True):
            torch.testing.assert_close(row, plain_losses(plain, each, 0), rtol=1e-4, atol=1e-4)
        losses, _ = answer(model, states, step_of(model, batch, 1))
    for row, each in zip(rows(losses, batch, 1), batch, strict=True):
        assert (row - plain_losses(plain, each, 1)).abs().max() > 1e-4


@pytest.mark.parametrize("family", ["mistral", "gemma2", "gemma3"])
def test_windows_of_these_tests_matter(family: str) -> None:
    """The tests above are not blind: with another window the answers are others."""
    each = document(1, 1)
    narrow, wide = pretrained(family), pretrained(family, sliding_window=100)
    assert not torch.allclose(plain_losses(narrow, each, 0), plain_losses(wide, each, 0), atol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_passage_the_library_s_model_is_as_it_was(family: str) -> None:
    base = pretrained(family)
    base.set_attn_implementation("awesum_grouped")
    ids = torch.randint(3, VOCABULARY, (2, 11))
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    with torch.no_grad():
        before = base(ids, attention_mask=mask).logits
        written = base.generate(ids, attention_mask=mask, max_new_tokens=5, do_sample=False, pad_token_id=0)
        model = adapted(base, trained=True, update="full")
        assert torch.equal(model.base(ids, attention_mask=mask).logits, before)
        again = base.generate(ids, attention_mask=mask, max_new_tokens=5, do_sample=False, pad_token_id=0)
    assert torch.equal(again, written)


@pytest.mark.parametrize("layers", [1, 3, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_trunk_and_what_is_above_it_are_the_whole(family: str, layers: int) -> None:
    base = pretrained(family)
    plain = deepcopy(base)
    model = adapted(base, memory_layers=layers, update="none")
    ids = torch.randint(3, VOCABULARY, (1, 13))
    with torch.no_grad():
        trunk = model.trunk(ids)
        expected = plain(ids, output_hidden_states=True)
        torch.testing.assert_close(trunk, expected.hidden_states[4 - layers], rtol=1e-4, atol=1e-4)
        logits = model.logits(model.run_top_layers(Passage(adapted=True, trunk=trunk)))
    torch.testing.assert_close(logits, expected.logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_trunk_that_goes_on_from_a_cache_is_the_whole_trunk(family: str) -> None:
    model = adapted(pretrained(family))
    ids = torch.randint(3, VOCABULARY, (1, 17))
    with torch.no_grad():
        whole = model.trunk(ids)
        cache = DynamicCache()
        parts = [model.trunk(ids[:, start:end], cache) for start, end in ((0, 9), (9, 10), (10, 17))]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-4, atol=1e-4)


# ---------------------------------------------------------------------------------------------------------- learning

UPDATE_OF_MEMORY = ("writing", "u1", "u2", "g1", "g2", "gate")


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("memory", ["none", *MEMORIES])
def test_every_new_weight_learns_and_no_other(memory: str, update: str) -> None:
    model = adapted(pretrained(), trained=True, memory=memory, update=update, memory_size=4)
    batch = documents()
    states: States = model.start(3)
    new = {name: weight for name, weight in model.new_weights().items() if not name.endswith((".initial", ".queries"))}
    assert bool(new) == (memory != "none" or update != "none")
    learned: list[set[str]] = []
    for number in range(2):
        losses, states = answer(model, states, step_of(model, batch, number))
        if losses.requires_grad:  # a compressive memory that is empty has nothing to learn from
            losses.sum().backward()
        learned.append({name for name, weight in new.items() if weight.grad is not None and weight.grad.any()})
        model.zero_grad(set_to_none=True)
    late = {name for name in new if memory.startswith("attentive") and set(name.split(".")) & set(UPDATE_OF_MEMORY)}
    late |= {name for name in new if ".compress." in name}
    assert learned[0] == set(new) - late
    assert learned[1] == set(new)
    assert bool(late) == (memory != "none")


@pytest.mark.parametrize("update", UPDATES)
def test_pretrained_weights_are_not_to_be_learned(update: str) -> None:
    base = pretrained()
    before = {name: weight.clone() for name, weight in base.named_parameters()}
    model = adapted(base, memory="attentive", update=update)
    wanted = {id(weight) for weight in model.new_weights().values()}
    assert {id(weight) for weight in model.parameters() if weight.requires_grad} <= wanted
    optimizer = torch.optim.SGD([weight for weight in model.parameters() if weight.requires_grad], 0.5)
    batch = documents()
    losses, _ = answer(model, model.start(3), step_of(model, batch, 0))
    losses.sum().backward()
    optimizer.step()
    names = {name.replace(".prompted.", "."): weight for name, weight in model.base.named_parameters()}
    for name, weight in before.items():
        assert torch.equal(names[name], weight), name
    assert all(weight.grad is None for name, weight in names.items() if name in before)


@pytest.mark.usefixtures("nothing_older")
@pytest.mark.parametrize("memory", MEMORIES)
def test_no_graph_is_kept_from_segment_to_segment(memory: str) -> None:
    model = adapted(pretrained(), trained=True, memory=memory)
    each = document(1, 5)
    alike = DocumentInputs(
        "alike", each.segments * 6, each.targets * 6, requests=each.requests * 6, frame=each.frame, special=1
    )
    states: States = model.start(1)
    held = []
    with counting() as kept:
        for number in range(6):
            losses, states = answer(model, states, step_of(model, [alike], number))
            held.append(len(kept))
            losses.sum().backward()
            del losses
            assert len(kept) == 0
    assert held[0] < held[1] == held[2] == held[5]


# ------------------------------------------------------------------------------------------------------ side by side


def test_documents_that_have_ended_drop_out() -> None:
    model = adapted(pretrained(), trained=True)
    batch = documents()
    with torch.no_grad():
        _, states = answer(model, model.start(3), step_of(model, batch, 0))
        expected, _ = answer(model, states, step_of(model, batch, 1))
        found, _ = answer(model, first_rows(states, 2), step_of(model, batch[:2], 1))
    for ours, theirs in zip(rows(found, batch[:2], 1), rows(expected, batch, 1)[:2], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_slots_keep_their_own_memories() -> None:
    """What is noted at a place twice is the second; who moves takes all along."""
    model = adapted(pretrained(), trained=True)
    slots = MemorySlots(model, 3)
    read = Passage()
    with torch.no_grad():
        model.base.model(input_ids=torch.tensor([[5, 6, 7, 8]]), passage=read)
    for slot in range(2):
        slots.fill(slot, model.recall(model.start(1)), read, slice(1, 3), limit=4)
    torch.manual_seed(2)
    wrong, right = torch.randn(2, 2, 3, 32)
    slots.note(Passage(written={2: wrong, 3: wrong}), torch.tensor([[3, 4, 5], [3, 4, 5]]), [3, 3])
    slots.note(Passage(written={2: right, 3: right}), torch.tensor([[4, 5, 6], [4, 5, 6]]), [3, 3])
    states = slots.after(1, 4)
    for layer in (2, 3):
        assert torch.equal(states[layer]["summary"].pending[0].states[0], right[1])
        assert torch.equal(states[layer]["source"].pending[0].states[0], read.written[layer][0, 1:3])
    slots.move(1, 0)
    assert torch.equal(slots.after(0, 3)[2]["summary"].pending[0].states[0], right[1, :2])
    assert slots.after(0, 1)[2]["summary"].pending == ()
    assert slots.after(0, 0)[2]["summary"].pending == ()


def test_end_of_an_answer_is_what_the_model_says() -> None:
    base = pretrained()
    assert ends_of(base) == [END]
    base.generation_config.eos_token_id = [9, END]
    assert ends_of(base) == [9, END]
    assert adapted(base).end == 9
    base.generation_config.eos_token_id = base.config.eos_token_id = None
    assert ends_of(base) == []
    with pytest.raises(AwesumError, match="which token ends an answer") as error:
        _ = adapted(pretrained_without_end()).end
    one_line(error)


def pretrained_without_end() -> PreTrainedModel:
    base = pretrained()
    base.generation_config.eos_token_id = base.config.eos_token_id = None
    return base
