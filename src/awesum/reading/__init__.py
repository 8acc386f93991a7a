"""Read a file, standard input or a URL into a `Document`.

Each format has its own module with one function, `read(source) -> Document`, imported on first use so that importing
this package is cheap. Files are parsed in another process, within limits (`process`, `limits`): people summarize what
strangers sent them. Nothing here splits, summarizes or handles more than one document.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import IO

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.reading.limits import ReadLimits
from awesum.reading.source import Source

SUFFIXES = (
    ".txt", ".text", ".md", ".markdown", ".html", ".htm", ".xhtml", ".pdf", ".docx", ".epub", ".pptx", ".odt", ".rtf",
    ".xlsx", ".srt", ".vtt", ".eml",
)  # fmt: skip
"""Of the files that are read where a folder is named. CSV and JSON are not prose: they are read by name only."""
CHUNK = 1 << 20


def read(source: str | Path | IO[bytes], limits: ReadLimits | None = None, *, fields: Sequence[str] = ()) -> Document:
    """Read a path, `-` for standard input, an http(s) URL, or a binary file that is open for reading.

    The reader runs in another process. If it dies, or takes more than the `limits`, that is an `AwesumError` like any
    other. `fields` are those of a CSV or JSON file that are to be read.
    """
    from awesum.reading.process import read_in_process

    limits = limits or ReadLimits()
    found = replace(_find(source, limits.memory // 2), fields=tuple(fields))
    return read_in_process(found, os.stat(found.file).st_size if found.file else len(found.data), limits)


def parse(source: Source) -> Document:
    """Read a source in this process, without limits: what the other process does."""
    from awesum.reading.format import recognize
    from awesum.reading.structure import recognize_blocks
    from awesum.reading.text import replace_control_characters

    found = replace(source, data=_load(Path(source.file), source.path), file="") if source.file else source
    if not found.data:
        raise empty(found.path)
    reader = import_module(f"awesum.reading.{recognize(found)}")
    document: Document = reader.read(found)
    text, notes = replace_control_characters(document.text)
    if not text or text.isspace():
        raise AwesumError(f"{found.path} contains nothing but white space: there is no text to summarize.")
    document = replace(document, text=text, notes=(*found.notes, *document.notes, *notes))
    return recognize_blocks(document)


def check_source(source: str | Path) -> None:
    """Raise now the error that reading a path would end in, if a look at its name can tell. Nothing is opened."""
    if str(source) != "-" and not (isinstance(source, str) and is_address(source)):
        if os.path.isdir(source):
            if not readable_files(Path(source))[0]:
                raise no_readable_file(source)
        else:
            _check(str(source), str(source))


def is_address(source: str) -> bool:
    """Whether `source` is a URL rather than a path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", source) is not None


def readable_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """The files under `folder` with a suffix that we read, and all the others. Hidden files are ignored."""
    readable: list[Path] = []
    others: list[Path] = []
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if not name.startswith("."):
                path = Path(parent, name)
                # A pipe would be waited for without end. A broken link is reported like any file that cannot be read.
                is_file = os.path.isfile(path) or not os.path.exists(path)
                (readable if is_file and path.suffix.lower() in SUFFIXES else others).append(path)
    return sorted(readable), sorted(others)


def no_readable_file(folder: str | Path) -> AwesumError:
    """The error for a folder without a file that can be read."""
    return AwesumError(
        f"{folder} contains no file that can be read: there is no .txt, .md, .html, .pdf, .docx, .pptx, .odt, .rtf, "
        ".xlsx, .epub, .eml, .srt or .vtt in it"
    )


def empty(path: str) -> AwesumError:
    """The error for a source without a byte."""
    name = "Standard input" if path == "-" else path
    return AwesumError(f"{name} is empty: there is no text to summarize.")


