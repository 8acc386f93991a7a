"""Settings of a training run: from YAML and from changes, refused in one line where they do not fit."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from awesum.errors import AwesumError
from awesum.models.bart import AwesomeConfig
from awesum.training.settings import TrainingSettings, read_settings

NEEDED = {"data": "folder", "output": "out"}


def written(folder: Path, text: str) -> Path:
    path = folder / "settings.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path | None, changes: dict[str, Any]) -> str:
    with pytest.raises(AwesumError) as told:
        read_settings(path, changes)
    assert "\n" not in str(told.value)
    return str(told.value)


def test_yaml_and_changes(tmp_path: Path) -> None:
    path = written(tmp_path, "data: folder\noutput: out\nmemory: compressive\nepochs: 9\nbatch_size: 2\n")
    settings = read_settings(path, {"epochs": "4", "seed": 7})
    assert (settings.data, settings.output, settings.memory) == ("folder", "out", "compressive")
    assert (settings.epochs, settings.batch_size, settings.seed) == (4.0, 2, 7)
    assert isinstance(settings.epochs, float)
    assert settings == TrainingSettings(**NEEDED, memory="compressive", epochs=4.0, batch_size=2, seed=7)


def test_without_a_file_the_paper_s_recipe() -> None:
    settings = read_settings(None, NEEDED)
    assert settings == TrainingSettings(**NEEDED)
    assert (settings.learning_rate, settings.epochs, settings.warmup_steps) == (5e-5, 3.0, 300)
    assert (settings.batch_size, settings.accumulation, settings.clipping) == (1, 8, 1.0)
    assert (settings.max_tokens, settings.num_beams) == (51_200, 4)
    assert (settings.no_repeat_ngram, settings.max_part) == (5, 1024)


def test_yaml_s_number_that_is_a_text(tmp_path: Path) -> None:
    settings = read_settings(written(tmp_path, "learning_rate: 5e-5\nwarmup_steps: '12'\n"), NEEDED)
    assert settings.learning_rate == 5e-5
    assert isinstance(settings.learning_rate, float)
    assert settings.warmup_steps == 12


@pytest.mark.parametrize(
    ("text", "expected"),
    [("all", "all"), ("3", 3), ("1,2", (1, 2)), ("'1,2'", (1, 2)), ("[1, 2]", (1, 2)), ("-1,-2", (-1, -2))],
)
def test_memory_layers(tmp_path: Path, text: str, expected: Any) -> None:
    assert read_settings(written(tmp_path, f"memory_layers: {text}"), NEEDED).memory_layers == expected


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("no", False), ("0", False), ("'yes'", True)])
def test_truth(tmp_path: Path, text: str, expected: bool) -> None:
    assert read_settings(written(tmp_path, f"empty_targets: {text}"), NEEDED).empty_targets is expected


@pytest.mark.parametrize(("text", "expected"), [("null", None), ("all", None), ("none", None), ("300", 300)])
def test_limits_that_may_be_left_out(tmp_path: Path, text: str, expected: int | None) -> None:
    settings = read_settings(written(tmp_path, f"max_tokens: {text}\ndocuments: {text}"), NEEDED)
    assert (settings.max_tokens, settings.documents) == (expected, expected)


@pytest.mark.parametrize(
    ("name", "near"),
    [("learning_rat", "learning_rate"), ("batchsize", "batch_size"), ("memory_layer", "memory_layers")],
)
def test_unknown_name_suggests_the_nearest(tmp_path: Path, name: str, near: str) -> None:
    assert refused(None, NEEDED | {name: 1}) == f"there is no setting {name!r}: did you mean {near!r}?"
    assert near in refused(written(tmp_path, f"{name}: 1"), NEEDED)


def test_unknown_name_without_a_near_one(tmp_path: Path) -> None:
    assert refused(None, NEEDED | {"zzz": 1}) == "there is no setting 'zzz'"
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
def test_bad_value_is_told_in_one_line(name: str, value: Any) -> None:
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


def test_every_setting_says_what_it_is() -> None:
    for field in fields(TrainingSettings):
        assert field.metadata["help"].strip(), field.name


def test_equipment_is_what_the_model_knows() -> None:
    settings = TrainingSettings(**NEEDED, memory="compressive", memory_layers=(1, 2), salient_size=9)
    assert settings.equipment == {
        "memory": "compressive", "memory_layers": (1, 2), "memory_size": 1024, "compression_ratio": 5,
        "memory_direction": "forward", "salient": "none", "salient_size": 9,
    }  # fmt: skip
    config = AwesomeConfig(**TrainingSettings(**NEEDED).equipment)
    for name, value in TrainingSettings(**NEEDED).equipment.items():
        assert getattr(config, name) == value
    own = {field for field in AwesomeConfig.__annotations__ if field not in ("model_type", "system")}
    assert own == set(settings.equipment)
