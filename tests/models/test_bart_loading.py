"""Saving and loading, from our checkpoints and from plain BARTs, and what is refused."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, BartForConditionalGeneration, T5Config
from transformers.utils import logging as library_logging

from awesum.errors import AwesumError
from awesum.models.bart import AwesomeBart, load_config
from awesum.models.bart_config import AwesomeConfig
from tests.models.awesome_barts import ATTENTIVE, KINDS, MEMORY, TINY, Batch, close, plain, run, tiny

# ---------------------------------------------------------------------------------------------- saving and loading


VARIANTS = [
    {"memory": memory, "salient": salient, "memory_direction": direction}
    for memory in ("none", *KINDS)
    for salient in ("none", "text", "key-value")
    for direction in ("forward", "both")
    if direction == "forward" or (memory != "none" and salient != "text")
]


def message(error: pytest.ExceptionInfo[AwesumError]) -> str:
    text = str(error.value)
    assert text
    assert "\n" not in text
    return text


@pytest.fixture(scope="module")
def bart_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bart")
    plain().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def trained_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Never changed; tests that spoil it copy it first."""
    folder = tmp_path_factory.mktemp("trained")
    tiny().save_pretrained(folder)
    return folder


def copy_of(folder: Path, target: Path) -> Path:
    target.mkdir(exist_ok=True)
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target


@pytest.mark.parametrize("options", VARIANTS, ids=lambda options: "-".join(options.values()))
@torch.no_grad()
def test_saved_and_loaded_it_is_the_same(options: dict[str, str], tmp_path: Path) -> None:
    model = tiny(**options)
    model.save_pretrained(tmp_path)
    kinds = {file.suffix for file in tmp_path.iterdir()}
    assert kinds == {".json", ".safetensors"}
    loaded = AwesomeBart.from_pretrained(tmp_path)
    assert type(loaded) is AwesomeBart
    assert not loaded.training
    assert loaded.state_dict().keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    for name in (
        "memory",
        "memory_layers",
        "memory_size",
        "compression_ratio",
        "memory_direction",
        "salient",
        "salient_size",
    ):
        assert getattr(loaded.config, name) == getattr(model.config, name)
    salient = Batch(0).salient() if options["salient"] == "key-value" else None
    for ours, theirs in zip(run(loaded, salient=salient), run(model, salient=salient), strict=True):
        close(ours.logits, theirs.logits)


@pytest.mark.parametrize("layers", [1, "all", [0, 2], (0, 2)])
def test_layers_survive_saving_in_every_spelling(layers: Any, tmp_path: Path) -> None:
    model = tiny(memory_layers=layers)
    model.save_pretrained(tmp_path)
    for options in ({}, {"memory": "attentive", "memory_layers": layers, "memory_size": 10, "salient": "none"}):
        loaded = AwesomeBart.from_pretrained(tmp_path, **options)
        assert loaded.state_dict().keys() == model.state_dict().keys()


def test_bart_gets_memory_and_stays_bart(bart_folder: Path) -> None:
    bart = BartForConditionalGeneration.from_pretrained(bart_folder).eval()
    model = AwesomeBart.from_pretrained(bart_folder, memory="attentive", memory_layers=2, memory_size=8)
    assert model.config.memory_size == 8
    assert model.config.model_type == "awesome-bart"
    memory = None
    for segment in range(3):
        ours = model(**Batch(segment).inputs, memory=memory)
        close(ours.logits, bart(**Batch(segment).inputs).logits)
        memory = ours.memory
    fresh = AwesomeBart(AwesomeConfig(**TINY, memory_layers=2, memory_size=8)).model.encoder.layers[3].memory
    close(model.model.encoder.layers[3].memory.initial, fresh.initial.double())
    assert all(weight.isfinite().all() for weight in model.parameters())


def test_bart_gets_a_compression_that_is_a_mean(bart_folder: Path) -> None:
    model = AwesomeBart.from_pretrained(bart_folder, memory="compressive", memory_layers=1, memory_size=8)
    compress = model.model.decoder.layers[2].memory.compress
    states = torch.randn(1, 24, 5, dtype=torch.float64)
    torch.testing.assert_close(compress(states)[..., 0], states.mean(-1), rtol=1e-6, atol=1e-6)
    assert not compress.bias.any()


