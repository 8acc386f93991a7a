"""The loop from segment to segment gives what the slow one gives, and holds no more for many segments than for few."""

from __future__ import annotations

import gc
import random
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration

from awesum.models.bart import AwesomeBart, AwesomeConfig, AwesomeEncoder
from awesum.recurrence import DocumentInputs, generate, train
from tests.reference import recurrence as reference

START, PAD, END = 0, 1, 2
VOCABULARY = 41
TINY: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 24,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 48,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "init_std": 0.2,
    "memory_layers": [-1],
    "memory_size": 6,
    "compression_ratio": 2,
}
VARIANTS = [
    {"memory": memory, "salient": salient, "memory_direction": direction}
    for memory in ("none", "attentive", "compressive", "salient")
    for salient in ("none", "key-value")
    for direction in ("forward", "both")
    if memory != "none" or direction == "forward"
]
KINDS = [variant for variant in VARIANTS if variant["salient"] == "none" and variant["memory_direction"] == "forward"]
EVERYTHING = [
    {"memory": memory, "salient": "key-value", "memory_direction": "both"} for memory in ("attentive", "compressive")
]
WRITING: dict[str, Any] = {"num_beams": 3, "min_length": 4, "max_length": 10, "no_repeat_ngram_size": 3}


def named(variant: dict[str, Any]) -> str:
    return "-".join(map(str, variant.values()))


def tiny(seed: int = 3, **options: Any) -> AwesomeBart:
    """As if it were trained, in float64: no bias zero, no norm one, no read that finds nothing."""
    model = AwesomeBart(AwesomeConfig(**TINY | options)).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
            weight.copy_(1 + noise * 0.2 if "norm" in name and name.endswith("weight") else noise * 0.25)
    return model


def document(segments: int, seed: int = 0, empty: tuple[int, ...] = (), name: str | None = None) -> DocumentInputs:
    """Segments and targets of many lengths; salient are two stretches of each segment, seen from all others."""
    chance = random.Random(seed)

    def framed(length: int) -> list[int]:
        return [START, *(chance.randrange(4, VOCABULARY) for _ in range(length)), END]

    made = [framed(chance.randint(3, 8)) for _ in range(segments)]
    targets = [framed(0 if number in empty else chance.randint(1, 5)) for number in range(segments)]
    spans = [(number, start, start + 2) for number in range(segments) for start in (1, len(made[number]) - 2)]
    salient = [[at for at, (of, _, _) in enumerate(spans) if of != number][:5] for number in range(segments)]
    how = [[chance.choice([0, 0.5, 1]) for _ in tokens] for tokens in made]
    return DocumentInputs(name or f"document {seed}", made, targets, spans, salient, salience=how)


def documents(empty: tuple[int, ...] = ()) -> list[DocumentInputs]:
    """The longest is not the first, and one has a single segment."""
    return [document(2, 1), document(4, 2, empty), document(1, 3), document(3, 4)]


