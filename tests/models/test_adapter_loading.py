"""An adapter saved and read again, on the model it was trained with; and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, GPT2Config, GraniteConfig, PretrainedConfig

import awesum
from awesum.errors import AwesumError
from awesum.models.adapter import WEIGHTS, AwesomeCausal, States
from awesum.models.adapter_config import AdapterConfig, is_adapter, read_config
from awesum.models.adapter_layers import LowRank
from awesum.recurrence.causal import answer
from awesum.settings import ADAPTER
from tests.models.adapters import (
    END,
    MEMORIES,
    TINY,
    UPDATES,
    VOCABULARY,
    adapted,
    changed,
    documents,
    one_line,
    pretrained,
    step_of,
)


def all_losses(model: AwesomeCausal) -> torch.Tensor:
    batch = documents()
    states: States = model.start(3)
    found = []
    for number in range(3):
        with torch.no_grad():
            losses, states = answer(model, states, step_of(model, batch, number))
        found.append(losses.flatten())
    return torch.cat(found)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("memory", ["none", *MEMORIES])
def test_adapter_is_saved_alone_and_read_again(memory: str, update: str, tmp_path: Path) -> None:
    model = adapted(pretrained(), trained=True, memory=memory, update=update)
    assert not is_adapter(tmp_path)
    model.save_pretrained(tmp_path)
    assert is_adapter(tmp_path)
    assert read_config(tmp_path) == replace(model.adapter_config, base_sha256=model.fingerprint())
    saved = load_file(tmp_path / WEIGHTS)
    assert not any("prompted" in name or "original" in name or "initial" in name for name in saved)
    numbers = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert sum(tensor.numel() for tensor in saved.values()) == numbers
    assert (tmp_path / WEIGHTS).stat().st_size < 4 * numbers + 200 * len(saved) + 200
    fresh = adapted(pretrained(), memory=memory, update=update)
    expected = all_losses(model)
    if saved:
        assert not torch.allclose(all_losses(fresh), expected, atol=1e-3)
    fresh.load_adapter(tmp_path)
    assert torch.equal(all_losses(fresh), expected)


def test_half_precision_takes_half_the_room(tmp_path: Path) -> None:
    model = adapted(pretrained(), trained=True)
    for name, dtype in (("whole", torch.float32), ("half", torch.float16)):
        model.save_pretrained(tmp_path / name, dtype)
    sizes = [(tmp_path / name / WEIGHTS).stat().st_size for name in ("whole", "half")]
    assert sizes[1] < 0.6 * sizes[0]
    fresh = adapted(pretrained())
    fresh.load_adapter(tmp_path / "half")
    assert all(weight.dtype == torch.float32 for weight in fresh.new_weights().values())
    torch.testing.assert_close(all_losses(fresh), all_losses(model), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("update", ["low-rank", "full"])
@pytest.mark.parametrize("memory", MEMORIES)
def test_merged_adapter_answers_the_same(memory: str, update: str) -> None:
    model = adapted(pretrained(), trained=True, memory=memory, update=update)
    expected = all_losses(model)
    model.merge()
    torch.testing.assert_close(all_losses(model), expected, rtol=1e-4, atol=1e-4)
    assert not any(isinstance(module, LowRank) for module in model.modules())


def damaged(kind: str, path: Path) -> None:
    saved = load_file(path / WEIGHTS)
    name = sorted(saved)[-1]
    if kind == "a tensor less":
        save_file({key: tensor for key, tensor in saved.items() if key != name}, path / WEIGHTS)
    elif kind == "a tensor more":
        save_file({**saved, "0.memory.source.u1.weight": saved[name].clone()}, path / WEIGHTS)
    elif kind == "another shape":
        save_file({**saved, name: saved[name][:-1].contiguous()}, path / WEIGHTS)
    elif kind == "garbage":
        (path / WEIGHTS).write_bytes(b"\x00garbage\n" * 50)
    elif kind == "half":
        (path / WEIGHTS).write_bytes((path / WEIGHTS).read_bytes()[:-100])
    else:
        (path / WEIGHTS).unlink()


@pytest.mark.parametrize("kind", ["a tensor less", "a tensor more", "another shape", "garbage", "half", "nothing"])
def test_adapter_that_does_not_fit_is_reported_in_one_line(kind: str, tmp_path: Path) -> None:
    model = adapted(pretrained(), trained=True)
    model.save_pretrained(tmp_path)
    damaged(kind, tmp_path)
    fresh = adapted(pretrained())
    before = all_losses(fresh)
    with pytest.raises(AwesumError) as error:
        fresh.load_adapter(tmp_path)
    assert WEIGHTS in one_line(error)
    assert torch.equal(all_losses(fresh), before), "half of an adapter was taken over"


@pytest.mark.parametrize(
    "text",
    ['{"memory": "attentive",', "[]", "7", '"text"', "null", '{"memory": "atentive"}', '{"rank": 0}', '{"rang": 8}'],
)
def test_configuration_that_cannot_be_read_is_reported_in_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / ADAPTER).write_text(text)
    with pytest.raises(AwesumError) as error:
        read_config(tmp_path)
    one_line(error)


def test_configuration_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(AwesumError) as error:
        read_config(tmp_path)
    assert ADAPTER in one_line(error)
    (tmp_path / ADAPTER).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(AwesumError) as error:
        read_config(tmp_path)
    one_line(error)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"memory": "atentive"}, "did you mean 'attentive'"),
        ({"salient": "key-value"}, "salient='key-value' is not one of"),
        ({"update": "lowrank"}, "did you mean 'low-rank'"),
        ({"adapted_tokens": "answers"}, "did you mean 'answer'"),
        ({"update_layers": (1, 2)}, "update_layers must be a whole number"),
        ({"memory_layers": 2.5}, "memory_layers=2.5: give a number"),
        ({"memory_layers": True}, "memory_layers=True: give a number"),
        ({"memory_layers": ["a"]}, "give a number of last layers"),
        ({"memory_layers": "some"}, "give a number of last layers"),
        ({"memory_size": True}, "memory_size must be a whole number"),
        ({"rank": 0}, "rank must be a whole number"),
        ({"compression_ratio": 2.5}, "compression_ratio must be a whole number"),
        ({"memory": "compressive", "memory_size": 7}, "is odd"),
    ],
    ids=str,
)
def test_configuration_that_makes_no_sense(options: dict[str, Any], text: str) -> None:
    with pytest.raises(AwesumError, match=text) as error:
        AdapterConfig(**options)
    one_line(error)


def test_configuration_is_plain_text(tmp_path: Path) -> None:
    adapted(pretrained(), memory="compressive").save_pretrained(tmp_path)
    values = json.loads((tmp_path / ADAPTER).read_text())
    assert (values["base"], values["memory"], values["memory_layers"]) == ("tiny", "compressive", 2)
    assert values["system"] == "adapter"


def test_configuration_of_an_older_version_is_read(tmp_path: Path) -> None:
    """Without its system, and with the older name of a setting; the shipped adapter is one."""
    (tmp_path / ADAPTER).write_text('{"base": "tiny", "memory": "none", "salient": "points"}')
    config = read_config(tmp_path)
    assert (config.salient, config.system) == ("rewrite", "adapter")
    shipped = read_config(Path(awesum.__file__).parent / "writer")
    assert (shipped.salient, shipped.memory, shipped.system) == ("rewrite", "none", "adapter")
    with pytest.raises(AwesumError, match="'points' is not one of none, text, rewrite"):
        AdapterConfig(salient="points")


@pytest.mark.parametrize(
    "config",
    [
        GPT2Config(n_embd=32, n_layer=4, n_head=4, vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=END),
        GraniteConfig(**TINY, residual_multiplier=0.3, attention_multiplier=0.35),
    ],
    ids=lambda config: config.model_type,
)
def test_model_of_another_structure_is_refused(config: PretrainedConfig) -> None:
    """Granite has the parts of a Llama, and puts them together in another way."""
    base = AutoModelForCausalLM.from_config(config)
    with pytest.raises(AwesumError) as error:
        adapted(base)
    one_line(error)


def test_more_layers_than_there_are() -> None:
    with pytest.raises(AwesumError, match="there are 4 layers") as error:
        adapted(pretrained(), memory_layers=5)
    one_line(error)


def test_rank_is_at_most_that_of_the_matrix() -> None:
    model = adapted(pretrained(), rank=1000, trained=True)
    shapes = {tuple(weight.shape) for name, weight in model.new_weights().items() if name.endswith(".b")}
    assert shapes == {(32, 32), (16, 16), (48, 32)}


def test_fingerprint_is_that_of_the_pretrained_model() -> None:
    plain = adapted(pretrained()).fingerprint()
    for options in ({"memory": "none"}, {"update": "full"}, {"trained": True}, {"memory": "compressive"}):
        assert adapted(pretrained(), **options).fingerprint() == plain
    for name in ("embed_tokens.weight", "layers.0.mlp.up_proj.weight", "layers.1.input_layernorm.weight"):
        assert changed(f"model.{name}") != plain, name
    for name in ("layers.2.mlp.up_proj.weight", "layers.3.input_layernorm.weight", "norm.weight"):
        assert changed(f"model.{name}") != plain, name


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("llama", {"rms_norm_eps": 1e-2}),
        ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}),
        ("mistral", {"sliding_window": 4}),
    ],
    ids=["norm", "positions", "window"],
)
def test_fingerprint_tells_models_apart_that_differ_in_their_configuration_only(
    family: str, changes: dict[str, Any]
) -> None:
    one, other = adapted(pretrained(family)), adapted(pretrained(family, **changes))
    ids = torch.randint(3, VOCABULARY, (1, 12))
    with torch.no_grad():
        assert not torch.allclose(one.trunk(ids), other.trunk(ids), atol=1e-3)
    assert one.fingerprint() != other.fingerprint()


@torch.no_grad()
def test_older_adapter_is_loaded_as_the_literal_variant(tmp_path: Path) -> None:
    """With the same answers; and neither variant is loaded as the other."""
    model = adapted(pretrained(), trained=True, memory="attentive-literal")
    expected, _ = answer(model, model.start(1), step_of(model, documents()[:1], 0))
    model.save_pretrained(tmp_path)
    stored = json.loads((tmp_path / ADAPTER).read_text())
    assert stored.pop("memory_format") == 2
    (tmp_path / ADAPTER).write_text(json.dumps(stored | {"memory": "attentive"}))
    assert read_config(tmp_path).memory == "attentive-literal"
    loaded = AwesomeCausal(pretrained(), read_config(tmp_path))
    loaded.load_adapter(tmp_path)
    found, _ = answer(loaded.eval(), loaded.start(1), step_of(loaded, documents()[:1], 0))
    torch.testing.assert_close(found, expected)
    other = adapted(pretrained(), memory="attentive")
    with pytest.raises(AwesumError, match=r"memory='attentive-literal', not 'attentive'.*='attentive-literal'"):
        other.load_adapter(tmp_path)
    other.save_pretrained(tmp_path)
    with pytest.raises(AwesumError, match=r"memory='attentive', not 'attentive-literal'.*='attentive'"):
        model.load_adapter(tmp_path)


@pytest.mark.parametrize(
    ("trained", "asked", "text"),
    [
        ({}, {"adapted_tokens": "all"}, "adapted_tokens='answer', not 'all'"),
        ({"adapted_tokens": "all"}, {}, "adapted_tokens='all', not 'answer'"),
        ({}, {"memory_layers": (1, 3)}, r"memory_layers=\[2, 3\], not \[1, 3\]"),
        ({}, {"memory_size": 8}, "memory_size=6, not 8"),
        ({"memory": "compressive"}, {"memory": "compressive", "compression_ratio": 3}, "compression_ratio=2, not 3"),
        ({"memory": "compressive"}, {"memory": "salient"}, "memory='compressive', not 'salient'"),
        ({}, {"update_layers": 3}, "update_layers=2, not 3"),
        ({}, {"update": "full"}, "update='low-rank', not 'full'"),
        ({}, {"rank": 2}, "rank=3, not 2"),
    ],
    ids=str,
)
def test_adapter_of_other_settings_is_refused_in_one_line(
    trained: dict[str, Any], asked: dict[str, Any], text: str, tmp_path: Path
) -> None:
    adapted(pretrained(), trained=True, **trained).save_pretrained(tmp_path)
    saved = {path: path.read_bytes() for path in tmp_path.iterdir()}
    model = adapted(pretrained(), **asked)
    before = all_losses(model)
    with pytest.raises(AwesumError, match=f"was trained with {text}: load it as it is") as error:
        model.load_adapter(tmp_path)
    one_line(error)
    assert torch.equal(all_losses(model), before)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == saved


def test_settings_of_what_an_adapter_lacks_do_not_matter(tmp_path: Path) -> None:
    adapted(pretrained(), trained=True, memory="none", memory_size=8, compression_ratio=4).save_pretrained(tmp_path)
    adapted(pretrained(), memory="none", memory_layers=(0,), memory_size=6).load_adapter(tmp_path)


def test_base_with_fewer_layers_is_refused_in_one_line(tmp_path: Path) -> None:
    """Layers that are numbered otherwise: the saved adapter names some that are not there."""
    adapted(pretrained(), trained=True, memory_layers=(2, 3)).save_pretrained(tmp_path)
    saved = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for settings, text in (
        (read_config(tmp_path), r"memory_layers=\[2, 3\]: there are 2 layers, 0 to 1; name some of them"),
        (replace(read_config(tmp_path), memory="none", update_layers=3), "update_layers=3: there are 2 layers; give"),
    ):
        with pytest.raises(AwesumError, match=text) as error:
            AwesomeCausal(pretrained(num_hidden_layers=2), settings)
        one_line(error)
    smaller = adapted(pretrained(num_hidden_layers=2), memory_layers=1, update_layers=1)
    with pytest.raises(AwesumError, match=r"memory_layers=\[2, 3\]: there are 2 layers") as error:
        smaller.load_adapter(tmp_path)
    one_line(error)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == saved


def test_adapter_from_before_there_were_adapted_tokens_adapts_the_answer(tmp_path: Path) -> None:
    """And answers as it did."""
    model = adapted(pretrained(), trained=True)
    model.save_pretrained(tmp_path)
    stored = json.loads((tmp_path / ADAPTER).read_text())
    assert stored.pop("adapted_tokens") == "answer"
    (tmp_path / ADAPTER).write_text(json.dumps(stored))
    loaded = AwesomeCausal(pretrained(), read_config(tmp_path)).eval()
    loaded.load_adapter(tmp_path)
    assert torch.equal(all_losses(loaded), all_losses(model))


@pytest.mark.parametrize("memory", ["none", *MEMORIES, "salient"])
def test_adapter_of_all_tokens_is_saved_and_read_again(memory: str, tmp_path: Path) -> None:
    model = adapted(pretrained(), trained=True, memory=memory, adapted_tokens="all")
    model.save_pretrained(tmp_path)
    fresh = AwesomeCausal(pretrained(), read_config(tmp_path)).eval()
    fresh.load_adapter(tmp_path)
    assert fresh.adapts_prompt
    assert torch.equal(all_losses(fresh), all_losses(model))
    expected = all_losses(model)
    model.merge()
    torch.testing.assert_close(all_losses(model), expected, rtol=1e-4, atol=1e-4)


def test_slots_fewer_than_heads_are_refused() -> None:
    with pytest.raises(AwesumError, match="memory_size=3 is less than the 4 attention heads") as error:
        adapted(pretrained(), memory="attentive", memory_size=3)
    one_line(error)
