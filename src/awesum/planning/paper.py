"""The paper's GPU column and its truncation thresholds, planned, beside what it reports.

What the paper does not say is inferred once, for all cells: single precision, attention written out, torch's AdamW as
it was in 2023, gigabytes of 10^9 bytes, and targets of twice the average summary, at most 640 tokens. With these the
two rows that depend on nothing else, Se3 and Attentive on GovReport, are 11.0 and 14.0 GB as against 11.1 and 14.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from awesum import datasets
from awesum.planning.plan import STEP, Request, make
from awesum.reproduce import paper
from awesum.training import recipes
from awesum.training.settings import own_fields

BUDGET = 27_000_000_000
"""Bytes of a GPU, in the paper's experiments."""
LONGEST_TARGET = 640
TOKENS_PER_WORD = 1.3
"""Of BART's tokenizer, in English."""
INFERRED = {"precision": "float32", "optim": "adamw_torch"}
PUBLISHED = {"longformer": "allenai/led-large-16384"}
"""BART-large as LED's authors converted it and published it, with their dropouts, instead of our own conversion."""
FLAT = ("se3", "awesome", "extract-abstract")
"""Systems whose thresholds are not decided by memory."""
NEAR = 0.15
"""A residual up to this counts as agreement."""
LONGEST = 24
"""Multiples of 1,024 tokens that are looked at."""
NOT_FOR_A_STEP = ("encoder", "extractor", "system", "data", "output")


@dataclass(frozen=True)
class Cell:
    """One number of the paper and ours."""

    dataset: str
    row: str
    name: str
    paper: float
    planned: float
    ratio_to_se3: float | None = None
    paper_ratio_to_se3: float | None = None
    is_ours: bool = False
    """Whether it is a row of Se3 or AWESOME, and not of a system that these are compared with."""

    @property
    def residual(self) -> float:
        """How far ours is from the paper's, as a share of it."""
        return self.planned / self.paper - 1


def target_tokens(dataset: str) -> int:
    """Twice the average summary, at most 640: the longest that a batch is likely to have."""
    figures = datasets.PUBLIC[dataset].paper
    words = figures.summary_words if figures else LONGEST_TARGET
    return min(LONGEST_TARGET, round(2 * words * TOKENS_PER_WORD))


def request(dataset: str, row: str) -> Request:
    """The plan of a row of the paper's table: its recipe, with what is inferred."""
    recipe = recipes.read(f"{dataset}/{row}")
    settings = {name: value for name, value in recipe.items() if name not in NOT_FOR_A_STEP}
    system = str(recipe["system"])
    limit = int(settings.get("max_tokens") or 50 * STEP)
    return Request(
        system,
        {**settings, **INFERRED, "base": PUBLISHED.get(system, settings["base"])},
        input_tokens=limit,
        target_tokens=target_tokens(dataset),
        attention="eager",
    )


def memory(only: list[str] | None = None) -> Iterator[Cell]:
    """The GPU column of each table."""
    for dataset in only or paper.names():
        rows = paper.table(dataset).rows
        reported = {key: row.numbers[paper.MEMORY].value for key, row in rows.items()}
        baseline = _gigabytes(request(dataset, paper.BASELINE))
        for key, row in rows.items():
            planned = _gigabytes(request(dataset, key))
            ratios = planned / baseline, reported[key] / reported[paper.BASELINE]
            is_ours = row.group is not None or key == paper.BASELINE
            yield Cell(dataset, key, row.name, reported[key], planned, *ratios, is_ours)


