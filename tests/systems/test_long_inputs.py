"""Each system that reads a document as one input, from the command line: it trains until it knows four documents by
heart, and what was saved writes them again. And what each refuses and reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import BartConfig, BartForConditionalGeneration, LEDForConditionalGeneration

from awesum import Document, Settings, Summarizer, systems
from awesum.analysis.analysis import Analyst
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.cli import main
from awesum.compose.long_inputs import OneAnswer
from awesum.errors import AwesumError
from awesum.systems.long_input import LongInput
from awesum.training.long_input import LongInputTraining
from awesum.training.run import train
from awesum.training.settings import read_settings
from awesum.training.trainable import make
from awesum.weights import minilm_folder
from tests.conftest import topical_text
from tests.systems.conftest import OWN, TARGETS
from tests.training.interruptions import Interrupted, stopping_after
from tests.training.runs import record, steps


@pytest.fixture(scope="module")
def minilm() -> SentenceEncoder:
    return SentenceEncoder.load(minilm_folder())


@pytest.fixture
def awesum(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, minilm: SentenceEncoder
) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.setenv("AWESUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("awesum.weights.minilm_folder", minilm_folder)
    monkeypatch.setattr(SentenceEncoder, "load", lambda folder: minilm)

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([*map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def predictions(path: Path) -> list[str]:
    return [json.loads(line)["summary"] for line in path.read_text().splitlines()]


@pytest.mark.parametrize("epochs", [2, pytest.param(70, marks=pytest.mark.slow)])
@pytest.mark.parametrize("system", OWN)
def test_system_learns_four_documents_and_writes_them_again(
    system: str, epochs: int, awesum: Any, base: Any, data: Path, tmp_path: Path
) -> None:
    """All commands with each system; after 70 epochs, it knows the summaries by heart."""
    model, settings = tmp_path / "model", ("--learning-rate", "5e-3", "--epochs", epochs, "--warmup-steps", "2")
    code, out, err = awesum(
        "train", "--system", system, "--base", base(system), "--data", data, "--output", model, *settings, *OWN[system],
        "--batch-size", "4", "--accumulation", "1", "--num-beams", "2", "--max-part", "24", "--no-repeat-ngram", "0",
        "--save-steps", "1000", "--quiet",
    )  # fmt: skip
    assert code == 0, err
    assert out.strip() == str(model)
    assert record(model)["state"] == "finished"
    assert systems.kind_of(str(model)) is systems.find(system)

    for name in ("first", "second") if epochs > 2 else ("first",):
        code, out, err = awesum("predict", model, "--data", data, "--raw", "-o", tmp_path / f"{name}.jsonl", "--quiet")
        assert code == 0, err
    written = predictions(tmp_path / "first.jsonl")
    if epochs > 2:
        assert written == predictions(tmp_path / "second.jsonl")
    if (
        epochs > 2 and system != "extract-abstract"
    ):  # which reads what the oracle selects in training, and the extractor later
        assert written == TARGETS

    (tmp_path / "report.txt").write_text(topical_text(20, seed=3))
    code, out, err = awesum("summarize", "--model", model, tmp_path / "report.txt", "--json")
    assert code == 0, err
    summary = json.loads(out)
    assert summary["settings"]["model"] == str(model)
    for part in summary["parts"]:
        for sentence in part["sentences"]:
            source = sentence["source"]
            assert topical_text(20, seed=3)[source["start"] : source["end"]] == source["text"]


# ------------------------------------------------------------------------------------------------- a run, interrupted


@pytest.mark.parametrize(
    "own",
    [
        {"system": "unlimiformer", "mode": "alternating", "retrieved": 20},
        *(
            pytest.param({"system": system}, marks=pytest.mark.slow)
            for system in ("truncated", "extract-abstract", "block-attention", "longformer", "pagesum", "cached")
        ),
        pytest.param({"system": "long-t5"}, marks=pytest.mark.slow),
    ],
    ids=lambda own: own["system"],
)
def test_interrupted_run_ends_where_the_whole_one_does(
    own: dict[str, Any], base: Any, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWESUM_CACHE", str(tmp_path / "cache"))
    common = {"data": str(data), "base": base(own["system"]), "max_tokens": 120, "epochs": 2, "accumulation": 1}
    common |= {"save_steps": 1, "warmup_steps": 0, **own}
    weights = []
    for name in ("whole", "stopped"):
        options = read_settings(None, {**common, "output": str(tmp_path / name)})
        if name == "stopped":
            with monkeypatch.context() as patch:
                stopping_after(3, patch)
                with pytest.raises(Interrupted):
                    train(*options, quiet=True, say=lambda note: None)
            assert steps(tmp_path / name)[-1] == 3
        train(*options, quiet=True, say=lambda note: None)
        weights.append(load_file(tmp_path / name / "model.safetensors"))
    for name, weight in weights[0].items():
        assert torch.equal(weight, weights[1][name]), name


# --------------------------------------------------------------------------------- gradients of chunks, one at a time


def in_one_graph(training: Any) -> Any:
    """The loss of a `CachedTraining`, backpropagated at once."""
    whole = copy(training)
    whole.backpropagate = LongInputTraining.backpropagate.__get__(whole)
    return whole.loss


def test_cached_gradients_are_those_of_full_backpropagation(tiny_bart_folder: Path) -> None:
    """Four chunks, the last one shorter, documents of different lengths, with dropout."""
    training: Any = make("cached", str(tiny_bart_folder), systems.find("cached").settings_class(chunk_size=20))  # type: ignore[misc]
    model = training.model.double().train()
    assert model.config.dropout > 0
    tokens = torch.randint(4, 400, (2, 73))
    documents = [_inputs(tokens[0].tolist(), [0, 9, 8, 7, 2]), _inputs(tokens[1, :50].tolist(), [0, 5, 2])]
    found, losses = {}, []
    for way, training_pass in (("chunks", training.loss), ("full", in_one_graph(training))):
        model.zero_grad()
        torch.manual_seed(3)
        losses.append(training_pass(documents, lambda loss: loss.backward()))
        found[way] = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    assert torch.allclose(*losses)
    for name, gradient in found["full"].items():
        assert gradient.abs().max() > 0, name
        torch.testing.assert_close(found["chunks"][name], gradient, rtol=1e-6, atol=1e-9)


def test_cached_gradients_in_mixed_precision(tiny_bart_folder: Path) -> None:
    """Weights that are first used without a graph have gradients all the same."""
    training: Any = make("cached", str(tiny_bart_folder), systems.find("cached").settings_class(chunk_size=20))  # type: ignore[misc]
    model = training.model.eval()
    document = _inputs(torch.randint(4, 400, (50,)).tolist(), [0, 9, 8, 7, 2])
    found = []
    for training_pass in (training.loss, in_one_graph(training)):
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            training_pass([document], lambda loss: loss.backward())
        found.append({name: weight.grad for name, weight in model.named_parameters()})
    for name, gradient in found[1].items():
        assert found[0][name] is not None, name
        torch.testing.assert_close(found[0][name], gradient, rtol=0.05, atol=0.05 * float(gradient.abs().max()))


def _inputs(ids: list[int], target: list[int]) -> Any:
    from awesum.recurrence import DocumentInputs

    return DocumentInputs("a", [ids], [target])


def test_cached_holds_the_graph_of_one_chunk(tiny_bart_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training: Any = make("cached", str(tiny_bart_folder), systems.find("cached").settings_class(chunk_size=16))  # type: ignore[misc]
    encoder = training.model.train().model.encoder
    with_graph = []
    encode = type(encoder).encode_chunk

    def watching(self: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states = encode(self, ids, mask)
        with_graph.append((ids.shape[1], states.requires_grad))
        return states

    monkeypatch.setattr(type(encoder), "encode_chunk", watching)
    training.loss([_inputs(list(range(4, 44)), [0, 9, 2])], lambda loss: loss.backward())
    assert with_graph == [(16, False), (16, False), (8, False), (16, True), (16, True), (8, True)]


SMALL: dict[str, dict[str, Any]] = {
    "block-attention": {"block_size": 16},
    "longformer": {"window": 16},
    "unlimiformer": {"retrieved": 9},
    "cached": {"chunk_size": 40},
}


def gradients(system: str, base: str, *, autocast: bool = False, **options: Any) -> dict[str, torch.Tensor | None]:
    """Those of a document of 100 tokens, or of three pages of it."""
    torch.manual_seed(0)
    training: Any = make(system, base, systems.find(system).settings_class(**SMALL.get(system, {}), **options))  # type: ignore[misc]
    training.model.train()
    torch.manual_seed(1)
    document = _inputs(list(range(4, 104)), [0, 9, 8, 2])
    if system == "pagesum":
        document = replace(document, segments=[list(range(4, 50))] * 3, is_paged=True)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        training.loss([document], lambda loss: loss.backward())
    return {name: weight.grad for name, weight in training.model.named_parameters()}


@pytest.mark.parametrize("system", OWN)
def test_gradient_checkpointing_changes_no_gradient(system: str, long_t5: Path, tiny_bart_folder: Path) -> None:
    """With dropout, which is replayed."""
    name = str(long_t5 if system == "long-t5" else tiny_bart_folder)
    expected = gradients(system, name, gradient_checkpointing=False)
    found = gradients(system, name, gradient_checkpointing=True)
    for name, gradient in expected.items():
        if gradient is not None:
            torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("system", OWN)
def test_bfloat16_learns_in_the_same_direction(system: str, base: Any) -> None:
    """Without dropout, whose mask may differ between number formats."""
    full, half = (gradients(system, base(system), autocast=autocast) for autocast in (False, True))
    names = [name for name, gradient in full.items() if gradient is not None]
    assert names == [name for name, gradient in half.items() if gradient is not None]
    one, two = (torch.cat([found[name].flatten() for name in names]) for found in (full, half))  # type: ignore[union-attr]
    assert torch.cosine_similarity(one, two, dim=0) > 0.98


def test_unlimiformer_takes_turns(tiny_bart_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[str]] = {}
    for mode in ("truncated", "retrieval", "random-encoded", "alternating"):
        settings = systems.find("unlimiformer").settings_class(mode=mode, retrieved=9)  # type: ignore[misc]
        training: Any = make("unlimiformer", str(tiny_bart_folder), settings)
        training.model.train()
        passes = [training._attended() for _ in range(4)]
        training.model.eval()
        seen[mode] = [*passes, training._attended()]
    assert seen["truncated"] == seen["retrieval"] == ["retrieved"] * 5
    assert seen["random-encoded"] == [*["random"] * 4, "retrieved"]
    assert seen["alternating"] == ["retrieved", "random", "retrieved", "random", "retrieved"]


def test_truncated_mode_trains_on_the_first_window(bart: Path, analyst: Analyst) -> None:
    notes: list[str] = []
    settings = systems.find("unlimiformer").settings_class(mode="truncated")  # type: ignore[misc]
    training: Any = make("unlimiformer", str(bart), settings)
    inputs = training.inputs(analyst, 2048, notes.append)(_example(topical_text(20)))
    assert len(inputs.segments[0]) == 128
    assert "128 of" in notes[0]


def _example(text: str, summary: str = "The rocket report.", query: str | None = None) -> Any:
    from awesum.datasets import Example

    return Example("a", text, summary, query)


# ---------------------------------------------------------------------------------------------- writing, and the notes


@pytest.mark.parametrize("system", ["truncated", "block-attention", "pagesum"])
def test_summary_says_what_was_read(system: str, bart: Path, tiny_encoder: SentenceEncoder) -> None:
    summarizer = Summarizer(system=systems.load(system, str(bart), analyst=Analyst(tiny_encoder, Centrality())))
    summarizer.system.writer.generation_config.update(max_length=12, num_beams=2)  # type: ignore[attr-defined]
    run = summarizer.start(Document(topical_text(60), path="r.txt"), Settings())
    summary = run.finish()
    assert isinstance(run.session.plan, OneAnswer)  # type: ignore[union-attr]
    assert len(summary.segments) == 1
    assert summary.complete
    assert summary.figures.tokens_read < summary.tokens
    assert any("tokens are read" in note and " of " in note for note in summary.notes)


def test_short_document_is_read_whole(bart: Path, tiny_encoder: SentenceEncoder) -> None:
    summarizer = Summarizer(system=systems.load("truncated", str(bart), analyst=Analyst(tiny_encoder, Centrality())))
    summarizer.system.writer.generation_config.update(max_length=12, num_beams=2)  # type: ignore[attr-defined]
    summary = summarizer.start(Document(topical_text(3), path="r.txt"), Settings()).finish()
    assert summary.figures.tokens_read == summary.tokens
    assert not any("are read" in note for note in summary.notes)


def test_memory_limit_that_is_too_low_is_one_line(bart: Path, tiny_encoder: SentenceEncoder) -> None:
    system = systems.load("cached", str(bart), analyst=Analyst(tiny_encoder, Centrality()))
    with pytest.raises(AwesumError, match="too little"):
        system.engine(Settings(max_memory="1MB"))


# ------------------------------------------------------------------------------------------ what is refused


def refusal(*arguments: Any) -> str:
    def load() -> Any:
        training: Any = make(*arguments)
        return training.model

    with pytest.raises(AwesumError) as error:
        load()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_base_of_another_family_says_who_takes_it(bart: Path, long_t5: Path, tiny_folder: Path, tmp_path: Path) -> None:
    def settings(system: str) -> Any:
        return systems.find(system).settings_class()  # type: ignore[misc]

    told = refusal("block-attention", str(long_t5), settings("block-attention"))
    assert "a 'longt5' model, and block-attention takes bart or block-bart: it is for --system long-t5" in told
    for system in ("se3", "awesome"):
        told = refusal(system, str(long_t5), settings(system))
        assert f"a 'longt5' model, and {system} takes bart or awesome-bart: it is for --system long-t5" in told
    assert "and extractor takes roberta: it is for --system long-t5" in refusal(
        "extractor", str(long_t5), settings("extractor")
    )
    told = refusal("long-t5", str(bart), settings("long-t5"))
    assert "'bart'" in told
    assert all(name in told for name in OWN if name != "long-t5")
    assert "--system adapter" in refusal("cached", str(tiny_folder), settings("cached"))
    assert "--system adapter" in refusal("cached", "smollm2", settings("cached"))
    (tmp_path / "config.json").write_text('{"model_type": "vit"}')
    assert "no system takes it" in refusal("cached", str(tmp_path), settings("cached"))


def test_weights_without_safetensors_are_refused(bart: Path, tmp_path: Path) -> None:
    BartConfig.from_pretrained(bart).save_pretrained(tmp_path)
    torch.save(BartForConditionalGeneration.from_pretrained(bart).state_dict(), tmp_path / "pytorch_model.bin")
    told = refusal("truncated", str(tmp_path), systems.find("truncated").settings_class())  # type: ignore[misc]
    assert "no safetensors weights" in told
    assert "--base" in told


def test_incomplete_weights_are_refused(bart: Path, tmp_path: Path) -> None:
    model = BartForConditionalGeneration.from_pretrained(bart)
    weights = {name: weight for name, weight in model.state_dict().items() if "fc1" not in name}
    model.save_pretrained(tmp_path, state_dict=weights)
    told = refusal("cached", str(tmp_path), systems.find("cached").settings_class())  # type: ignore[misc]
    assert "fc1" in told
    assert "missing" in told


def test_long_t5_refuses_float16(long_t5: Path, monkeypatch: pytest.MonkeyPatch, analyst: Analyst) -> None:
    settings = systems.find("long-t5").settings_class()  # type: ignore[misc]
    training = make("long-t5", str(long_t5), settings)
    with pytest.raises(AwesumError, match="overflow") as error:
        training.check_precision("float16")
    assert "\n" not in str(error.value)
    training.check_precision("bfloat16")
    monkeypatch.setattr("awesum.loading.choose_device", lambda: (torch.device("cpu"), torch.float16, "a test"))
    system: Any = systems.load("long-t5", str(long_t5), analyst=analyst)
    assert system.writer.dtype == torch.float32
    assert "overflow" in system.recorded(Settings())["dtype_reason"]


@pytest.mark.parametrize(
    ("system", "changes", "text"),
    [
        ("block-attention", {"block_size": 7}, "even"),
        ("longformer", {"window": 33}, "even"),
        ("unlimiformer", {"mode": "retrieve"}, "did you mean 'retrieval'"),
        ("unlimiformer", {"search": "fais"}, "did you mean 'faiss'"),
        ("unlimiformer", {"retrieved": 0}, "retrieved must be 1 or more"),
        ("pagesum", {"pages": 0}, "pages must be 1 or more"),
        ("cached", {"chunk_size": 0}, "chunk_size must be 1 or more"),
        ("truncated", {"num_beams": 0}, "num_beams must be 1 or more"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(system: str, changes: dict[str, Any], text: str) -> None:
    with pytest.raises(AwesumError, match=text) as error:
        systems.find(system).settings_class(**changes)  # type: ignore[misc]
    assert "\n" not in str(error.value)


def test_system_has_defaults_of_its_own() -> None:
    needed = {"data": "d", "output": "o"}
    settings, _ = read_settings(None, {**needed, "system": "long-t5"})
    assert (settings.learning_rate, settings.max_tokens) == (1e-4, 6144)
    assert settings.base == "google/long-t5-tglobal-base"
    settings, _ = read_settings(None, {**needed, "system": "long-t5", "learning_rate": 3e-5, "max_tokens": "all"})
    assert (settings.learning_rate, settings.max_tokens) == (3e-5, None)
    assert read_settings(None, {**needed, "system": "longformer"})[0].max_tokens == 8192


def test_exhausted_memory_is_one_line_with_an_estimate(tiny_bart_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training: Any = make("truncated", str(tiny_bart_folder), systems.find("truncated").settings_class())  # type: ignore[misc]
    monkeypatch.setattr("awesum.training.trainer.peak", lambda device: 2_000_000_000)

    def exhausted(loss: torch.Tensor) -> None:
        raise torch.OutOfMemoryError("no memory")

    with pytest.raises(AwesumError, match="no estimate"):
        training.loss([_inputs(list(range(4, 24)), [0, 9, 2])], exhausted)
    training.loss([_inputs(list(range(4, 24)), [0, 9, 2])], lambda loss: None)
    estimate = r"20 tokens took 2.0 GB, and memory grows in proportion to the tokens.*about 6.0 GB"
    with pytest.raises(AwesumError, match=estimate) as error:
        training.loss([_inputs(list(range(4, 64)), [0, 9, 2])], exhausted)
    assert "\n" not in str(error.value)
    with pytest.raises(RuntimeError, match="something else"):
        training.loss([_inputs([4, 5], [0, 9, 2])], lambda loss: (_ for _ in ()).throw(RuntimeError("something else")))


def test_every_long_input_system_is_tested_here() -> None:
    assert set(OWN) == {name for name in systems.names() if issubclass(systems.find(name), LongInput)}


def test_plain_led_is_for_longformer(bart: Path, tmp_path: Path, tiny_bart_tokenizer: Any, analyst: Analyst) -> None:
    """And what longformer saves is the library's LED."""
    training: Any = make("longformer", str(bart), systems.find("longformer").settings_class(window=16))  # type: ignore[misc]
    training.save(tmp_path)
    plain = LEDForConditionalGeneration.from_pretrained(tmp_path)
    ids = torch.randint(4, 400, (1, 16))
    is_global = torch.zeros_like(ids)
    is_global[0, 0] = 1
    expected = plain(ids, global_attention_mask=is_global, labels=ids[:, :5]).logits
    torch.testing.assert_close(training.model.eval()(ids, labels=ids[:, :5]).logits, expected)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["system"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert systems.kind_of(str(tmp_path)).name == "longformer"
