"""`awesum models`: which model for which machine."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from awesum.cli.parser import Parser

DESCRIPTION = (
    "List the models to write with, by the RAM of the machine: size, licence, and what was measured here or is only "
    "expected. Opens no connection."
)
EXAMPLES = """\
examples:
  awesum models
  awesum setup qwen3-4b                          fetches it, after saying how large it is
  awesum summarize report.pdf --model qwen3-4b   works offline from then on
"""

EMBEDDED: list[dict[str, Any]] = [
    {
        "name": "(none)",
        "ram": 1,
        "size": 84_000_000,
        "licence": "Apache-2.0",
        "evidence": "the default: sentences are copied; 9,000 words take 0.1 GB",
        "state": "embedded",
    },
    {
        "name": "awesum",
        "ram": 2,
        "size": 177_000_000,
        "licence": "Apache-2.0",
        "evidence": "--style abstract: SmolLM2-135M and an adapter; 10 of 306 sentences false, 88% copies; peak 1.7 GB",
        "state": "embedded",
    },
]


def add_arguments(parser: Parser) -> None:
    """The flags of `awesum models`."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Print the list, and what of it this machine has RAM for."""
    from awesum.catalogue import KNOWN, all_fetched
    from awesum.footprint import format_size, total_memory

    there = all_fetched()
    names = {model.name for model in KNOWN}
    rows = list(EMBEDDED)
    for model in KNOWN:
        state = "fetched" if model.name in there else f"awesum setup {model.name}"
        rows.append(asdict(model) | {"state": state})
    for name, record in there.items():
        if name not in names:
            evidence = f"yours, from {record.get('source', 'somewhere')}"
            rows.append({"name": name, "ram": None, "size": record.get("size", 0), "licence": "", "evidence": evidence,
                         "state": "fetched"})  # fmt: skip
    if options.json:
        print(json.dumps(rows, indent=1))
        return 0
    total = total_memory()
    if total:
        print(f"This machine has {format_size(total)} of RAM.")
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        ram = f"{row['ram']:>2} GB of RAM" if row["ram"] else " " * 12
        licence = f", {row['licence']}" if row["licence"] else ""
        print(f"{row['name']:{width}}  {ram}  {format_size(row['size'])}{licence} [{row['state']}]")
        print(f"{'':{width}}  {row['evidence']}")
    print(
        "\nWith a GPU, or with a model that you already run: give its address, --model http://127.0.0.1:11434/v1#NAME "
        "(Ollama,\nLM Studio, llama.cpp, vLLM), or a file, --model MODEL.gguf. Nothing was measured here on a GPU."
    )
    return 0
