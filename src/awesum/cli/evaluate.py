"""`awesum evaluate`: score summaries, and compare systems."""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path

from awesum.cli.parser import Parser, check_positive, note, stay_offline_with
from awesum.files import check_output
from awesum.metrics import METRICS, Option, parse_options
from awesum.metrics import options as metric_options_of

DESCRIPTION = (
    "Score summaries against references and documents. Each input is a file with one JSON object per line (.jsonl, "
    ".jsonl.zst, .jsonl.gz), a .txt file with one text per line, or a folder with one file per text. Texts are matched "
    "by `id` if all have one, otherwise by their order. References may contain the documents, as datasets do."
)
EXAMPLES = """\
examples:
  awesum evaluate ours.jsonl references.jsonl             every metric that needs no model, with intervals
  awesum evaluate se3.jsonl references.jsonl --compare lead.jsonl ours.jsonl --format markdown
                                                          p-values of each against se3
  awesum evaluate summaries/ references/ --documents reports/ --report report/
  awesum evaluate ours.jsonl references.jsonl --metrics rouge summac --nli-model tals/albert-xlarge-vitaminc-mnli
"""


def add_arguments(parser: Parser) -> None:
    """The flags of `awesum evaluate`."""
    add = parser.add_argument
    add("predictions", metavar="PREDICTIONS", help="the summaries to score")
    add("references", metavar="REFERENCES", help="the reference summaries")
    add("--documents", metavar="FILE", help="the source documents, if REFERENCES does not contain them")
    add("--compare", nargs="+", default=[], metavar="PREDICTIONS",
        help="other systems on the same documents, each tested against PREDICTIONS")  # fmt: skip
    add("--metrics", nargs="+", default=[], metavar="NAME",
        help=f"{', '.join(METRICS)} (default: all that need no model)")  # fmt: skip
    for option in _declared():
        add(option.flag, metavar=option.metavar, help=option.help.replace("%", "%%"))
    add("--trials", type=int, default=10_000, metavar="N",
        help="trials of the randomization test (default: %(default)s)")  # fmt: skip
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json", default="table", help="print JSON")
    form.add_argument("--format", dest="form", choices=["table", "markdown", "latex", "csv"], default="table",
                      help="format of the table (default: %(default)s)")  # fmt: skip
    add("--scores", metavar="FILE", help="save the scores of every summary as JSON lines; run it again to resume")
    add("--report", metavar="FOLDER", help="write a page with the table, plots and examples")
    add("--processes", type=int, metavar="N", help="number of worker processes (default: one per core)")
    add("--quiet", action="store_true", help="print no progress bar and no notes")


def run(options: argparse.Namespace) -> int:
    """Score, print the table, and write the report if one was asked for."""
    check_positive(options, "trials", "processes")
    values = {option.flag: getattr(options, option.flag[2:].replace("-", "_")) for option in _declared()}
    metric_options = parse_options(values, options.metrics)
    stay_offline_with(*(values[option.flag] for option in _declared() if option.is_model))
    from awesum.evaluation import report
    from awesum.evaluation.run import evaluate
    from awesum.evaluation.table import render
    from awesum.workers import cores

    folder = Path(options.report) if options.report else None
    if folder:
        report.place(folder)  # an unwritable folder is reported before minutes of work, not after
        inputs = [options.predictions, options.references, options.documents, *options.compare]
        check_output(folder, [Path(path) for path in inputs if path], is_folder=True, flag="--report")

    evaluation, pairs = evaluate(
        Path(options.predictions),
        Path(options.references),
        documents=Path(options.documents) if options.documents else None,
        compare=[Path(path) for path in options.compare],
        metrics=options.metrics,
        options=metric_options,
        trials=options.trials,
        scores=Path(options.scores) if options.scores else None,
        processes=options.processes or cores(),
        quiet=options.quiet,
    )
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # arrows are not worth losing a table for
    print(render(evaluation, options.form))
    if not options.quiet:
        for line in evaluation.notes:
            note(line)
    if folder:
        note(f"report in {report.write(evaluation, pairs.__getitem__, folder)}")
    return 0


def _declared() -> list[Option]:
    """The options that metrics declare, as flags."""
    return [option for found in metric_options_of().values() for option in found]
