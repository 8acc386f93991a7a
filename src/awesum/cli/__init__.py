"""The command line: parse, call, print. Results go to stdout, everything else to stderr, an error is one line.

Each command is a module of this package with `DESCRIPTION`, `EXAMPLES`, `add_arguments(parser)` and
`run(options) -> int`. Only the module of the command that is called is imported: `awesum --help` imports none.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

from awesum.cli.ending import TERMINATED, Terminated, printing_anything, terminating_cleanly
from awesum.cli.parser import Parser, note
from awesum.errors import INTERRUPTED, AwesumError
from awesum.version import __version__

COMMANDS = {
    "summarize": "summarize files, folders, web addresses or standard input",
    "corpus": "summarize a corpus into Parquet, here or on a Ray cluster",
    "serve": "open a page in the browser to summarize documents, with an API",
    "predict": "summarize every document of a dataset with a system",
    "evaluate": "score summaries against references, and compare systems",
    "train": "train a system on documents with reference summaries",
    "reproduce": "make a table of the paper, with its numbers beside ours",
    "plan": "say how much memory training or writing takes on a GPU, without one",
    "recipes": "list the training recipes of the paper's models, or print one",
    "data": "inspect and prepare datasets",
    "extractor": "train and evaluate the extractor (salience model)",
    "verifier": "check a sentence against a document, and train the verifier",
    "systems": "list every system that can summarize",
    "models": "list models to write with, by the RAM of the machine",
    "setup": "install the embedded weights, or fetch another model",
}
"""Every command with its line in `awesum --help`. To add one, write `awesum/cli/NAME.py` and add a line here."""


def command() -> int:
    """`main` for a process that ends with it: from then on, Ctrl-C finds nothing that could be interrupted."""
    try:
        return main()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # else Python would print a traceback on its way out


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; a wrong call exits with 2, as `argparse` does."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stderr is None:  # closed: what is said there must not end up among the results
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:
        with printing_anything() as replaced, terminating_cleanly() as ended_by:
            code = _run(given)
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a reader that has gone away is still caught
        if replaced:
            note(
                f"{replaced.total():,} characters that {sys.stdout.encoding} does not have were replaced by ?: "
                "give a file with -o, or set PYTHONIOENCODING=utf-8"
            )
        return TERMINATED if ended_by and code == INTERRUPTED else code
    except AwesumError as error:
        return _fail(str(error))
    except KeyboardInterrupt as error:
        print("awesum: interrupted", file=sys.stderr)
        return TERMINATED if isinstance(error, Terminated) else INTERRUPTED
    except BrokenPipeError:
        _abandon_stdout()  # the reader (head, less) has had enough
        return 0
    except OSError as error:
        if error.filename is not None or error.errno not in _STDOUT_ERRORS:
            raise
        return _fail(
            f"cannot write to standard output ({error.strerror or error}): make room, or send it to another place"
        )


_STDOUT_ERRORS = (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT, errno.EBADF)


def _fail(message: str) -> int:
    print(f"awesum: error: {message}", file=sys.stderr)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        _abandon_stdout()
    return 1


def _abandon_stdout() -> None:
    """Keep Python from complaining again while flushing at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str]) -> int:
    if arguments and arguments[0] in COMMANDS:
        command = import_module(f"awesum.cli.{arguments[0]}")
        return int(command.run(command_parser(arguments[0]).parse_args(arguments[1:])))
    parser = _top_parser()
    if not arguments:
        parser.print_help()
        return 0
    if arguments[0].startswith("-"):
        parser.parse_args(arguments[:1])  # --help and --version end here, as does an unknown flag
    parser.refuse_choice("command", arguments[0], list(COMMANDS))


def command_parser(name: str) -> Parser:
    """The parser of one command."""
    command = import_module(f"awesum.cli.{name}")
    parser = Parser(prog=f"awesum {name}", description=command.DESCRIPTION, epilog=command.EXAMPLES)
    command.add_arguments(parser)
    return parser


def _top_parser() -> Parser:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {text}" for name, text in COMMANDS.items()]
    parser = Parser(
        prog="awesum",
        usage="awesum [--help] [--version] COMMAND ...",
        description="Summaries of documents of any length, on your own machine.",
        epilog="\n".join(["commands:", *lines, "", "`awesum COMMAND --help` explains a command and shows examples."]),
    )
    parser.add_argument("--version", action="version", version=f"awesum {__version__}")
    return parser
