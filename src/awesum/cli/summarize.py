"""`awesum summarize`: documents in, summaries out."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from awesum.cli.parser import Parser, note, stay_offline_with
from awesum.errors import AwesumError
from awesum.footprint import parse_size
from awesum.reading.limits import LEAST_MEMORY, ReadLimits
from awesum.settings import AWESUM, Settings, Style

if TYPE_CHECKING:
    from awesum.summarizer import Summarizer

DESCRIPTION = (
    "Summarize documents of any length: text, Markdown, HTML, PDF, DOCX, ODT, RTF, PPTX, XLSX, EPUB, e-mails, "
    "subtitles, transcripts."
)
EXAMPLES = """\
examples:
  awesum summarize report.pdf                               the most salient sentences, about 200 words
  awesum summarize report.pdf --length 5% --format html -o report.html
  awesum summarize minutes.docx --query "What was decided about the budget?"
  awesum summarize book.epub --style abstract --strict      in a model's words, where the source fully supports them
  awesum summarize reports/ -o summaries/                   one summary per file; run it again to resume
  awesum summarize report.pdf --model http://127.0.0.1:11434/v1#qwen3:4b   a model that you already run
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
    add("--style", choices=get_args(Style),
        help="extract: copy the most salient sentences; abstract: a model writes, and can be wrong (default: extract, "
        "or what the --system or --model does)")  # fmt: skip
    add("--strict", action="store_true", help="keep a written sentence only if its source fully supports it")
    add("--verifier", metavar="NAME_OR_PATH",
        help="what judges written sentences: an NLI model (a folder or a name on the hub), a file that `awesum "
        "verifier train` wrote, or exact (default: the shipped one)")  # fmt: skip
    add("--system", metavar="SYSTEM", help="a name from `awesum systems` (default: that of the model, or extract)")
    add("--model", metavar="NAME_OR_PATH",
        help="a folder (a chat model, a BART, what `awesum train` saved), a GGUF file, an OpenAI-compatible address "
        "(http://127.0.0.1:11434/v1#NAME), a name on the hub or of `awesum models`, smollm2, or "
        f"{AWESUM}, the embedded model with its adapter (default with --style abstract)")  # fmt: skip
    add("--max-memory", metavar="SIZE", help="memory limit, for example 2GB (default: none)")
    add("--read-memory", metavar="SIZE",
        help="memory limit of the process that reads a document (default: 1GB)")  # fmt: skip
    add("--read-timeout", type=float, metavar="SECONDS",
        help="time limit of reading one document (default: 15, and 2 more for each megabyte)")  # fmt: skip
    add("--fields", metavar="NAME,NAME", help="columns or keys to read from a CSV or JSON file")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json", default="text",
                      help="print everything as JSON: parts, their sources, figures, settings")  # fmt: skip
    form.add_argument("--format", dest="form", choices=["text", "markdown", "html"], default="text",
                      help="html: one page with the source beside the summary (default: %(default)s)")  # fmt: skip
    add("-o", "--output", metavar="FILE|FOLDER", help="write to a file or folder instead of stdout")
    add("--quiet", action="store_true", help="print no progress and no closing figures")
    add("--force", action="store_true", help="write even if the planned peak is more than the GPU has free")


def run(options: argparse.Namespace) -> int:
    """Check what can be checked at once, then summarize."""
    settings = Settings(options.length, options.query, options.style, options.max_memory, options.strict)
    limits = ReadLimits.parse(options.read_memory, options.read_timeout)
    if settings.max_memory and options.read_memory is None:
        limits = replace(limits, memory=max(LEAST_MEMORY, min(limits.memory, parse_size(settings.max_memory))))
    fields = [name.strip() for name in (options.fields or "").split(",") if name.strip()]
    for path in options.paths:
        if not path:
            raise AwesumError("a path is empty: name a file, a folder, an http(s) address, or - for standard input")
        if path.lower().endswith(ROWS) and not os.path.isdir(path):
            raise AwesumError(f"{path} holds a dataset, not a document: use `awesum predict SYSTEM --data {path}`")
    if len(options.paths) == 1:  # among several, a bad document must not keep the others from being summarized
        from awesum.reading import check_source

        check_source(options.paths[0])
    system = options.system
    if system == "extract":
        if options.style == "abstract":
            raise AwesumError("the system extract writes nothing: leave out --style abstract, or --system extract")
        settings, system = replace(settings, style="extract"), None
    from awesum.systems import find

    if system is not None and find(system).needs_reference:
        raise AwesumError(f"{system} needs a reference summary: run it on a dataset with `awesum predict {system}`")
    style = find(system).style if system else "abstract" if options.model else "extract"
    if (options.strict or options.verifier) and (settings.style or style) == "extract":
        raise AwesumError("--strict and --verifier are for written sentences, and none are: add --style abstract")
    stay_offline_with(options.model or AWESUM, options.verifier)
    from awesum.reading import process

    process.start()  # it gets ready while this process loads the rest
    from awesum.batch import Batch

    def summarizer() -> Summarizer:
        from awesum.loading import hide_progress_bars
        from awesum.summarizer import Summarizer

        hide_progress_bars()
        made = Summarizer(options.model, system=system, verifier=options.verifier)
        if made.system.style == "abstract":
            from awesum.planning.before import before_writing

            # A limit that is given has a check of its own, which speaks for itself.
            say = (lambda line: None) if options.quiet or settings.max_memory else note
            before_writing(made.system_for(settings), say, force=options.force)
        return made

    batch = Batch(options.paths, settings, summarizer, options.form, options.output, options.quiet, limits, fields)
    return batch.run()
