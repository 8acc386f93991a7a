"""The traced peak against a count by hand, and against a step that is really run and measured by torch's profiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from awesum import compat
from awesum.compat import fake_tensors, storage_key
from awesum.planning.step import Lengths, Step, document_of, generation, planned_document, training_step
from awesum.planning.tracing import BLOCK, Attention, traced
from awesum.recurrence import generate
from awesum.recurrence.whole import padded
from awesum.training.lora import with_lora
from awesum.training.settings import TrainingSettings, read_settings
from awesum.training.settings import trainable as trainable_systems
from awesum.training.trainable import Trainable, make
from tests.planning.profiling import highest_sum

TINY = {
    "model_type": "bart",
    "vocab_size": 500,
    "max_position_embeddings": 256,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "activation_dropout": 0.1,
}
LARGER = TINY | {"d_model": 96, "encoder_layers": 3, "decoder_layers": 3, "encoder_ffn_dim": 300, "vocab_size": 900}
LONG_T5 = {
    "model_type": "longt5",
    "vocab_size": 500,
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 128,
    "num_layers": 2,
    "num_heads": 4,
    "local_radius": 15,
    "global_block_size": 8,
    "encoder_attention_type": "transient-global",
    "feed_forward_proj": "gated-gelu",
    "decoder_start_token_id": 0,
    "tie_word_embeddings": False,
}
LLAMA = {
    "model_type": "llama",
    "vocab_size": 500,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
}
LARGER_LLAMA = LLAMA | {"hidden_size": 96, "num_hidden_layers": 5, "intermediate_size": 300, "vocab_size": 900}
ROBERTA = {
    "model_type": "roberta",
    "vocab_size": 500,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 130,
}
LARGER_ROBERTA = ROBERTA | {"hidden_size": 96, "num_hidden_layers": 3, "intermediate_size": 300, "vocab_size": 900}
LARGER_T5 = LONG_T5 | {"d_model": 96, "num_layers": 3, "d_ff": 300, "vocab_size": 900}
SYSTEMS: dict[str, dict[str, Any]] = {
    "se3": {},
    "awesome": {"memory_layers": 1, "memory_size": 32},
    "truncated": {},
    "extract-abstract": {},
    "pagesum": {"pages": 2, "page_size": 128},
    "cached": {"chunk_size": 64},
    "block-attention": {"block_size": 16, "global_tokens": 4},
    "longformer": {"window": 32},
    "unlimiformer": {"retrieved": 32},
    "long-t5": {},
}
"""Those that write as the library's models do."""
EVERY: dict[str, dict[str, Any]] = SYSTEMS | {
    "adapter": {"memory_layers": 2, "memory_size": 32, "update_layers": 2, "rank": 8},
    "extractor": {"heads": 4},
}


def saved(system: str, larger: bool = False) -> dict[str, Any]:
    """The configuration that a system starts from."""
    families = {
        "long-t5": (LONG_T5, LARGER_T5),
        "adapter": (LLAMA, LARGER_LLAMA),
        "extractor": (ROBERTA, LARGER_ROBERTA),
    }
    return families.get(system, (TINY, LARGER))[larger]


def prepared(system: str, **changes: Any) -> tuple[Trainable, TrainingSettings]:
    given = {"system": system, "base": "tiny", "data": "x", "output": "y", "precision": "float32", "optim": "sgd"}
    settings, own = read_settings(None, {**given, **EVERY[system], **changes})
    return make(system, "tiny", own), settings


def test_every_system_that_trains_is_planned() -> None:
    assert sorted(EVERY) == sorted(trainable_systems())


def test_sum_of_a_product_is_counted_to_the_byte() -> None:
    with traced(fake_tensors()) as tracer:
        left = torch.empty(100, 200)
        right = torch.empty(200, 300)
        tracer.restart()
        product = left @ right
    assert tracer.peak.bytes == _rounded(4 * 100 * 200) + _rounded(4 * 200 * 300) + _rounded(4 * 100 * 300)
    del product


def test_what_is_dropped_is_no_longer_counted() -> None:
    with traced(fake_tensors()) as tracer:
        for _ in range(10):
            torch.empty(1000)
        kept = torch.empty(1000)
    assert tracer.peak.bytes == _rounded(4000)
    assert tracer.total == _rounded(4000)
    del kept


