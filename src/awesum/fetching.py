"""Fetching a model that the user asked for: its size is known before it is fetched, and its hash is checked after.

`awesum setup MODEL` alone calls this. An interrupted download is resumed; a file takes its place when it is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from awesum import files
from awesum.catalogue import KNOWN, is_name, known, models_folder, record_of
from awesum.errors import AwesumError
from awesum.footprint import format_size

if TYPE_CHECKING:
    import httpx2

HUB = "https://huggingface.co"
WEIGHTS = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja")
"""The files of a model on the hub that are of any use here: no pickles, and no code."""
_HUB_FILE = re.compile(r"([\w.-]+/[\w.-]+)/([\w./-]+\.gguf)(?:@([\w./-]+))?")
_HUB_NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PIECE = 1 << 20
Say = Callable[[str], object]
Progress = Callable[[str, int, int], object]


@dataclass(frozen=True)
class Order:
    """A GGUF file to fetch."""

    name: str
    """What it will be called: `--model NAME`."""
    address: str
    revision: str = ""
    """The hub's."""
    size: int | None = None
    sha256: str | None = None

    @property
    def path(self) -> Path:
        """Where it will be."""
        return models_folder() / f"{self.name}.gguf"


def hub() -> str:
    """The hub: `HF_ENDPOINT` names another one."""
    return os.environ.get("HF_ENDPOINT", HUB).rstrip("/")


def fetch(wanted: str, say: Say, progress: Progress, *, dry_run: bool = False) -> Path | None:
    """Fetch a model: a name of `awesum models`, `org/model`, `org/model/FILE.gguf`, or the address of a GGUF file.

    Returns where it is; none for a dry run.
    """
    if match := _HUB_FILE.fullmatch(wanted):
        return _fetch_file(_on_hub(match[1], match[2], match[3] or "main"), say, progress, dry_run)
    if model := known(wanted):
        order = _on_hub(model.repository, model.file, model.revision)
        order = Order(model.name, order.address, model.revision, model.size, model.sha256)
        return _fetch_file(order, say, progress, dry_run)
    if wanted.lower().startswith(("http://", "https://")):
        name = unquote(Path(urlsplit(wanted).path).name)
        if not name.lower().endswith(".gguf") or not is_name(name[:-5]):
            raise AwesumError(f"{wanted} does not end in the name of a GGUF file: give the address of the file itself")
        return _fetch_file(Order(name[:-5], wanted), say, progress, dry_run)
    if (match := _HUB_NAME.fullmatch(wanted)) and not Path(wanted).exists():
        return _fetch_folder(match[1], match[2] or "main", say, dry_run)
    raise AwesumError(
        f"there is no model {wanted!r} to fetch: choose {', '.join(model.name for model in KNOWN)}, or give org/model, "
        "org/model/FILE.gguf or the address of a GGUF file"
    )


def _on_hub(repository: str, file: str, revision: str) -> Order:
    return Order(Path(file).stem, f"{hub()}/{repository}/resolve/{revision}/{file}", revision)


# One file -----------------------------------------------------------------------------------------------------------


def _fetch_file(order: Order, say: Say, progress: Progress, dry_run: bool) -> Path | None:
    import httpx2

    from awesum.models.gguf import read_gguf

    path = order.path
    if path.is_file() and record_of(path).is_file():
        say(f"{order.name} is there already: {path}")
        return path
    host = urlsplit(order.address).hostname
    try:
        headers = {}
        if (token := os.environ.get("HF_TOKEN")) and order.address.startswith(f"{hub()}/"):
            headers["Authorization"] = f"Bearer {token}"  # not sent on to where the hub keeps its files
        with httpx2.Client(headers=headers, timeout=60, follow_redirects=True) as client:
            order = _looked_up(client, order)
            assert order.size is not None
            at = f" at revision {order.revision[:12]}" if order.revision else ""
            say(f"will fetch {order.name}: {format_size(order.size)} from {host}{at} to {path}")
            if dry_run:
                return None
            _check_room(path, order.size)
            digest = _download(client, order, progress)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise AwesumError(
            f"cannot fetch {order.name} from {host} ({reason}): check the connection and run the same command again, "
            "which resumes"
        ) from error
    except OSError as error:
        raise AwesumError(
            f"cannot write {path} ({error.strerror or error}): free space, or set AWESUM_CACHE"
        ) from error
    part = _part(path)
    try:
        if order.sha256 and digest != order.sha256:
            raise AwesumError(
                f"what came from {host} is not {order.name} (its hash differs) and was deleted: try again"
            )
        read_gguf(part).require_chat()
    except AwesumError as error:
        part.unlink(missing_ok=True)
        raise AwesumError(str(error).replace(str(part), order.name)) from error
    record = {"source": order.address, "revision": order.revision, "size": part.stat().st_size, "sha256": digest}
    part.replace(path)
    files.write(record_of(path), json.dumps(record, indent=1) + "\n")
    return path