def learn(
    model: AwesomeBart, batch: list[DocumentInputs], **options: Any
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model.zero_grad()
    loss = train(model, batch, lambda loss: loss.backward(), **options)
    return loss, gradients(model)


def gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Of every weight; one that was not used has none, which is zero."""
    return {
        name: torch.zeros_like(weight) if weight.grad is None else weight.grad.clone()
        for name, weight in model.named_parameters()
    }


def same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor], tolerance: float = 1e-5) -> None:
    """The loss is taken in float32, whatever the model computes in."""
    for name, gradient in theirs.items():
        scale = max(float(gradient.abs().max()), 1e-3)
        torch.testing.assert_close(
            ours[name], gradient, rtol=0, atol=tolerance * scale, msg=lambda text, name=name: f"{name}: {text}"
        )


# --------------------------------------------------------------------------------------------------------- training


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


@pytest.mark.parametrize("direction", ["forward", "both"])
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_peak_does_not_depend_on_the_number_of_segments_at_any_depth(depth: int, direction: str) -> None:
    """Bytes that the graph holds at each backward pass: the same from some segment on, and hardly more with more depth,
    because all updates but the last are computed again."""
    held: dict[int, list[int]] = {}
    for of in (depth, depth + 1):
        model = tiny(memory="attentive", memory_direction=direction)
        with saved_bytes() as total:
            found: list[int] = []

            def backward(loss: torch.Tensor, found: list[int] = found, total: list[int] = total) -> None:
                found.append(total[0])
                loss.backward()

            train(model, [alike(12)], backward, depth=of)
        held[of] = found
    assert len(set(held[depth][depth + 1 : 11 - depth])) == 1
    if depth > 1:
        assert held[depth + 1][6] <= 1.02 * held[depth][6]


@contextmanager
def saved_bytes() -> Iterator[list[int]]:
    """The bytes that graphs hold at the moment, each tensor counted where it is saved."""
    total = [0]

    class Saved:
        def __init__(self, tensor: torch.Tensor) -> None:
            self.tensor = tensor
            total[0] += tensor.nbytes

        def __del__(self) -> None:
            total[0] -= self.tensor.nbytes

    with torch.autograd.graph.saved_tensors_hooks(Saved, lambda saved: saved.tensor):
        yield total


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
    for name, gradient in expected.items():
        if gradient.abs().max() > 1e-6:
            cosine = torch.nn.functional.cosine_similarity(ours[name].flatten(), gradient.flatten(), 0)
            assert cosine > 0.9, f"{name}: {cosine}"


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


# ----------------------------------------------------------------------------------------------------------- memory


class Kept:
    """Counts what autograd keeps for the backward pass and has not let go yet."""

    def __init__(self) -> None:
        self.alive: weakref.WeakSet[Any] = weakref.WeakSet()

    def __enter__(self) -> Kept:
        class Packed:
            def __init__(self, tensor: torch.Tensor) -> None:
                self.tensor = tensor

        def pack(tensor: torch.Tensor) -> Packed:
            packed = Packed(tensor)
            self.alive.add(packed)
            return packed

        self.hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed.tensor)
        self.hooks.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.hooks.__exit__(*error)

    def __len__(self) -> int:
        gc.collect()
        return len(self.alive)


def alike(segments: int) -> DocumentInputs:
    """Segments of equal length, so that one costs what another costs."""
    chance = random.Random(segments)
    made = [[START, *(chance.randrange(4, VOCABULARY) for _ in range(6)), END] for _ in range(segments)]
    salient = [[0] if number else [] for number in range(segments)]
    return DocumentInputs("alike", made, [segment[:5] for segment in made], [(0, 1, 3)], salient)


def live_bytes() -> int:
    gc.collect()
    found = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in gc.get_objects()
        if type(tensor) is torch.Tensor
    }
    return sum(found.values())


@pytest.mark.usefixtures("nothing_older")
@pytest.mark.parametrize(
    ("variant", "together"),
    [*((variant, 1) for variant in KINDS), *((variant, 2) for variant in (KINDS[1], *EVERYTHING))],
    ids=lambda value: named(value) if isinstance(value, dict) else str(value),
)
def test_memory_does_not_grow_with_the_document(variant: dict[str, Any], together: int) -> None:
    model = tiny(**variant)
    held: dict[int, list[tuple[int, int, int]]] = {}
    for segments in (6, 12):
        steps = held.setdefault(segments, [])
        with Kept() as kept:

            def backward(loss: torch.Tensor, kept: Kept = kept, steps: list[Any] = steps) -> None:
                before = len(kept)
                loss.backward()
                steps.append((before, len(kept), live_bytes()))

            train(model, [alike(segments)], backward, trunk_batch=together)
            model.zero_grad()
            assert len(kept) == 0  # nothing is left
    assert len(held[12]) == 12
    # The second step is the first that has something to update, and the last has nothing after it, so that its group
    # is another; those between are alike, pair by pair.
    short, long = held[6], held[12]
    for at in range(2, 12 - together):
        assert long[at][:2] == short[2 + at % 2][:2]
    for from_end in range(1, together + 1):
        assert long[-from_end][:2] == short[-from_end][:2]
    assert max(size for _, _, size in long) <= max(size for _, _, size in short)


@pytest.mark.usefixtures("nothing_older")
def test_growing_memory_would_show() -> None:
    """The counters of the test above are not blind: a consumer that keeps its losses is seen to."""
    model = tiny(memory="attentive")
    counts: list[int] = []
    kept_losses: list[torch.Tensor] = []
    with Kept() as kept:

        def hold(loss: torch.Tensor) -> None:
            kept_losses.append(loss)
            counts.append(len(kept))

        train(model, [alike(5)], hold)
    assert counts == sorted(set(counts))


@pytest.fixture
def shelves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the states of the memory from the end wait."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def files(folder: Path) -> int:
    return len(list(folder.glob("awesum-ahead-*/*")))


def test_states_from_the_end_wait_on_disk_and_are_gone_when_read(shelves: Path) -> None:
    seen: list[int] = []

    def backward(loss: torch.Tensor) -> None:
        loss.backward()
        seen.append(files(shelves))

    train(tiny(memory="attentive", memory_direction="both"), [alike(4)], backward)
    assert seen == [3, 2, 1, 0]
    assert not list(shelves.iterdir())


def test_states_from_the_end_are_gone_after_an_error(shelves: Path) -> None:
    def fail(loss: torch.Tensor) -> None:
        assert files(shelves) == 3
        raise ArithmeticError("not a number")

    with pytest.raises(ArithmeticError):
        train(tiny(memory="attentive", memory_direction="both"), [alike(4)], fail)
    assert not list(shelves.iterdir())


def test_states_from_the_end_are_gone_when_the_reader_stops(shelves: Path) -> None:
    parts = generate(tiny(memory="attentive", memory_direction="both"), [alike(4)], max_length=4, num_beams=1)
    next(parts)
    assert files(shelves) == 3
    parts.close()
    assert not list(shelves.iterdir())


def test_states_from_the_end_are_gone_after_an_error_while_they_are_made(
    shelves: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny(memory="attentive", memory_direction="both").train()

    def fail(*args: object, **kwargs: object) -> None:
        raise MemoryError

    monkeypatch.setattr(AwesomeEncoder, "look_ahead", fail)
    with pytest.raises(MemoryError):
        train(model, [alike(4)], lambda loss: None)
    assert not list(shelves.iterdir())
    assert model.training


# ------------------------------------------------------------------------------------------------------- generating


def parts_of(written: Iterator[tuple[int, int, list[int]]], count: int) -> list[list[list[int]]]:
    """The parts of each document; they must come in order."""
    parts: list[list[list[int]]] = [[] for _ in range(count)]
    for place, segment, tokens in written:
        assert segment == len(parts[place])
        parts[place].append(tokens)
    return parts


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


# ------------------------------------------------------------------------------------------------- what memory is for

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
