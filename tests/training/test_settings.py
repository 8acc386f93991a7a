"""Settings of a training run: from a recipe and from changes, refused in one line where they do not fit."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

import awesum.models.adapter_config
import awesum.models.bart_config
from awesum import systems
from awesum.errors import AwesumError
from awesum.models.adapter_config import AdapterConfig, read_config
from awesum.models.bart_config import AwesomeConfig
from awesum.models.memory_settings import memory_choices
from awesum.systems.adapter import AdapterSettings
from awesum.systems.awesome import AwesomeSettings
from awesum.systems.se3 import Se3Settings
from awesum.training import recipes
from awesum.training.settings import (
    TrainingSettings,
    as_dict,
    convert,
    owners,
    read_settings,
    settings_class,
    trainable,
)
from awesum.weights import WRITER

NEEDED = {"data": "folder", "output": "out"}


def written(folder: Path, text: str) -> Path:
    path = folder / "settings.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path | None, changes: dict[str, Any]) -> str:
    with pytest.raises(AwesumError) as error:
        read_settings(path, changes)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_recipe_and_changes(tmp_path: Path) -> None:
    path = written(tmp_path, "data: folder\noutput: out\nmemory: compressive\nepochs: 9\nbatch_size: 2\n")
    settings, own = read_settings(path, {"epochs": "4", "seed": 7})
    assert (settings.data, settings.output, settings.system) == ("folder", "out", "awesome")
    assert (settings.epochs, settings.batch_size, settings.seed) == (4.0, 2, 7)
    assert isinstance(settings.epochs, float)
    assert settings == TrainingSettings(**NEEDED, epochs=4.0, batch_size=2, seed=7)
    assert own == AwesomeSettings(memory="compressive")


def test_without_a_recipe_the_paper_s_values() -> None:
    settings, own = read_settings(None, NEEDED)
    assert settings == TrainingSettings(**NEEDED)
    assert (settings.system, settings.base) == ("awesome", "facebook/bart-large")
    assert (settings.learning_rate, settings.epochs, settings.warmup_steps) == (5e-5, 3.0, 300)
    assert (settings.batch_size, settings.accumulation, settings.clipping) == (1, 8, 1.0)
    assert (settings.max_tokens, own.num_beams) == (51_200, 4)
    assert (own.no_repeat_ngram, own.max_part) == (5, 1024)


# ------------------------------------------------------------------------------------------------------- the system


def model_folder(folder: Path, **config: str) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def test_system_follows_from_the_base(tmp_path: Path) -> None:
    bases = {
        "smollm2": "adapter",
        model_folder(tmp_path / "bart", model_type="bart"): "awesome",
        model_folder(tmp_path / "trained", model_type="awesome-bart", system="se3"): "se3",
        model_folder(tmp_path / "llama", model_type="llama"): "adapter",
    }
    for base, system in bases.items():
        settings, own = read_settings(None, NEEDED | {"base": base})
        assert (settings.system, settings.base) == (system, base)
        assert type(own) is systems.find(system).settings_class


@pytest.mark.parametrize(
    ("system", "base"), [("awesome", "facebook/bart-large"), ("se3", "facebook/bart-large"), ("adapter", "smollm2")]
)
def test_base_follows_from_the_system(system: str, base: str) -> None:
    assert read_settings(None, NEEDED | {"system": system})[0].base == base


@pytest.mark.parametrize(
    ("system", "name", "value"),
    [
        ("adapter", "num_beams", 3),
        ("adapter", "no_repeat_ngram", 4),
        ("adapter", "max_part", 50),
        ("adapter", "trunk_batch", 2),
        ("adapter", "gradient_checkpointing", True),
        ("adapter", "memory_direction", "both"),
        ("awesome", "freeze_trunk", True),
        ("awesome", "update", "full"),
        ("awesome", "rank", 8),
        ("se3", "memory", "attentive"),
        ("se3", "salient", "text"),
    ],
)
def test_setting_of_another_system_is_refused(system: str, name: str, value: Any) -> None:
    error = refused(None, NEEDED | {"system": system, name: value})
    assert f"{name} is a setting of " in error
    assert f", not of {system}: leave it out" in error
    assert all(other in error for other in owners(name))


def test_old_name_of_the_base_is_refused_with_the_new_one(tmp_path: Path) -> None:
    assert "say --base" in refused(None, NEEDED | {"model": "facebook/bart-base"})
    assert "`base:` in a recipe" in refused(written(tmp_path, "model: facebook/bart-base"), NEEDED)


def test_system_that_does_not_train_or_exist() -> None:
    assert "lead does not train: choose from adapter, awesome, block-attention," in refused(
        None, NEEDED | {"system": "lead"}
    )
    assert "did you mean 'awesome'" in refused(None, NEEDED | {"system": "awesom"})


@pytest.mark.parametrize("system", ["awesome", "adapter"])
def test_choices_are_those_of_the_model(system: str) -> None:
    """They stand in the settings as well, so that a typo is reported without loading the models' libraries."""
    models = {"awesome": awesum.models.bart_config.CHOICES, "adapter": awesum.models.adapter_config.CHOICES}
    assert settings_class(system).choices == {"memory": memory_choices(), **models[system]}


