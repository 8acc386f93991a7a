"""`awesum serve`: a page in the browser, and an API, on this machine."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from awesum.cli.parser import Parser, note, stay_offline_with
from awesum.errors import AwesumError
from awesum.footprint import parse_size
from awesum.reading.limits import LEAST_MEMORY, ReadLimits
from awesum.settings import AWESUM

DESCRIPTION = (
    "A page on this machine where you drop a document, watch its summary grow, and click a sentence to see its source. "
    "Nothing leaves the machine."
)
EXAMPLES = """\
examples:
  awesum serve --open                                       opens the page in the browser
  awesum serve --no-history                                 forgets everything when it stops
  awesum serve --port 0 --max-memory 2GB --max-upload 50MB
  awesum serve --host 0.0.0.0 --token "$SECRET"             for other machines too: only in a network you trust
"""


def add_arguments(parser: Parser) -> None:
    """The flags of `awesum serve`."""
    add = parser.add_argument
    add("--port", type=int, default=8440, metavar="PORT", help="port to listen on; 0 for any free one (default: 8440)")
    add("--host", default="127.0.0.1", metavar="ADDRESS",
        help="address to listen on (default: 127.0.0.1, this machine alone); others need a --token")  # fmt: skip
    add("--token", metavar="TEXT", help="secret that every request must carry (default: a new one at each start)")
    add("--open", action="store_true", help="open the page in the browser")
    add("--model", metavar="NAME_OR_PATH",
        help=f"the model that writes, as in `awesum summarize` (default: {AWESUM})")  # fmt: skip
    add("--max-upload", default="200MB", metavar="SIZE", help="the largest document it takes (default: %(default)s)")
    add("--max-memory", metavar="SIZE", help="memory limit, for example 2GB (default: none)")
    add("--read-memory", metavar="SIZE",
        help="memory limit of the process that reads a document (default: 1GB)")  # fmt: skip
    add("--read-timeout", type=float, metavar="SECONDS",
        help="time limit of reading one document (default: 15, and 2 more for each megabyte)")  # fmt: skip
    add("--allow-urls", action="store_true", help="let the page and the API fetch web addresses")
    history = parser.add_mutually_exclusive_group()
    history.add_argument(
        "--folder", metavar="FOLDER", help="where documents and summaries are kept (default: in the user's data folder)"
    )
    history.add_argument("--no-history", action="store_true", help="keep nothing after the server stops")


def run(options: argparse.Namespace) -> int:
    """Check what can be checked at once, then serve until interrupted."""
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise AwesumError(f"`awesum serve` needs {' and '.join(missing)}: pip install 'awesum[web]'")
    limits = ReadLimits.parse(options.read_memory, options.read_timeout)
    if options.max_memory:
        memory = parse_size(options.max_memory)
        if options.read_memory is None:
            limits = replace(limits, memory=max(LEAST_MEMORY, min(limits.memory, memory)))
    most = parse_size(options.max_upload, flag="--max-upload")
    stay_offline_with(options.model or AWESUM)
    from awesum.web.api import Rules
    from awesum.web.server import Server, Serving, check

    serving = Serving(
        options.host, options.port, options.token, None if options.no_history else _folder(options.folder),
        options.max_memory, Rules(most, limits, options.allow_urls),
    )  # fmt: skip
    check(serving)
    from awesum.loading import hide_progress_bars
    from awesum.summarizer import Summarizer
    from awesum.web.guard import Address

    hide_progress_bars()
    os.umask(0o077)  # whatever is kept is its owner's alone

    def started(address: str) -> None:
        print(address, flush=True)
        if not Address(options.host, options.port).is_loopback:
            note(
                "other machines can reach this, and what they send and get is not encrypted: "
                "use it only in a network that you trust"
            )
        note("stop it with Ctrl-C")
        if options.open:
            import webbrowser

            webbrowser.open(address)

    try:
        Server(serving, Summarizer(options.model), started).run()
    except KeyboardInterrupt:
        note("stopped")
    return 0


def _folder(given: str | None) -> Path:
    """Where the history is."""
    if given is not None:
        return Path(given).expanduser().absolute()
    from platformdirs import user_data_path

    return user_data_path("awesum") / "serve"
