"""Datasets: documents with reference summaries, from a local folder or by public name.

    FOLDER/train.jsonl, FOLDER/validation.jsonl, FOLDER/test.jsonl     plain, or compressed as .jsonl.zst or .jsonl.gz
    govreport, qmsum, summscreen, arxiv, booksum                       the paper's five, read from the hub

`load` gives random access to a split, for training; `examples` streams it, checks every row and counts skipped ones.
Both handle datasets larger than RAM. Rows are never truncated; an invalid row is reported with file and line.
To add a public dataset, write a module with a `DATASET` and add its name to `sources`.
"""

from awesum.datasets.dataset import Dataset, Figures
from awesum.datasets.files import SPLITS, SUFFIXES
from awesum.datasets.loading import Examples, load
from awesum.datasets.rows import NAMES, BadRow, Example, parse
from awesum.datasets.sources import PUBLIC, is_public, splits
from awesum.datasets.stream import Stream, examples

__all__ = [
    "NAMES",
    "PUBLIC",
    "SPLITS",
    "SUFFIXES",
    "BadRow",
    "Dataset",
    "Example",
    "Examples",
    "Figures",
    "Stream",
    "examples",
    "is_public",
    "load",
    "parse",
    "splits",
]
