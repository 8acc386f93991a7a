"""`awesum recipes`: the packaged files of training settings."""

from __future__ import annotations

import argparse
import json

from awesum.cli.parser import Parser

DESCRIPTION = "List the recipes that come with awesum, or print one. A recipe is a YAML file of training settings."
EXAMPLES = """\
examples:
  awesum recipes
  awesum recipes govreport/awesome | tee mine.yaml
  awesum train mine.yaml --data govreport/ --output model/
"""


def add_arguments(parser: Parser) -> None:
    """The flags of `awesum recipes`."""
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="print this recipe (default: list all)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Print the list, or one recipe."""
    from awesum.training import recipes

    if options.recipe:
        text = recipes.text(options.recipe)
        print(json.dumps(recipes.read(options.recipe), indent=1) if options.json else text.rstrip("\n"))
        return 0
    rows = [{"name": name, "description": recipes.description(name)} for name in recipes.names()]
    if options.json:
        print(json.dumps(rows, indent=1))
        return 0
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        print(f"{row['name']:{width}}  {row['description']}")
    return 0
