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


def is_below(place: str, folder: str) -> bool:
    """Whether a place is a folder, or lies in it: by another spelling or through a link as well."""
    inside, outside = (each if is_remote(each) else os.path.realpath(local_path(each)) for each in (place, folder))
    return f"{inside.rstrip('/')}/".startswith(f"{outside.rstrip('/')}/")


def filesystem(place: str) -> tuple[Any, str]:
    """The file system (as fsspec has it) of a place, and the path in it."""
    if not is_remote(place):
        from fsspec.implementations.local import LocalFileSystem

        return LocalFileSystem(), local_path(place)
    scheme = place.split("://", 1)[0]
    try:
        if scheme.lower() in ARROW:
            import pyarrow.fs
            from fsspec.implementations.arrow import ArrowFSWrapper

            # A `*` is no valid character of an address: the part before it decides which file system it is.
            where, options = _options(place)
            start = re.split(r"[*?\[]", where)[0]
            arrow, path = pyarrow.fs.FileSystem.from_uri(start + options)
            return ArrowFSWrapper(arrow), path + where[len(start) :]
        import fsspec

        found, path = fsspec.core.url_to_fs(place)
        return found, path
    except Exception as error:  # every file system has errors of its own
        raise AwesumError(f"cannot open {place} ({_reason(error)}): check the address and what it needs") from error


def _options(place: str) -> tuple[str, str]:
    """An address without what it says of its file system (`?region=...`), and that. Any other `?` is part of a glob."""
    found = re.fullmatch(r"([^?]*)(\?\w+=[^*\[]*)", place)
    return (found[1], found[2]) if found and is_remote(place) else (place, "")


def find(source: str) -> list[File]:
    """The files that a source names: a file, all below a folder, or those that match a glob. Sorted by path.

    Hidden files of a folder are ignored.
    """
    system, path = filesystem(source)
    try:
        is_folder = system.isdir(path)
        if is_folder:
            found = system.find(path, detail=True).items()
            details, root = {name: each for name, each in found if each["type"] == "file"}, path
        elif re.search(r"[*?\[]", path) and not system.exists(path):
            details = {name: each for name, each in system.glob(path, detail=True).items() if each["type"] == "file"}
            root = re.split(r"[*?\[]", path)[0].rpartition("/")[0]
        elif system.exists(path):
            return [File(source if is_remote(source) else path, path.rpartition("/")[2], _size(system.info(path)))]
        else:
            raise AwesumError(f"{source} does not exist: name a file, a folder, or a glob such as 'reports/*.jsonl'")
    except AwesumError:
        raise
    except Exception as error:
        raise AwesumError(f"cannot read {source} ({_reason(error)}): check that it exists and is readable") from error
    # The address of a file is that of the source with a path added: what a file system calls it lacks the host.
    where, options = _options(source)
    above = where.rstrip("/") if is_folder else re.split(r"[*?\[]", where)[0].rpartition("/")[0]
    files = []
    for name, detail in sorted(details.items()):
        below = name[len(root) :].lstrip("/") if name.startswith(root) else name
        if not (is_folder and any(piece.startswith(".") for piece in below.split("/"))):
            files.append(File(f"{above}/{below}{options}" if is_remote(source) else name, below, _size(detail)))
    return files


def _size(detail: dict[str, Any]) -> int:
    return int(detail.get("size") or 0)


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """A file, open for reading; whatever goes wrong with it is an `AwesumError` that names it."""
    system, inside = filesystem(path)
    try:
        with system.open(inside, "rb") as file:
            yield file
    except (AwesumError, GeneratorExit):
        raise
    except Exception as error:
        raise AwesumError(f"cannot read {path} ({_reason(error)}): check that it exists and is readable") from error


def _reason(error: Exception) -> str:
    return " ".join(str(getattr(error, "strerror", None) or error).split())[:200].rstrip(".") or type(error).__name__