def test_fused_attention_keeps_no_probabilities_and_eager_attention_keeps_all() -> None:
    def kept(attention: Attention, length: int) -> int:
        with traced(fake_tensors(), attention) as tracer:
            query = torch.empty(1, 2, length, 8, requires_grad=True)
            tracer.restart()
            torch.nn.functional.scaled_dot_product_attention(query, query, query, dropout_p=0.1).sum().backward()
        return tracer.peak.bytes

    assert kept("fused", 512) < 3 * kept("fused", 256)
    assert kept("eager", 512) > 3.5 * kept("eager", 256)


def test_dropout_keeps_one_byte_a_number_as_on_a_gpu() -> None:
    def peak(attention: Attention) -> int:
        with traced(fake_tensors(), attention) as tracer:
            states = torch.empty(1024, 1024, requires_grad=True)
            tracer.restart()
            dropped = torch.nn.functional.dropout(states, 0.1)
        del dropped
        return tracer.peak.bytes

    number = 1024 * 1024
    assert peak("fused") == 4 * number + 4 * number + number


def check_against_profiler(system: str, length: int, larger: bool) -> None:
    lengths = Lengths(length, 24, segment_tokens=64)
    trainable, settings = prepared(system)
    configuration = saved(system, larger)
    planned = training_step(trainable, settings, lengths, attention="own", saved=configuration).peak.bytes
    measured = _measured(system, lengths, configuration)
    assert planned == pytest.approx(measured, rel=0.03)


@pytest.mark.parametrize("system", ["awesome", "truncated", "block-attention", "cached", "adapter", "extractor"])
def test_planned_peak_is_that_of_the_same_step_run_for_real(system: str) -> None:
    check_against_profiler(system, 130, larger=False)


@pytest.mark.slow
@pytest.mark.parametrize(("length", "larger"), [(60, False), (200, False), (130, True)])
@pytest.mark.parametrize("system", sorted(EVERY))
def test_planned_peak_of_every_system_and_size(system: str, length: int, larger: bool) -> None:
    check_against_profiler(system, length, larger)


@pytest.mark.parametrize(
    "system",
    [
        "awesome",
        "truncated",
        "pagesum",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in sorted({*SYSTEMS} - {"awesome", "truncated", "pagesum"})
        ),
    ],
)
def test_planned_peak_of_writing_is_near_that_of_the_librarys_beam_search(system: str) -> None:
    lengths = Lengths(200, 24, segment_tokens=200)
    trainable, settings = prepared(system)
    planned = generation(trainable, settings, lengths, attention="own", saved=saved(system, larger=True)).peak.bytes
    assert planned == pytest.approx(_measured_writing(system, lengths), rel=0.15)


@pytest.mark.parametrize(
    ("system", "depth", "most"),
    [
        pytest.param("se3", None, 12, marks=pytest.mark.slow),
        ("awesome", 1, 12),
        pytest.param("awesome", 1, 64, marks=pytest.mark.slow),
        pytest.param("awesome", 2, 12, marks=pytest.mark.slow),
    ],
)
def test_peak_does_not_grow_with_the_number_of_segments(system: str, depth: int | None, most: int) -> None:
    changes = {} if depth is None else {"memory_depth": depth}
    trainable = prepared(system, **changes)[0]
    fake = fake_tensors()
    with fake:
        trainable.make_blank(TINY, None)
    peaks = []
    for segments in (3 + (depth or 1), most):
        document = document_of(trainable.model.config, Lengths(64, 24, 64))
        document = type(document)("many", list(document.segments) * segments, list(document.targets) * segments)
        with traced(fake, "fused") as tracer:
            tracer.name(trainable.model)
            for parameter in trainable.model.parameters():
                parameter.grad = torch.empty_like(parameter)
            tracer.restart()
            trainable.loss([document], torch.Tensor.backward)
        peaks.append(tracer.peak.bytes)
        for parameter in trainable.model.parameters():
            parameter.grad = None
    assert peaks[1] == pytest.approx(peaks[0], rel=0.001)


