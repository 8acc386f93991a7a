"""Rows of a public dataset as the hub has them, one after the other: they are fetched while they are read, not before.

A connection is opened here and nowhere else, because the user named a dataset that is not a folder; with
`HF_HUB_OFFLINE=1` not even then.
"""

from __future__ import annotations

from collections.abc import Iterator

from awesum.datasets.dataset import Dataset, Row
from awesum.datasets.files import FORM
from awesum.errors import AwesumError


def rows(dataset: Dataset, split: str) -> Iterator[Row]:
    """The rows of a split, in the hub's order and with its columns."""
    try:
        import datasets as library
    except ImportError as error:
        raise AwesumError(
            f"{dataset.name} is read from the hub with the library `datasets`, which is not installed: "
            f"run `pip install 'awesum[data]'`, or give a folder with {FORM} instead"
        ) from error
    library.utils.logging.set_verbosity_error()
    try:
        _reach(dataset)
        yield from library.load_dataset(
            dataset.repository,
            name=dataset.configuration,
            data_dir=dataset.folder,
            revision=dataset.revision,
            split=split,
            streaming=True,
        )
    except Exception as error:  # of any kind: the library's, the hub's, the connection's, the file format's
        why = " ".join(str(error).split()) or type(error).__name__
        raise AwesumError(
            f"cannot read the {split} split of {dataset.name} from {dataset.repository} on the hub ({why}): "
            f"check the connection, or give a folder with {FORM} instead of the name"
        ) from error


def _reach(dataset: Dataset) -> None:
    """Ask for the repository once. The library would try for half a minute before it says that there is no network."""
    from huggingface_hub import HfApi

    HfApi().dataset_info(dataset.repository, revision=dataset.revision, timeout=30)
