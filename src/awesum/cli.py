"""The command line: parse, call, print. Result on stdout, the rest on stderr, one clear line for an error."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args

from awesum import __version__
from awesum.errors import AwesumError
from awesum.settings import AWESUM, SMOLLM2, Settings, Style
from awesum.training.settings import TrainingSettings, read_settings

INTERRUPTED = 130
"""The exit code that shells give to a command ended by Ctrl-C."""

_EXAMPLES = """\
examples:
  awesum summarize report.pdf                             a summary of about 200 words, as it is written
  awesum summarize report.pdf --length 5%% --format html -o report.html
  awesum summarize minutes.docx --query "What was decided about the budget?"
  awesum summarize book.epub --style extract --length 40s the most salient sentences, verbatim, in seconds
  awesum summarize reports/ -o summaries/                 one summary a file; run again, it goes on where it stopped
  cat notes.md | awesum summarize - --json | jq .parts
"""

_STATS_EXAMPLES = """\
examples:
  awesum data stats govreport/                            counts and average lengths of a folder's splits
  awesum data stats qmsum --split validation --json       the same of a public dataset, read from the hub
"""

_PREPARE_EXAMPLES = """\
examples:
  awesum data prepare govreport/ --out prepared/          all splits; run again, it goes on where it stopped
  awesum data prepare qmsum --out prepared/ --split train --tokenizer facebook/bart-large
"""

_TRAIN_EXAMPLES = """\
examples:
  awesum train configs/govreport.yaml --data govreport/ --output model/     the paper's recipe and its full model
  awesum train configs/govreport.yaml --data govreport/ --output se3/ --memory none --salient none
  awesum train --model facebook/bart-base --data mine/ --output model/ --memory compressive --epochs 5
  awesum train configs/smollm2.yaml --data prepared/ --output adapter/      a memory for the embedded model, on a laptop
  awesum train --base smollm2 --freeze-trunk --data govreport/ --output se3/ --memory none
  torchrun --nproc-per-node 2 -m awesum train configs/qmsum.yaml --data qmsum/ --output model/
  awesum summarize report.pdf --model model/                                what it has learned
"""

_EXTRACTOR_EXAMPLES = """\
examples:
  awesum data prepare govreport/ --out prepared/
  awesum extractor train --data prepared/ --output extractor.safetensors
  awesum extractor evaluate --data prepared/ --extractor extractor.safetensors
