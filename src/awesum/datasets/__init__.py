"""Datasets: documents with their reference summaries, in a folder of the user's or by their public name.

    FOLDER/train.jsonl, FOLDER/validation.jsonl, FOLDER/test.jsonl     plain, or compressed as .jsonl.zst or .jsonl.gz
    govreport, qmsum, summscreen, arxiv, booksum                       the paper's five, read from the hub

`load` gives a split in any order, for training; `examples` streams it once, checks every row and counts what it skips.
A dataset may be larger than memory for both. Nothing is cut: a row is given whole, or it is said where it is wrong.
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
