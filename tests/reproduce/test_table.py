"""Marks, bold and underline, the layout of the paper, and what a table says about weights that nobody trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration

from awesum.evaluation.result import Evaluation, System
from awesum.metrics.metric import Score
from awesum.metrics.rouge import Rouge
from awesum.reproduce import paper
from awesum.reproduce.paper import BEST, SE3
from awesum.reproduce.plan import Plan
from awesum.reproduce.result import Made, Result
from awesum.reproduce.table import latex, markdown, speed_plot, to_dict
from awesum.reproduce.weights import Base, look
from tests.training.runs import write

DOCUMENTS = 40
SCORES = (*Rouge.scores, Score("disco-focus", "DS-Focus", "lower"))
PAPERS = Base("facebook/bart-large", 406_000_000, False)


def made(key: str, means: dict[str, float], base: Base = PAPERS, **more: Any) -> Made:
    """A row whose scores lie around some means; a difference of 0.05 is significant, one of 0.002 is not."""
    noise = np.random.default_rng(0).normal(0, 0.02, DOCUMENTS) + np.random.default_rng(sum(map(ord, key))).normal(
        0, 0.01, DOCUMENTS
    )
    scores = {name: mean + noise - noise.mean() for name, mean in means.items()}
    words = np.full(DOCUMENTS, 100)
    system = System(key, scores, words, 0)
    ids = tuple(map(str, range(DOCUMENTS)))
    columns = tuple(score for score in SCORES if score.name in means)
    table = paper.table("qmsum")
    record = {"device": "cpu", "batches_per_second": 2.5, "peak_memory_bytes": 3_200_000_000,
              "data": {"documents": 1_257}}  # fmt: skip
    evaluation = Evaluation(columns, (system,), ids, words, 1)
    name = table.rows[key].name if key in table.rows else key
    return Made(key, name, table.rows.get(key), base, record, evaluation, **more)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    for split in ("train", "test"):
        write(tmp_path / "data" / f"{split}.jsonl", [{"id": "1", "document": "A b c d.", "summary": "A b."}])
    return Plan("qmsum", tmp_path / "table", data=str(tmp_path / "data"))


def result(plan: Plan, *rows: Made) -> Result:
    return Result(plan, rows, DOCUMENTS, None, None, None, (), 5_000)


def scores(one: float, disco: float = 0.5) -> dict[str, float]:
    return {"rouge-1": one, "rouge-2": one / 3, "rouge-l": one - 0.04, "disco-focus": disco}


@pytest.fixture
def found(plan: Plan) -> Result:
    return result(
        plan,
        made("se3", scores(0.30, 0.60)),
        made("block-attention", scores(0.40, 0.40)),
        made("longformer", scores(0.38, 0.45)),
        made("attentive", scores(0.45, 0.50)),
        made("awesome", scores(0.37, 0.61)),
    )


def test_marks_are_the_papers(found: Result) -> None:
    """Better than all comparisons; better than Se3 alone; for a score of which less is better, the other way round."""
    marks = {
        row.key: [found.compare(row, found.scores[name]).mark for name in ("rouge-1", "disco-focus")]
        for row in found.rows
    }
    assert marks == {
        "se3": ["", ""],
        "block-attention": ["", ""],  # better than Se3, but not one of AWESOME's rows
        "longformer": ["", ""],
        "attentive": [BEST, SE3],
        "awesome": [SE3, ""],
    }
    rouge = found.scores["rouge-1"]
    compared = found.compare(found.rows[3], rouge)
    assert compared.best_row == "block-attention"
    assert compared.se3 == compared.best == 1 / 5_001  # as small as that many trials can show
    assert found.compare(found.rows[0], rouge).se3 is None
    assert found.compare(found.rows[1], rouge).best_row == "longformer"  # never itself


def test_a_small_difference_is_not_marked(plan: Plan) -> None:
    close = result(plan, made("se3", scores(0.30)), made("attentive", scores(0.302)))
    compared = close.compare(close.rows[1], close.scores["rouge-1"])
    assert compared.mark == ""
    assert compared.se3 is not None
    assert compared.se3 > 0.0005


def test_markdown_has_the_papers_layout(found: Result) -> None:
    text = markdown(found)
    lines = text.splitlines()
    [head] = [line for line in lines if line.startswith("| Model | R-1 ↑")]
    assert head == "| Model | R-1 ↑ | R-2 ↑ | R-L ↑ | Disco ↓ | GPU Mem ↓ | Batches/s ↑ | From |"
    at = lines.index(head)
    assert [line.split(" | ")[0].strip("| ") for line in lines[at + 2 : at + 8]] == [
        "Se3", "BlockAttn", "Longformer", "*AWESOME*", "Attn Only", "Attn + Txt",
    ]  # fmt: skip
    assert lines[at + 2].startswith("| Se3 | 30.00 (29.28) | 10.00 (10.51) | 26.00 (25.93) | 0.60 (0.77) | 3.2 (8.1) |")
    assert "| **45.00**\\* (34.86†) |" in lines[at + 6]
    assert "| <u>40.00</u> (30.76) |" in lines[at + 3]
    assert "| **0.40** (0.50) |" in lines[at + 3]
    assert text.count("facebook/bart-large, 406.0M") == 5
    assert "random weights" not in text
    assert "fewer documents" not in text


def test_equal_numbers_share_the_mark_of_the_best(plan: Plan) -> None:
    text = markdown(
        result(plan, made("se3", scores(0.3)), made("longformer", scores(0.3)), made("pagesum", scores(0.2)))
    )
    assert text.count("**30.00**") == 2
    assert text.count("<u>20.00</u>") == 1
    assert "**0.50**" not in text  # all have that one


def test_latex_is_whole(found: Result) -> None:
    text = latex(found)
    rows = [line for line in text.splitlines() if line.endswith(r"\\") and "&" in line]
    assert len(rows) == 6
    assert len({line.count("&") for line in rows}) == 1
    assert r"\textbf{45.00}$^\ast$ {\scriptsize (34.86$^\dag$)}" in text
    assert r"\underline{40.00} {\scriptsize (30.76)}" in text
    assert text.count("{") == text.count("}")
    assert text.isascii()


def test_rows_without_training_say_so(plan: Plan) -> None:
    stand_in = Base("/models/tiny", 200_000, True)
    some = result(plan, made("se3", scores(0.3), stand_in), made("attentive", scores(0.4)))
    text = markdown(some)
    assert "tiny, 0.2M (random weights, tiny)" in text
    assert "From random weights, so that their scores say nothing about the systems: Se3." in text
    assert "Se3 {\\scriptsize [random, tiny]}" in latex(some)
    assert to_dict(some)["rows"]["se3"]["base"] == {
        "name": "/models/tiny", "parameters": 200_000, "random": True, "tiny": True,
    }  # fmt: skip


def test_a_failed_row_stays_in_the_table(plan: Plan) -> None:
    failed = Made(
        "longformer", "Longformer", paper.table("qmsum").rows["longformer"], PAPERS, error="no memory | at all"
    )
    some = result(plan, made("se3", scores(0.3)), failed)
    assert "| Longformer | failed: no memory \\| at all |" in markdown(some)
    assert "failed: no memory | at all" in latex(some)
    assert to_dict(some)["rows"]["longformer"]["error"] == "no memory | at all"
    assert "Longformer" not in speed_plot(some)


def test_weights_that_were_trained_are_told_apart(tmp_path: Path) -> None:
    config = BartConfig(vocab_size=50, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16)  # fmt: skip
    model = BartForConditionalGeneration(config)
    model.save_pretrained(tmp_path / "random")
    with torch.no_grad():
        model.model.encoder.layers[0].final_layer_norm.weight[3] += 0.001
    model.save_pretrained(tmp_path / "trained")
    random, trained = look(str(tmp_path / "random")), look(str(tmp_path / "trained"))
    assert (random.is_random, trained.is_random) == (True, False)
    assert random.is_tiny
    assert random.parameters == trained.parameters
    assert abs((random.parameters or 0) - model.num_parameters()) <= 50 * 17  # tied weights are saved once
    assert look("no/such-model").parameters is None


def test_sample_is_text_that_latex_can_set(found: Result) -> None:
    sample = {"document": "report_1", "reference": "r", "Se3": "50% \ufffd…", "AWESOME": "A & B"}
    text = latex(replace(found, sample=sample))
    assert r"\textbf{Se3:} 50\% ?... \\" in text
    assert r"\textbf{AWESOME:} A \& B \\" in text
    assert r"\caption{Summaries of report\_1.}" in text
