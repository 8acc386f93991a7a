"""One self-contained page about an evaluation: the table, plots against length, and summaries side by side.

Means hide how a system treats a single document, so the page shows the documents with the best and the worst scores,
and those on which the systems differ most. The page uses no scripts and loads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np

from awesum import files
from awesum.errors import AwesumError
from awesum.evaluation.plot import MOST_BINS, STYLE, colour, drawn, legend, plot, text
from awesum.evaluation.result import Evaluation
from awesum.evaluation.table import ARROWS, best, shown, shown_p
from awesum.metrics.metric import Sample, Score
from awesum.rendering.html import opening
from awesum.summary import count

EXAMPLES = 3
"""Documents shown of each kind."""

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --paper: #fcfcfa; --soft: #5c6070; --line: #d9dbe0; --mark: #fff6d6;
  --here: #ffd34d; --link: #1a4f9c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e6ea; --paper: #15181d; --soft: #a0a4b4; --line: #333a44;
  --mark: #2c2817; --here: #7a6710; --link: #8ab6ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 84rem; padding: 1rem 1.5rem 3rem; color: var(--ink); background: var(--paper);
  font: 14px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { margin: 0; font-size: 20px; line-height: 1.3; }
h2 { margin: 2.5rem 0 .5rem; font-size: 17px; }
h3 { margin: 1.5rem 0 .5rem; font-size: 15px; }
h4 { margin: 0; font-size: 14px; }
p { margin: .25rem 0 .75rem; max-width: 60rem; }
a { color: var(--link); }
small, .soft { color: var(--soft); font-size: 12px; font-weight: 400; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.notes { margin: 1rem 0; padding: .5rem 1rem; background: var(--mark); border-left: 3px solid var(--here); }
.notes ul { margin: 0; padding-left: 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: .5rem .9rem; text-align: right; vertical-align: top; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
tr > :first-child { position: sticky; left: 0; min-width: 8rem; max-width: 18rem; padding-left: 0; text-align: left;
  white-space: normal; overflow-wrap: anywhere; background: var(--paper); }
thead th { max-width: 11rem; vertical-align: bottom; white-space: normal; border-bottom: 2px solid var(--line); }
td small, th small { display: block; }
td { font-size: 15px; }
.best { font-weight: 700; }
dl { display: grid; grid-template-columns: fit-content(20rem) 1fr; gap: .15rem 1rem; margin: .5rem 0; font-size: 13px; }
dt { font-weight: 600; } dd { margin: 0; color: var(--soft); }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: .5rem 0; padding: 0; list-style: none; }
.legend svg { vertical-align: -3px; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-weight: 600; }
.plot { display: block; width: 100%; max-width: 32rem; }
article { margin: 0 0 1.5rem; padding: .75rem 1rem 1rem; border: 1px solid var(--line); border-radius: 4px; }
article th, article td { padding: .15rem .8rem; font-size: 13px; border: 0; vertical-align: baseline; }
article tbody th { font-weight: 400; }
.texts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(15rem, 100%), 1fr)); gap: 1rem;
  margin: .75rem 0; }
.texts bdi, .text { color: var(--ink); }
.texts h5 { margin: 0 0 .25rem; padding-bottom: .2rem; font-size: 13px; border-bottom: 2px solid currentColor; }
.text { max-height: 20rem; margin-bottom: .5rem; padding-right: .5rem; overflow-y: auto; white-space: pre-wrap;
  font: 15px/1.55 Georgia, "Times New Roman", serif; }
.strips { display: grid; grid-template-columns: minmax(4rem, 11rem) 1fr; gap: .3rem .75rem; align-items: center;
  font-size: 12px; }
.strips svg { display: block; width: 100%; height: 14px; background: var(--line); }
.strips rect { fill: currentColor; opacity: .8; }
.ends { grid-column: 2; display: flex; justify-content: space-between; }
@media (max-width: 40rem) { body { padding: 1rem; } dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; }
  tr > :first-child { max-width: 8rem; } th, td { padding-inline: .5rem; } .strips { grid-template-columns: 1fr; }
  .ends { grid-column: 1; } }
@media print { .text { max-height: none; } .wide { overflow: visible; } }
"""


