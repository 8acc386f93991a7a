"""Resolve the name of a dataset: an existing folder or file, or else a public name."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

from awesum.datasets.dataset import Dataset
from awesum.datasets.files import FORM, SPLITS, find_file, splits_in
from awesum.errors import AwesumError

_MODULES = (
    "govreport",
    "qmsum",
    "summscreen",
    "arxiv",
    "booksum",
)
"""The modules of the public datasets, in the order of the paper. To add a dataset, add its module here."""

PUBLIC: dict[str, Dataset] = {name: import_module(f"awesum.datasets.{name}").DATASET for name in _MODULES}
"""The public datasets by name, which is the name of the module."""


def is_public(source: str | Path) -> bool:
    """Whether `source` names a hub dataset. A local folder of that name takes precedence; `NAME/` is always local."""
    return str(source) in PUBLIC and not Path(source).exists()


def find(source: str | Path, split: str) -> Path | Dataset:
    """The file of a split, or the public dataset. Raises an error with advice if there is neither."""
    if is_public(source):
        _check_split(str(source), split)
        return PUBLIC[str(source)]
    path = Path(source).expanduser()
    if not path.exists():
        raise AwesumError(f"there is no dataset {source}: {_advice(source)}")
    return find_file(path, split)


def splits(source: str | Path) -> tuple[str, ...]:
    """The splits that exist. A file is one split, named after the file."""
    if is_public(source):
        return SPLITS
    path = Path(source).expanduser()
    if path.is_file():
        return (path.name.split(".")[0],)
    return splits_in(path) if path.is_dir() else ()


def _check_split(name: str, split: str) -> None:
    if split not in SPLITS:
        raise AwesumError(f"{name} has no split {split!r}: it has {', '.join(SPLITS)}")


def _advice(source: str | Path) -> str:
    near = get_close_matches(str(source).lower().rstrip("/"), PUBLIC, n=1)
    meant = f"did you mean {near[0]}? Otherwise " if near else ""
    return f"{meant}give a folder with {FORM}, or one of {', '.join(PUBLIC)}"
