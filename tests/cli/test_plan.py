"""`awesum plan`: each mistake gets one line that says what to do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from awesum.cli import main
from awesum.cli import plan as cli_plan
from awesum.loading import config_of
from awesum.planning import step
from awesum.planning.bases import configuration
from awesum.training.settings import read_settings, trainable
from awesum.weights import smollm2_folder
from tests.planning.test_tracing import SYSTEMS, TINY, saved


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AWESUM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    return str(tmp_path)


def refused(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    assert main(["plan", *flags]) == 1
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["se3", "--base", "nobody/nothing"], "give a folder with its config.json, one of"),
        (["se3", "--size", "huge"], "say base or large"),
        (["se3", "--target-tokens", "2000"], "beyond the 1,024 positions of the decoder: say 1024 or fewer"),
        (["se3", "--segment-tokens", "2000"], "beyond the 1,024 positions of the encoder: say 1024 or fewer"),
        (["truncated", "--input-tokens", "5000"], "beyond the 1,024 positions of truncated's encoder"),
        (["longformer", "--input-tokens", "20000"], "beyond the 16,384 positions of longformer's encoder"),
        (["long-t5", "--base", "facebook/bart-large"], "bart"),
        (["se3", "--segments", "4", "--input-tokens", "4096"], "leave one of them out"),
        (["se3", "--segments", "0"], "--segments must be 1 or more"),
        (["se3", "--table", "memory"], "leave one of them out"),
        (["se3", "--dataset", "qmsum"], "add --table"),
        (["se3", "--strategy", "fsdp"], "add --gpus"),
        (["se3", "--plot", "a.svg", "--json"], "leave one of them out"),
        (["se3", "--gpu-memory", "much"], "--gpu-memory"),
        (["se3", "--optim", "adamw_imagined"], "optim"),
        (["lead"], "does not train"),
        (["se3", "--gpu-memory", "24"], "--gpu-memory 24 has no unit: say 24GB"),
        (["long-t5", "--precision", "fp16"], "long-t5 cannot train in float16"),
        (["truncated", "--segment-tokens", "100"], "--segment-tokens is for systems that go from segment to segment"),
        (["se3", "--segment-tokens", "-1"], "--segment-tokens must be 1 or more"),
        (["se3", "--generate", "--optim", "adamw_8bit"], "--optim is for training"),
        (["se3", "--generate", "--gpus", "2"], "--gpus is for training"),
        (["se3", "--system", "awesome"], "two systems"),
        (["se3", "--plot", "a.png"], "say --plot a.svg"),
        (["se3", "--plot", "/nowhere/a.svg"], "cannot write to /nowhere/a.svg"),
        (["se3", "--plot", "a.svg", "--segments", "4"], "--plot draws several lengths"),
        (["--table", "memory", "--gpu-memory", "24GB"], "leave out --gpu-memory"),
        (["--table", "truncation", "--optim", "adamw_8bit"], "leave out --optim"),
        (["--table", "memory", "--dataset", "govrepor"], "the paper has no table"),
        (["extractor", "--generate"], "selects sentences and writes none of its own: leave out --generate"),
        (["adapter", "--size", "large"], "smollm2 has one size"),
        (["govreport/awsome"], "did you mean govreport/awesome?"),
        ([], "there is nothing to plan"),
    ],
)
def test_mistakes_are_refused_in_one_line(flags: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert expected in refused(capsys, *flags)


def test_card_that_is_too_small_for_the_weights_names_what_is_needed(
    base: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "truncated", "--base", base, "--input-tokens", "64", "--target-tokens", "8",
                 "--gpu-memory", "100KB"]) == 0  # fmt: skip
    shown = capsys.readouterr().out
    assert "does not fit" in shown
    assert "the weights alone take" in shown
    advised = [float(found) for found in re.findall(r": ([\d.]+) MB, [\d.]+ MB less", shown)]
    (smallest,) = re.findall(r"the smallest that works, with .*, has ([\d.]+) MB", shown)
    assert float(smallest) == min(advised)


def test_step_that_cannot_be_traced_is_estimated_and_says_so(
    base: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise RuntimeError("no trace today\nand more")

    monkeypatch.setattr(step, "training_step", fail)
    assert main(["plan", "truncated", "--base", base, "--input-tokens", "64", "--target-tokens", "8"]) == 0
    shown = capsys.readouterr().out
    assert "note: the step could not be traced (no trace today): this is an estimate by a formula" in shown


def test_longest_input_is_at_most_what_a_system_can_read(base: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "truncated", "--base", base, "--input-tokens", "64", "--target-tokens", "8",
                 "--gpu-memory", "1TB", "--json"]) == 0  # fmt: skip
    plan = json.loads(capsys.readouterr().out)
    assert plan["fits"] is True
    assert plan["longest_input_tokens"] == TINY["max_position_embeddings"]


def test_longest_input_is_searched_up_to_a_length_and_says_so(
    base: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("awesum.planning.plan.SEARCHED", 2048)
    for tokens, longest in (("64", 2048), ("3000", 3000)):
        assert main(["plan", "cached", "--base", base, "--input-tokens", tokens, "--target-tokens", "8",
                     "--gpu-memory", "1TB", "--json"]) == 0  # fmt: skip
        plan = json.loads(capsys.readouterr().out)
        assert plan["longest_input_tokens"] == longest
        assert f"searched up to {longest:,} tokens" in " ".join(plan["notes"])


SHORT = ("--input-tokens", "64", "--target-tokens", "8")


def planned(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    assert main(["plan", *flags, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_json_has_the_whole_answer(base: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, "awesome", "--base", base, *SHORT, "--memory-layers", "1", "--gpu-memory", "2MB")
    assert plan.keys() >= {"peak_bytes", "parts", "fits", "longest_input_tokens", "advice", "settings"}
    assert sum(plan["parts"].values()) == plan["peak_bytes"] > 2_000_000
    assert plan["fits"] is False
    assert plan["longest_input_tokens"] == 0
    for each in plan["advice"]:
        assert each["peak_bytes"] == plan["peak_bytes"] - each["saves_bytes"] < plan["peak_bytes"]
    assert any("lora_rank" in each["settings"] for each in plan["advice"])
    assert plan["settings"]["memory_layers"] == 1


def test_advice_is_what_a_plan_with_these_settings_says(base: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, "truncated", "--base", base, *SHORT, "--gpu-memory", "1MB")
    advised = next(each for each in plan["advice"] if each["settings"] == {"gradient_checkpointing": True})
    again = planned(capsys, "truncated", "--base", base, *SHORT, "--gradient-checkpointing")
    assert again["peak_bytes"] == advised["peak_bytes"]


@pytest.mark.parametrize("system", ["block-attention", "truncated"])
def test_plot_shows_how_a_system_grows(
    system: str, base: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_plan, "LENGTHS", (1, 2))
    drawing = tmp_path / "growth.svg"
    assert main(["plan", system, "--base", base, "--target-tokens", "8", "--plot", str(drawing),
                 "--gpu-memory", "2GB"]) == 0  # fmt: skip
    assert capsys.readouterr().out.strip() == str(drawing)
    root = ElementTree.parse(drawing).getroot()
    line = next(each for each in root if each.tag.endswith("polyline")).attrib["points"].split()
    heights = [float(point.split(",")[1]) for point in line]
    grows = heights[1] < heights[0]  # upwards
    assert grows == (system == "block-attention")
    assert "the GPU" in drawing.read_text()


def test_document_of_some_segments(base: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("se3", "--base", base, "--target-tokens", "8", "--segment-tokens", "50", "--segments", "7")
    assert planned(capsys, *flags)["settings"]["input_tokens"] == 350


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("system", sorted(SYSTEMS))
def test_writing_is_traced_and_not_estimated(
    system: str, precision: str, base: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(saved(system)))
    own = [text for name, value in SYSTEMS[system].items() for text in (f"--{name.replace('_', '-')}", str(value))]
    plan = planned(capsys, system, "--base", base, *SHORT, *own, "--generate", "--precision", precision)
    assert not plan["is_estimate"]
    assert plan["parts"]["gradients"] == plan["parts"]["optimizer"] == 0
    size = 4 if precision == "fp32" else 2
    assert plan["parts"]["weights"] == pytest.approx(size * plan["parameters"], rel=0.2)


def test_writing_that_cannot_be_traced_counts_nothing_of_training(
    base: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise RuntimeError("no trace today")

    monkeypatch.setattr(step, "generation", fail)
    plan = planned(capsys, "truncated", "--base", base, *SHORT, "--generate")
    assert plan["is_estimate"]
    assert plan["parts"]["gradients"] == plan["parts"]["optimizer"] == 0
    assert plan["parts"]["weights"] == 4 * plan["parameters"]


def test_advice_for_writing_lowers_its_peak(base: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, "truncated", "--base", base, *SHORT, "--generate", "--gpu-memory", "10KB")
    assert {"precision": "bfloat16"} in [each["settings"] for each in plan["advice"]]


def test_adapter_of_the_embedded_model_is_planned_with_its_weights_frozen(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, "adapter", *SHORT, "--precision", "bf16")
    assert not plan["is_estimate"]
    assert plan["parameters"] > 134_000_000 > 5 * plan["trained_parameters"]
    assert plan["parts"]["gradients"] < 4.1 * plan["trained_parameters"]
    assert plan["parts"]["weights"] < 3 * plan["parameters"]  # two bytes for all that is not trained


def test_writing_of_a_causal_model_is_estimated(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, "adapter", *SHORT, "--generate")
    assert plan["is_estimate"]
    assert "only traced of encoder-decoders" in plan["notes"][0]


@pytest.mark.parametrize("system", trainable())
def test_default_base_of_every_system_is_known(system: str) -> None:
    settings, _ = read_settings(None, {"system": system, "data": "x", "output": "y"})
    assert configuration(settings.base)["vocab_size"]


def test_known_configuration_of_the_embedded_model_is_that_of_its_weights() -> None:
    real = config_of(smollm2_folder(), {})
    known = configuration("smollm2")
    assert known == {name: real[name] for name in known}