def write(evaluation: Evaluation, samples: Callable[[int], list[Sample]], folder: Path) -> Path:
    """Write the page to `index.html` in the folder.

    `samples` returns the summaries of one document, one per system; it is called once for each document shown.
    """
    path = place(folder)
    page = "".join(_page(evaluation, samples))
    try:
        files.write(path, page)
    except OSError as error:
        raise _unwritable(folder, error) from error
    return path


def place(folder: Path) -> Path:
    """The path of the page; creates the folder, or raises an error if it is not writable."""
    try:
        files.check_writable(folder, is_folder=True)
    except OSError as error:
        raise _unwritable(folder, error) from error
    path = folder / "index.html"
    try:
        if b'name="generator" content="awesum"' not in path.read_bytes()[:4096]:
            raise AwesumError(
                f"{path} is not a report that awesum wrote, and would be written over: give another --report"
            )
    except FileNotFoundError:
        pass
    except OSError as error:
        raise _unwritable(folder, error) from error
    return path


def _unwritable(folder: Path, error: OSError) -> AwesumError:
    why = error.strerror or error
    return AwesumError(f"cannot write the report to {folder} ({why}): give another folder for it")


def _page(evaluation: Evaluation, samples: Callable[[int], list[Sample]]) -> Iterator[str]:
    systems = evaluation.systems
    who = f"<bdi>{text(systems[0].name)}</bdi>" if len(systems) == 1 else f"{len(systems)} systems"
    title = f"Evaluation of {who} on {count(len(evaluation.ids), 'document')}"
    notes = "".join(f'<li dir="auto">{text(note)}</li>' for note in evaluation.notes)
    yield f"""{opening(title.replace("<bdi>", "").replace("</bdi>", ""), _STYLE + STYLE)}
<header><h1>{title}</h1></header>
<main>
"""
    if notes:
        yield f'<aside class="notes" aria-label="Notes"><ul>{notes}</ul></aside>\n'
    yield from _table(evaluation)
    yield from _plots(evaluation)
    yield from _examples(evaluation, samples)
    yield "</main>\n</body>\n</html>\n"


def _table(evaluation: Evaluation) -> Iterator[str]:
    several = len(evaluation.systems) > 1
    with np.errstate(all="ignore"):  # an infinite score is shown as a dash, without a warning
        table = evaluation.table
    winners = {column.name: best(evaluation, column) for column in evaluation.columns}
    yield '<h2>Scores</h2>\n<div class="wide" role="region" aria-label="Table of scores" tabindex="0">'
    yield '<table id="scores"><thead><tr><th scope="col">System</th>'
    yield f"{''.join(map(_head, evaluation.columns))}</tr></thead>\n<tbody>"
    for number, system in enumerate(evaluation.systems):
        about = [f"{count(round(system.words.mean()), 'word')} on average"] if len(system.words) else []
        about += [f"{system.empty:,} empty"] if system.empty else []
        mark = "<small>baseline: the others are compared with it</small>" if several and not number else ""
        yield f'<tr><th scope="row"><bdi>{text(system.name)}</bdi>{mark}<small>{", ".join(about)}</small></th>'
        for column in evaluation.columns:
            cell = table[system.name][column.name]
            mean = shown(column, cell.mean)
            lines = [f'<span class="best">{mean}</span>' if mean == winners[column.name] else mean]
            if isfinite(cell.mean):
                if isfinite(cell.low) and isfinite(cell.high):
                    lines.append(f"<small>[{shown(column, cell.low)}, {shown(column, cell.high)}]</small>")
                if cell.p is not None:
                    p = shown_p(cell.p, evaluation.trials)
                    lines.append(f"<small>p {text(p) if p.startswith('<') else f'= {p}'}</small>")
            if cell.counted < len(evaluation.ids):
                lines.append(f"<small>{len(evaluation.ids) - cell.counted:,} left out</small>")
            yield f"<td>{''.join(lines)}</td>"
        yield "</tr>\n"
    yield '</tbody></table></div>\n<p class="soft">↑ higher is better, ↓ lower is better. In brackets: 95% bootstrap '
    yield f"interval of the mean, of {count(evaluation.trials, 'trial')}."
    if several:
        yield " In bold: the best. p: p-value of the difference to the first system (paired approximate randomization, "
        yield "two-sided, not corrected for the number of comparisons)."
    if any(cell.counted < len(evaluation.ids) for row in table.values() for cell in row.values()):
        yield " Left out: documents without this score, which do not count in the mean."
    yield '</p>\n<dl id="settings">'
    for column in evaluation.columns:
        settings = text(column.settings) or "no settings"
        yield f"<dt>{text(column.title)} <small>{text(column.name)}</small></dt><dd>{settings}</dd>"
    yield "</dl>\n"


