"""The loop writes what the slow one writes; and what memory is for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration

from awesum.models.bart import AwesomeBart
from awesum.models.bart_config import AwesomeConfig
from awesum.recurrence import DocumentInputs, generate, train
from tests.recurrence.models import (
    END,
    EVERYTHING,
    KINDS,
    START,
    TINY,
    VARIANTS,
    WRITING,
    alike,
    document,
    documents,
    named,
    parts_of,
    tiny,
)
from tests.reference import recurrence as reference


def writer(**variant: Any) -> AwesomeBart:
    """The first of some random models that has something to say: other parts for other segments, of other lengths."""
    for seed in range(20):
        model = tiny(seed, **variant)
        model.final_logits_bias[0, END] = 1.5
        with torch.no_grad():
            for layer in model.model.decoder.layers:
                layer.encoder_attn.out_proj.weight.mul_(4)
        parts = [tokens for _, _, tokens in generate(model, documents(), **WRITING)]
        if len({len(part) for part in parts}) > 1 and len(set(map(tuple, parts))) > 5:
            return model
    pytest.fail("all of them say the same")


@pytest.mark.parametrize("variant", [*KINDS, VARIANTS[1], *EVERYTHING], ids=named)
def test_writes_what_the_slow_loop_writes(variant: dict[str, Any]) -> None:
    """Documents side by side, cached, with the memory made once a segment: each as if alone, token by token."""
    model = writer(**variant)
    expected = [list(reference.write(model, text, **WRITING)) for text in documents()]
    for together in (1, 2, 10):
        assert parts_of(generate(model, documents(), trunk_batch=together, **WRITING), 4) == expected


@pytest.mark.parametrize("variant", [KINDS[1], KINDS[2]], ids=named)
def test_what_was_written_is_read_in_the_next_segment(variant: dict[str, Any]) -> None:
    """A decoder whose memory stays as it began writes the same first part, and then something else."""
    model = writer(**variant)
    texts = [*documents(), document(4, 9)]
    with_it = [parts_of(generate(model, [text], **WRITING), 1)[0] for text in texts]
    deaf = _deaf(model)
    without = [parts_of(generate(deaf, [text], **WRITING), 1)[0] for text in texts]
    assert [parts[0] for parts in without] == [parts[0] for parts in with_it]
    assert [parts[1:] for parts in without] != [parts[1:] for parts in with_it]


def _deaf(model: AwesomeBart) -> AwesomeBart:
    decoder = model.model.decoder
    recollect = decoder.recollect
    decoder.recollect = lambda states: recollect(decoder.start(1))
    return model


@pytest.mark.parametrize("variant", [KINDS[1], KINDS[2]], ids=named)
def test_what_is_remembered_of_parts_of_other_lengths_is_what_each_leaves_alone(variant: dict[str, Any]) -> None:
    """No padding that the library adds to a part that ended before the others: not even one token shows."""
    model = writer(**variant)
    batch = documents()
    alone = [_remembered(model, [text]) for text in batch]
    together = _remembered(model, batch)
    order = sorted(range(len(batch)), key=lambda place: -len(batch[place].segments))
    for number, memories in enumerate(together):
        for row, place in zip(range(len(memories)), order, strict=False):
            torch.testing.assert_close(memories[row], alone[place][number][0], rtol=1e-9, atol=1e-10)


def _remembered(model: AwesomeBart, batch: list[DocumentInputs]) -> list[torch.Tensor]:
    """What the decoder's last layer reads in each segment, by document; what a mask hides is zero."""
    decoder = model.model.decoder
    seen: list[torch.Tensor] = []
    recollect = type(decoder).recollect

    def noting(states: Any) -> Any:
        found = recollect(decoder, states)
        last = found[max(found)]
        seen.append(last.memory * last.mask[..., None])
        return found

    decoder.recollect = noting
    list(generate(model, batch, **WRITING))
    del decoder.recollect
    return seen[::2]  # once to search, once to write down what was found


def test_parts_arrive_before_the_next_segment_is_computed() -> None:
    model = tiny(memory="attentive")
    calls: list[int] = []
    model.model.encoder.layers[-1].register_forward_hook(lambda *_: calls.append(1))
    parts = generate(model, [alike(3)], **WRITING)
    assert not calls
    for number in range(3):
        place, segment, _ = next(parts)
        assert (place, segment) == (0, number)
        assert len(calls) == number + 1
    assert next(parts, None) is None