@pytest.mark.parametrize("system", ["awesome", pytest.param("longformer", marks=pytest.mark.slow)])
def test_remembered_shapes_are_those_that_the_library_works_out(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def step() -> Step:
        trainable, settings = prepared(system, precision="bfloat16")
        return training_step(trainable, settings, Lengths(200, 24, 64), saved=saved(system))

    remembered = step()

    def work_out(fake: object) -> Any:
        return lambda operation, args, kwargs: operation(*args, **kwargs)

    monkeypatch.setattr(compat, "remembering", work_out)
    assert step() == remembered


def test_parts_add_up_and_name_what_they_are() -> None:
    trainable, settings = prepared("awesome", optim="adamw_torch")
    step = training_step(trainable, settings, Lengths(200, 24, 64), saved=TINY)
    assert sum(step.peak.parts.values()) == step.peak.bytes
    weights = 4 * step.weights
    assert step.peak.parts["weights"] == pytest.approx(weights, rel=0.05)
    assert step.peak.parts["gradients"] == pytest.approx(4 * step.trained, rel=0.05)
    assert step.peak.parts["optimizer"] == pytest.approx(8 * step.trained, rel=0.01)
    assert step.peak.place


def test_offloading_and_checkpointing_lower_what_is_kept() -> None:
    def activations(**changes: Any) -> int:
        trainable, settings = prepared("truncated", **changes)
        peak = training_step(trainable, settings, Lengths(250, 200), saved=TINY).peak
        return peak.parts["activations"] + peak.parts["temporary"]

    plain = activations()
    assert activations(offload=True) < 0.6 * plain
    assert activations(gradient_checkpointing=True) < 0.8 * plain


def test_step_in_the_backward_pass_keeps_no_gradients() -> None:
    peaks = {}
    for inside in (False, True):
        changes = {"accumulation": 1, "clipping": 0.0, "optim": "adamw_torch_fused", "step_in_backward": inside}
        trainable, settings = prepared("truncated", **changes)
        peaks[inside] = training_step(trainable, settings, Lengths(8, 4), saved=TINY).peak  # the weights decide
    assert peaks[True].parts["gradients"] < 0.5 * peaks[False].parts["gradients"]
    assert peaks[True].bytes < peaks[False].bytes


def test_lora_is_traced_with_gradients_for_its_updates_alone() -> None:
    trainable, settings = prepared("truncated", lora_rank=4)
    step = training_step(with_lora(trainable, settings), settings, Lengths(60, 24), saved=TINY)
    assert step.trained == 2 * 4 * 6 * (64 + 64)  # two projections in each of six attentions
    assert step.peak.parts["gradients"] <= _rounded(4 * step.trained)
    assert step.peak.parts["weights"] >= 4 * step.weights


def _rounded(count: int) -> int:
    return -(-count // BLOCK) * BLOCK


def _measured(system: str, lengths: Lengths, configuration: dict[str, Any]) -> int:
    """The peak of a step on real tensors, as torch's profiler saw memory come and go."""
    torch.manual_seed(0)
    trainable, settings = prepared(system)
    trainable.make_blank(configuration, lengths.input_tokens)
    model = trainable.model.train()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    document = planned_document(model, lengths, depth=1)
    with _profiled(model) as peak:
        trainable.loss([document], torch.Tensor.backward, empty_targets=settings.empty_targets)
    return peak()


def _measured_writing(system: str, lengths: Lengths) -> int:
    """The same of a summary of the longest length, by beam search."""
    torch.manual_seed(0)
    trainable, _ = prepared(system)
    trainable.make_blank(saved(system, larger=True), lengths.input_tokens)
    model: Any = trainable.model.eval()
    lengths_of_all = dict.fromkeys(("max_new_tokens", "min_new_tokens"), lengths.target_tokens)
    options = {"num_beams": trainable.settings.num_beams, "do_sample": False, **lengths_of_all}
    document = document_of(model.config, lengths)
    with torch.no_grad(), _profiled(model) as peak:
        if hasattr(model, "start"):
            list(generate(model, [replace(document, segments=list(document.segments) * 3)], **options))
        else:
            batch = padded([document], model.config.pad_token_id, torch.device("cpu"))
            model.generate(torch.randint(10, 400, batch.ids.shape), attention_mask=batch.mask, **options)
    return peak()


@contextmanager
def _profiled(model: torch.nn.Module) -> Iterator[Callable[[], int]]:
    """Afterwards, the highest sum of the model's tensors and of what the profiler saw come and go."""
    held = {storage_key(tensor): tensor.untyped_storage().nbytes() for tensor in _tensors(model)}

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        yield lambda: sum(held.values()) + highest_sum(profiler)


def _tensors(model: torch.nn.Module) -> list[torch.Tensor]:
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return [*model.parameters(), *model.buffers(), *gradients]
