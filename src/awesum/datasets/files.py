"""The files of a dataset in a folder: one JSON object a line, plain or compressed, read as a stream.

Lines end at a newline and nothing else. A file that ends too early is refused, however much of it could be read.
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
"""The first that is there is read."""
FORM = ", ".join(f"{name}.jsonl" for name in SPLITS) + " (or .jsonl.zst, .jsonl.gz)"
"""What a folder needs, in words."""

WINDOW = 2**27
"""The largest zstd window that is accepted: what `zstd --long` writes."""
COMPRESSED, DECOMPRESSED = 2**10, 2**16
"""Bytes that zstd is given, and that gzip gives, at once. The former are few because they may become 2**15 times as
many; that is still a limit."""


def find_file(source: Path, split: str) -> Path:
    """The file of a split, or what the user can do if there is none."""
    if source.is_file():
        return source
    for suffix in SUFFIXES:
        if (path := source / f"{split}{suffix}").is_file():
            return path
    there = splits_in(source)
    if not there:
        raise AwesumError(f"the folder {source} holds no dataset: it needs {FORM}")
    raise AwesumError(f"{source} has no split {split!r}: it has {', '.join(there)}")


def splits_in(folder: Path) -> tuple[str, ...]:
    """The splits that a folder has."""
    return tuple(name for name in SPLITS if any((folder / f"{name}{suffix}").is_file() for suffix in SUFFIXES))


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their numbers, decompressed on the way; blank ones are no rows."""
    try:
        with path.open("rb") as file:
            plain = _joined(decompressed(file, path)) if is_compressed(path) else file
            for number, line in enumerate(plain, 1):
                if line and not line.isspace():
                    yield number, line
    except OSError as error:
        raise unreadable(path, error) from error


def is_compressed(path: Path) -> bool:
    """By its name."""
    return path.suffix in (".zst", ".gz")


def decompressed(compressed: BinaryIO, path: Path) -> Iterator[bytes]:
    """The content of a compressed file in pieces; `path` says which compression, and what to name in an error."""
    return (_unzstd if path.suffix == ".zst" else _gunzip)(compressed, path)


def unreadable(path: Path, error: OSError) -> AwesumError:
    """What to say of a file that cannot be opened or read."""
    return AwesumError(f"cannot read {path} ({error.strerror or error}): check that it is there and may be read")


def empty(path: Path | str) -> AwesumError:
    """What to say of a file without a row."""
    return AwesumError(f"{path} is empty: give a file with one JSON object a line")


def _joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces of any length as lines."""
    begun: list[bytes] = []
    for piece in pieces:
        first, *others = piece.split(b"\n")
        begun.append(first)
        for other in others:
            yield b"".join(begun)
            begun = [other]
    yield b"".join(begun)


def _unzstd(compressed: BinaryIO, path: Path) -> Iterator[bytes]:
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW)
    frame = None
    try:
        while chunk := compressed.read(COMPRESSED):
            while chunk:  # several frames may follow each other, as when files were joined
                frame = frame or decompressor.decompressobj()
                yield frame.decompress(chunk)
                chunk = frame.unused_data
                frame = None if frame.eof else frame
    except zstandard.ZstdError as error:
        raise _damaged(path, error) from error
    if frame:  # no error to the library, which is why its own stream of decompressed bytes is not used here
        raise _damaged(path, "it ends too early")


def _gunzip(compressed: BinaryIO, path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(compressed) as file:
            while piece := file.read(DECOMPRESSED):
                yield piece
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, why: object) -> AwesumError:
    return AwesumError(f"cannot decompress {path} ({' '.join(str(why).split())}): fetch or compress it again")
