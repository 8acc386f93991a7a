"""The registry of systems: a file of this package is a system, and its name with hyphens is the system's name."""

from __future__ import annotations

import json
import pkgutil
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from awesum.errors import AwesumError
from awesum.systems.system import System

if TYPE_CHECKING:
    from awesum.analysis.analysis import Analyst

_NOT_SYSTEMS = {"system", "registry", "encoder_decoder", "long_input"}


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


def kind_of(model: str) -> type[System]:
    """The system that a model belongs to: what its folder records, or what its type of model is for."""
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
    """A system by its name, or by a model: a folder or a name on the hub, whose system is found out.

    `model` names other weights for a system that is named. Weights are loaded when they are first needed.
    """
    if name in names():
        return find(name)(model, analyst=analyst or (analyst_of(model) if model else None))
    if Path(name).is_dir() or "/" in name:
        return kind_of(name)(name, analyst=analyst or analyst_of(name))
    raise AwesumError(f"{_unknown(name)} (a model's folder or its name on the hub, org/model, works too)")