def _head(score: Score) -> str:
    arrow = ""
    if score.better != "neither":
        words = f"{score.better} is better"
        arrow = f'&nbsp;<span role="img" aria-label="{words}" title="{words}">{ARROWS[score.better]}</span>'
    return f'<th scope="col">{text(score.title)}{arrow}<small>{_range(score)}</small></th>'


def _range(score: Score) -> str:
    low, high = (f"{bound * score.scale:,.6g}" if isfinite(bound) else "" for bound in (score.low, score.high))
    if low and high:
        return f"{low} to {high}"
    return f"at least {low}" if low else f"at most {high}" if high else "any number"


def _plots(evaluation: Evaluation) -> Iterator[str]:
    yield "<h2>Scores by document length</h2>\n"
    words = evaluation.document_words
    if not words.any():
        yield "<p>No plots: the documents were not given, so their length is unknown.</p>\n"
        return
    points = drawn(words)
    usable = int((words > 0).sum())
    caption = f"Points are documents; lines connect the means of up to {MOST_BINS} groups of documents by length."
    if len(points) < usable:
        caption += f" Of {usable:,} documents {len(points):,} are drawn, spread evenly over the lengths; "
        caption += "the lines use all of them."
    if usable < len(words):
        caption += f" {count(len(words) - usable, 'document')} without text left out."
    yield f"<p>{caption}</p>\n{legend([system.name for system in evaluation.systems])}\n"
    plots = {column.title: plot(evaluation, column, points) for column in evaluation.columns}
    yield f'<div class="plots">{"".join(svg for svg in plots.values() if svg)}</div>\n'
    for title, svg in plots.items():
        if not svg:
            yield f"<p>{text(title)}: no document has this score, so there is nothing to draw.</p>\n"


@dataclass(frozen=True)
class _Group:
    title: str
    documents: list[int]