def test_bart_without_its_head_gets_memory_too(tmp_path: Path) -> None:
    """As `facebook/bart-large` is stored: names without `model.`, a configuration full of older days."""
    bart = plain()
    bart.final_logits_bias.zero_()
    bart.model.save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    stored |= {
        "_name_or_path": "bart-large",
        "_num_labels": 3,
        "add_bias_logits": False,
        "add_final_layer_norm": False,
        "architectures": ["BartModel"],
        "classif_dropout": 0.1,
        "early_stopping": True,
        "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
        "label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2},
        "no_repeat_ngram_size": 3,
        "normalize_before": False,
        "num_beams": 4,
        "task_specific_params": {"summarization": {"length_penalty": 1.0, "max_length": 128, "num_beams": 4}},
        "transformers_version": "4.7.0.dev0",
    }
    (tmp_path / "config.json").write_text(json.dumps(stored))
    assert "shared.weight" in load_file(tmp_path / "model.safetensors")
    model = AwesomeBart.from_pretrained(tmp_path, memory_layers=1)
    close(model(**Batch(0).inputs).logits, bart(**Batch(0).inputs).logits)
    model.save_pretrained(tmp_path / "again")
    again = AwesomeBart.from_pretrained(tmp_path / "again")
    close(again(**Batch(0).inputs).logits, bart(**Batch(0).inputs).logits)


def test_options_of_the_library_are_still_its_own(bart_folder: Path) -> None:
    model = AwesomeBart.from_pretrained(
        bart_folder, memory_layers=1, dtype=torch.bfloat16, attn_implementation="eager", dropout=0.3
    )
    assert model.dtype == torch.bfloat16
    assert model.model.encoder.layers[3].memory.initial.dtype == torch.bfloat16
    assert model.config._attn_implementation == "eager"
    assert model.model.decoder.layers[0].dropout == 0.3
    given = AwesomeConfig(**TINY, memory="none")
    assert AwesomeBart.from_pretrained(bart_folder, config=given).config.memory == "none"


@pytest.mark.parametrize("options", VARIANTS, ids=lambda options: "-".join(options.values()))
@torch.no_grad()
def test_library_s_auto_class_loads_what_we_save(options: dict[str, str], tmp_path: Path) -> None:
    model = tiny(**options)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert type(loaded) is AwesomeBart
    salient = Batch(0).salient() if options["salient"] == "key-value" else None
    for ours, theirs in zip(run(loaded, salient=salient), run(model, salient=salient), strict=True):
        close(ours.logits, theirs.logits)
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name


def test_library_s_auto_class_takes_its_options(trained_folder: Path) -> None:
    loaded, report = AutoModelForSeq2SeqLM.from_pretrained(
        trained_folder, dtype=torch.bfloat16, attn_implementation="eager", output_loading_info=True
    )
    assert (type(loaded), loaded.dtype) == (AwesomeBart, torch.bfloat16)
    assert loaded.config._attn_implementation == "eager"
    assert not report["missing_keys"]


