"""`awesum train` and `awesum recipes` as a user calls them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from awesum.cli import main
from awesum.training import recipes

NO_TORCH = """
import sys
from awesum.cli import main
code = main(sys.argv[1:])
assert not {"torch", "transformers", "datasets"} & set(sys.modules), "imported"
sys.exit(code)
"""


def light(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command that must not import torch, in a process of its own."""
    return subprocess.run([sys.executable, "-c", NO_TORCH, *arguments], capture_output=True, text=True, check=False)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["train", *arguments]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    lines = output.err.splitlines()
    assert len(lines) == 1, output.err
    return lines[0]


def helped(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as exit_code:
        main(["train", *arguments, "--help"])
    assert exit_code.value.code == 0
    return capsys.readouterr().out


def test_typo_is_reported_before_anything_is_fetched_or_imported() -> None:
    """Importing nothing that could fetch is proof enough."""
    result = light("train", "--memory", "atentive", "--data", "govreport")
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "did you mean 'attentive'?" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--system", "adapter", "--num-beams", "3"], "num_beams is a setting of awesome and block-attention and"),
        (["--base", "smollm2", "--memory-direction", "both"], "not of adapter: leave it out"),
        (["--rank", "3"], "rank is a setting of adapter, not of awesome"),
        (["--system", "lead"], "lead does not train: choose from adapter, awesome, block-attention,"),
        (["--system", "awesom"], "did you mean 'awesome'?"),
        (["--model", "facebook/bart-base"], "say --base"),
        (["--epochs", "many"], "epochs='many' does not fit"),
        (["govreport/awsome"], "did you mean govreport/awesome?"),
        (["no.yaml"], "cannot read no.yaml"),
        (["--data", "somewhere"], "training needs output: give --output"),
        (["--output", "somewhere"], "training needs data: give --data"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_wrong_call_is_refused_in_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    assert text in refused(capsys, *arguments)


def test_settings_that_need_torch_to_check_are_refused_before_the_data_is_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    common = ["--data", "govreport", "--output", str(tmp_path / "out")]
    for system in ("awesome", "adapter"):
        error = refused(capsys, "--system", system, "--memory", "compressive", "--memory-size", "7", *common)
        assert "odd" in error
    assert not (tmp_path / "out").exists()


def test_unknown_flag_suggests_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--memry", "none"])
    assert "did you mean --memory?" in capsys.readouterr().err


def test_help_shows_the_flags_of_every_system(capsys: pytest.CaptureFixture[str]) -> None:
    text = helped(capsys)
    assert "settings of every system" in text
    for flag in ("--learning-rate", "--memory", "--num-beams", "--rank", "--extractor", "--encoder"):
        assert flag in text
    assert "settings of awesome and se3" in text
    assert "--model VALUE" not in text
    assert "(default: 256); awesome:" in " ".join(text.split())


@pytest.mark.parametrize(
    ("system", "has", "has_not"),
    [
        ("adapter", ["--rank", "--memory"], ["--num-beams", "--memory-direction"]),
        ("awesome", ["--num-beams", "--memory", "--memory-direction"], ["--rank"]),
        ("se3", ["--num-beams"], ["--rank", "--memory"]),
    ],
)
def test_help_of_one_system(
    capsys: pytest.CaptureFixture[str], system: str, has: list[str], has_not: list[str]
) -> None:
    text = helped(capsys, "--system", system).partition("examples:")[0]
    assert all(f"{flag} " in text for flag in [*has, "--learning-rate"])
    assert not any(f"{flag} " in text for flag in has_not)


def test_help_and_recipes_do_not_import_torch() -> None:
    assert light("recipes").returncode == 0
    result = light("recipes", "govreport/awesome")
    assert result.stdout == recipes.text("govreport/awesome")
    code = "import sys; from awesum.cli import command_parser; command_parser('train').format_help()"
    subprocess.run([sys.executable, "-c", f"{code}; assert 'torch' not in sys.modules"], check=True)


def test_switch_can_be_given_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text('{"model_type": "llama"}')
    common = ["--data", str(tmp_path / "nothing"), "--output", str(tmp_path / "out")]
    error = refused(capsys, "--base", str(tmp_path / "base"), "--freeze-trunk", *common)
    assert "freeze" not in error


# ----------------------------------------------------------------------------------------------------------- recipes


def test_recipes_are_listed_with_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == recipes.names()
    assert {"govreport/awesome", "booksum/se3", "smollm2/writer"} <= set(recipes.names())
    assert main(["recipes", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in found] == recipes.names()
    assert all(row["description"] in line for row, line in zip(found, lines, strict=True))


def test_recipe_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["recipes", "qmsum/awesome"]) == 0
    text = capsys.readouterr().out
    assert yaml.safe_load(text)["epochs"] == 9
    (tmp_path / "mine.yaml").write_text(text)
    assert recipes.read(tmp_path / "mine.yaml") == recipes.read("qmsum/awesome")
    assert main(["recipes", "qmsum/awesome", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == recipes.read("qmsum/awesome")


def test_unknown_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "qmsum/awsome"]) == 1
    assert "did you mean qmsum/awesome?" in capsys.readouterr().err
