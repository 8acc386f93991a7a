"""`awesum extractor`: train and evaluate the model that scores sentences."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from awesum.cli.parser import Parser, check_positive, stay_offline_with
from awesum.errors import AwesumError
from awesum.files import check_output

DESCRIPTION = "The extractor scores the sentences of a document. One is shipped; train another on your own data."
EXAMPLES = """\
examples:
  awesum data prepare govreport/ --out prepared/
  awesum extractor train --data prepared/ --output extractor.safetensors
  awesum extractor evaluate --data prepared/ --extractor extractor.safetensors
"""


def add_arguments(parser: Parser) -> None:
    """The flags of `awesum extractor train` and `awesum extractor evaluate`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    train = commands.add_parser(
        "train",
        help="train an extractor on a prepared dataset",
        description="Train on the output of `awesum data prepare`; the validation split decides which epoch is kept.",
        epilog=EXAMPLES,
    )
    train.set_defaults(call=_train)
    add = train.add_argument
    add("--data", required=True, nargs="+", metavar="FOLDER", help="one or more prepared datasets")
    add("--output", required=True, metavar="FILE", help="the trained extractor (safetensors)")
    add("--epochs", type=int, default=10, metavar="N", help="passes over the data (default: %(default)s)")
    add("--learning-rate", type=float, default=1e-3, metavar="RATE", help="peak learning rate (default: %(default)s)")
    add("--layers", type=int, default=1, metavar="N",
        help="self-attention layers over the sentences (default: %(default)s)")  # fmt: skip
    add("--size", type=int, default=192, metavar="N", help="hidden size of these layers (default: %(default)s)")
    add("--dropout", type=float, default=0.3, metavar="RATE", help="dropout rate (default: %(default)s)")
    add("--validation-documents", type=int, default=100, metavar="N",
        help="validation documents per dataset, evenly spread (default: %(default)s)")  # fmt: skip
    add("--seed", type=int, default=0, metavar="N", help="seed of data order and new weights (default: %(default)s)")
    add("--quiet", action="store_true", help="print no progress bar")

    evaluate = commands.add_parser(
        "evaluate",
        help="compare extracts on a prepared dataset: lead, unsupervised, trained, oracle",
        description="ROUGE of extracts at the length that the extractor chooses, and F1 against the oracle.",
        epilog=EXAMPLES,
    )
    evaluate.set_defaults(call=_evaluate)
    add = evaluate.add_argument
    add("--data", required=True, metavar="FOLDER", help="a prepared dataset")
    add("--split", default="validation", metavar="SPLIT", help="split to evaluate on (default: %(default)s)")
    add("--extractor", metavar="FILE", help="the extractor to evaluate (default: the shipped one)")
    add("--documents", type=int, metavar="N", help="number of documents, evenly spread (default: all)")
    add("--reference-length", action="store_true", help="give every system the length of the reference")
    add("--processes", type=int, metavar="N", help="number of worker processes (default: one per core)")
    add("--json", action="store_true", help="print JSON")
    add("--quiet", action="store_true", help="print no progress bar")


def run(options: argparse.Namespace) -> int:
    """Run the subcommand."""
    return int(options.call(options))


def _train(options: argparse.Namespace) -> int:
    check_positive(options, "epochs", "learning_rate", "layers", "size", "validation_documents")
    if options.size % 4 or not 0 <= options.dropout < 1:
        raise AwesumError("--size must be a multiple of 4 (its attention has 4 heads), and --dropout from 0 to below 1")
    check_output(Path(options.output), map(Path, options.data), flag="--output")
    stay_offline_with()
    from awesum.analysis.salience.extractor import Shape
    from awesum.training.extractor import ExtractorSettings, train

    settings = ExtractorSettings(
        data=tuple(options.data),
        output=options.output,
        epochs=options.epochs,
        learning_rate=options.learning_rate,
        validation_documents=options.validation_documents,
        seed=options.seed,
        shape=Shape(layers=options.layers, size=options.size, inner=3 * options.size, dropout=options.dropout),
    )
    print(train(settings, quiet=options.quiet).calibration)
    print(options.output)
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    check_positive(options, "documents", "processes")
    stay_offline_with()
    from awesum.analysis.salience.trained import SHIPPED, TrainedSalience
    from awesum.training.extractor import evaluate, table

    rows = evaluate(
        TrainedSalience.load(options.extractor or SHIPPED),
        options.data,
        options.split,
        documents=options.documents,
        at_reference=options.reference_length,
        processes=options.processes,
        quiet=options.quiet,
    )
    print(json.dumps([asdict(row) for row in rows], indent=1) if options.json else table(rows))
    return 0