def test_typo_is_reported_before_what_is_missing() -> None:
    error = refused(None, {"memory": "atentive", "data": "govreport"})
    assert "did you mean 'attentive'" in error


# ------------------------------------------------------------------------------------------- encoder and extractor


def test_any_encoder_goes_with_any_extractor() -> None:
    assert read_settings(None, NEEDED | {"encoder": "roberta-base"})[0].encoder == "roberta-base"
    assert read_settings(None, NEEDED | {"encoder": "roberta-base", "extractor": "centrality"})[0].encoder
    assert read_settings(None, NEEDED | {"extractor": "centrality"})[0].extractor == "centrality"


# ----------------------------------------------------------------------------------------------------------- values


def test_yaml_s_number_that_is_a_text(tmp_path: Path) -> None:
    settings, _ = read_settings(written(tmp_path, "learning_rate: 5e-5\nwarmup_steps: '12'\n"), NEEDED)
    assert settings.learning_rate == 5e-5
    assert isinstance(settings.learning_rate, float)
    assert settings.warmup_steps == 12


@pytest.mark.parametrize(
    ("text", "expected"),
    [("all", "all"), ("3", 3), ("1,2", (1, 2)), ("'1,2'", (1, 2)), ("[1, 2]", (1, 2)), ("-1,-2", (-1, -2))],
)
def test_memory_layers(tmp_path: Path, text: str, expected: Any) -> None:
    assert read_settings(written(tmp_path, f"memory_layers: {text}"), NEEDED)[1].memory_layers == expected


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("no", False), ("0", False), ("'yes'", True)])
def test_truth(tmp_path: Path, text: str, expected: bool) -> None:
    assert read_settings(written(tmp_path, f"empty_targets: {text}"), NEEDED)[0].empty_targets is expected


@pytest.mark.parametrize(("text", "expected"), [("null", None), ("all", None), ("none", None), ("300", 300)])
def test_limits_that_may_be_left_out(tmp_path: Path, text: str, expected: int | None) -> None:
    settings, _ = read_settings(written(tmp_path, f"max_tokens: {text}\ndocuments: {text}"), NEEDED)
    assert (settings.max_tokens, settings.documents) == (expected, expected)


@pytest.mark.parametrize(
    ("name", "near"),
    [("learning_rat", "learning_rate"), ("batchsize", "batch_size"), ("memory_layer", "memory_layers")],
)
def test_unknown_name_suggests_the_nearest(tmp_path: Path, name: str, near: str) -> None:
    assert refused(None, NEEDED | {name: 1}) == f"awesome has no setting {name!r}; did you mean {near!r}?"
    assert near in refused(written(tmp_path, f"{name}: 1"), NEEDED)


def test_unknown_name_without_a_near_one(tmp_path: Path) -> None:
    assert refused(None, NEEDED | {"zzz": 1}) == "awesome has no setting 'zzz'"
    assert "12" in refused(written(tmp_path, "12: 1"), NEEDED)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", "fast"),
        ("learning_rate", -1),
        ("learning_rate", 0),
        ("learning_rate", "nan"),
        ("epochs", 0),
        ("batch_size", 0),
        ("batch_size", 1.5),
        ("batch_size", "many"),
        ("batch_size", None),
        ("accumulation", 0),
        ("trunk_batch", 0),
        ("save_steps", 0),
        ("keep", 0),
        ("log_steps", -3),
        ("num_beams", 0),
        ("max_part", 0),
        ("warmup_steps", -1),
        ("clipping", -1),
        ("weight_decay", -0.1),
        ("no_repeat_ngram", -1),
        ("seed", -1),
        ("label_smoothing", 1.5),
        ("label_smoothing", -0.1),
        ("max_tokens", "lots"),
        ("max_tokens", 0),
        ("documents", 0),
        ("documents", -1),
        ("validation_documents", -1),
        ("memory_layers", "last"),
        ("memory_layers", "1,x"),
        ("memory_layers", 2.5),
        ("memory_layers", None),
        ("empty_targets", "perhaps"),
        ("gradient_checkpointing", 2),
        ("precision", "float8"),
    ],
)
def test_bad_value_is_refused_in_one_line(name: str, value: Any) -> None:
    assert name in refused(None, NEEDED | {name: value})


@pytest.mark.parametrize("name", ["data", "output"])
def test_what_is_needed(tmp_path: Path, name: str) -> None:
    left = {key: value for key, value in NEEDED.items() if key != name}
    assert f"training needs {name}" in refused(None, left)
    assert f"training needs {name}" in refused(written(tmp_path, f"{name}:\n"), left)  # named and left empty


