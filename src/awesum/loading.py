"""Loading pretrained models: from where, how, and what the user is told when it does not work."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from logging import ERROR, getLogger
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from awesum import compat
from awesum.errors import AwesumError
from awesum.files import sha256

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

# The library changes its own classes while it loads a model (weights are tied later, and not initialized): a model that
# is loaded in another thread at that moment would come out without its tied weights.
_ONE_AT_A_TIME = RLock()
_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


def choose_device() -> tuple[torch.device, torch.dtype, str]:
    """Device and number format that this machine is fast with, and the reason."""
    import torch

    if torch.cuda.is_available():
        dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
        return torch.device("cuda"), dtype, "there is a CUDA device"
    if torch.backends.mps.is_available():
        return torch.device("mps"), torch.float16, "there is an Apple GPU"
    if compat.has_fast_bfloat16():
        return torch.device("cpu"), torch.bfloat16, "no GPU; the processor multiplies bfloat16 in hardware"
    return (
        torch.device("cpu"),
        torch.float32,
        "no GPU; the processor has no bfloat16 arithmetic, which would be emulated",
    )


@contextmanager
def loading(
    name: str,
    folder: Path | None = None,
    kind: str = "a folder with config.json, tokenizer and safetensors weights",
) -> Iterator[tuple[str | Path, dict[str, Any]]]:
    """Where to load from and how; what goes wrong on the way is the user's to know in one line."""
    source = folder or (Path(name) if Path(name).is_dir() else name)
    if isinstance(source, str) and source.lower().startswith(("http://", "https://")):
        raise AwesumError(f"{name} is a server, which gives only text: training and memory need weights; give {kind}")
    if isinstance(source, str) and source.lower().endswith(".gguf"):
        raise AwesumError(
            f"{name} is a GGUF file, which llama.cpp runs without showing its hidden states: training and memory need "
            f"weights; give {kind}"
        )
    if isinstance(source, str) and not _HUB_NAME.fullmatch(source):
        raise AwesumError(f"there is no folder {name}: give a model's folder, or its name on the hub such as org/model")
    try:
        with _ONE_AT_A_TIME, _quiet():
            yield source, {"local_files_only": isinstance(source, Path), "trust_remote_code": False}
    except AwesumError:
        raise
    except Exception as error:  # the library raises a dozen kinds here, all of them meaning "this is no such model"
        reasons = str(error).strip().splitlines() or [type(error).__name__]
        raise AwesumError(
            f"cannot load the model {name!r} ({reasons[0].rstrip('.:')}): give {kind}, or a model's name on the hub"
        ) from error


def fingerprint(name: str, folder: Path | None = None) -> str:
    """Changes whenever a model's files would: its configuration, tokenizer and weights.

    A model on the hub that was never fetched has only its name.
    """
    source = folder or folder_of(name)
    if source is None:
        return name
    digest = hashlib.sha256()
    for path in sorted(source.iterdir()):
        if path.suffix in (".json", ".safetensors", ".model", ".txt", ".jinja") and path.is_file():
            digest.update(f"{path.name} {_file_hash(path.resolve())}\n".encode())
    return digest.hexdigest()


def folder_of(name: str) -> Path | None:
    """The folder of a model: the one that is named, or that of a model that was fetched from the hub before."""
    from huggingface_hub import snapshot_download

    if Path(name).is_dir():
        return Path(name)
    try:
        return Path(snapshot_download(name, local_files_only=True))
    except Exception:  # not there, or not a name on the hub: either way there is nothing to look at
        return None


_FILE_HASHES: dict[tuple[Path, int, int], str] = {}


def _file_hash(path: Path) -> str:
    """The hash of a file, computed again only if its size or time has changed."""
    state = path.stat()
    key = path, state.st_size, state.st_mtime_ns
    if key not in _FILE_HASHES:
        _FILE_HASHES[key] = sha256(path)
    return _FILE_HASHES[key]


def weights_fingerprint(model: PreTrainedModel) -> str:
    """Changes whenever the configuration or a weight of a model in memory does."""
    import torch

    digest = hashlib.sha256(model.config.to_json_string().encode())
    for name, parameter in model.named_parameters():
        digest.update(name.encode())
        digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def load_tokenizer(name: str, folder: Path | None = None) -> PreTrainedTokenizerBase:
    """The tokenizer of a model without the model."""
    from transformers import AutoTokenizer

    with loading(name, folder) as (source, options):
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        if len(tokenizer) <= len(set(tokenizer.all_special_ids)):  # made up by the library where there is none
            raise AwesumError(f"{name} has no tokenizer, or one without words: give a folder with its tokenizer.json")
        return tokenizer


def load_window(name: str, folder: Path | None = None) -> int:
    """How many tokens a model can look at, without the model."""
    from transformers import AutoConfig

    with loading(name, folder) as (source, options):
        return window_of(AutoConfig.from_pretrained(source, **options))


def window_of(config: PretrainedConfig) -> int:
    """How many tokens a model with this configuration can look at."""
    return int(getattr(config.get_text_config(), "max_position_embeddings", 2048))


def config_of(source: str | Path, options: dict[str, Any]) -> dict[str, Any]:
    """What config.json says, to be asked while `loading`."""
    from transformers import PreTrainedConfig

    config, _ = PreTrainedConfig.get_config_dict(source, **options)
    if not config:
        raise AwesumError(f"{source} is not a model: there is no config.json in it; give a folder as it was saved")
    return dict(config)


def load_model_type(name: str) -> str:
    """What kind of model a folder or a name on the hub holds."""
    with loading(name) as (source, options):
        return str(config_of(source, options).get("model_type"))


@contextmanager
def _quiet() -> Iterator[None]:
    """Retries, progress and reports of the library are not the user's business; that something failed is."""
    from transformers.utils import logging

    hub = getLogger("huggingface_hub")
    level, verbosity, had_bars = hub.level, logging.get_verbosity(), logging.is_progress_bar_enabled()
    hub.setLevel(ERROR)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        hub.setLevel(level)
        logging.set_verbosity(verbosity)
        if had_bars:
            logging.enable_progress_bar()


def hide_progress_bars() -> None:
    """The library's bars for a second of loading; the progress of the work is ours to show.

    The library need not be loaded for it: perhaps nothing needs it.
    """
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"  # read when it is imported
    if "transformers" in sys.modules:
        from transformers.utils import logging

        logging.disable_progress_bar()


def refuse_wrong_weights(name: object, wrong: Mapping[str, set[str]], remedy: str) -> None:
    """Refuse weights some of which are wrong. `wrong`: what is wrong with them -> their names."""
    for what, names in wrong.items():
        if names:
            first, *more = sorted(names)
            others = f" and {len(more)} more" if more else ""
            raise AwesumError(
                f"the weights in {name} are not those of its config.json ({first}{others}: {what}): {remedy}"
            )