@pytest.mark.parametrize("folder", ["bart_folder", "trained_folder"])
@pytest.mark.parametrize(
    "options",
    [
        {"local_files_only": True},
        {"local_files_only": False},
        {"use_safetensors": True},
        {"use_safetensors": None},
        {"trust_remote_code": False},
        {"trust_remote_code": None},
        {"revision": "main"},
        {"token": None, "cache_dir": None, "force_download": False},
        {"device_map": "cpu"},
        {"dtype": "auto"},
        {"low_cpu_mem_usage": True},
    ],
    ids=str,
)
@torch.no_grad()
def test_options_of_every_model_of_the_library(
    options: dict[str, Any], folder: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(folder)
    plain = AwesomeBart.from_pretrained(path, **MEMORY)
    model = AwesomeBart.from_pretrained(path, **MEMORY, **options)
    assert model.dtype == torch.float64
    assert model.device.type == "cpu"
    close(model(**Batch(0).inputs).logits, plain(**Batch(0).inputs).logits)


def test_loading_info_is_that_of_the_library(bart_folder: Path, trained_folder: Path) -> None:
    model, report = AwesomeBart.from_pretrained(trained_folder, output_loading_info=True)
    assert isinstance(model, AwesomeBart)
    assert not any(report[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    _, report = AwesomeBart.from_pretrained(bart_folder, **MEMORY, output_loading_info=True)
    assert report["missing_keys"]
    assert all(".memory." in key for key in report["missing_keys"])


def test_sizes_may_differ_where_that_is_asked_for(bart_folder: Path) -> None:
    with pytest.raises(AwesumError, match="of another size"):
        AwesomeBart.from_pretrained(bart_folder, memory="none", max_position_embeddings=32)
    model = AwesomeBart.from_pretrained(
        bart_folder, memory="none", max_position_embeddings=32, ignore_mismatched_sizes=True
    )
    assert model.config.max_position_embeddings == 32


@pytest.mark.parametrize("option", [{"trust_remote_code": True}, {"use_safetensors": False}], ids=str)
def test_code_and_pickles_of_others_are_refused(option: dict[str, bool], trained_folder: Path) -> None:
    with pytest.raises(AwesumError) as error:
        AwesomeBart.from_pretrained(trained_folder, **option)
    assert "=".join(map(str, *option.items())) in message(error)


def test_configuration_may_be_a_file_or_a_folder(trained_folder: Path) -> None:
    for config in (trained_folder, str(trained_folder), trained_folder / "config.json"):
        assert AwesomeBart.from_pretrained(trained_folder, config=config).config.memory_size == 10


@pytest.mark.parametrize("system", ["awesome", "se3"])
def test_folder_records_its_system(system: str, bart_folder: Path, tmp_path: Path) -> None:
    options = {} if system == "awesome" else {"memory": "none", "system": system}
    AwesomeBart.from_pretrained(bart_folder, **{"memory_layers": 1} | options).save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["system"] == system
    assert AwesomeBart.from_pretrained(tmp_path).config.system == system


def aged(folder: Path) -> None:
    """A folder as it was saved when `attentive` was what is now `attentive-literal`."""
    stored = json.loads((folder / "config.json").read_text())
    assert stored.pop("memory_format") == 2
    stored["memory"] = stored["memory"].removesuffix("-literal")
    (folder / "config.json").write_text(json.dumps(stored))


@pytest.mark.parametrize("kind", ["attentive-literal", "compressive"])
@torch.no_grad()
def test_older_checkpoint_is_loaded_as_the_literal_variant(kind: str, tmp_path: Path) -> None:
    """By every way there is, with the same output; what was never attentive is what it was."""
    model = tiny(memory=kind)
    expected = run(model)
    model.save_pretrained(tmp_path)
    aged(tmp_path)
    for loaded in (AwesomeBart.from_pretrained(tmp_path), AutoModelForSeq2SeqLM.from_pretrained(tmp_path)):
        assert loaded.config.memory == kind
        for ours, theirs in zip(run(loaded), expected, strict=True):
            close(ours.logits, theirs.logits)
    assert load_config(str(tmp_path)).memory == kind
    loaded.save_pretrained(tmp_path / "again")
    assert AwesomeBart.from_pretrained(tmp_path / "again").config.memory == kind


@pytest.mark.parametrize(
    ("kind", "other", "is_old"),
    [
        ("attentive", "attentive-literal", False),
        ("attentive-literal", "attentive", False),
        ("attentive-literal", "attentive", True),
    ],
)
def test_one_variant_is_not_loaded_as_the_other(kind: str, other: str, is_old: bool, tmp_path: Path) -> None:
    tiny(memory=kind).save_pretrained(tmp_path)
    if is_old:
        aged(tmp_path)
    with pytest.raises(
        AwesumError, match=f"memory='{kind}', not '{other}': load it as it is .memory='{kind}'."
    ) as error:
        AwesomeBart.from_pretrained(tmp_path, memory=other)
    assert "\n" not in str(error.value)
    assert AwesomeBart.from_pretrained(tmp_path, memory=kind).config.memory == kind


def test_slots_fewer_than_heads_are_refused() -> None:
    for kind in ATTENTIVE:
        with pytest.raises(AwesumError, match=r"memory_size=3 is less than the 4 attention heads.*give at least 4"):
            AwesomeConfig(**TINY | {"memory": kind, "memory_size": 3})
    AwesomeConfig(**TINY | {"memory": "salient", "memory_size": 3})


def test_folder_of_before_systems_still_loads(trained_folder: Path, tmp_path: Path) -> None:
    folder = copy_of(trained_folder, tmp_path)
    saved = json.loads((folder / "config.json").read_text())
    del saved["system"]
    (folder / "config.json").write_text(json.dumps(saved))
    assert AwesomeBart.from_pretrained(folder).config.system == "awesome"


# --------------------------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"memory": "atentive"},
            "memory='atentive' is not one of none, attentive, attentive-literal, compressive, salient; did you mean "
            "'attentive'?",
        ),
        ({"memory": "compresive"}, "did you mean 'compressive'?"),
        ({"salient": "keyvalue"}, "did you mean 'key-value'?"),
        ({"memory_direction": "forwards"}, "did you mean 'forward'?"),
        ({"memory": "xyz"}, "memory='xyz' is not one of none, attentive, attentive-literal, compressive"),
        ({"memory_layers": 4}, "there are 3 layers"),
        ({"memory_layers": 0}, "for none of them, memory='none'"),
        ({"memory_layers": [3]}, "there are 3 layers, 0 to 2"),
        ({"memory_layers": [-4]}, "there are 3 layers, 0 to 2"),
        ({"memory_layers": []}, "there are"),
        ({"memory_layers": "last"}, "memory_layers='last'"),
        ({"memory": "compressive", "memory_size": 9}, "memory_size=9 is odd"),
        ({"memory_size": 0}, "memory_size must be a whole number, 1 or more, not 0"),
        ({"compression_ratio": -1}, "compression_ratio must be a whole number, 1 or more, not -1"),
        ({"memory_size": "many"}, "memory_size must be a whole number, 1 or more, not 'many'"),
    ],
)
def test_wrong_options_are_reported_in_one_line(options: dict[str, Any], expected: str, bart_folder: Path) -> None:
    with pytest.raises(AwesumError) as error:
        AwesomeBart.from_pretrained(bart_folder, **{"memory_layers": 2} | options)
    assert expected in message(error)
    with pytest.raises(AwesumError) as error:
        AwesomeConfig(**TINY | MEMORY | options)
    assert expected in message(error)


