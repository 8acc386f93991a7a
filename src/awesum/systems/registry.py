"""The registry of systems: a file of this package is a system, and its name with hyphens is the system's name."""

from __future__ import annotations

import json
import pkgutil
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from awesum.catalogue import resolve
from awesum.errors import AwesumError
from awesum.systems.system import System

if TYPE_CHECKING:
    from awesum.analysis.analysis import Analyst

_NOT_SYSTEMS = {"system", "registry", "encoder_decoder", "long_input", "text_chat"}
_TEXT = ("gguf", "endpoint")
"""Systems whose model is never seen, only what it writes."""


def names() -> list[str]:
    """The names of all systems, without importing any."""
    from awesum import systems

    modules = (module.name for module in pkgutil.iter_modules(systems.__path__))
    return sorted(name.replace("_", "-") for name in modules if name not in _NOT_SYSTEMS)


def find(name: str) -> type[System]:
    """The class of a system, by its name."""
    if name not in names():
        raise AwesumError(_unknown(name))
    module = import_module(f"awesum.systems.{name.replace('-', '_')}")
    for each in vars(module).values():
        if isinstance(each, type) and issubclass(each, System) and each.__dict__.get("name") == name:
            return each
    raise AwesumError(f"{module.__file__} defines no System with the name {name!r}: give its class that name")


def _unknown(name: str) -> str:
    near = get_close_matches(name, names(), 1)
    return f"there is no system {name!r}: " + (f"did you mean {near[0]!r}?" if near else f"choose {', '.join(names())}")


def of_model(model: str, analyst: Analyst | None = None) -> System:
    """The system that a model belongs to, with that model, fetched before or not."""
    model = resolve(model)
    return kind_of(model)(model, analyst=analyst or analyst_of(model))


def kind_of(model: str) -> type[System]:
    """The system that a model belongs to: what its folder records, or what its type of model is for."""
    if text := _text_system(model):
        return find(text)
    folder = Path(model)
    for file in ("adapter.json", "config.json"):
        if (folder / file).is_file():
            recorded = _read(folder / file)
            if isinstance(system := recorded.get("system"), str) and system in names():
                return find(system)
            if file == "adapter.json":
                return find("adapter")
            return _for_type(str(recorded.get("model_type")))
    from awesum.loading import load_model_type

    return _for_type(load_model_type(model))


def _text_system(model: str) -> str | None:
    """The system for an address or a GGUF file; none for weights that the library of models reads."""
    from awesum.models.address import is_address
    from awesum.models.gguf import is_gguf

    if is_address(model):
        return "endpoint"
    return "gguf" if is_gguf(model) else None


def _require_own_weights(system: str, model: str) -> None:
    """Refuse a system that looks into its model on one that shows nothing but text."""
    found = _text_system(model)
    if found is None or found == system:
        return
    if find(system).style == "extract":
        return
    what = "a server" if found == "endpoint" else "a GGUF file in llama.cpp"
    reason = "needs the model's hidden states" if system != "endpoint" and system != "gguf" else "is for another kind"
    raise AwesumError(
        f"the system {system} {reason}, and {model} is {what}, which gives only text: leave out --system, or give a "
        "folder with safetensors weights"
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AwesumError(f"cannot read {path} ({error}): copy or train the model again") from error
    return found if isinstance(found, dict) else {}


def _for_type(model_type: str) -> type[System]:
    for name in names():
        system = find(name)
        if model_type in system.__dict__.get("model_types", ()):
            return system
    return find("chat")


def analyst_of(model: str) -> Analyst | None:
    """The encoder and the extractor that a model was trained with, as its run records them; none if it does not."""
    from awesum.analysis.analysis import Analyst

    record = Path(model) / "run.json"
    settings = _read(record).get("settings") if record.is_file() else None
    if not isinstance(settings, dict):
        return None
    return Analyst.named(str(settings.get("encoder") or ""), str(settings.get("extractor") or ""))


def load(name: str, model: str | None = None, *, analyst: Analyst | None = None) -> System:
    """A system by its name, or by a model, whose system is found out: a folder, a GGUF file, an address, a hub name.

    `model` names other weights for a system that is named. Weights are loaded when they are first needed.
    """
    if name in names():
        if model is not None:
            model = resolve(model)
            _require_own_weights(name, model)
        return find(name)(model, analyst=analyst or (analyst_of(model) if model else None))
    name = resolve(name)
    if Path(name).is_dir() or "/" in name or _text_system(name):
        return kind_of(name)(name, analyst=analyst or analyst_of(name))
    raise AwesumError(f"{_unknown(name)} (a model's folder or its name on the hub, org/model, works too)")
