"""What the user may call a dataset: a folder or a file that is there, or else the public name of one of the five."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from awesum.datasets.arxiv import ARXIV
from awesum.datasets.booksum import BOOKSUM
from awesum.datasets.dataset import Dataset
from awesum.datasets.files import FORM, SPLITS, find_file, splits_in
from awesum.datasets.govreport import GOVREPORT
from awesum.datasets.qmsum import QMSUM
from awesum.datasets.summscreen import SUMMSCREEN
from awesum.errors import AwesumError

PUBLIC = {dataset.name: dataset for dataset in (GOVREPORT, QMSUM, SUMMSCREEN, ARXIV, BOOKSUM)}
"""The paper's datasets by name."""


def is_public(source: str | Path) -> bool:
    """Whether `source` would be read from the hub. A folder of that name goes first; so does `NAME/`, there or not."""
    return str(source) in PUBLIC and not Path(source).exists()


def find(source: str | Path, split: str) -> Path | Dataset:
    """The file of a split, or the public dataset that it belongs to, or what the user can do if there is neither."""
    if is_public(source):
        _known(str(source), split)
        return PUBLIC[str(source)]
    path = Path(source).expanduser()
    if not path.exists():
        raise AwesumError(f"there is no dataset {source}: {_advice(source)}")
    return find_file(path, split)


def splits(source: str | Path) -> tuple[str, ...]:
    """The splits that are there. A file is one, under its own name."""
    if is_public(source):
        return SPLITS
    path = Path(source).expanduser()
    if path.is_file():
        return (path.name.split(".")[0],)
    return splits_in(path) if path.is_dir() else ()


def _known(name: str, split: str) -> None:
    if split not in SPLITS:
        raise AwesumError(f"{name} has no split {split!r}: it has {', '.join(SPLITS)}")


def _advice(source: str | Path) -> str:
    near = get_close_matches(str(source).lower().rstrip("/"), PUBLIC, n=1)
    meant = f"did you mean {near[0]}? Otherwise " if near else ""
    return f"{meant}give a folder with {FORM}, or one of {', '.join(PUBLIC)}"
