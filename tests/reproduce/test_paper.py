"""The paper's numbers, and that every recipe has the settings that the paper states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from awesum.datasets import PUBLIC
from awesum.errors import AwesumError
from awesum.metrics import METRICS, load, needs
from awesum.reproduce import paper
from awesum.training import recipes
from awesum.training.settings import read_settings

NEEDED = {"data": "data", "output": "out"}
ROWS = [(dataset, row) for dataset in paper.names() for row in paper.table(dataset).rows]
VARIANTS = {
    "compressive": ("compressive", "none"),
    "attentive": ("attentive", "none"),
    "text-concat": ("none", "text"),
    "key-value": ("none", "key-value"),
    "awesome": ("attentive", "text"),
}


def test_tables_have_the_rows_of_the_paper() -> None:
    assert paper.names() == list(PUBLIC)
    assert [len(paper.table(name).rows) for name in paper.names()] == [12, 9, 8, 9, 6]
    table = paper.table("govreport")
    row = table.rows["awesome"]
    assert (row.name, row.numbers["rouge-1"]) == ("AWESOME (Attn + Txt)", paper.Number(58.76, paper.BEST))
    assert row.numbers["summac-zs"] == paper.Number(19.22, paper.SE3)
    assert table.rows["se3"].group is None
    assert (table.extractor_f1, paper.table("qmsum").extractor_f1) == (27.85, 1.29)


def test_columns_are_our_scores() -> None:
    known = {score.name for name in METRICS if "model" not in needs(name) for score in load(name).scores}
    known |= {"summac-zs", "disco-focus"}  # whose metrics need a model
    for name in paper.names():
        assert set(paper.table(name).columns) <= known


def test_unknown_dataset_suggests_the_nearest() -> None:
    with pytest.raises(AwesumError, match=r"did you mean govreport\?"):
        paper.table("govreports")


@pytest.mark.parametrize(("dataset", "row"), ROWS, ids="/".join)
def test_recipe_of_every_row(dataset: str, row: str) -> None:
    """What the paper states; a recipe that lacks one of these lines would take our default for the paper's value."""
    stated, values = paper.content()["datasets"][dataset], recipes.read(f"{dataset}/{row}")
    settings, own = read_settings(f"{dataset}/{row}", NEEDED)
    rates = paper.content()["learning_rate"]
    assert values.keys() >= {"learning_rate", "epochs", "warmup_steps", "batch_size", "accumulation", "max_tokens"}
    assert settings.learning_rate == rates.get(row, rates["default"])
    assert (settings.epochs, settings.warmup_steps) == (stated["epochs"], stated["warmup_steps"])
    assert (settings.batch_size, settings.accumulation) == (1, 8)
    assert settings.max_tokens == 1024 * stated["thresholds"]["awesome" if row in VARIANTS else row]
    assert settings.base == ("google/long-t5-tglobal-base" if row == "long-t5" else "facebook/bart-large")
    assert settings.system == ("awesome" if row in VARIANTS else row)
    if row in VARIANTS:
        assert (own.memory, own.salient) == VARIANTS[row]
        assert own.memory_layers == ("all" if dataset == "booksum" else 3)
        assert (own.memory_size, own.compression_ratio, own.salient_size) == (1024, 5, 1024)
    if settings.system in ("se3", "awesome"):
        assert settings.encoder == "sentence-transformers/all-roberta-large-v1"
    if row == "pagesum":
        assert (own.pages, own.page_size) == (stated["thresholds"]["pagesum"], 1024)
    text = recipes.text(f"{dataset}/{row}")
    assert ", ".join(f"{paper.table(dataset).rows[row].numbers[name].value:.2f}" for name in own_scores()) in text
    assert text.index("# From the paper.") < text.index("# The paper does not say: our choice.")


def own_scores() -> list[str]:
    return ["rouge-1", "rouge-2", "rouge-l"]


@pytest.mark.parametrize("dataset", ["govreport", "qmsum", "summscreen", "arxiv"])
def test_recipe_of_the_extractor(dataset: str) -> None:
    stated = paper.content()["datasets"][dataset]
    settings, _ = read_settings(f"{dataset}/extractor", NEEDED)
    assert (settings.system, settings.epochs, settings.warmup_steps) == (
        "extractor", stated["epochs"], stated["warmup_steps"],
    )  # fmt: skip
    assert (settings.learning_rate, settings.accumulation, settings.max_tokens) == (5e-5, 8, None)
    if "extractor_f1" in stated:
        assert f"{stated['extractor_f1']}." in recipes.text(f"{dataset}/extractor")
    assert "booksum/extractor" not in recipes.names()  # the paper has none


def _different() -> list[str]:
    """Recipes of BART and the like; of those that make the same model of the same inputs, one."""
    found = {}
    for name in recipes.names():
        if not name.startswith("smollm2/") and not name.endswith("/extractor"):
            settings, own = read_settings(name, NEEDED)
            found.setdefault((settings.system, own, settings.max_tokens), name)
    return list(found.values())


@pytest.mark.parametrize("name", _different())
def test_every_recipe_builds_and_learns(
    name: str, tiny_bart_folder: Path, tiny_long_t5_folder: Path, analyst: Any
) -> None:
    """With a tiny base: the model is made, reads a document, and a loss reaches its weights."""
    from awesum.datasets import Example
    from awesum.training.trainable import make
    from tests.conftest import topical_text

    base = tiny_long_t5_folder if recipes.read(name)["system"] == "long-t5" else tiny_bart_folder
    settings, own = read_settings(name, NEEDED | {"base": str(base)})
    trainable = make(settings.system, settings.base, own)
    example = Example("report", topical_text(12), " ".join(topical_text(2).split()), "What did the booster cost?")
    document = trainable.inputs(analyst, settings.max_tokens, lambda note: None)(example)
    loss = trainable.loss([document], lambda loss: loss.backward())
    assert loss.isfinite()
    assert any(weight.grad is not None and weight.grad.abs().max() > 0 for weight in trainable.model.parameters())
