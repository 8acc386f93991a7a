"""`awesum extractor`: train and evaluate the model that scores sentences."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from awesum.cli.parser import Parser, check_positive, stay_offline_with
from awesum.errors import AwesumError
from awesum.files import check_output, with_contents

DESCRIPTION = "The extractor scores the sentences of a document. One is shipped; train another on your own data."
EXAMPLES = """\
examples:
  awesum extractor train --data govreport/ qmsum/ --output extractor.safetensors
  awesum extractor evaluate --data govreport/ --extractor extractor.safetensors
"""


def add_arguments(parser: Parser) -> None:
    """The flags of `awesum extractor train` and `awesum extractor evaluate`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    train = commands.add_parser(
        "train",
        help="train an extractor on documents with summaries",
        description="Train on the train split of one or more datasets. Some documents of each are held out: the "
        "weights of the ratings, the length and the redundancy limit are fitted to them.",
        epilog=EXAMPLES,
    )
    train.set_defaults(call=_train)
    add = train.add_argument
    add("--data", required=True, nargs="+", metavar="NAME_OR_FOLDER", help="one or more datasets with a train split")
    add("--output", required=True, metavar="FILE", help="the trained extractor (safetensors)")
    add("--documents", type=int, metavar="N", help="learn from the first N documents of each dataset (default: all)")
    add("--hold-out", type=int, default=40, metavar="N",
        help="documents of each dataset to hold out, evenly spread (default: %(default)s)")  # fmt: skip
    add("--epochs", type=int, default=3, metavar="N", help="passes over the data (default: %(default)s)")
    add("--learning-rate", type=float, default=2e-3, metavar="RATE", help="peak learning rate (default: %(default)s)")
    add("--layers", type=int, default=1, metavar="N",
        help="self-attention layers over the sentences (default: %(default)s)")  # fmt: skip
    add("--size", type=int, default=192, metavar="N", help="hidden size of these layers (default: %(default)s)")
    add("--dropout", type=float, default=0.2, metavar="RATE", help="dropout rate (default: %(default)s)")
    add("--seed", type=int, default=0, metavar="N", help="seed of data order and new weights (default: %(default)s)")
    add("--processes", type=int, metavar="N", help="number of worker processes (default: one per core)")
    add("--quiet", action="store_true", help="print no progress bar")

    evaluate = commands.add_parser(
        "evaluate",
        help="compare extracts of a dataset: lead, unsupervised, trained, oracle",
        description="ROUGE of extracts at the length that the extractor estimates, F1 against the oracle, and how far "
        "the length is off. A folder written by `awesum data prepare` saves embedding the sentences again.",
        epilog=EXAMPLES,
    )
    evaluate.set_defaults(call=_evaluate)
    add = evaluate.add_argument
    add("--data", required=True, metavar="NAME_OR_FOLDER", help="a dataset, prepared or not")
    add("--split", default="validation", metavar="SPLIT", help="split to evaluate on (default: %(default)s)")
    add("--extractor", metavar="PATH",
        help="a file, or a folder of `--system extractor` (default: the shipped one)")  # fmt: skip
    add("--documents", type=int, metavar="N", help="number of documents, evenly spread (default: all)")
    add("--reference-length", action="store_true", help="give every system the length of the reference")
    add("--processes", type=int, metavar="N", help="number of worker processes (default: one per core)")
    add("--json", action="store_true", help="print JSON")
    add("--quiet", action="store_true", help="print no progress bar")


def run(options: argparse.Namespace) -> int:
    """Run the subcommand."""
    return int(options.call(options))


def _train(options: argparse.Namespace) -> int:
    check_positive(options, "documents", "hold_out", "epochs", "learning_rate", "layers", "size", "processes")
    if options.size % 4 or not 0 <= options.dropout < 1:
        raise AwesumError("--size must be a multiple of 4 (its attention has 4 heads), and --dropout from 0 to below 1")
    check_output(Path(options.output), with_contents(map(Path, options.data)), flag="--output")
    from awesum.datasets import is_public

    if not any(map(is_public, options.data)):
        stay_offline_with()
    from awesum.analysis.salience.extractor import Shape
    from awesum.training.extractor import ExtractorSettings, train

    settings = ExtractorSettings(
        data=tuple(options.data),
        output=options.output,
        documents=options.documents,
        held_out=options.hold_out,
        epochs=options.epochs,
        learning_rate=options.learning_rate,
        seed=options.seed,
        shape=Shape(layers=options.layers, size=options.size, inner=3 * options.size, dropout=options.dropout),
    )
    print(train(settings, processes=options.processes, quiet=options.quiet).calibration)
    print(options.output)
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    check_positive(options, "documents", "processes")
    from awesum.datasets import is_public

    if not is_public(options.data):
        stay_offline_with()
    from awesum.analysis.salience.loading import load_extractor
    from awesum.analysis.salience.trained import SHIPPED
    from awesum.training.extractor_evaluation import evaluate, table

    rows = evaluate(
        load_extractor(options.extractor or SHIPPED),
        options.data,
        options.split,
        documents=options.documents,
        at_reference=options.reference_length,
        processes=options.processes,
        quiet=options.quiet,
    )
    print(json.dumps([asdict(row) for row in rows], indent=1) if options.json else table(rows))
    return 0
