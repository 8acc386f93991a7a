"""`awesum reproduce`: a table of the paper, made here and printed beside the paper's numbers."""

from __future__ import annotations

import argparse
from pathlib import Path

from awesum.cli.parser import Parser, check_positive, note, stay_offline_with
from awesum.errors import AwesumError
from awesum.metrics import options as metric_options_of
from awesum.metrics import parse_options

DESCRIPTION = (
    "Make a table of the paper: train every row (or take a finished run), summarize the test documents, score the "
    "summaries by every metric that is available, and write the table with our numbers beside the paper's "
    "(table.md, table.tex, table.json, speed.svg). Each row is a recipe (`awesum recipes`). After an interruption the "
    "same command resumes; a row that fails is reported, and the others go on."
)
EXAMPLES = """\
examples:
  awesum reproduce govreport --output table/ --dry-run                   what would run, and about how long
  awesum reproduce govreport --output table/                             all twelve rows, with data from the hub
  awesum reproduce qmsum --data qmsum/ --rows se3 awesome --output two/  two rows, on a folder
  awesum reproduce govreport --data govreport/ --rows se3 beyond/cached --output cached/
                                                                         a row beyond the paper
  awesum reproduce govreport --data govreport/ --documents 10 --base tiny-bart/ long-t5=tiny-t5/ \\
    --set encoder=embedded extractor=shipped --output trial/             a trial from stand-ins, without the hub
"""


def add_arguments(parser: Parser) -> None:
    """The flags of `awesum reproduce`."""
    add = parser.add_argument
    add("dataset", metavar="DATASET", help="govreport, qmsum, summscreen, arxiv or booksum: the table to make")
    add("--output", required=True, metavar="FOLDER", help="where models, summaries, scores and the tables go")
    add("--rows", nargs="+", default=[], metavar="ROW",
        help="rows of the table, or recipes such as beyond/cached (default: all rows of the table)")  # fmt: skip
    add("--data", metavar="NAME_OR_FOLDER", help="your copy of the data (default: the public one, from the hub)")
    add("--split", default="test", metavar="SPLIT", help="the split to summarize (default: %(default)s)")
    add("--documents", type=int, metavar="N", help="only the first N documents of each split (default: all)")
    add("--base", nargs="+", default=[], metavar="[ROW=]CHECKPOINT",
        help="another pretrained model, for all rows that take it, or for one (default: the recipes')")  # fmt: skip
    add("--set", nargs="+", default=[], metavar="NAME=VALUE", dest="changes",
        help="settings to change in every row that has them, as `awesum train --help` lists them")  # fmt: skip
    for option in (option for found in metric_options_of().values() for option in found):
        add(option.flag, metavar=option.metavar, help=option.help.replace("%", "%%"))
    add("--trials", type=int, metavar="N", help="trials of the randomization test (default: 10000)")
    add(
        "--processes", type=int, metavar="N",
        help="rows to make at a time (default: one, or one per core if all models are tiny and there is no GPU)",
    )  # fmt: skip
    add("--dry-run", action="store_true", help="say what would run and about how long, and do nothing")
    add("--quiet", action="store_true", help="print no progress")


def run(options: argparse.Namespace) -> int:
    """Make the table and print it."""
    check_positive(options, "trials", "processes")
    declared = metric_options_of()
    values = {
        option.flag: getattr(options, option.flag[2:].replace("-", "_"))
        for each in declared.values()
        for option in each
    }
    with_model = [
        name for name, each in declared.items() if any(option.is_model and values[option.flag] for option in each)
    ]
    models = parse_options(values, with_model)
    from awesum.datasets import is_public
    from awesum.reproduce.plan import Plan
    from awesum.reproduce.run import describe, reproduce

    plan = Plan(
        options.dataset,
        Path(options.output).expanduser(),
        tuple(options.rows),
        options.data or "",
        options.split,
        options.documents,
        dict(_base(each) for each in options.base),
        dict(_change(each) for each in options.changes),
    )
    if not is_public(plan.data):
        needed = [str(each["model"]) for each in models.values() if each.get("model")]
        stay_offline_with(*needed, *(name for row in plan.rows for name in plan.models(row)))
    say = (lambda line: None) if options.quiet else note
    if options.dry_run:
        describe(plan, print)
        return 0
    result = reproduce(
        plan, models=models, trials=options.trials, processes=options.processes, quiet=options.quiet, say=say
    )
    print((plan.output / "table.md").read_text(encoding="utf-8").rstrip())
    if not options.quiet:
        note(f"tables in {plan.output}: table.md, table.tex, table.json, speed.svg")
    return 1 if result.failed else 0


def _base(given: str) -> tuple[str, str]:
    """`ROW=CHECKPOINT`, or a checkpoint for all rows; a path may have an equals sign in it."""
    row, equals, base = given.partition("=")
    return (row, base) if equals and not Path(given).exists() else ("", given)


def _change(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals:
        raise AwesumError(f"--set {given} has no value: write NAME=VALUE, such as epochs=1")
    return name.replace("-", "_"), value