def _groups(evaluation: Evaluation, score: Score) -> list[_Group]:
    """The documents to show, by index. A system without this score for any document is ignored."""
    scores = [system.scores[score.name] for system in evaluation.systems]
    matrix = np.array([each for each in scores if np.isfinite(each).any()])  # (systems, documents)
    if not len(matrix):
        return []
    scored = np.flatnonzero(np.isfinite(matrix).all(axis=0))
    if len(scored) < 2:
        return [_Group("The only document with this score", scored.tolist())] if len(scored) else []
    means, spreads = matrix[:, scored].mean(axis=0), np.ptp(matrix[:, scored], axis=0)
    names = ("Highest", "Lowest") if score.better == "neither" else ("Best", "Worst")
    if np.ptp(means) == 0:
        groups = [_Group("Documents that all score the same", scored[:EXAMPLES].tolist())]
    else:
        good = -means if score.better != "lower" else means
        order = scored[np.argsort(good, kind="stable")]
        most = min(EXAMPLES, len(order) // 2)
        groups = [_Group(names[0], order[:most].tolist()), _Group(names[1], order[::-1][:most].tolist())]
    apart = np.argsort(-spreads, kind="stable")[:EXAMPLES]
    apart = apart[spreads[apart] > 0]
    return [*groups, _Group("Most different between the systems", scored[apart].tolist())] if len(apart) else groups


def _examples(evaluation: Evaluation, samples: Callable[[int], list[Sample]]) -> Iterator[str]:
    yield "<h2>Examples</h2>\n"
    groups = _groups(evaluation, evaluation.columns[0]) if evaluation.columns else []
    if not groups:
        yield "<p>No examples: no document has the first score for all systems.</p>\n"
        return
    mean = "the mean of the systems’ " if len(evaluation.systems) > 1 else ""
    yield f"<p>Chosen by {mean}<strong>{text(evaluation.columns[0].title)}</strong>, the first column.</p>\n"
    shown_already: set[int] = set()
    for group in groups:
        yield f"<section><h3>{group.title} <small>by {text(evaluation.columns[0].title)}</small></h3>\n"
        for index in group.documents:
            if index in shown_already:
                name = text(evaluation.ids[index])
                yield f'<p class="again"><a href="#document-{index}"><bdi>{name}</bdi></a>, shown above.</p>\n'
            else:
                shown_already.add(index)
                yield _example(evaluation, index, samples(index))
        yield "</section>\n"


def _example(evaluation: Evaluation, index: int, samples: list[Sample]) -> str:
    words = int(evaluation.document_words[index])
    length = f" <small>{count(words, 'word')}</small>" if words else ""
    heads = "".join(f'<th scope="col">{text(column.title)}</th>' for column in evaluation.columns)
    rows = "".join(
        f'<tr><th scope="row"><bdi>{text(system.name)}</bdi></th>'
        + "".join(f"<td>{shown(column, system.scores[column.name][index])}</td>" for column in evaluation.columns)
        + "</tr>"
        for system in evaluation.systems
    )
    references = samples[0].references
    names = ["Reference"] if len(references) == 1 else [f"Reference {i + 1}" for i in range(len(references))]
    boxes = "".join(_box(name, each) for name, each in zip(names, references, strict=True))
    columns = [f'<div class="soft">{boxes}</div>'] if references else []
    strips = []
    for number, (system, sample) in enumerate(zip(evaluation.systems, samples, strict=True)):
        columns.append(
            f'<div class="{colour(number)}">{_box(system.name, sample.prediction, int(system.words[index]))}</div>'
        )
        if sample.document:
            strips.append(_strip(number, system.name, sample))
    sources = (
        "<p>The source of each summary sentence in the document:</p>\n"
        f'<div class="strips">{"".join(strips)}<div class="ends soft"><span>start</span><span>end</span></div></div>'
    )
    return f"""<article id="document-{index}"><h4><bdi>{text(evaluation.ids[index])}</bdi>{length}</h4>
<div class="wide" role="region" aria-label="Scores of this document" tabindex="0"><table>
<thead><tr><th scope="col">System</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>
<div class="texts">{"".join(columns)}</div>
{sources if strips else ""}</article>
"""


def _box(name: str, content: str, words: int | None = None) -> str:
    length = "" if words is None else f" <small>{count(words, 'word')}</small>"
    inside = text(content) if content.strip() else '<span class="soft">(no text)</span>'
    return (
        f'<h5><bdi>{text(name)}</bdi>{length}</h5><div class="text" dir="auto" role="region" aria-label="{text(name)}" '
        f'tabindex="0">{inside}</div>'
    )


def _strip(number: int, name: str, sample: Sample) -> str:
    """The document as a strip from start to end, with a mark at the source of each summary sentence."""
    from awesum.metrics.coverage import attributions

    sentences = attributions(sample.prediction, sample.document)
    found = [(i, sentence, at) for i, (sentence, at) in enumerate(sentences, 1) if at is not None and isfinite(at)]
    marks = "".join(
        f'<rect x="{min(max(at, 0.0), 1.0) * 994:.0f}" y="0" width="6" height="14"><title>sentence {i}, at {at:.0%} of '
        f"the document: {text(sentence)}</title></rect>"
        for i, sentence, at in found
    )
    none = len(sentences) - len(found)
    rest = f"<small>{none} of {count(len(sentences), 'sentence')} without a source</small>" if none else ""
    label = f"{name}: " + (", ".join(f"{at:.0%}" for _, _, at in found) or "no sources")
    return (
        f'<div><bdi>{text(name)}</bdi> {rest}</div><svg class="strip {colour(number)}" viewBox="0 0 1000 14" '
        f'preserveAspectRatio="none" role="img" aria-label="{text(label)}">{marks}</svg>'
    )