def comparisons() -> Iterator[tuple[str, str, str]]:
    """What the paper says in words about GovReport: what is compared, its number, and ours."""
    plain, attentive = (_gigabytes(request("govreport", row)) for row in (paper.BASELINE, "attentive"))
    rows = paper.table("govreport").rows
    reported = [rows[row].numbers[paper.MEMORY].value for row in ("attentive", paper.BASELINE)]
    yield "Attentive (Attn) / Se3", f"{reported[0] / reported[1]:.2f}", f"{attentive / plain:.2f}"
    every = _gigabytes(_changed("attentive", memory_layers="all"))
    yield "memory in all layers against three", "about +9 GB", f"{every - attentive:+.1f} GB"
    figures = datasets.PUBLIC["govreport"].paper
    assert figures is not None, "the paper's own dataset"
    tokens = round(figures.document_words * TOKENS_PER_WORD)
    whole = _gigabytes(_changed("attentive", tokens, memory_depth=None))
    yield f"no gradient stop, a document of {tokens:,} tokens", "more than 48 GB", f"{whole:.1f} GB"


def _changed(row: str, tokens: int | None = None, **settings: Any) -> Request:
    asked = request("govreport", row)
    return replace(asked, settings={**asked.settings, **settings}, input_tokens=tokens or asked.input_tokens)


def _gigabytes(asked: Request) -> float:
    return make(asked).peak_bytes / 1e9


def truncation(only: list[str] | None = None) -> Iterator[Cell]:
    """The thresholds that memory decides: the longest input in multiples of 1,024 tokens that fits 27 GB."""
    for dataset in only or paper.names():
        for key, reported in paper.content()["datasets"][dataset]["thresholds"].items():
            if key in FLAT:
                continue
            yield Cell(dataset, key, key, float(reported), float(_longest(dataset, key)))


def _longest(dataset: str, key: str) -> int:
    from awesum.planning.plan import longest_multiple

    asked = request(dataset, key)

    def peak(steps: int) -> int:
        settings = {**asked.settings, "max_tokens": steps * STEP}
        if "pages" in own_fields(asked.system):
            settings["pages"] = steps
        return make(replace(asked, input_tokens=steps * STEP, settings=settings)).peak_bytes

    return longest_multiple(peak, BUDGET, LONGEST)


def in_order(cells: list[Cell]) -> tuple[int, int]:
    """Of the pairs of rows of one table that the paper separates by more than a tenth: how many are in its order, and
    how many there are."""
    right = total = 0
    for number, one in enumerate(cells):
        for other in cells[number + 1 :]:
            if one.dataset == other.dataset and max(one.paper, other.paper) > 1.1 * min(one.paper, other.paper):
                total += 1
                right += (one.paper < other.paper) == (one.planned < other.planned)
    return right, total


def _datasets(cells: list[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.dataset for cell in cells))


def as_markdown(kind: str, cells: list[Cell]) -> str:
    """The table, and how far it is from the paper's."""
    unit = "GB" if kind == "memory" else "x 1,024 tokens"
    lines = [
        f"| dataset | row | paper, {unit} | planned | residual | of Se3: paper | planned |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        ratios = [f"{each:.2f}" if each else "" for each in (cell.paper_ratio_to_se3, cell.ratio_to_se3)]
        shown = f"{cell.planned:.1f}" if kind == "memory" else f"{cell.planned:.0f}"
        lines.append(
            f"| {cell.dataset} | {cell.name} | {cell.paper:g} | {shown} | {cell.residual:+.0%} | {' | '.join(ratios)} |"
        )
    mean = sum(abs(cell.residual) for cell in cells) / len(cells)
    lines += ["", f"mean absolute residual: {mean:.1%}"]
    if kind == "memory":
        right, total = in_order(cells)
        each = [(name, in_order([cell for cell in cells if cell.dataset == name])) for name in _datasets(cells)]
        ours = [cell for cell in cells if cell.is_ours]
        near = sum(abs(cell.residual) <= NEAR for cell in ours)
        lines += [
            f"rows of Se3 and AWESOME within {NEAR:.0%}: {near} of {len(ours)}",
            f"pairs of rows that the paper separates by more than 10%, in the paper's order: {right} of {total} "
            f"({', '.join(f'{name} {found} of {most}' for name, (found, most) in each)})",
        ]
    else:
        near = sum(abs(cell.planned - cell.paper) <= 1 for cell in cells)
        lines.append(f"thresholds within 1 x 1,024 tokens: {near} of {len(cells)}")
    return "\n".join(lines)
