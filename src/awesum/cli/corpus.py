"""`awesum corpus`: a corpus of any size into Parquet."""

from __future__ import annotations

import argparse
from typing import get_args

from awesum.cli.parser import Parser, check_positive, note, stay_offline_with
from awesum.errors import AwesumError
from awesum.reading.limits import ReadLimits
from awesum.settings import AWESUM, Settings, Style

DESCRIPTION = (
    "Summarize every document of a corpus into a folder of Parquet files, one row per document: the summary, its "
    "parts, the source of each sentence, figures and notes, or the error. Whenever it is killed, the same command "
    "resumes; no document has two rows."
)
EXAMPLES = """\
examples:
  awesum corpus reports/ -o summaries/                               every document under a folder
  awesum corpus 'data/*.parquet' --text-column body --id-column key -o summaries/
  awesum corpus news.jsonl.zst --system awesum --length 100w --workers 4 -o summaries/
  awesum corpus s3://bucket/news/ --engine ray --address auto -o s3://bucket/summaries/
"""


def add_arguments(parser: Parser) -> None:
    """The flags of `awesum corpus`."""
    add = parser.add_argument
    add(
        "source",
        metavar="SOURCE",
        help="Parquet, JSON lines (.jsonl, also .gz and .zst), a folder of such files or of documents, or a glob; a "
        "path, or an address that pyarrow or fsspec knows (s3://, gs://, hdfs://)",
    )
    add("-o", "--output", required=True, metavar="FOLDER", help="where the Parquet files go: a path or an address")
    add("--engine", choices=["local", "ray"], default="local",
        help="local: processes on this machine; ray: Ray Data, here or on a cluster (default: local)")  # fmt: skip
    add("--address", metavar="HOST:PORT", help="a running Ray cluster, or auto for the one this machine belongs to")
    add("--workers", type=int, metavar="N",
        help="processes that summarize (default: one per core or GPU, as far as the RAM goes)")  # fmt: skip
    add("--text-column", metavar="NAME", help="the column with the text (default: document, text, and the like)")
    add("--id-column", metavar="NAME", help="the column that names a document (default: id, if there is one)")
    add("--query-column", metavar="NAME", help="the column with a query per document (default: query, if there is one)")
    add("--system", metavar="SYSTEM", help="a name from `awesum systems` (default: that of the model, or extract)")
    add("--model", metavar="NAME_OR_PATH", help="the model that writes, as in `awesum summarize`")
    add("--length", metavar="LENGTH",
        help="200w, 12s, 5%% or auto (default: 200w, or whatever a trained model decides)")  # fmt: skip
    add("--query", metavar="TEXT", help="a question or topic that every summary should focus on")
    add("--style", choices=get_args(Style),
        help="extract: copy the most salient sentences; abstract: a model writes, and can be wrong (default: extract, "
        "or what the --system or --model does)")  # fmt: skip
    add("--strict", action="store_true", help="keep a written sentence only if its source fully supports it")
    add("--verifier", metavar="NAME_OR_PATH", help="what judges written sentences (default: the shipped one)")
    add("--max-memory", metavar="SIZE", help="memory limit of each worker, for example 2GB (default: none)")
    add("--read-memory", metavar="SIZE", help="memory limit of the process that reads a document (default: 1GB)")
    add("--read-timeout", type=float, metavar="SECONDS",
        help="time limit of reading one document (default: 15, and 2 more for each megabyte)")  # fmt: skip
    add("--retry-failed", action="store_true", help="retry the documents whose row has an error")
    add("--quiet", action="store_true", help="print no progress and no totals")


def run(options: argparse.Namespace) -> int:
    """Check everything that is cheap to check, then summarize."""
    check_positive(options, "workers")
    if options.address is not None and options.engine != "ray":
        raise AwesumError("--address is for a Ray cluster: add --engine ray")
    settings = Settings(options.length, options.query, options.style, options.max_memory, options.strict)
    from awesum.systems import find

    system = find(options.system) if options.system else None
    if system is not None and system.needs_reference:
        raise AwesumError(f"{options.system} needs a reference summary: use `awesum predict {options.system}`")
    style = options.style or (system.style if system else "abstract" if options.model else "extract")
    if (options.strict or options.verifier) and style == "extract":
        raise AwesumError("--strict and --verifier are for written sentences, and none are: add --style abstract")
    stay_offline_with(options.model or AWESUM, options.verifier)
    from awesum.corpus import Columns, Job, summarize_corpus
    from awesum.corpus.run import throughput

    columns = Columns(options.text_column, options.id_column, options.query_column)
    limits = ReadLimits.parse(options.read_memory, options.read_timeout)
    job = Job(options.source, columns, settings, options.system, options.model, options.verifier, limits)
    totals = summarize_corpus(
        job,
        options.output,
        engine=options.engine,
        workers=options.workers,
        address=options.address,
        retry_failed=options.retry_failed,
        quiet=options.quiet,
    )
    if not options.quiet:
        note(str(totals))
        note(throughput(totals))
    return 0