@pytest.mark.parametrize(
    "options",
    [{"memory": "none"}, {"memory": "compressive"}, {"memory_layers": 1}, {"memory_size": 8}, {"salient": "key-value"}],
)
def test_checkpoint_of_another_configuration(options: dict[str, Any], trained_folder: Path) -> None:
    with pytest.raises(AwesumError) as error:
        AwesomeBart.from_pretrained(trained_folder, **options)
    ((name, value),) = options.items()
    assert f"was trained with {name}=" in message(error)
    assert f"not {value!r}" in message(error)


def test_checkpoint_with_another_configuration_beside_it(trained_folder: Path, tmp_path: Path) -> None:
    """Weights of one model, config.json of another: of other sizes, with fewer memories, with more."""
    for options in (
        {"d_model": 48},
        {"memory_size": 6},
        {"memory_layers": 1},
        {"memory_layers": 3},
        {"memory": "none"},
    ):
        folder = copy_of(trained_folder, tmp_path / "copy")
        AwesomeConfig(**TINY | MEMORY | options).save_pretrained(folder)
        with pytest.raises(AwesumError) as error:
            AwesomeBart.from_pretrained(folder)
        assert str(folder) in message(error)
        assert "report" not in message(error)


def test_checkpoint_of_another_kind_of_model(tmp_path: Path) -> None:
    T5Config().save_pretrained(tmp_path)
    with pytest.raises(AwesumError) as error:
        AwesomeBart.from_pretrained(tmp_path)
    assert "is a 't5' model: give a BART model" in message(error)


