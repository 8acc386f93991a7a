"""Files, once for everybody: atomic writing, hashes, whether a place can be written to, and the cache folder."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unicodedata import category

from awesum.errors import AwesumError

LONGEST_NAME = 255
"""Bytes of a file name, on every common file system."""
ASIDE = ".awesum-"
"""Between the name of a file and the number of the process that is writing it."""
_STREAM = re.compile(r"/dev/(?:std(?:out|err)|fd/\d+)|/proc/[^/]+/fd/\d+")
"""A stream that is open already, by its name as a file."""


def sha256(path: Path) -> str:
    """The hash of a file's content, without reading the whole file into memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cache_folder() -> Path:
    """Where converted weights and prepared data are kept: `AWESUM_CACHE`, or the platform's cache for this user."""
    if folder := os.environ.get("AWESUM_CACHE"):
        return Path(folder).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("awesum")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, beside `path`; it takes the place of `path` once the block has ended without an error.

    A reader sees the old file or the new one, never half of one, also after a power cut. A symbolic link stays a link:
    the file that it points to is replaced. An existing file keeps its permissions.
    """
    path = Path(os.path.realpath(path))
    aside = sibling(path, f"{ASIDE}{os.getpid()}", prefix=".")
    aside.unlink(missing_ok=True)  # left by a process of the same number that was killed
    # It is made here, and only if it is not there: nobody may have put a link to something else in its place.
    os.close(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    try:
        yield aside
        with suppress(FileNotFoundError):
            shutil.copymode(path, aside)
        with aside.open("rb+") as file:
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def remove_leftovers(path: Path) -> None:
    """Remove what killed processes left of writing `path`. Call it only while nobody else writes that file."""
    path = Path(os.path.realpath(path))
    start = sibling(path, ASIDE, prefix=".").name
    with suppress(OSError):
        for entry in os.scandir(path.parent):
            if entry.name.startswith(start) and entry.name[len(start) :].isdecimal():
                os.unlink(entry.path)


class Lock:
    """The right to write a file, held by one process at a time. It ends with the process, however that ends."""

    def __init__(self, target: Path) -> None:
        self.path = sibling(Path(os.path.realpath(target)), ".lock", prefix=".")
        self._file: int | None = None

    def acquire(self) -> bool:
        """Take it if nobody else has it."""
        while self._file is None:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
            try:
                if not _lock(file):
                    return False
                if os.path.samestat(os.fstat(file), os.stat(self.path)):  # else its owner has just removed it
                    self._file, file = file, -1
            except FileNotFoundError:
                pass
            finally:
                if file >= 0:
                    os.close(file)
        return True

    def release(self) -> None:
        """Let others have it."""
        if self._file is not None:
            with suppress(OSError):
                self.path.unlink()
            os.close(self._file)
            self._file = None


def _lock(file: int) -> bool:
    """Lock an open file; false if another process has. Where there are no locks, everybody may write."""
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems
        return True
    return True


def sibling(path: Path, suffix: str, prefix: str = "") -> Path:
    """A path beside `path` whose name is that one's with something added, shortened if no file may have such a name."""
    name = f"{prefix}{path.name}{suffix}"
    if len(os.fsencode(name)) > LONGEST_NAME:
        digest = hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]
        start = os.fsencode(path.stem)[:150].decode("utf-8", "ignore")
        name = f"{prefix}{start}-{digest}{suffix}"
    return path.with_name(name)


def shown(path: str) -> str:
    """A path as it can be printed and stored: a file name need not be valid UTF-8, and may have line breaks in it, or
    what a terminal takes for commands."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    # Python calls every space but the plain one unprintable, and macOS puts a narrow one into the names of screenshots.
    return "".join(each if each.isprintable() or category(each) == "Zs" else "\ufffd" for each in text)


def with_contents(paths: Iterable[Path]) -> list[Path]:
    """Paths, and what lies in those that are folders."""
    found = []
    for path in paths:
        found.append(path)
        with suppress(OSError, ValueError):
            found += path.iterdir() if path.is_dir() else []
    return found


def write(path: Path, content: str | bytes | Iterable[bytes]) -> None:
    """Write a whole file, atomically; to a pipe or a device, which nothing may replace, straight away."""
    pieces = [content.encode()] if isinstance(content, str) else [content] if isinstance(content, bytes) else content
    if is_special(path):
        _write_to(path, pieces)
        return
    with replacing(path) as aside:
        _write_to(aside, pieces)


def _write_to(path: Path, pieces: Iterable[bytes]) -> None:
    with path.open("ab" if _is_stream(path) else "wb") as file:  # what stands in the file of a stream stays there
        for piece in pieces:
            file.write(piece)


def is_special(path: Path) -> bool:
    """Whether a path is a pipe, a socket, a device or an open stream: something to write to, not a file to replace."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return _is_stream(path) or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _is_stream(path: Path) -> bool:
    return _STREAM.fullmatch(os.path.abspath(path)) is not None


def is_same(one: Path, other: Path) -> bool:
    """Whether two paths name one file: by another spelling, a symbolic link or a hard link."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False


def check_output(path: Path, inputs: Iterable[Path] = (), *, is_folder: bool = False, flag: str = "-o") -> None:
    """Refuse, before any work, an output that is one of the inputs or that cannot be written; `flag` names it."""
    for source in inputs:
        if is_same(source, path):
            kind = "folder" if is_folder else "file"
            raise AwesumError(f"{path} is a {kind} that is read, and must not be written over: give another {flag}")
    is_new = is_folder and not os.path.exists(path)
    try:
        check_writable(path, is_folder=is_folder)
        if is_new:
            path.rmdir()  # the work may be refused for another reason, and should leave nothing behind
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise AwesumError(f"cannot write to {shown(str(path))} ({reason}): give another place with {flag}") from error


def check_writable(path: Path, *, is_folder: bool = False) -> None:
    """Raise the `OSError` that writing `path` would end in; a folder is made if it is missing."""
    if not is_folder and is_special(path):
        if not os.access(path, os.W_OK):  # opening a pipe would wait for its reader
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return
    if not is_folder and os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    folder = path if is_folder else Path(os.path.realpath(path)).parent
    if is_folder:
        folder.mkdir(parents=True, exist_ok=True)
    trial = folder / f".awesum-{os.getpid()}"
    trial.touch()
    trial.unlink(missing_ok=True)  # another process of the same run may have been faster
    if not is_folder:
        with suppress(FileNotFoundError), path.open("r+b"):  # also raises for a name that no file may have
            pass


def sort_metadata(file: bytes) -> bytes:
    """Sort the metadata of a safetensors file. The library writes it in random order; the same weights must give the
    same bytes."""
    size = int.from_bytes(file[:8], "little")
    header = json.loads(file[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    return file[:8] + json.dumps(header, separators=(",", ":")).encode().ljust(size) + file[8 + size :]