@pytest.mark.parametrize("content", [b"- a\n- b\n", b"just text", b"a: [1\n", b"\xff\xfe\x00", b""])
def test_file_that_holds_no_settings(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes(content)
    assert str(path) in refused(path, NEEDED)


def test_file_that_is_not_there(tmp_path: Path) -> None:
    assert "cannot read" in refused(tmp_path / "no.yaml", NEEDED)
    assert "cannot read" in refused(tmp_path, NEEDED)


@pytest.mark.parametrize("kind", [TrainingSettings, *(settings_class(system) for system in trainable())])
def test_every_setting_is_described_and_can_be_converted(kind: Any) -> None:
    for field in fields(kind):
        assert field.metadata["help"].strip(), field.name
        assert convert(field, field.default) == field.default


def test_names_of_settings_are_those_of_the_models() -> None:
    settings = AwesomeSettings(memory="compressive", memory_layers=(1, 2), salient_size=9)
    assert settings.model_config == {
        "memory": "compressive", "memory_layers": (1, 2), "memory_size": 1024, "compression_ratio": 5,
        "memory_direction": "forward", "salient": "none", "salient_size": 9,
    }  # fmt: skip
    own = {field for field in AwesomeConfig.__annotations__ if field not in ("model_type", "system", "memory_format")}
    assert own == set(settings.model_config)
    config = AwesomeConfig(**AwesomeSettings().model_config)
    for name, value in AwesomeSettings().model_config.items():
        assert getattr(config, name) == value
    adapter = AdapterConfig(**AdapterSettings().adapter_config)
    assert adapter == AdapterConfig()
    fixed = {"base", "base_sha256", "ending", "system", "memory_format"}
    assert {field.name for field in fields(AdapterConfig)} - fixed == set(AdapterSettings().adapter_config)


@pytest.mark.parametrize("system", ["awesome", "adapter"])
def test_memory_depth_and_the_rate_of_new_weights(system: str) -> None:
    def own(**values: Any) -> Any:
        return read_settings(None, {**NEEDED, "system": system, **values})[1]

    assert (own().memory_depth, own().new_learning_rate) == (1, None)
    assert own(memory_depth="4", new_learning_rate="1e-3").memory_depth == 4
    assert own(new_learning_rate="1e-3").new_learning_rate == 1e-3
    assert own(memory_depth="all").memory_depth is None
    for name in ("memory_depth", "new_learning_rate"):
        assert name not in (own().model_config if system == "awesome" else own().adapter_config)
    for values, text in (
        ({"memory_depth": 0}, "memory_depth must be 1 or more, or all, not 0"),
        ({"memory_depth": -2}, "memory_depth must be 1 or more, or all, not -2"),
        ({"memory_depth": "some"}, "memory_depth='some' does not fit"),
        ({"new_learning_rate": 0}, "new_learning_rate must be more than 0"),
        ({"memory": "salient", "memory_depth": 2}, "memory_depth=2 has no effect on memory=salient"),
        ({"memory": "none", "memory_depth": 2}, "memory_depth=2 has no effect on memory=none"),
    ):
        with pytest.raises(AwesumError, match=text) as error:
            own(**values)
        assert "\n" not in str(error.value)


def test_going_back_all_the_way_and_forgetting_exclude_each_other() -> None:
    with pytest.raises(AwesumError, match="gradient_checkpointing forgets"):
        AwesomeSettings(memory_depth=None, gradient_checkpointing=True)


def test_a_salient_memory_alone_has_nothing_to_train() -> None:
    with pytest.raises(AwesumError, match="nothing to train: a salient memory has no weights"):
        AdapterSettings(memory="salient", update="none")


def test_se3_has_neither_memory_nor_salient_content() -> None:
    config = AwesomeConfig(**Se3Settings().model_config)
    assert (config.memory, config.salient) == ("none", "none")


# ---------------------------------------------------------------------------------------------------------- recipes


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_parses(name: str) -> None:
    settings, own = read_settings(name, NEEDED)
    values = recipes.read(name)
    assert {"system", "base", "epochs", "learning_rate"} <= values.keys()
    assert (settings.system, settings.base) == (values["system"], values["base"])
    assert as_dict(settings, own).items() >= {key: value for key, value in values.items() if key != "system"}.items()


@pytest.mark.parametrize("name", recipes.names())
def test_recipe_begins_with_what_it_is_and_its_commands(name: str) -> None:
    lines = recipes.text(name).splitlines()
    assert lines[0].startswith("# ")
    assert len(recipes.description(name)) > 20
    assert any(line.startswith(f"#   awesum train {name} --data ") for line in lines[:8])


def test_recipe_of_the_shipped_adapter_is_what_it_was_trained_with() -> None:
    _, own = read_settings("smollm2/writer", NEEDED)
    shipped = asdict(read_config(WRITER))
    for name in ("memory", "salient", "update", "update_layers", "rank"):
        assert getattr(own, name) == shipped[name]


def test_unknown_recipe_suggests_the_nearest() -> None:
    assert "did you mean govreport/awesome?" in refused(Path("govreport/awsome"), NEEDED)
    assert "there are arxiv/attentive, " in refused(Path("zzz"), NEEDED)


def test_unknown_setting_in_a_recipe(tmp_path: Path) -> None:
    path = written(tmp_path, recipes.text("govreport/awesome") + "memry: none\n")
    assert "did you mean 'memory'?" in refused(path, NEEDED)