@pytest.mark.parametrize("content", ["nothing", "config.json only", "broken config.json", "no folder", "weights only"])
def test_folder_that_is_not_a_checkpoint(content: str, trained_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "missing" / "far away" if content == "no folder" else tmp_path
    if content == "config.json only":
        (folder / "config.json").write_bytes((trained_folder / "config.json").read_bytes())
    elif content == "broken config.json":
        copy_of(trained_folder, folder)
        (folder / "config.json").write_text('{"model_type": "awes')
    elif content == "weights only":
        (folder / "model.safetensors").write_bytes((trained_folder / "model.safetensors").read_bytes())
    with pytest.raises(AwesumError) as error:
        AwesomeBart.from_pretrained(folder)
    assert str(folder) in message(error)


@pytest.mark.parametrize("damage", ["truncated", "cut in the header", "empty", "noise"])
def test_corrupt_weights(damage: str, trained_folder: Path, tmp_path: Path) -> None:
    file = copy_of(trained_folder, tmp_path) / "model.safetensors"
    content = file.read_bytes()
    file.write_bytes(
        {
            "truncated": content[: len(content) // 2],
            "cut in the header": content[:100],
            "empty": b"",
            "noise": bytes(range(256)) * 40,
        }[damage]
    )
    with pytest.raises(AwesumError) as error:
        AwesomeBart.from_pretrained(tmp_path)
    assert str(tmp_path) in message(error)


@pytest.mark.parametrize(
    "lost",
    [
        "model.encoder.layers.3.memory.u1.weight",
        "model.decoder.layers.2.memory.initial",
        "model.encoder.layers.0.fc1.bias",
    ],
)
def test_weights_that_are_partly_missing(lost: str, trained_folder: Path, tmp_path: Path) -> None:
    """Never a fresh weight where a trained one is meant to be."""
    file = copy_of(trained_folder, tmp_path) / "model.safetensors"
    weights = load_file(file)
    del weights[lost]
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(AwesumError) as error:
        AwesomeBart.from_pretrained(tmp_path)
    assert lost in message(error)


def test_bart_whose_own_weights_are_partly_missing(bart_folder: Path, tmp_path: Path) -> None:
    file = copy_of(bart_folder, tmp_path) / "model.safetensors"
    weights = load_file(file)
    lost = "model.decoder.layers.1.encoder_attn.k_proj.weight"
    del weights[lost]
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(AwesumError) as error:
        AwesomeBart.from_pretrained(tmp_path, memory_layers=1)
    assert lost in message(error)


def test_loading_is_quiet_and_leaves_the_library_as_it_was(
    bart_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append
    logger = logging.getLogger("transformers")
    logger.addHandler(handler)
    bars = library_logging.is_progress_bar_enabled()
    level, hub = library_logging.get_verbosity(), logging.getLogger("huggingface_hub").level
    try:
        library_logging.enable_progress_bar()
        library_logging.set_verbosity_warning()
        AwesomeBart.from_pretrained(bart_folder, memory_layers=1)
        with pytest.raises(AwesumError):
            AwesomeBart.from_pretrained(tmp_path)
        assert not records
        assert capsys.readouterr() == ("", "")
        assert library_logging.is_progress_bar_enabled()
        assert library_logging.get_verbosity() == logging.WARNING
        assert logging.getLogger("huggingface_hub").level == hub
        # The same loading as the library does it, so that this can fail:
        super(AwesomeBart, AwesomeBart).from_pretrained(bart_folder, config=AwesomeConfig(**TINY, memory_layers=1))
        assert "LOAD REPORT" in records[-1].getMessage()
        assert "Loading weights" in capsys.readouterr().err
    finally:
        logger.removeHandler(handler)
        library_logging.set_verbosity(level)
        if not bars:
            library_logging.disable_progress_bar()