def test_order_is_segment_by_segment() -> None:
    written = [(place, segment) for place, segment, _ in generate(tiny(memory="attentive"), documents(), **WRITING)]
    assert [segment for _, segment in written] == sorted(segment for _, segment in written)
    assert sorted(written) == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (3, 0), (3, 1), (3, 2)]


@pytest.mark.parametrize("variant", [KINDS[0], KINDS[1], EVERYTHING[1]], ids=named)
def test_known_parts_are_remembered_and_not_written_again(variant: dict[str, Any]) -> None:
    """As if there had been no interruption, wherever it came; and the search does not run for what is known."""
    model = writer(**variant)
    text = document(4, 2)
    whole = list(generate(model, [text], **WRITING))
    written: list[int] = []
    search = model.generate
    model.generate = lambda **inputs: (written.append(1), search(**inputs))[1]
    for count in (0, 1, 3, 4):
        written.clear()
        known = [tokens for _, _, tokens in whole[:count]]
        assert list(generate(model, [text], known=known, trunk_batch=2, **WRITING)) == whole
        assert len(written) == 4 - count
    with pytest.raises(ValueError, match="one document"):
        next(generate(model, documents(), known=[[START, END]]))


def test_document_twice_in_a_batch_is_written_twice() -> None:
    text = document(2, 1)
    written = parts_of(generate(tiny(memory="attentive"), [text, document(3, 2), text], **WRITING), 3)
    assert written[0] == written[2]
    assert [len(parts) for parts in written] == [2, 3, 2]


@pytest.mark.parametrize("beams", [1, 3])
def test_without_memory_it_is_bart_segment_by_segment(beams: int) -> None:
    """Se3."""
    model = writer(memory="none")
    own = set(AwesomeConfig.__dataclass_fields__) - set(BartConfig.__dataclass_fields__)
    bart = BartForConditionalGeneration(BartConfig(**{name: value for name, value in TINY.items() if name not in own}))
    bart = bart.double().eval()
    bart.load_state_dict(model.state_dict())
    options = WRITING | {"num_beams": beams}
    expected = []
    for text in documents():
        parts = [bart.generate(torch.tensor([list(segment)]), **options)[0, 1:].tolist() for segment in text.segments]
        expected.append([part[: part.index(END) + 1] if END in part else part for part in parts])
    assert parts_of(generate(model, documents(), trunk_batch=2, **options), 4) == expected


KEYS = list(range(10, 18))
NOTHING = [START, END]


def riddles() -> list[DocumentInputs]:
    """The answer of segment 3 stands in segment 1, and nowhere else: all segments 2, and all segments 3, are equal.

    Nothing on the way helps. The first two targets are empty, so that no loss but that of segment 3 asks for the key;
    the gradient ends one segment back, so that the first update, which has to carry the key, is never taught to. It
    does so as it begins: half of each slot is new at every update, and what is new is a mixture of the segment.
    """
    return [
        DocumentInputs(
            f"key {key}",
            [[START, 5, key, 6, END], [START, 7, 8, END], [START, 9, 8, 7, END]],
            [NOTHING, NOTHING, [START, key, END]],
        )
        for key in KEYS
    ]


def solved(model: AwesomeBart, steps: int) -> int:
    """Riddles that are answered after some steps of training on all of them, at most."""
    torch.manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    best = 0
    for step in range(steps):
        optimizer.zero_grad()
        train(model.train(), riddles(), lambda loss: loss.backward())
        optimizer.step()
        if step % 20 == 19:
            written = parts_of(generate(model.eval(), riddles(), num_beams=1, max_length=6), len(KEYS))
            best = max(best, sum(parts[2] == [START, key, END] for parts, key in zip(written, KEYS, strict=True)))
            if best == len(KEYS):
                break
    return best


def learner(memory: str) -> AwesomeBart:
    torch.manual_seed(1)
    options = {"d_model": 32, "decoder_attention_heads": 4, "encoder_layers": 2, "memory_layers": "all"}
    return AwesomeBart(AwesomeConfig(**TINY | options | {"memory": memory, "memory_size": 12}))


@pytest.mark.parametrize("memory", ["attentive", pytest.param("compressive", marks=pytest.mark.slow)])
def test_answer_that_stands_only_in_segment_1_is_learned(memory: str) -> None:
    assert solved(learner(memory), 600) == len(KEYS)


def test_without_memory_the_answer_cannot_be_known() -> None:
    assert solved(learner("none"), 60) <= 1  # all documents look the same where it matters: one guess fits one of them