"""

_EVALUATE_EXAMPLES = """\
examples:
  awesum evaluate ours.jsonl references.jsonl             every measure that needs no model, with intervals
  awesum evaluate se3.jsonl references.jsonl --compare lead.jsonl ours.jsonl --format markdown
                                                          p-values of each against se3
  awesum evaluate summaries/ references/ --documents reports/ --report report/
  awesum evaluate ours.jsonl references.jsonl --metrics rouge summac --nli-model tals/albert-xlarge-vitaminc-mnli
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code says how it went."""
    try:
        options = _parser().parse_args(arguments)
        return int(options.run(options))
    except AwesumError as error:
        print(f"awesum: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("awesum: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has had enough. Python would complain once more while flushing at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="awesum", description="Summaries of documents of any length, on your own machine."
    )
    parser.add_argument("--version", action="version", version=f"awesum {__version__}")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    summarize = verbs.add_parser(
        "summarize",
        help="summarize files, folders, addresses or standard input",
        description="Summarize documents of any length: text, Markdown, HTML, PDF, DOCX, EPUB.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    summarize.set_defaults(run=_summarize)
    defaults = {field.name: field.default for field in fields(Settings)}
    add = summarize.add_argument
    add("paths", nargs="+", metavar="PATH", help="a file, a folder, an http(s) address, or - for standard input")
    add("--length", default=defaults["length"], metavar="200w|12s|5%|auto",
        help="words, sentences, share of the document, the usual (default: 200w; a trained model's own)")  # fmt: skip
    add("--query", metavar="TEXT", help="what the summary shall be about")
    add("--style", choices=get_args(Style), default=defaults["style"],
        help="abstract: the model writes; extract: salient sentences, verbatim (default: %(default)s)")  # fmt: skip
    add("--model", default=AWESUM, metavar="NAME_OR_PATH",
        help="the embedded smollm2 with its adapter (%(default)s, default) or as it is (smollm2), a folder, or a name "
        "on the hub: a causal chat model, a BART, or what `awesum train` made")  # fmt: skip
    add("--max-memory", metavar="2GB", help="take at most so much memory (default: what the fastest way needs)")
    form = summarize.add_mutually_exclusive_group()
    form.add_argument(
        "--json", dest="form", action="store_const", const="json", default="text", help="everything, as JSON"
    )
    form.add_argument("--format", dest="form", choices=["text", "markdown", "html"], default="text",
                      help="html: one page with the source beside the summary (default: %(default)s)")  # fmt: skip
    add("-o", "--output", metavar="FILE|FOLDER", help="write there instead of to stdout")
    add("--quiet", action="store_true", help="no progress and no closing figures")
    _add_train(verbs)
    _add_data(verbs)
    _add_extractor(verbs)
    _add_evaluate(verbs)
    return parser


def _add_train(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    train = verbs.add_parser(
        "train",
        help="train an AWESOME model on documents with reference summaries",
        description="Train BART, or an adapter for a causal language model, with external memory and global salient "
        "content, in memory that does not grow with the documents. Interrupted, the same command goes on from the last "
        "checkpoint.",
        epilog=_TRAIN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    train.set_defaults(run=_train)
    train.add_argument("config", nargs="?", metavar="CONFIG.yaml", help="settings; those on the command line go first")
    for field in fields(TrainingSettings):
        shown = "" if field.default == "" else f" (default: {field.default})"
        # A switch can be given alone; `--freeze-trunk` is `--freeze-trunk true`.
        alone: dict[str, Any] = {"nargs": "?", "const": "true"} if isinstance(field.default, bool) else {}
        train.add_argument(
            f"--{field.name.replace('_', '-')}",
            default=argparse.SUPPRESS,
            metavar="VALUE",
            help=(field.metadata["help"] + shown).replace("%", "%%"),
            **alone,
        )
    train.add_argument("--quiet", action="store_true", help="no progress bar")


def _add_data(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    data = verbs.add_parser(
        "data",
        help="look at documents with reference summaries, and prepare them",
        description="Datasets: a folder with train.jsonl, validation.jsonl, test.jsonl (or .jsonl.zst, .jsonl.gz), or "
        "one of govreport, qmsum, summscreen, arxiv, booksum, read from the hub.",
    )
    data_verbs = data.add_subparsers(required=True, metavar="COMMAND")
    _add_data_stats(data_verbs)
    _add_data_prepare(data_verbs)


def _add_data_stats(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    stats = verbs.add_parser(
        "stats",
        help="count documents and words, beside the paper's figures",
        description="Counts and average lengths. A row that is no example is said with its line, skipped and counted.",
        epilog=_STATS_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    stats.set_defaults(run=_data_stats)
    stats.add_argument("source", metavar="NAME_OR_FOLDER", help="a folder, a file, or the name of a public dataset")
    stats.add_argument("--split", nargs="+", default=[], metavar="SPLIT", help="train, validation, test (default: all)")
    stats.add_argument("--json", action="store_true", help="as JSON")
    stats.add_argument("--quiet", action="store_true", help="no progress bar")


def _add_data_prepare(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    prepare = verbs.add_parser(
        "prepare",
        help="make all that training needs to know of each document, once",
        description="Sentences, segments, targets, oracle labels and sentence embeddings of each document, as Parquet. "
        "What is there already, of the same rows and settings, is not made again; other settings get another folder.",
        epilog=_PREPARE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    prepare.set_defaults(run=_data_prepare)
    add = prepare.add_argument
    add("source", metavar="NAME_OR_FOLDER", help="a folder, a file, or the name of a public dataset")
    add("--out", required=True, metavar="FOLDER", help="where to write; the files go into a folder of it")
    add("--split", nargs="+", default=[], metavar="SPLIT", help="train, validation, test (default: all)")
    add("--tokenizer", default=SMOLLM2, metavar="NAME_OR_PATH",
        help="measures segments: the embedded %(default)s (default), a folder, or a name on the hub")  # fmt: skip
    add(
        "--encoder",
        metavar="NAME_OR_PATH",
        help="makes the sentence vectors: a folder, or a name such as roberta-base (default: the embedded one)",
    )
    add("--documents", type=int, metavar="N", help="only the first N of each split (default: all)")
    add("--processes", type=int, metavar="N", help="how many work at once (default: one for each core)")
    add("--quiet", action="store_true", help="no progress bar")


def _data_prepare(options: argparse.Namespace) -> int:
    from awesum.datasets import is_public

    models = [name for name in (options.tokenizer, options.encoder) if name not in (None, SMOLLM2)]
    if all(Path(name).is_dir() for name in models) and not is_public(options.source):
        os.environ["HF_HUB_OFFLINE"] = "1"
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


def _data_stats(options: argparse.Namespace) -> int:
    from awesum.datasets.stats import measure

    statistics = measure(options.source, options.split, quiet=options.quiet)
    print(json.dumps(statistics.as_dict(), indent=1) if options.json else statistics.table())
    return 0


def _add_extractor(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    extractor = verbs.add_parser(
        "extractor",
        help="train and measure what says which sentences matter",
        description="The extractor scores the sentences of a document. One is shipped; train another on your own data.",
    ).add_subparsers(required=True, metavar="COMMAND")
    train = extractor.add_parser(
        "train",
        help="train an extractor on prepared documents",
        description="Learn from the documents that `awesum data prepare` has made, choose by the validation split.",
        epilog=_EXTRACTOR_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    train.set_defaults(run=_extractor_train)
    add = train.add_argument
    add(
        "--data", required=True, nargs="+", metavar="FOLDER", help="what `awesum data prepare` has made, one or several"
    )
    add("--output", required=True, metavar="FILE", help="the extractor, as safetensors")
    add("--epochs", type=int, default=10, metavar="N", help="times through the data (default: %(default)s)")
    add("--learning-rate", type=float, default=1e-3, metavar="RATE", help="the highest (default: %(default)s)")
    add("--layers", type=int, default=1, metavar="N", help="of self-attention over sentences (default: %(default)s)")
    add("--size", type=int, default=192, metavar="N", help="of a sentence in them (default: %(default)s)")
    add("--dropout", type=float, default=0.3, metavar="SHARE", help="default: %(default)s")
    add("--validation-documents", type=int, default=100, metavar="N",
        help="to choose by, of each folder, evenly spread (default: %(default)s)")  # fmt: skip
    add("--seed", type=int, default=0, metavar="N", help="of the order and the first weights (default: %(default)s)")
    add("--quiet", action="store_true", help="no progress bar")
    evaluate = extractor.add_parser(
        "evaluate",
        help="measure extracts of prepared documents: lead, unsupervised, trained, oracle",
        description="ROUGE of extracts at the length that the extractor decides on, and F1 against the oracle.",
    )
    evaluate.set_defaults(run=_extractor_evaluate)
    add = evaluate.add_argument
    add("--data", required=True, metavar="FOLDER", help="what `awesum data prepare` has made")
    add("--split", default="validation", metavar="SPLIT", help="default: %(default)s")
    add("--extractor", metavar="FILE", help="default: the shipped one")
    add("--documents", type=int, metavar="N", help="only so many, evenly spread (default: all)")
    add("--reference-length", action="store_true", help="as many words as the reference has, for all systems")
    add("--processes", type=int, metavar="N", help="how many score at once (default: one for each core)")
    add("--json", action="store_true", help="as JSON")
    add("--quiet", action="store_true", help="no progress bar")


def _add_evaluate(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    evaluate = verbs.add_parser(
        "evaluate",
        help="measure summaries against references and documents, and compare systems",
        description="PREDICTIONS, REFERENCES and documents are files with one JSON object a line (.jsonl, .jsonl.zst, "
        ".jsonl.gz), .txt files with one text a line, or folders with one file a text. They are matched by `id` if all "
        "have one, otherwise by their order. References may hold the documents, as datasets do.",
        epilog=_EVALUATE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    evaluate.set_defaults(run=_evaluate)
    add = evaluate.add_argument
    add("predictions", metavar="PREDICTIONS", help="the summaries to measure")
    add("references", metavar="REFERENCES", help="what people wrote")
    add("--documents", metavar="FILE", help="what was summarized, if it is not in REFERENCES")
    add("--compare", nargs="+", default=[], metavar="PREDICTIONS",
        help="other systems on the same documents, each tested against the first")  # fmt: skip
    add("--metrics", nargs="+", default=[], metavar="NAME",
        help="rouge, entity-precision, summac, discoscore, entity-graph, coverage, repetition, length "
        "(default: all that need no model)")  # fmt: skip
    add("--nli-model", metavar="NAME_OR_PATH",
        help="of summac: a folder, or a name on the hub such as tals/albert-xlarge-vitaminc-mnli")  # fmt: skip
    add("--premises", default="40", metavar="N|all",
        help="sentences of the document that summac asks for each of the summary's (default: %(default)s)")  # fmt: skip
    add("--bert-model", metavar="NAME_OR_PATH",
        help="of discoscore: a folder, or a name on the hub such as bert-base-uncased")  # fmt: skip
    add("--trials", type=int, default=10_000, metavar="N", help="of the randomization test (default: %(default)s)")
    form = evaluate.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json", default="table", help="as JSON")
    form.add_argument("--format", dest="form", choices=["table", "markdown", "latex", "csv"], default="table",
                      help="default: %(default)s")  # fmt: skip
    add("--scores", metavar="FILE", help="keep the scores of every summary, as JSON lines; interrupted, go on from it")
    add("--report", metavar="FOLDER", help="write a page with the table, plots and examples")
    add("--processes", type=int, metavar="N", help="how many measure at once (default: one for each core)")
    add("--quiet", action="store_true", help="no progress bar and no notes")


def _evaluate(options: argparse.Namespace) -> int:
    _positive(options, "trials", "processes")
    models = {"summac": ("nli_model", options.nli_model), "discoscore": ("bert_model", options.bert_model)}
    for metric, (name, model) in models.items():
        flag = f"--{name.replace('_', '-')}"
        if metric in options.metrics and model is None:
            raise AwesumError(f"{metric} needs a model: name one with {flag} (see --help)")
        if metric not in options.metrics and model is not None:
            raise AwesumError(f"{flag} is of {metric}, which is not measured: add it to --metrics")
    named = [model for metric, (_, model) in models.items() if metric in options.metrics]
    if all(Path(model).is_dir() for model in named):
        os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is to be fetched, so nothing is to be tried
    from awesum.evaluation import report
    from awesum.evaluation.run import evaluate
    from awesum.evaluation.table import render
    from awesum.workers import cores

    folder = Path(options.report) if options.report else None
    if folder:
        report.place(folder)  # what cannot be written is said before minutes of work, not after

    evaluation, pairs = evaluate(
        Path(options.predictions),
        Path(options.references),
        documents=Path(options.documents) if options.documents else None,
        compare=[Path(path) for path in options.compare],
        metrics=options.metrics,
        options={
            "summac": {"model": options.nli_model, "premises": _premises(options.premises)},
            "discoscore": {"model": options.bert_model},
        },
        trials=options.trials,
        scores=Path(options.scores) if options.scores else None,
        processes=options.processes or cores(),
        quiet=options.quiet,
    )
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # arrows are not worth losing a table for
    print(render(evaluation, options.form))
    if not options.quiet:
        for note in evaluation.notes:
            print(f"awesum: {note}", file=sys.stderr)
    if folder:
        print(f"awesum: report in {report.write(evaluation, pairs.__getitem__, folder)}", file=sys.stderr)
    return 0


def _premises(given: str) -> int | None:
    if given == "all":
        return None
    if not given.isdecimal() or int(given) < 1:
        raise AwesumError(f"--premises must be a number of sentences or 'all', not {given!r}")
    return int(given)


def _positive(options: argparse.Namespace, *names: str) -> None:
    for name in names:
        value = getattr(options, name)
        if value is not None and not value > 0:
            raise AwesumError(f"--{name.replace('_', '-')} must be more than 0, not {value}")


def _extractor_train(options: argparse.Namespace) -> int:
    _positive(options, "epochs", "learning_rate", "layers", "size", "validation_documents")
    if options.size % 4 or not 0 <= options.dropout < 1:
        raise AwesumError("--size must be a multiple of 4 (its attention has 4 heads), and --dropout from 0 to below 1")
    os.environ["HF_HUB_OFFLINE"] = "1"
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


def _extractor_evaluate(options: argparse.Namespace) -> int:
    _positive(options, "documents", "processes")
    os.environ["HF_HUB_OFFLINE"] = "1"
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


def _train(options: argparse.Namespace) -> int:
    names = {field.name for field in fields(TrainingSettings)}
    settings = read_settings(options.config, {name: value for name, value in vars(options).items() if name in names})
    from awesum.datasets import is_public

    pretrained = settings.base or settings.model
    if (pretrained == SMOLLM2 or Path(pretrained).is_dir()) and not is_public(settings.data):
        os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers.utils import logging

    from awesum.training.run import train

    logging.disable_progress_bar()  # of loading and saving; the one of training is another
    print(train(settings, quiet=options.quiet))
    return 0


def _summarize(options: argparse.Namespace) -> int:
    settings = Settings(length=options.length, query=options.query, style=options.style, max_memory=options.max_memory)
    if options.model in (AWESUM, SMOLLM2) or Path(options.model).is_dir():
        os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is to be fetched, so nothing is to be tried
    from awesum.job import Job

    job = Job(options.paths, settings, options.model, options.form, options.output, options.quiet)
    return job.run()


if __name__ == "__main__":
    sys.exit(main())
