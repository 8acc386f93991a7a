"""Render an evaluation as a plain table, Markdown, LaTeX, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
from math import isfinite
from typing import Any, Literal

from awesum.evaluation.result import Cell, Evaluation
from awesum.metrics.metric import Score
from awesum.summary import count

Format = Literal["table", "markdown", "latex", "csv", "json"]
ARROWS = {"higher": "↑", "lower": "↓", "neither": ""}
LATEX_ARROWS = {"higher": r" $\uparrow$", "lower": r" $\downarrow$", "neither": ""}
_IN_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


def render(evaluation: Evaluation, form: Format) -> str:
    """The whole table in one of the formats."""
    return {"table": _plain, "markdown": _markdown, "latex": _latex, "csv": _csv, "json": _json}[form](evaluation)


def shown(column: Score, value: float) -> str:
    """A score as shown in tables; a dash if it is not a number."""
    scaled = value * column.scale
    return f"{scaled:z,.{column.decimals}f}" if isfinite(scaled) else "–"


def shown_p(p: float, trials: int) -> str:
    """`0.031`, or `<` the smallest value that this number of trials can resolve."""
    least = 1 / (trials + 1)
    return f"<{_short(2 * least)}" if p <= least else _short(p)


def best(evaluation: Evaluation, column: Score) -> str | None:
    """The best mean of a column as shown: means that look the same in the table are equally good.

    None if neither direction is better, or if there is only one system.
    """
    means = [cells[column.name].mean for cells in evaluation.table.values()]
    means = [mean for mean in means if isfinite(mean)]
    if column.better == "neither" or len(evaluation.systems) == 1 or not means:
        return None
    return shown(column, max(means) if column.better == "higher" else min(means))


def _short(p: float) -> str:
    return f"{p:.1g}" if p < 0.001 else f"{p:.3f}"


def _plain(evaluation: Evaluation) -> str:
    """Under each mean its 95% interval and, except for the first system, the p-value of the difference to it."""
    first = evaluation.systems[0].name
    head = ["", *(f"{column.title} {ARROWS[column.better]}".rstrip() for column in evaluation.columns)]
    rows = [head]
    for name, cells in evaluation.table.items():
        found = [(column, cells[column.name]) for column in evaluation.columns]
        rows.append([name, *(shown(column, cell.mean) for column, cell in found)])
        rows.append(["  95%", *(_interval(column, cell) for column, cell in found)])
        if name != first:
            rows.append(["  p", *("–" if cell.p is None else shown_p(cell.p, evaluation.trials) for _, cell in found)])
    widths = [max(len(row[place]) for row in rows) for place in range(len(head))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    return "\n".join([_heading(evaluation), *(line.rstrip() for line in lines)])


def _heading(evaluation: Evaluation) -> str:
    line = count(len(evaluation.ids), "document")
    if len(evaluation.systems) > 1:
        line += (
            f"; p: approximate randomization against {evaluation.systems[0].name}, paired by document, "
            f"{evaluation.trials:,} trials"
        )
    return line


def _interval(column: Score, cell: Cell) -> str:
    if not isfinite(cell.low):
        return "–"
    return f"{shown(column, cell.low)}–{shown(column, cell.high)}"


def _rows(evaluation: Evaluation, bold: str) -> list[list[str]]:
    """For Markdown and LaTeX: the mean, with p in brackets; the best of a column in bold."""
    winners = {column.name: best(evaluation, column) for column in evaluation.columns}
    rows = []
    for name, cells in evaluation.table.items():
        row = []
        for column in evaluation.columns:
            cell = cells[column.name]
            text = shown(column, cell.mean)
            text = bold % text if text == winners[column.name] else text
            row.append(text if cell.p is None else f"{text} ({shown_p(cell.p, evaluation.trials)})")
        rows.append([name, *row])
    return rows


def _markdown(evaluation: Evaluation) -> str:
    head = ["system", *(f"{column.title} {ARROWS[column.better]}".rstrip() for column in evaluation.columns)]
    lines = [head, ["---"] * len(head), *_rows(evaluation, "**%s**")]
    table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return f"{_heading(evaluation)} (in brackets)\n\n{table}" if len(evaluation.systems) > 1 else table


def _latex(evaluation: Evaluation) -> str:
    head = ["System", *(escaped(column.title) + LATEX_ARROWS[column.better] for column in evaluation.columns)]
    rows = [[escaped(row[0]), *row[1:]] for row in _rows(evaluation, r"\textbf{%s}")]
    body = "\n".join(" & ".join(row).replace("<", "$<$") + r" \\" for row in rows)
    return (
        f"% {_heading(evaluation)}\n"
        rf"\begin{{tabular}}{{l{'r' * len(evaluation.columns)}}}" + "\n\\toprule\n" + " & ".join(head) + r" \\"
        "\n\\midrule\n" + body + "\n\\bottomrule\n\\end{tabular}"
    )  # fmt: skip


def escaped(text: str) -> str:
    """Text for LaTeX."""
    return "".join(_IN_LATEX.get(character, character) for character in text)


def _csv(evaluation: Evaluation) -> str:
    """One line per system and score, unscaled, with all digits."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(["system", "score", "better", "mean", "low", "high", "documents", "p"])
    for name, cells in evaluation.table.items():
        for column in evaluation.columns:
            cell = cells[column.name]
            p = "" if cell.p is None else cell.p
            writer.writerow([name, column.name, column.better, cell.mean, cell.low, cell.high, cell.counted, p])
    return written.getvalue().rstrip("\n")


def _json(evaluation: Evaluation) -> str:
    return json.dumps(to_dict(evaluation), ensure_ascii=False, indent=1)


def to_dict(evaluation: Evaluation) -> dict[str, Any]:
    """The stable format of `--json`, unscaled. `--scores` has the scores of every summary."""
    return {
        "documents": len(evaluation.ids),
        "trials": evaluation.trials,
        "scores": {
            column.name: {
                "better": column.better,
                "range": [finite(column.low), finite(column.high)],
                "settings": column.settings,
            }
            for column in evaluation.columns
        },
        "systems": {
            system.name: {
                "empty": system.empty,
                "scores": {
                    name: {
                        "mean": finite(cell.mean),
                        "interval": [finite(cell.low), finite(cell.high)],
                        "documents": cell.counted,
                        "p": cell.p,
                    }
                    for name, cell in evaluation.table[system.name].items()
                },
            }
            for system in evaluation.systems
        },
        "notes": list(evaluation.notes),
    }


def finite(value: float) -> float | None:
    """None for infinity and NaN, which JSON lacks."""
    return value if isfinite(value) else None