def _find(source: str | Path | IO[bytes], most: int) -> Source:
    """The source with its bytes; those of a file are left to the process that parses them."""
    if not isinstance(source, str | Path):
        return _read_open_file(source, most)
    if str(source) == "-":
        return Source(_standard_input(most), path="-")
    if isinstance(source, str) and is_address(source):
        from awesum.reading.web import fetch

        return fetch(source)
    path, name = Path(source), str(source)
    if stat.S_ISFIFO(_check(name, str(source))):
        # It can be opened once, and perhaps only by us: <(command) is a file of this process.
        with _as_users_error(name), path.open("rb") as file:
            return Source(_up_to(file.read, name, most), path=name, suffix=path.suffix.lower())
    return Source(b"", path=name, suffix=path.suffix.lower(), file=os.path.abspath(path))


def _check(path: str, name: str) -> int:
    """The mode of a file that can be read; an error for anything else."""
    if not path:
        raise AwesumError("the path is empty: name a file, a folder, an http(s) address, or - for standard input")
    with _as_users_error(name):
        mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise AwesumError(f"{name} is a folder, not a file: name one of the files in it.")
    # A pipe such as <(command) ends; a device such as /dev/zero may not.
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        raise AwesumError(f"{name} is a device, not a file: name a file, or pipe the text in and name it `-`.")
    return mode


def _standard_input(most: int) -> bytes:
    if sys.stdin is None:
        raise AwesumError("standard input is closed: pipe a text into it, or name a file")
    try:
        return _up_to(sys.stdin.buffer.read, "standard input", most)
    except (OSError, ValueError) as error:  # a folder, or closed after the start
        raise AwesumError(f"standard input cannot be read ({error}): pipe a text into it, or name a file") from error


def _read_open_file(file: IO[bytes], most: int) -> Source:
    name = getattr(file, "name", None)  # a file that was opened by its number has that instead
    path = name if isinstance(name, str) else "file"
    try:
        data = _up_to(file.read, path, most)
    except (OSError, ValueError) as error:  # ValueError: it is closed
        raise AwesumError(f"{path} cannot be read ({error}): open it for reading, with open(path, 'rb')") from error
    return Source(data, path=path, suffix=Path(path).suffix.lower())


def _up_to(read: Callable[[int], bytes], name: str, most: int) -> bytes:
    """Everything that can be read, unless that is too much: it may have no end."""
    data = bytearray()
    while chunk := read(CHUNK):
        if not isinstance(chunk, bytes):
            raise AwesumError(f"{name} is not open in binary mode: use open(path, 'rb'), or give its text as text=...")
        data += chunk
        if len(data) > most:
            raise AwesumError(
                f"{name} has more than {most / 1e6:,.0f} MB, and perhaps no end: give more memory with --read-memory, "
                "or summarize a part of it"
            )
    return bytes(data)


def _load(path: Path, name: str) -> bytes:
    """The bytes of a file."""
    _check(str(path), name)
    with _as_users_error(name):
        return path.read_bytes()


class _as_users_error:
    """Errors of the file system as the one line that names the path as the user gave it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FileNotFoundError):
            raise AwesumError(f"{self.name} does not exist{_near_miss(Path(self.name))}") from None
        if isinstance(error, PermissionError):
            raise AwesumError(f"no permission to read {self.name}: change its permissions or copy it.") from None
        if isinstance(error, OSError | ValueError):  # ValueError: a NUL character in the name
            reason = getattr(error, "strerror", None) or error
            raise AwesumError(f"{self.name!r} cannot be read ({reason}): check the name and the disk.") from error


def _near_miss(path: Path) -> str:
    """The end of the error for a missing path: a similar name in its folder, or advice."""
    from difflib import get_close_matches

    if not path.parent.is_dir():
        return f": there is no folder {path.parent} either. Check the path."
    try:
        names = {name.casefold(): name for name in os.listdir(path.parent)}
    except OSError:
        names = {}
    close = get_close_matches(path.name.casefold(), names, n=1, cutoff=0.75)
    return f". Did you mean {path.parent / names[close[0]]}?" if close else ": check the path."
