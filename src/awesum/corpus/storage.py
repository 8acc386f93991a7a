"""Files of a corpus, wherever they are: a local path, or an address of any file system that pyarrow or fsspec knows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

from awesum.errors import AwesumError

ARROW = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
"""File systems that pyarrow has built in. The others are left to fsspec."""
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True, slots=True)
class File:
    """A file that was found."""

    path: str
    """How to open it: an absolute path, or an address."""
    name: str
    """Its path below the source: the same wherever the source is copied to."""
    size: int


def is_remote(place: str) -> bool:
    """Whether a place is an address rather than a path of this machine."""
    scheme = _ADDRESS.match(place)
    return scheme is not None and scheme[1].lower() not in ("file", "local")


def local_path(place: str) -> str:
    """The path of a place on this machine, without `file://`."""
    return os.path.abspath(os.path.expanduser(re.sub(r"^(file|local)://", "", place, flags=re.IGNORECASE)))


def filesystem(place: str) -> tuple[Any, str, str]:
    """The file system (as fsspec has it) of a place, the path in it, and what to put before a path for an address."""
    if not is_remote(place):
        from fsspec.implementations.local import LocalFileSystem

        return LocalFileSystem(), local_path(place), ""
    scheme = place.split("://", 1)[0]
    try:
        if scheme.lower() in ARROW:
            import pyarrow.fs
            from fsspec.implementations.arrow import ArrowFSWrapper

            # A `*` is no valid character of an address: the part before it decides which file system it is.
            start = re.split(r"[*?\[]", place)[0]
            arrow, path = pyarrow.fs.FileSystem.from_uri(start)
            return ArrowFSWrapper(arrow), path + place[len(start) :], f"{scheme}://"
        import fsspec

        found, path = fsspec.core.url_to_fs(place)
        return found, path, f"{scheme}://"
    except Exception as error:  # every file system has errors of its own
        raise AwesumError(f"cannot open {place} ({_reason(error)}): check the address and what it needs") from error


def find(source: str) -> list[File]:
    """The files that a source names: a file, all below a folder, or those that match a glob. Sorted by path.

    Hidden files of a folder are ignored.
    """
    system, path, prefix = filesystem(source)
    try:
        is_folder = system.isdir(path)
        if is_folder:
            details, root = system.find(path, detail=True), path
        elif re.search(r"[*?\[]", path) and not system.exists(path):
            details = {name: each for name, each in system.glob(path, detail=True).items() if each["type"] == "file"}
            root = re.split(r"[*?\[]", path)[0].rpartition("/")[0]
        elif system.exists(path):
            details, root = {path: system.info(path)}, path.rpartition("/")[0]
        else:
            raise AwesumError(f"{source} does not exist: name a file, a folder, or a glob such as 'reports/*.jsonl'")
    except AwesumError:
        raise
    except Exception as error:
        raise AwesumError(f"cannot read {source} ({_reason(error)}): check that it exists and is readable") from error
    found = []
    for name, detail in sorted(details.items()):
        below = name[len(root) :].lstrip("/") if name.startswith(root) else name
        if not (is_folder and any(piece.startswith(".") for piece in below.split("/"))):
            address = f"{prefix}{name}" if prefix and not name.startswith(prefix) else name
            found.append(File(address, below, int(detail.get("size") or 0)))
    return found


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """A file, open for reading; whatever goes wrong with it is an `AwesumError` that names it."""
    system, inside, _ = filesystem(path)
    try:
        with system.open(inside, "rb") as file:
            yield file
    except (AwesumError, GeneratorExit):
        raise
    except Exception as error:
        raise AwesumError(f"cannot read {path} ({_reason(error)}): check that it exists and is readable") from error


def _reason(error: Exception) -> str:
    return " ".join(str(getattr(error, "strerror", None) or error).split())[:200].rstrip(".") or type(error).__name__
