"""Models that somebody may want instead of the embedded one: which machine each is for, and where it is kept.

`awesum models` lists them; `awesum setup MODEL` fetches one. Nothing here opens a connection: see `awesum.fetching`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from awesum.files import cache_folder

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True)
class Known:
    """A chat model in a GGUF file on the hub, at a fixed revision."""

    name: str
    repository: str
    revision: str
    file: str
    size: int
    """Bytes."""
    sha256: str
    licence: str
    ram: int
    """Gigabytes of RAM of a machine that it is for."""
    evidence: str
    """What was measured with awesum, or that nothing was."""


_NOT_MEASURED = "not measured here: expected to write better than the smaller ones"
KNOWN = (
    Known(
        "qwen2.5-1.5b",
        "Qwen/Qwen2.5-1.5B-Instruct-GGUF",
        "91cad51170dc346986eccefdc2dd33a9da36ead9",
        "qwen2.5-1.5b-instruct-q4_k_m.gguf",
        1_117_320_736,
        "6a1a2eb6d15622bf3c96857206351ba97e1af16c30d7a74ee38970e434e9407e",
        "Apache-2.0",
        4,
        "its coding variant measured on 38 documents: 1 of 142 sentences false, nearly half of a report in its "
        "own words; 2.3 GB, 18 s of one core a part (docs/results.md); itself expected to write no worse",
    ),
    Known(
        "qwen3-4b",
        "Qwen/Qwen3-4B-GGUF",
        "bc640142c66e1fdd12af0bd68f40445458f3869b",
        "Qwen3-4B-Q4_K_M.gguf",
        2_497_280_256,
        "7485fe6f11af29433bc51cab58009521f205840f5b4ae3a32fa7f92e8534fdf5",
        "Apache-2.0",
        8,
        _NOT_MEASURED,
    ),
    Known(
        "qwen3-8b",
        "Qwen/Qwen3-8B-GGUF",
        "7c41481f57cb95916b40956ab2f0b139b296d974",
        "Qwen3-8B-Q4_K_M.gguf",
        5_027_783_488,
        "d98cdcbd03e17ce47681435b5150e34c1417f50b5c0019dd560e4882c5745785",
        "Apache-2.0",
        16,
        _NOT_MEASURED,
    ),
    Known(
        "qwen3-30b-a3b",
        "Qwen/Qwen3-30B-A3B-GGUF",
        "e4d4bafdfb96a411a163846265362aceb0b9c63a",
        "Qwen3-30B-A3B-Q4_K_M.gguf",
        18_556_685_824,
        "0d003f6662faee786ed5da3e31b29c978de5ae5d275c8794c606a7f3c01aa8f5",
        "Apache-2.0",
        32,
        f"{_NOT_MEASURED}; of its parameters, 3 billion work on each token, so that it is as fast as a small one",
    ),
)
"""Sizes and hashes are the hub's own, as others have published them; a file with another hash is refused."""


def known(name: str) -> Known | None:
    """A model of the list."""
    return next((model for model in KNOWN if model.name == name), None)


def models_folder() -> Path:
    """Where fetched models are kept."""
    return cache_folder() / "models"


def is_name(text: str) -> bool:
    """Whether a text can be the name of a fetched model."""
    return _NAME.fullmatch(text) is not None


def resolve(model: str) -> str:
    """Where a model is that was fetched before; any other name as it is."""
    path = models_folder() / (f"{model}.gguf" if is_name(model) else model.replace("/", "--"))
    is_there = (is_name(model) or model.count("/") == 1) and not Path(model).exists()
    return str(path) if is_there and path.exists() and record_of(path).is_file() else model


def record_of(path: Path) -> Path:
    """Beside a fetched file: where it came from, its size and its hash."""
    return path.with_name(f"{path.name.removesuffix('.gguf')}.json")


def all_fetched() -> dict[str, dict[str, Any]]:
    """The records of everything that was fetched, by name."""
    found = {}
    for path in sorted(models_folder().glob("*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        name = path.name.removesuffix(".json").replace("--", "/", 1)
        if isinstance(record, dict) and resolve(name) != name:
            found[name] = record
    return found
