"""`awesum predict`: a system over a dataset."""

from __future__ import annotations

import argparse
from pathlib import Path

from awesum.cli.parser import Parser, note, stay_offline_with

DESCRIPTION = (
    "Summarize every document of a dataset with a system, many side by side. The predictions are JSON lines that "
    "`awesum evaluate` reads; interrupted, the same command resumes."
)
EXAMPLES = """\
examples:
  awesum predict extract --data govreport/ --split validation -o extract.jsonl
  awesum predict awesum --data govreport/ --split validation --documents 50 --length reference -o awesum.jsonl
  awesum predict model/ --data qmsum --raw -o model.jsonl   a trained model, its text untouched
  awesum evaluate extract.jsonl govreport/validation.jsonl --compare awesum.jsonl
"""


def add_arguments(parser: Parser) -> None:
    """The flags of `awesum predict`."""
    add = parser.add_argument
    add(
        "system",
        metavar="SYSTEM",
        help="a name (see `awesum systems`), a folder that `awesum train` saved, a GGUF file, an address, a hub name",
    )
    add("--data", required=True, metavar="NAME_OR_FOLDER", help="a folder, a file, or the name of a public dataset")
    add("--split", default="test", metavar="SPLIT", help="train, validation or test (default: %(default)s)")
    add("--documents", type=int, metavar="N", help="only the first N documents (default: all)")
    add("--length", metavar="LENGTH",
        help="200w, 12s, 5%%, auto, or reference: as many words as each reference summary has (default: the system's "
        "own)")  # fmt: skip
    add("--raw", action="store_true", help="the model's text untouched, rather than the checked text that a user gets")
    add("--model", metavar="NAME_OR_PATH", help="other weights for a named system")
    add("--max-memory", metavar="SIZE", help="memory limit, for example 2GB (default: none)")
    add("-o", "--output", required=True, metavar="FILE.jsonl", help="where the predictions go, one JSON object per row")
    add("--quiet", action="store_true", help="print no progress bar and no totals")


def run(options: argparse.Namespace) -> int:
    """Check everything that is cheap to check, then predict."""
    from awesum.systems import find, load, names

    if options.system in names():
        find(options.system)
    weights = options.model or (None if options.system in names() else options.system)
    from awesum.datasets import is_public

    if not is_public(options.data):
        stay_offline_with(weights)
    from awesum.predict import Job, predict

    job = Job(options.data, options.split, options.documents, options.length, options.raw, options.max_memory)
    from awesum.loading import hide_progress_bars

    system = load(options.system, options.model)
    hide_progress_bars()
    totals = predict(system, job, Path(options.output), quiet=options.quiet)
    if not options.quiet:
        note(str(totals))
    return 1 if totals.failed else 0
