"""`awesum systems`: everything that can summarize."""

from __future__ import annotations

import argparse
import json

from awesum.cli.parser import Parser

DESCRIPTION = "List every system with one line, its paper, and whether it trains."
EXAMPLES = """\
examples:
  awesum systems
  awesum systems --json
  awesum predict lead --data govreport/ -o lead.jsonl
"""


def add_arguments(parser: Parser) -> None:
    """The flags of `awesum systems`."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Print the list."""
    from awesum.systems import find, names

    rows = [
        {
            "name": name,
            "description": kind.description,
            "paper": kind.paper,
            "trains": kind.trains(),
            "taxonomy": kind.taxonomy._asdict() if kind.taxonomy else None,
        }
        for name, kind in ((name, find(name)) for name in names())
    ]
    if options.json:
        print(json.dumps(rows, indent=1))
        return 0
    width = max(len(str(row["name"])) for row in rows)
    for row in rows:
        details = "; ".join(filter(None, [str(row["paper"]), "trains" if row["trains"] else ""]))
        print(f"{row['name']:{width}}  {row['description']}" + (f" [{details}]" if details else ""))
        if taxonomy := find(str(row["name"])).taxonomy:
            print(f"{'':{width}}  {taxonomy}")
    return 0
