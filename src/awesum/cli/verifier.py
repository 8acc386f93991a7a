"""`awesum verifier`: train the model that judges written sentences, and judge one."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from awesum.cli.parser import Parser, check_positive, note, stay_offline_with
from awesum.files import check_output, with_contents

DESCRIPTION = "The verifier judges how well a sentence is supported by its source. One is shipped; train another."
EXAMPLES = """\
examples:
  awesum verifier check report.pdf "The program began in 2010."
  awesum verifier train --data govreport/ qmsum/ --output verifier.safetensors
  awesum summarize report.pdf --style abstract --verifier verifier.safetensors
"""


def add_arguments(parser: Parser) -> None:
    """The flags of `awesum verifier check` and `awesum verifier train`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    check = commands.add_parser(
        "check",
        help="how well a document supports a sentence",
        description="Print how well a document supports a sentence, from 0 to 1, and the sentences nearest to it.",
        epilog=EXAMPLES,
    )
    check.set_defaults(call=_check)
    add = check.add_argument
    add("path", metavar="PATH", help="a file, an http(s) address, or - for standard input")
    add("sentence", metavar="SENTENCE", help="the sentence to judge")
    add("--verifier", metavar="NAME_OR_PATH", help="an NLI model, a trained file, or exact (default: the shipped one)")
    add("--json", action="store_true", help="print JSON")

    train = commands.add_parser(
        "train",
        help="train a verifier on a dataset's own texts",
        description="Make true and corrupted statements from the train splits, and learn to tell them apart.",
        epilog=EXAMPLES,
    )
    train.set_defaults(call=_train)
    add = train.add_argument
    add("--data", required=True, nargs="+", metavar="NAME_OR_FOLDER", help="one or more datasets")
    add("--output", required=True, metavar="FILE", help="the trained verifier (safetensors)")
    add("--statements", type=int, default=30_000, metavar="N", help="pairs of statements (default: %(default)s)")
    add("--epochs", type=float, default=1.0, metavar="N", help="passes over them (default: %(default)s)")
    add("--learning-rate", type=float, default=1.5e-4, metavar="RATE",
        help="peak learning rate (default: %(default)s)")  # fmt: skip
    add("--seed", type=int, default=0, metavar="N", help="seed of statements and new weights (default: %(default)s)")
    add("--quiet", action="store_true", help="print no progress bar")


def run(options: argparse.Namespace) -> int:
    """Run the subcommand."""
    return int(options.call(options))


def _check(options: argparse.Namespace) -> int:
    from awesum.reading import check_source, read

    check_source(options.path)
    stay_offline_with(options.verifier)
    from awesum.analysis.sentences import sentence_spans
    from awesum.loading import hide_progress_bars
    from awesum.verify import Verifier

    hide_progress_bars()
    document = read(options.path)
    text = document.text
    sources = [" ".join(text[start:end].split()) for start, end in sentence_spans(text, document.blocks)]
    verifier = Verifier.load(options.verifier)
    [verdict] = verifier.judge(sources, [options.sentence])
    if not verdict.is_judged:
        note("the verifier knows English only: its exact checks give the support, and it trusts copied sentences alone")
    near = [sources[index] for index in verdict.sources]
    if options.json:
        found = {"support": verdict.support, "supported": verifier.supports(verdict), "sources": near}
        print(json.dumps(found, ensure_ascii=False, indent=1))
    else:
        print(f"{verdict.support:.2f}", "supported" if verifier.supports(verdict) else "not supported")
        for source in near:
            print(f"  {source}")
    return 0


def _train(options: argparse.Namespace) -> int:
    check_positive(options, "statements", "epochs", "learning_rate")
    check_output(Path(options.output), with_contents(map(Path, options.data)), flag="--output")
    from awesum.datasets import is_public

    if not any(map(is_public, options.data)):
        stay_offline_with()
    from awesum.training.verifier import VerifierSettings, train

    settings = VerifierSettings(
        data=tuple(options.data),
        output=options.output,
        statements=options.statements,
        epochs=options.epochs,
        learning_rate=options.learning_rate,
        seed=options.seed,
    )
    scores = train(settings, quiet=options.quiet)
    print(f"{scores.accuracy:.1%} of {scores.pairs:,} unseen pairs in the right order")
    for kind, accuracy in scores.by_kind.items():
        print(f"  {kind}: {accuracy:.1%}")
    print(options.output)
    return 0
