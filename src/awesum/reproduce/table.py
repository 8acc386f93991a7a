"""The paper's table with our numbers: Markdown, LaTeX and JSON, and the plot of running times as SVG.

A number of ours stands before the paper's, which is in brackets. As in the paper, the best of a column is bold and the
second best underlined, and AWESOME's rows are marked where they are significantly better.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from awesum.evaluation.table import ARROWS, LATEX_ARROWS, escaped, finite, shown, shown_p
from awesum.metrics.metric import Score
from awesum.reproduce import paper
from awesum.reproduce.paper import BEST, MEMORY, SE3
from awesum.reproduce.result import Made, Result, shown_or_dash
from awesum.summary import count
from awesum.version import __version__

BEYOND = "Beyond the paper"
EXCERPT = 150
"""Words of a summary that are shown."""
_LATEX_MARKS = {BEST: r"$^\ast$", SE3: r"$^\dag$", "": ""}
_MARKDOWN_MARKS = {BEST: r"\*", SE3: "†", "": ""}


def written(result: Result) -> dict[str, str]:
    """The files, by name."""
    return {
        "table.md": markdown(result),
        "table.tex": latex(result),
        "table.json": json.dumps(to_dict(result), ensure_ascii=False, indent=1) + "\n",
        "speed.svg": speed_plot(result),
    }


# --------------------------------------------------------------------------------------------------------------- cells


def _ranks(result: Result, column: str) -> list[str]:
    """The two best means of a column as shown: those that look the same in the table are equally good. Nothing if all
    look the same."""
    score = result.scores.get(column)
    means = [mean for row in result.rows if (mean := row.mean(column)) is not None]
    if score is None or score.better == "neither":
        return []
    ordered = sorted(means, reverse=score.better == "higher")
    different = list(dict.fromkeys(shown(score, mean) for mean in ordered))
    return different[:2] if len(different) > 1 else []


def _cell(result: Result, row: Made, column: str, bold: str, underline: str, marks: dict[str, str]) -> tuple[str, str]:
    """Our number, and the paper's in the same form."""
    score, number = result.scores.get(column), row.paper.numbers.get(column) if row.paper else None
    theirs = "–" if number is None else f"{number.value:.2f}{marks[number.mark]}"
    mean = row.mean(column)
    if score is None or mean is None:
        return "–", theirs
    text = shown(score, mean)
    ranks = _ranks(result, column)
    if text in ranks:
        text = (bold if text == ranks[0] else underline) % text
    return text + marks[result.compare(row, score).mark], theirs


def _costs(row: Made) -> tuple[str, str, str]:
    """Peak memory, ours and the paper's, and batches a second."""
    theirs = row.paper.numbers[MEMORY].value if row.paper else None
    return shown_or_dash(row.peak_memory, 1), shown_or_dash(theirs, 1), _speed(row)


def _speed(row: Made) -> str:
    speed = row.batches_per_second
    return "–" if speed is None else f"{speed:.3g}"


def _title(result: Result, column: str, arrows: dict[str, str]) -> str:
    better = {MEMORY: "lower", "disco-focus": "lower"}.get(column, "higher")
    return f"{paper.column_title(column)} {arrows[better].strip()}"


def _groups(result: Result) -> Iterator[tuple[str | None, list[Made]]]:
    """The rows under their headings, in the order of the table."""
    groups: dict[str | None, list[Made]] = {}
    for row in sorted(result.rows, key=lambda row: _place(result, row)):
        heading = row.paper.group if row.paper else BEYOND
        groups.setdefault(heading, []).append(row)
    yield from groups.items()


def _place(result: Result, row: Made) -> int:
    order = list(result.plan.table.rows)
    return order.index(row.key) if row.key in order else len(order)


def _trained_on(result: Result) -> str:
    documents = {row.record["data"]["documents"] for row in result.rows if row.record}
    figures = _paper_figures(result)
    amount = " or ".join(count(number, "document") for number in sorted(documents)) or "no documents"
    of = f" (the paper: {figures['train']:,} and {figures['test']:,})" if figures else ""
    return f"Trained on {amount}, tested on {count(result.documents, 'document')}{of}."


def _paper_figures(result: Result) -> dict[str, Any] | None:
    from dataclasses import asdict

    from awesum.datasets import PUBLIC

    figures = PUBLIC[result.plan.dataset].paper
    return asdict(figures) if figures else None


