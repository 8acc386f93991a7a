"""The rows of a public dataset, streamed from the hub: fetched while they are read.

This is the only place in this package that opens a connection, and only when the user names a public dataset; with
`HF_HUB_OFFLINE=1`, never.
"""

from __future__ import annotations

from collections.abc import Iterator

from awesum.datasets.dataset import Dataset, Row
from awesum.datasets.files import FORM
from awesum.errors import AwesumError


def rows(dataset: Dataset, split: str) -> Iterator[Row]:
    """The rows of a split, in the order and with the columns of the hub."""
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
    except Exception as error:  # of any kind: from the library, the hub, the connection or the file format
        why = " ".join(str(error).split()) or type(error).__name__
        raise AwesumError(
            f"cannot read the {split} split of {dataset.name} from {dataset.repository} on the hub ({why}): "
            f"check the connection, or give a folder with {FORM} instead of the name"
        ) from error


def _reach(dataset: Dataset) -> None:
    """Query the repository once, to fail fast: without a network the library would retry for half a minute."""
    from huggingface_hub import HfApi

    HfApi().dataset_info(dataset.repository, revision=dataset.revision, timeout=30)
