"""From a file, standard input or a web address to a `Document`.

Each format has its own module with one function, `read(source) -> Document`; they are loaded when they are needed, so
that importing this package costs nothing. Nothing here splits, summarizes or looks at more than one document.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from awesum.document import Document
from awesum.errors import AwesumError
from awesum.reading.source import Source

SUFFIXES = (".txt", ".text", ".md", ".markdown", ".html", ".htm", ".xhtml", ".pdf", ".docx", ".epub")


def read(source: str | Path) -> Document:
    """Read a path, `-` for standard input, or an http(s) address."""
    from awesum.reading.format import recognize
    from awesum.reading.text import replace_control_characters

    found = _open(source)
    reader = import_module(f"awesum.reading.{recognize(found)}")
    document: Document = reader.read(found)
    text, notes = replace_control_characters(document.text)
    if not text or text.isspace():
        raise AwesumError(f"{found.path} holds nothing but white space: there is no text to summarize.")
    return replace(document, text=text, notes=(*found.notes, *document.notes, *notes))


def is_address(source: str) -> bool:
    """Whether `source` is a web address rather than a path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", source) is not None


def readable_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """The files under `folder` that have a suffix we read, and those that are passed over. Hidden ones are ignored."""
    readable: list[Path] = []
    passed_over: list[Path] = []
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if not name.startswith("."):
                path = Path(parent, name)
                (readable if path.suffix.lower() in SUFFIXES else passed_over).append(path)
    return sorted(readable), sorted(passed_over)


def _open(source: str | Path) -> Source:
    if str(source) == "-":
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
        raise AwesumError(f"{path} may not be read by this user: change its permissions or copy it.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
        reason = getattr(error, "strerror", None) or error
        raise AwesumError(f"{str(path)!r} cannot be read ({reason}): check the name and the disk.") from error


def _near_miss(path: Path) -> str:
    """What to do about a path that does not exist."""
    from difflib import get_close_matches

    if not path.parent.is_dir():
        return f": there is no folder {path.parent} either. Check the path."
    try:
        names = {name.casefold(): name for name in os.listdir(path.parent)}
    except OSError:
        names = {}
    close = get_close_matches(path.name.casefold(), names, n=1, cutoff=0.75)
    return f". Did you mean {path.parent / names[close[0]]}?" if close else ": check the path."