def _warnings(result: Result) -> list[str]:
    """What makes the numbers incomparable with the paper's."""
    random = [row.name for row in result.rows if row.base.is_random]
    tiny = [row.name for row in result.rows if row.base.is_tiny and not row.base.is_random]
    found = []
    if random:
        found.append(f"From random weights, so that their scores say nothing about the systems: {', '.join(random)}.")
    if tiny:
        found.append(f"From tiny models, stand-ins for the paper's: {', '.join(tiny)}.")
    figures = _paper_figures(result)
    for row in result.rows:
        seen = row.record.get("data", {}).get("documents") if row.record else None
        if seen and figures and seen < figures["train"] * 0.9:
            found.append(f"Trained on fewer documents than in the paper: {seen:,} of {figures['train']:,}.")
            break
    return found


# ------------------------------------------------------------------------------------------------------------ Markdown


def _lines(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = rows
    return [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
        for line in (head, ["---"] * len(head), *body)
    ]


def markdown(result: Result) -> str:
    """Everything, for a reader."""
    columns = result.plan.table.columns
    head = ["Model", *(_title(result, column, ARROWS) for column in columns)]
    rows = [[*head, _title(result, MEMORY, ARROWS), "Batches/s ↑", "From"]]
    for heading, made in _groups(result):
        if heading:
            rows.append([f"*{heading}*", *[""] * (len(rows[0]) - 1)])
        for row in made:
            if row.error is not None:
                rows.append([row.name, f"failed: {row.error}", *[""] * (len(rows[0]) - 2)])
                continue
            cells = [_cell(result, row, column, "**%s**", "<u>%s</u>", _MARKDOWN_MARKS) for column in columns]
            memory, theirs, speed = _costs(row)
            rows.append(
                [row.name, *(f"{our} ({their})" for our, their in cells), f"{memory} ({theirs})", speed, str(row.base)]
            )
    parts = [
        f"# {result.plan.table.title}: our numbers, and in brackets the paper's",
        "",
        f"{_trained_on(result)} The paper's numbers: {paper.content()['source']}.",
        *(f"\n**{warning}**" for warning in _warnings(result)),
        "",
        *_lines(rows),
        "",
        "Bold: the best of our numbers in a column; underlined: the second best. \\*: better than all systems that "
        "AWESOME is compared with, †: better than Se3, both by approximate randomization paired by document "
        f"(p < {paper.significant():g}, {result.trials:,} trials). {_about_costs(result)}",
        "",
        *_p_values(result),
        *_further_measures(result),
        "## Running time",
        "",
        "![Batches per second of each row](speed.svg)",
        "",
        *_extractor(result),
        *_statistics(result),
        *_sample(result),
        *_notes(result),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _about_costs(result: Result) -> str:
    devices = sorted({str(row.record["device"]) for row in result.rows if row.record.get("device")})
    on = " and ".join(devices) or "nothing"
    kind = (
        "resident memory of the whole process, the interpreter and its libraries included"
        if devices == ["cpu"]
        else "allocated on the GPU"
    )
    return (
        f"{paper.column_title(MEMORY)}: the peak of training in GB, ours on {on} ({kind}), the paper's on one "
        f"{paper.content()['gpu']}. Batches/s: training passes a second, without reading the data and the optimizer"
        f"{_sharing(result) if devices == ['cpu'] else ''}."
    )


def _sharing(result: Result) -> str:
    """How the rows shared the processor."""
    threads = sorted({row.record["threads"] for row in result.rows if row.record.get("threads")})
    at_once = max((row.record.get("rows_at_once", 1) for row in result.rows if row.record), default=1)
    if not threads:
        return ""
    each = f"with {' or '.join(map(str, threads))} thread{'s' * (threads != [1])}{' each' * (at_once > 1)}"
    return f"; trained {f'{at_once} rows at a time, ' * (at_once > 1)}{each}"


def _p_values(result: Result) -> Iterator[str]:
    scores = [result.scores[column] for column in result.plan.table.columns if column in result.scores]
    rows = [["Model", *(paper.column_title(score.name) for score in scores)]]
    for row in result.rows:
        if row.error is None and scores:
            rows.append([row.name, *(_shown_ps(result, row, score) for score in scores)])
    if len(rows) > 2:
        yield from ("## Significance", "", "p against Se3 / p against the best other system.", "", *_lines(rows), "")


def _shown_ps(result: Result, row: Made, score: Score) -> str:
    compared = result.compare(row, score)
    shown_ps = [
        "–" if p is None else shown_p(p, result.trials).replace("<", "\\<") for p in (compared.se3, compared.best)
    ]
    best = next((made.name for made in result.rows if made.key == compared.best_row), "")
    return " / ".join(shown_ps) + (f" ({best})" if best else "")


def _further_measures(result: Result) -> Iterator[str]:
    further = [score for name, score in result.scores.items() if name not in result.plan.table.columns]
    rows = [["Model", *(f"{score.title} {ARROWS[score.better]}".strip() for score in further)]]
    for row in result.rows:
        if row.error is None:
            means = ((score, row.mean(score.name)) for score in further)
            rows.append([row.name, *("–" if mean is None else shown(score, mean) for score, mean in means)])
    if further and len(rows) > 1:
        yield from ("## Further measures", "", *_lines(rows), "")


def _extractor(result: Result) -> Iterator[str]:
    theirs = result.plan.table.extractor_f1
    if result.extractor is None and theirs is None:
        return
    rows = [["Extractor", "F1 against the oracle", "R-1", "R-2", "R-L"]]
    names = {"trained": f"ours ({result.extractor['extractor']})" if result.extractor else ""}
    for row in result.extractor["rows"] if result.extractor else ():
        name = names.get(row["name"], row["name"])
        rows.append([name, f"{row['f1']:.2f}", *(f"{value:.2f}" for value in row["rouge"])])
    rows.append(["the paper's", shown_or_dash(theirs, 2), "–", "–", "–"])
    yield from ("## The extractor", "", *_lines(rows), "")


def _statistics(result: Result) -> Iterator[str]:
    figures = result.statistics
    if figures is None:
        return
    theirs = _paper_figures(result) or {}
    rows = [["Split", "Documents (the paper's)", "Words of a document", "Words of a summary"]]
    for split in figures["splits"]:
        number = theirs.get(split["split"])
        rows.append(
            [
                split["split"],
                f"{split['documents']:,} ({'–' if number is None else f'{number:,}'})",
                shown_or_dash(split["document_words"], 0),
                shown_or_dash(split["summary_words"], 0),
            ]
        )
    whole = figures["all"]
    rows.append(
        [
            "all",
            f"{whole['documents']:,} ({sum(theirs.get(name, 0) for name in ('train', 'validation', 'test')):,})",
            f"{shown_or_dash(whole['document_words'], 0)} ({theirs.get('document_words', 0):,})",
            f"{shown_or_dash(whole['summary_words'], 0)} ({theirs.get('summary_words', 0):,})",
        ]
    )
    yield from ("## The data", "", *_lines(rows), "")


def _sample(result: Result) -> Iterator[str]:
    sample = result.sample
    if sample is None:
        return
    yield from (f"## One document: {sample['document']}", "")
    for name, text in sample.items():
        if name != "document":
            yield from (f"**{name}:** {_excerpt(text)}", "")


def _excerpt(text: str) -> str:
    words = text.split()
    return " ".join(words[:EXCERPT]) + (f" … ({len(words):,} words)" if len(words) > EXCERPT else "")


def _notes(result: Result) -> Iterator[str]:
    missing = [column for column in result.plan.table.columns if column not in result.scores]
    notes = [*result.notes]
    flags = {"summac-zs": "--nli-model", "disco-focus": "--bert-model"}
    for column in missing:
        advice = f": name its model with {flags[column]}" if column in flags else ""
        notes.append(f"{paper.column_title(column)} was not measured{advice}")
    notes += [f"{row.name} failed: {row.error}" for row in result.failed]
    if notes:
        yield from ("## Notes", "", *(f"- {note}" for note in notes), "")


# --------------------------------------------------------------------------------------------------------------- LaTeX


def latex(result: Result) -> str:
    """The table as the paper has it, for `booktabs`."""
    columns = result.plan.table.columns
    heads = [rf"\textbf{{{_title(result, column, LATEX_ARROWS)}}}" for column in (*columns, MEMORY)]
    width = len(heads) + 2
    body: list[str] = []
    for number, (heading, made) in enumerate(_groups(result)):
        if heading == BEYOND or (number and heading and all(not line.endswith("% ours") for line in body)):
            body.append(r"\midrule")
        if heading:
            body.append(rf"\multicolumn{{{width}}}{{l}}{{\textit{{{escaped(heading)}}}}} \\ % ours")
        for row in made:
            name = (r"\quad " if heading else "") + escaped(row.name) + _footnote(row)
            if row.error is not None:
                body.append(rf"{name} & \multicolumn{{{width - 1}}}{{l}}{{failed: {escaped(row.error)}}} \\")
                continue
            cells = [_cell(result, row, column, r"\textbf{%s}", r"\underline{%s}", _LATEX_MARKS) for column in columns]
            memory, theirs, speed = _costs(row)
            cells.append((memory, theirs))
            body.append(
                " & ".join([name, *(rf"{our} {{\scriptsize ({their})}}" for our, their in cells), speed]) + r" \\"
            )
    caption = " ".join(
        [
            f"Results on {result.plan.table.title}; the paper's in brackets.",
            _trained_on(result),
            *_warnings(result),
            r"$\ast$: better than all comparisons, $\dag$: better than Se3",
            rf"(approximate randomization, $p < {paper.significant():g}$).",
        ]
    )
    caption = caption.replace("%", r"\%").replace("_", r"\_")
    lines = [
        rf"% awesum {__version__} reproduce {result.plan.dataset}; numbers in brackets: {paper.content()['source']}",
        r"\begin{table*}[t]",
        r"\centering\small\setlength{\tabcolsep}{4pt}",
        rf"\begin{{tabular}}{{l{'l' * (width - 1)}}}",
        r"\toprule",
        " & ".join([r"\textbf{Model}", *heads, r"\textbf{Batches/s} $\uparrow$"]) + r" \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{caption}}}",
        r"\end{table*}",
        *_latex_sample(result),
    ]
    return "\n".join(lines).replace("–", "--").replace("†", r"$\dag$") + "\n"


def _footnote(row: Made) -> str:
    """Says in the table what a row is not."""
    kinds = ["random"] * row.base.is_random + ["tiny"] * row.base.is_tiny
    return rf" {{\scriptsize [{', '.join(kinds)}]}}" if kinds else ""


def _latex_sample(result: Result) -> Iterator[str]:
    sample = result.sample
    if sample is None:
        return
    texts = [(name, text) for name, text in sample.items() if name not in ("document", "reference")]
    yield from ("", r"\begin{table}[t]", r"\centering\small", r"\begin{tabular}{p{0.45\textwidth}}", r"\toprule")
    for number, (name, text) in enumerate(texts):
        if number:
            yield r"\midrule"
        readable = escaped(_excerpt(text)).replace("…", "...").replace("\ufffd", "?")  # LaTeX knows no U+FFFD
        yield rf"\textbf{{{escaped(name)}:}} {readable} \\"
    yield from (
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{Summaries of {escaped(sample['document'])}.}}",
        r"\end{table}",
    )


# ---------------------------------------------------------------------------------------------------------------- JSON


def to_dict(result: Result) -> dict[str, Any]:
    """The stable format: scores unscaled as in `awesum evaluate --json`, the paper's as printed."""
    return {
        "version": __version__,
        "plan": result.plan.key,
        "paper": paper.content()["source"],
        "documents": result.documents,
        "trials": result.trials,
        "columns": list(result.plan.table.columns),
        "rows": {row.key: _row_dict(result, row) for row in result.rows},
        "extractor": {"ours": result.extractor, "paper_f1": result.plan.table.extractor_f1},
        "statistics": result.statistics,
        "sample": result.sample,
        "warnings": _warnings(result),
        "notes": list(result.notes),
    }


def _row_dict(result: Result, row: Made) -> dict[str, Any]:
    scores: dict[str, Any] = {}
    for name, score in result.scores.items():
        mean, compared = row.mean(name), result.compare(row, score)
        scores[name] = {
            "mean": None if mean is None else finite(mean),
            "better": score.better,
            "p_se3": compared.se3,
            "p_best": compared.best,
            "best": compared.best_row,
            "mark": compared.mark,
        }
    return {
        "name": row.name,
        "error": row.error,
        "base": {
            "name": row.base.name,
            "parameters": row.base.parameters,
            "random": row.base.is_random,
            "tiny": row.base.is_tiny,
        },
        "scores": scores,
        "paper": {
            column: {"value": number.value, "mark": number.mark}
            for column, number in (row.paper.numbers.items() if row.paper else ())
        },
        **{
            name: row.record.get(name)
            for name in (
                "device", "precision", "threads", "rows_at_once", "seconds", "batches_per_second", "peak_memory_bytes",
                "peak_memory_reserved_bytes",
            )
        },
    }  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------- plot


def speed_plot(result: Result) -> str:
    """Batches per second of each row, as bars: the paper's figure of running times."""
    made = [(row.name, speed) for row in result.rows if (speed := row.batches_per_second)]
    high = max((speed for _, speed in made), default=1.0)
    height = 60 + 24 * len(made)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="640" height="{height}" fill="white"/>',
        f'<text x="170" y="20">{escape(result.plan.table.title)}: batches per second in training</text>',
    ]
    for number, (name, speed) in enumerate(made):
        y = 36 + 24 * number
        parts.append(f'<text x="162" y="{y + 13}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect x="170" y="{y}" width="{400 * speed / high:.1f}" height="17" fill="#1f6feb"/>')
        parts.append(f'<text x="{176 + 400 * speed / high:.1f}" y="{y + 13}">{speed:.3g}</text>')
    return "\n".join([*parts, "</svg>", ""])