def _part(path: Path) -> Path:
    return path.with_suffix(".part")


def _looked_up(client: httpx2.Client, order: Order) -> Order:
    """The order with the size, the hash and the revision that the server states."""
    first = client.head(order.address, follow_redirects=False)
    last = client.head(order.address) if first.is_redirect else first
    if last.status_code != 200 and not (first.is_redirect and "x-linked-size" in first.headers):
        what = {401: "it wants a login", 403: "it is not for everybody", 404: "it is not there"}
        reason = what.get(last.status_code, "")
        raise AwesumError(
            f"cannot fetch {order.address} ({last.status_code}{': ' if reason else ''}{reason}): check the name, and "
            "for a model that wants a login set HF_TOKEN"
        )
    size = first.headers.get("x-linked-size") or last.headers.get("content-length") or ""
    if not size.isdigit() or int(size) == 0:
        raise AwesumError(f"{order.address} does not say how large it is: fetch it by hand and give --model its path")
    if order.size is not None and int(size) != order.size:
        raise AwesumError(f"{order.address} has {size} bytes, not the {order.size} of {order.name}: it is another file")
    stated = first.headers.get("x-linked-etag", "").strip('"')
    return Order(
        order.name,
        order.address,
        first.headers.get("x-repo-commit", order.revision),
        int(size),
        order.sha256 or (stated if _SHA256.fullmatch(stated) else None),
    )


def _check_room(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = _part(path)
    there = part.stat().st_size if part.is_file() else 0
    free = shutil.disk_usage(path.parent).free
    if free < size - there:
        raise AwesumError(
            f"{path.parent} has {format_size(free)} free and {format_size(size - there)} are needed: make room, or set "
            "AWESUM_CACHE to another folder"
        )


def _download(client: httpx2.Client, order: Order, progress: Progress) -> str:
    """Fetch what is missing of a file; its hash."""
    part, size = _part(order.path), order.size or 0
    digest = hashlib.sha256()
    done = 0
    if part.is_file() and part.stat().st_size <= size:
        with part.open("rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
                done += len(piece)
    else:
        part.unlink(missing_ok=True)
    if done < size:
        headers = {"Range": f"bytes={done}-"} if done else {}
        with client.stream("GET", order.address, headers=headers) as answer:
            if answer.status_code not in (200, 206):
                raise AwesumError(f"cannot fetch {order.address} ({answer.status_code}): try again later")
            if answer.status_code == 200 and done:  # it begins anew
                digest, done = hashlib.sha256(), 0
            with part.open("ab" if done else "wb") as file:
                for piece in answer.iter_raw():
                    file.write(piece)
                    digest.update(piece)
                    done += len(piece)
                    if done > size:
                        raise AwesumError(f"{order.address} gives more than the {size} bytes that it stated: try again")
                    progress("fetching", done, size)
    if done < size:
        raise AwesumError(
            f"{order.name} broke off after {format_size(done)} of {format_size(size)}: run the same command again, "
            "which resumes"
        )
    return digest.hexdigest()


# A folder -----------------------------------------------------------------------------------------------------------


def _fetch_folder(name: str, revision: str, say: Say, dry_run: bool) -> Path | None:
    from fnmatch import fnmatch

    from huggingface_hub import HfApi, snapshot_download

    folder = models_folder() / name.replace("/", "--")
    if (folder / "config.json").is_file() and record_of(folder).is_file():
        say(f"{name} is there already: {folder}")
        return folder
    try:
        about: Any = HfApi(endpoint=hub()).model_info(name, revision=revision, files_metadata=True)
        wanted = [each for each in about.siblings if any(fnmatch(each.rfilename, form) for form in WEIGHTS)]
        if not any(each.rfilename.endswith(".safetensors") for each in wanted):
            ggufs = [each.rfilename for each in about.siblings if each.rfilename.endswith(".gguf")]
            raise AwesumError(
                f"{name} has no safetensors weights: "
                + (f"give one of its GGUF files, as {name}/{ggufs[0]}" if ggufs else "give another model")
            )
        size = sum(each.size or 0 for each in wanted)
        say(f"will fetch {name}: {format_size(size)} from {urlsplit(hub()).hostname} at revision {about.sha[:12]} "
            f"to {folder}")  # fmt: skip
        if dry_run:
            return None
        _check_room(folder, size)
        snapshot_download(name, revision=about.sha, local_dir=folder, allow_patterns=list(WEIGHTS), endpoint=hub())
    except AwesumError:
        raise
    except Exception as error:  # the library raises a dozen kinds here
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".:")
        raise AwesumError(
            f"cannot fetch {name} from the hub ({reason}): check the name and the connection, and run the same command "
            "again, which resumes"
        ) from error
    files.write(record_of(folder), json.dumps({"source": name, "revision": about.sha, "size": size}, indent=1) + "\n")
    return folder
