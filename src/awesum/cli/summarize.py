"""`awesum summarize`: documents in, summaries out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from awesum.cli.parser import Parser, stay_offline_with
from awesum.errors import AwesumError
from awesum.settings import AWESUM, Settings, Style

if TYPE_CHECKING:
    from awesum.summarizer import Summarizer

DESCRIPTION = "Summarize documents of any length: text, Markdown, HTML, PDF, DOCX, EPUB."
EXAMPLES = """\
examples:
  awesum summarize report.pdf                               about 200 words, printed as they are written
  awesum summarize report.pdf --length 5% --format html -o report.html
  awesum summarize minutes.docx --query "What was decided about the budget?"
  awesum summarize book.epub --style extract --length 40s   the most salient sentences, verbatim, in seconds
  awesum summarize reports/ -o summaries/                   one summary per file; run it again to resume
  cat notes.md | awesum summarize - --json | jq .parts
"""
ROWS = (".jsonl", ".jsonl.zst", ".jsonl.gz")


def add_arguments(parser: Parser) -> None:
    """The flags of `awesum summarize`."""
    add = parser.add_argument
    add("paths", nargs="+", metavar="PATH", help="a file, a folder, an http(s) address, or - for standard input")
    add("--length", metavar="LENGTH",
        help="200w, 12s, 5%% or auto (default: 200w, or whatever a trained model decides)")  # fmt: skip
    add("--query", metavar="TEXT", help="a question or topic that the summary should focus on")
    add("--style", choices=get_args(Style), default=Settings.style,
        help="abstract: the model writes; extract: short for --system extract (default: %(default)s)")  # fmt: skip
    add("--system", metavar="SYSTEM", help="a name from `awesum systems` (default: the system of the model)")
    add("--model", metavar="NAME_OR_PATH",
        help="weights: a folder (a chat model, a BART, what `awesum train` saved), a name on the hub, "
        f"or smollm2 (default: {AWESUM}, the embedded model with its adapter)")  # fmt: skip
    add("--max-memory", metavar="SIZE", help="memory limit, for example 2GB (default: none)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json", default="text",
                      help="print everything as JSON: parts, their sources, figures, settings")  # fmt: skip
    form.add_argument("--format", dest="form", choices=["text", "markdown", "html"], default="text",
                      help="html: one page with the source beside the summary (default: %(default)s)")  # fmt: skip
    add("-o", "--output", metavar="FILE|FOLDER", help="write to a file or folder instead of stdout")
    add("--quiet", action="store_true", help="print no progress and no closing figures")


def run(options: argparse.Namespace) -> int:
    """Check what can be checked at once, then summarize."""
    settings = Settings(length=options.length, query=options.query, style=options.style, max_memory=options.max_memory)
    for path in options.paths:
        if path.lower().endswith(ROWS) and not Path(path).is_dir():
            raise AwesumError(f"{path} holds a dataset, not a document: use `awesum predict SYSTEM --data {path}`")
    if len(options.paths) == 1:  # among several, a bad document must not keep the others from being summarized
        from awesum.reading import check_source

        check_source(options.paths[0])
    system = options.system
    if system == "extract":
        settings, system = Settings(options.length, options.query, "extract", options.max_memory), None
    if system is not None:
        from awesum.systems import find

        if find(system).needs_reference:
            raise AwesumError(f"{system} needs a reference summary: run it on a dataset with `awesum predict {system}`")
    stay_offline_with(options.model or AWESUM)
    from awesum.batch import Batch

    def summarizer() -> Summarizer:
        from awesum.loading import hide_progress_bars
        from awesum.summarizer import Summarizer

        hide_progress_bars()
        return Summarizer(options.model, system=system)

    return Batch(options.paths, settings, summarizer, options.form, options.output, options.quiet).run()
