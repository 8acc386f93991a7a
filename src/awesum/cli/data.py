"""`awesum data`: statistics of a dataset, and its preparation for training."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from awesum.cli.parser import Parser, stay_offline_with
from awesum.files import check_output
from awesum.settings import SMOLLM2

DESCRIPTION = (
    "Datasets: a folder with train.jsonl, validation.jsonl and test.jsonl (or .jsonl.zst, .jsonl.gz), or one of "
    "govreport, qmsum, summscreen, arxiv, booksum, read from the hub."
)
EXAMPLES = """\
examples:
  awesum data stats govreport/
  awesum data prepare govreport/ --out prepared/
"""
STATS_EXAMPLES = """\
examples:
  awesum data stats govreport/                         counts and average lengths of each split in a folder
  awesum data stats qmsum --split validation --json    the same for a public dataset, read from the hub
"""
PREPARE_EXAMPLES = """\
examples:
  awesum data prepare govreport/ --out prepared/       all splits; run it again to resume
  awesum data prepare qmsum --out prepared/ --split train --tokenizer facebook/bart-large
"""


def add_arguments(parser: Parser) -> None:
    """The flags of `awesum data stats` and `awesum data prepare`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    stats = commands.add_parser(
        "stats",
        help="count documents and words, next to the paper's figures",
        description="Counts and average lengths. Invalid rows are reported with file and line, skipped and counted.",
        epilog=STATS_EXAMPLES,
    )
    stats.set_defaults(call=_stats)
    _add_source(stats)
    stats.add_argument("--json", action="store_true", help="print JSON")
    stats.add_argument("--quiet", action="store_true", help="print no progress bar")

    prepare = commands.add_parser(
        "prepare",
        help="compute everything training needs, once",
        description="Write sentences, segments, targets, oracle labels and sentence embeddings of each document as "
        "Parquet. Documents already prepared with the same settings are kept; other settings get another folder.",
        epilog=PREPARE_EXAMPLES,
    )
    prepare.set_defaults(call=_prepare)
    _add_source(prepare)
    add = prepare.add_argument
    add("--out", required=True, metavar="FOLDER", help="output folder; each set of settings gets a folder inside it")
    add("--tokenizer", default=SMOLLM2, metavar="NAME_OR_PATH",
        help="measures segments: the embedded %(default)s (default), a folder, or a name on the hub")  # fmt: skip
    add("--encoder", metavar="NAME_OR_PATH",
        help="embeds sentences: a folder, or a name such as roberta-base (default: the embedded encoder)")  # fmt: skip
    add("--documents", type=int, metavar="N", help="prepare only the first N of each split (default: all)")
    add("--processes", type=int, metavar="N", help="number of worker processes (default: one per core)")
    add("--quiet", action="store_true", help="print no progress bar")


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="NAME_OR_FOLDER", help="a folder, a file, or the name of a public dataset")
    parser.add_argument(
        "--split", nargs="+", default=[], metavar="SPLIT", help="train, validation, test (default: all)"
    )


def run(options: argparse.Namespace) -> int:
    """Run the subcommand."""
    return int(options.call(options))


def _stats(options: argparse.Namespace) -> int:
    from awesum.datasets.stats import measure

    statistics = measure(options.source, options.split, quiet=options.quiet)
    print(json.dumps(statistics.as_dict(), indent=1) if options.json else statistics.table())
    return 0


def _prepare(options: argparse.Namespace) -> int:
    check_output(Path(options.out), [Path(options.source)], is_folder=True, flag="--out")
    from awesum.datasets import is_public

    if not is_public(options.source):
        stay_offline_with(options.tokenizer, options.encoder)
    from awesum.prepared.prepare import prepare

    preparations = prepare(
        options.source,
        options.out,
        options.split,
        tokenizer=options.tokenizer,
        encoder=options.encoder,
        documents=options.documents,
        processes=options.processes,
        quiet=options.quiet,
    )
    print(preparations)
    return 0
