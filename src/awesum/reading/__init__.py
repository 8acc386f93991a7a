"""Read a file, standard input or a URL into a `Document`.

Each format has its own module with one function, `read(source) -> Document`, imported on first use so that importing
this package is cheap. Nothing here splits, summarizes or handles more than one document.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import IO

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.reading.source import Source

SUFFIXES = (".txt", ".text", ".md", ".markdown", ".html", ".htm", ".xhtml", ".pdf", ".docx", ".epub")


def read(source: str | Path | IO[bytes]) -> Document:
    """Read a path, `-` for standard input, an http(s) URL, or a binary file that is open for reading."""
    from awesum.reading.format import recognize
    from awesum.reading.text import replace_control_characters

    found = _open(source)
    reader = import_module(f"awesum.reading.{recognize(found)}")
    document: Document = reader.read(found)
    text, notes = replace_control_characters(document.text)
    if not text or text.isspace():
        raise AwesumError(f"{found.path} contains nothing but white space: there is no text to summarize.")
    return replace(document, text=text, notes=(*found.notes, *document.notes, *notes))


def check_source(source: str | Path) -> None:
    """Raise now the error that reading a path would end in, if a look at its name and its bytes can tell.

    Nothing is parsed. Standard input, pipes and web addresses are left alone: they can be read only once.
    """
    if str(source) == "-" or (isinstance(source, str) and is_address(source)):
        return
    if os.path.isdir(source):
        if not readable_files(Path(source))[0]:
            raise no_readable_file(source)
        return
    with suppress(OSError, ValueError):
        if stat.S_ISFIFO(os.stat(source).st_mode):
            return
    from awesum.reading.format import recognize

    recognize(_open(source))


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
                (readable if path.suffix.lower() in SUFFIXES else others).append(path)
    return sorted(readable), sorted(others)


def no_readable_file(folder: str | Path) -> AwesumError:
    """The error for a folder without a file that can be read."""
    return AwesumError(
        f"{folder} contains no file that can be read: there is no .txt, .md, .html, .pdf, .docx or .epub in it"
    )


def _open(source: str | Path | IO[bytes]) -> Source:
    if not isinstance(source, str | Path):
        found = _read_open_file(source)
    elif str(source) == "-":
        found = Source(sys.stdin.buffer.read(), path="-")
    elif isinstance(source, str) and is_address(source):
        from awesum.reading.web import fetch

        found = fetch(source)
    else:
        found = _open_file(Path(source))
    if not found.data:
        name = "Standard input" if found.path == "-" else found.path
        raise AwesumError(f"{name} is empty: there is no text to summarize.")
    return found


def _read_open_file(file: IO[bytes]) -> Source:
    name = getattr(file, "name", None)  # a file that was opened by its number has that instead
    path = name if isinstance(name, str) else "file"
    try:
        data: object = file.read()
    except (OSError, ValueError) as error:  # ValueError: it is closed
        raise AwesumError(f"{path} cannot be read ({error}): open it for reading, with open(path, 'rb')") from error
    if not isinstance(data, bytes):
        raise AwesumError(f"{path} is not open in binary mode: use open(path, 'rb'), or give its text as text=...")
    return Source(data, path=path, suffix=Path(path).suffix.lower())


def _open_file(path: Path) -> Source:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise AwesumError(f"{path} is a folder, not a file: name one of the files in it.")
        # A pipe such as <(command) ends; a device such as /dev/zero may not.
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise AwesumError(f"{path} is a device, not a file: name a file, or pipe the text in and name it `-`.")
        return Source(path.read_bytes(), path=str(path), suffix=path.suffix.lower())
    except FileNotFoundError:
        raise AwesumError(f"{path} does not exist{_near_miss(path)}") from None
    except PermissionError:
        raise AwesumError(f"no permission to read {path}: change its permissions or copy it.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
        reason = getattr(error, "strerror", None) or error
        raise AwesumError(f"{str(path)!r} cannot be read ({reason}): check the name and the disk.") from error


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
