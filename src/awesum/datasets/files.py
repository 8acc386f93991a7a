"""The files of a dataset in a folder: one JSON object per line, plain or compressed, read as a stream.

Lines end at a newline only. A truncated file is refused, even if most of it is readable.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from awesum.errors import AwesumError

SPLITS = ("train", "validation", "test")
SUFFIXES = (".jsonl", ".jsonl.zst", ".jsonl.gz")
"""In order of preference."""
FORM = ", ".join(f"{name}.jsonl" for name in SPLITS) + " (or .jsonl.zst, .jsonl.gz)"
"""The files a folder needs, for error messages."""

WINDOW = 2**27
"""The largest zstd window accepted: that of `zstd --long`."""
COMPRESSED, DECOMPRESSED = 2**10, 2**16
"""Bytes passed to zstd, and read from gzip, at a time. The former is small because zstd may expand it 2**15 times, and
this bounds the output."""


def find_file(source: Path, split: str) -> Path:
    """The file of a split; raises an error that lists the existing splits if it is missing."""
    if source.is_file():
        return source
    for suffix in SUFFIXES:
        if (path := source / f"{split}{suffix}").is_file():
            return path
    there = splits_in(source)
    if not there:
        raise AwesumError(f"the folder {source} contains no dataset: it needs {FORM}")
    raise AwesumError(f"{source} has no split {split!r}: it has {', '.join(there)}")


def splits_in(folder: Path) -> tuple[str, ...]:
    """The splits present in a folder."""
    return tuple(name for name in SPLITS if any((folder / f"{name}{suffix}").is_file() for suffix in SUFFIXES))


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The non-blank lines of a file with their numbers, decompressed as they are read."""
    try:
        with path.open("rb") as file:
            yield from lines_of(file, path)
    except OSError as error:
        raise unreadable(path, error) from error


def lines_of(file: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
    """The same of an open file; `path` determines the compression and is named in errors."""
    plain = _split_lines(decompressed(file, path)) if is_compressed(path) else file
    for number, line in enumerate(plain, 1):
        if line and not line.isspace():
            yield number, line


def is_compressed(path: Path) -> bool:
    """Whether a file is compressed, judging by its name."""
    return path.suffix in (".zst", ".gz")


def decompressed(compressed: BinaryIO, path: Path) -> Iterator[bytes]:
    """The decompressed content in chunks; `path` determines the compression and is named in errors."""
    return (_unzstd if path.suffix == ".zst" else _gunzip)(compressed, path)


def unreadable(path: Path, error: OSError) -> AwesumError:
    """The error for a file that cannot be opened or read."""
    return AwesumError(f"cannot read {path} ({error.strerror or error}): check that it exists and is readable")


def empty(path: Path | str) -> AwesumError:
    """The error for a file without rows."""
    return AwesumError(f"{path} is empty: give a file with one JSON object per line")


def _split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Split a stream of chunks into lines."""
    partial: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        partial.append(first)
        for other in others:
            yield b"".join(partial)
            partial = [other]
    yield b"".join(partial)


def _unzstd(compressed: BinaryIO, path: Path) -> Iterator[bytes]:
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW)
    frame = None
    try:
        while chunk := compressed.read(COMPRESSED):
            while chunk:  # a file may have several frames, for example if it was concatenated
                frame = frame or decompressor.decompressobj()
                yield frame.decompress(chunk)
                chunk = frame.unused_data
                frame = None if frame.eof else frame
    except zstandard.ZstdError as error:
        raise _damaged(path, error) from error
    if frame:  # the library's own stream reader does not report truncation, so it is not used here
        raise _damaged(path, "it is truncated")


def _gunzip(compressed: BinaryIO, path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(compressed) as file:
            while chunk := file.read(DECOMPRESSED):
                yield chunk
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, why: object) -> AwesumError:
    return AwesumError(f"cannot decompress {path} ({' '.join(str(why).split())}): download or compress it again")
