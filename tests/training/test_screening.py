"""The loss of targets by the number of the segment: trained adapters side by side, resumed, and with what is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks import screening
from benchmarks.screening import change, read_rows, table
from benchmarks.tiny_models import FOUR_LAYERS, tiny_llama
from transformers import PreTrainedTokenizerFast

from awesum.analysis.analysis import Analyst
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.recurrence import DocumentInputs
from awesum.training.trunk import read_now
from tests.training.runs import Go, causal_rows, record, short_run, write

pytestmark = pytest.mark.usefixtures("own_cache", "quiet_library", "float32")

Screen = Callable[..., str]


@pytest.fixture
def adapters(tmp_path: Path, causal_base: Path, go: Go) -> list[Path]:
    """Se3 and a memory, each after the same short training."""
    common = {"update_layers": 2, "rank": 4, "learning_rate": 3e-3, "save_steps": 100}
    memory = {"memory": "compressive", "memory_layers": (1, 3), "memory_size": 64}
    return [
        go(short_run(tmp_path, causal_rows(3), causal_base, output=str(tmp_path / name), **common, **own))
        for name, own in (("se3", {"memory": "none"}), ("tokens", memory))
    ]


@pytest.fixture
def screen(
    tmp_path: Path, tiny_encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Screen:
    """Runs the command on two documents; returns its table."""
    monkeypatch.setattr(screening, "Analyst", lambda: Analyst(tiny_encoder, Centrality()))
    data = tmp_path / "data"
    write(data / "validation.jsonl", causal_rows(3)[1:])

    def run(*adapters: Path, more: tuple[str, ...] = ()) -> str:
        flags = ["--data", str(data), "--documents", "2", "--out", str(tmp_path / "losses.jsonl"), *more]
        monkeypatch.setattr("sys.argv", ["screening", *flags, "--adapters", *map(str, adapters)])
        assert screening.main() == 0
        return capsys.readouterr().out

    return run


def row(name: str, **losses: list[float]) -> dict[str, Any]:
    """Of a document of four segments, whose third has nothing to say."""
    return {"name": name, "tokens": [10, 5, 1, 20], "losses": losses}


def test_adapters_are_compared_by_segment(adapters: list[Path], screen: Screen, tmp_path: Path) -> None:
    found = screen(*adapters, more=("--plot", str(tmp_path / "lines.svg")))
    assert "2 documents" in found
    assert found.count("| se3 |") == found.count("| tokens |") == 1
    losses = read_rows(tmp_path / "losses.jsonl", {folder.name: "" for folder in adapters})
    assert all(len(each["tokens"]) > 1 for each in losses.values())
    assert (tmp_path / "lines.svg").read_text().startswith("<svg")


def test_loss_is_that_of_validation_in_training(adapters: list[Path], screen: Screen, tmp_path: Path, go: Go) -> None:
    """Both are means over the tokens of a document, empty targets included."""
    examples = causal_rows(3)[1:2]
    write(tmp_path / "data" / "validation.jsonl", examples)
    screen(adapters[1])
    [line] = (tmp_path / "losses.jsonl").read_text().splitlines()
    found = json.loads(line)
    measured = sum(found["losses"]["tokens"]) / sum(found["tokens"])
    (tmp_path / "again").mkdir()
    write(tmp_path / "again" / "data" / "validation.jsonl", examples)
    own = {"memory": "compressive", "memory_layers": (1, 3), "memory_size": 64}
    case = short_run(
        tmp_path / "again", causal_rows(3), Path(record(adapters[1])["base"]), output=str(tmp_path / "again" / "out"),
        update_layers=2, rank=4, learning_rate=3e-3, save_steps=100, **own,
    )  # fmt: skip
    [validated] = record(go(case))["validation"]
    assert measured == pytest.approx(validated["loss"], rel=1e-3)


def test_what_is_known_is_not_measured_again_but_other_weights_are(
    adapters: list[Path], screen: Screen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    se3, tokens = adapters
    screen(se3)
    measured: list[str] = []
    trained = screening.Trained

    def counting(folder: Path, name: str, examples: Any) -> Any:
        measured.append(name)
        return trained(folder, name, examples)

    monkeypatch.setattr(screening, "Trained", counting)
    first = screen(se3, tokens)
    assert measured == ["tokens"]
    assert screen(se3, tokens) == first
    assert measured == ["tokens"]
    weights = tokens / "adapter.safetensors"
    weights.write_bytes((se3 / "adapter.safetensors").read_bytes())
    (tokens / "adapter.json").write_bytes((se3 / "adapter.json").read_bytes())
    screen(se3, tokens)
    assert measured == ["tokens", "tokens"]


@pytest.mark.parametrize("tokens", ["answer", "all"])
def test_fresh_memory_has_the_number_format_of_its_base(
    tokens: str, tiny_tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screening, "LAYERS", (1, 3))
    base = tiny_llama(tiny_tokenizer, **FOUR_LAYERS).to(torch.bfloat16)
    model = screening.adapted(base, "compressive", tokens)
    segments = [[3, 4, 5, 6], [3, 7, 8, 9]]
    document = DocumentInputs("two", segments, [[10, 2], [11, 2]], requests=[[12], [12]], frame=1)
    read = partial(read_now, model)
    with torch.inference_mode():
        remembering, forgetting = (list(screening.by_memory(model, document, read, of)) for of in (True, False))
    assert remembering[0] == forgetting[0]
    assert remembering[1] != forgetting[1]


def test_empty_targets_and_first_segments_do_not_count(tmp_path: Path) -> None:
    rows = [row("a", se3=[9.0, 10.0, 7.0, 40.0], tokens=[9.0, 9.0, 70.0, 36.0])]
    lines = table(rows, ["se3", "tokens"]).splitlines()
    assert lines[2].startswith("| se3 | 2.000 |")
    assert lines[3].startswith("| tokens | 1.800 | -10.0% ")
    assert lines[-1].startswith("| *target tokens* | 25 |")


def test_documents_without_later_targets_have_nothing_to_compare() -> None:
    only = {"name": "a", "tokens": [10], "losses": {"se3": [9.0], "tokens": [8.0]}}
    lines = table([only], ["se3", "tokens"]).splitlines()
    assert lines[3].startswith("| tokens | 0.000 |  |  | ")
    assert lines[-1].startswith("| *target tokens* | 0 |")


def test_interval_and_p_of_a_change() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.rand(20, generator=generator).tolist()
    worse = [
        row(str(at), se3=[0.0, 10.0, 0.0, 40.0], tokens=[0.0, 9.0 + 0.1 * of, 0.0, 36.0]) for at, of in enumerate(noise)
    ]
    share, low, high, p = change(worse, "tokens", "se3")
    assert low <= share <= high < -0.09
    assert p < 0.001
    share, low, high, p = change(worse, "se3", "se3")
    assert share == low == high == 0
    assert p == 1
