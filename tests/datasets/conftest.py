"""A separate cache for every test, and a local folder in place of the hub."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from awesum.datasets import PUBLIC, hub


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AWESUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)  # so that no folder has the name of a public dataset
    return tmp_path / "cache"


Publish = Callable[..., Path]


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Writes the rows of a split like a hub repository; the library then reads that folder instead."""

    def write(name: str, rows: list[dict[str, Any]], file: str = "data/train-00000-of-00001.parquet") -> Path:
        import pyarrow
        import pyarrow.parquet

        repository = tmp_path / "hub" / name
        path = repository / file
        path.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        # A folder has no branches, and configurations only if a dataset card lists them.
        changed = replace(PUBLIC[name], repository=str(repository), configuration=None, revision=None)
        monkeypatch.setitem(PUBLIC, name, changed)
        monkeypatch.setattr(hub, "_reach", lambda dataset: None)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
        return repository

    return write
